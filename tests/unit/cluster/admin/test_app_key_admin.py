"""Apps and keys as an administrator handles them."""

from __future__ import annotations

import pytest

from actors.language import imported_encoders
from cluster.admin.app_key_admin import FIRST_APPS, AppKeyAdmin
from cluster.artifacts import snapshots
from cluster.artifacts.app_storage import SHARED_FOLDERS, TRAINING_FOLDERS
from cluster.crypto import Vault, derive_token_key, recognise_key
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.apps import App, new_app_settings
from cluster.store.stores import Stores
from jobs.refresh.evaluation import report_store

NOW = 1_700_000_000_000


@pytest.fixture
def keeping(memory_stores: Stores) -> AppKeyAdmin:
    return AppKeyAdmin(memory_stores.access, Vault(b"k" * 32))


async def test_a_fresh_installation_gets_three_apps_with_two_keys_each(keeping: AppKeyAdmin) -> None:
    assert await keeping.ensure_first_apps(NOW)
    entries = await keeping.keys(reveal=True)
    assert [(entry.app.app_id, entry.key.kind) for entry in entries] == [
        (app, kind) for app in FIRST_APPS for kind in ("secret", "publishable")
    ]
    for entry in entries:
        form = recognise_key(entry.text)
        assert form is not None
        assert (form.kind, form.environment) == (entry.key.kind, entry.app.environment)


async def test_starting_again_changes_nothing(keeping: AppKeyAdmin, memory_stores: Stores) -> None:
    await keeping.ensure_first_apps(NOW)
    before = await memory_stores.access.read_all()
    assert not await keeping.ensure_first_apps(NOW + 1)
    assert await memory_stores.access.read_all() == before


async def test_an_interrupted_first_start_is_made_good(keeping: AppKeyAdmin, memory_stores: Stores) -> None:
    await memory_stores.access.put_app(App(app_id="playground", environment="playground", created_at=NOW))
    assert await keeping.ensure_first_apps(NOW)
    assert len(await keeping.keys()) == 6


async def test_apps_an_administrator_put_in_place_of_ours_are_respected(keeping: AppKeyAdmin) -> None:
    await keeping.create_app("bookshop", "production", NOW)
    assert not await keeping.ensure_first_apps(NOW)
    assert [app.app_id for app in await keeping.apps()] == ["bookshop"]


async def test_keys_are_shown_only_on_request(keeping: AppKeyAdmin) -> None:
    await keeping.ensure_first_apps(NOW)
    hidden, shown = (
        await keeping.keys(app_id="development"),
        await keeping.keys(app_id="development", reveal=True),
    )
    assert all("key" not in entry.to_dict() for entry in hidden)
    assert all(entry.to_dict()["key"] == entry.text for entry in shown)
    assert "..." in str(hidden[0].to_dict()["hint"])


async def test_a_name_that_is_taken_or_can_not_be_one_is_refused(keeping: AppKeyAdmin) -> None:
    await keeping.create_app("bookshop", "production", NOW)
    with pytest.raises(Conflict, match="choose another name"):
        await keeping.create_app("bookshop", "development", NOW)
    for name in ("", "-x", "Capital", "a" * 65, "a b", "ä"):
        with pytest.raises(Invalid, match="lower case"):
            await keeping.create_app(name, "development", NOW)


async def test_rotation_replaces_exactly_the_requested_keys(keeping: AppKeyAdmin) -> None:
    await keeping.ensure_first_apps(NOW)
    before = {entry.key.kind: entry.text for entry in await keeping.keys(app_id="development", reveal=True)}
    (issued,) = await keeping.rotate("development", ("secret",), NOW + 1)
    after = {entry.key.kind: entry.text for entry in await keeping.keys(app_id="development", reveal=True)}
    assert after["secret"] == issued.text != before["secret"]
    assert after["publishable"] == before["publishable"]
    assert len(await keeping.keys()) == 6


async def test_every_change_raises_the_version_that_doors_follow(
    keeping: AppKeyAdmin, memory_stores: Stores
) -> None:
    await keeping.ensure_first_apps(NOW)
    seen = [await memory_stores.access.version()]
    for change in (
        keeping.create_app("x", "development", NOW),
        keeping.rotate("x", ("secret",), NOW),
        keeping.revoke((await keeping.keys())[0].key.key_id),
        keeping.set_rate_limits("development", queries_per_s=7),
    ):
        await change
        seen.append(await memory_stores.access.version())
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("how", ["text", "key_id", "hint"])
async def test_a_key_is_revoked_by_any_of_its_names(keeping: AppKeyAdmin, how: str) -> None:
    await keeping.ensure_first_apps(NOW)
    entry = (await keeping.keys(reveal=True))[0]
    name = entry.text if how == "text" else getattr(entry.key, how)
    assert (await keeping.revoke(name)).key == entry.key
    assert entry.key.sha256 not in {left.key.sha256 for left in await keeping.keys()}
    with pytest.raises(NotFound, match="kiosk keys list"):
        await keeping.revoke(name)


async def test_a_key_whose_app_can_not_be_read_is_revoked_all_the_same(
    keeping: AppKeyAdmin, memory_stores: Stores
) -> None:
    await keeping.ensure_first_apps(NOW)
    key = (await keeping.keys())[0].key
    stray = key.model_copy(update={"app_id": "elsewhere", "sha256": "0" * 64, "key_id": "stray", "hint": "-"})
    await memory_stores.access.put_key(stray)
    revoked = (await keeping.revoke("stray")).to_dict()
    assert (revoked["app_id"], revoked["environment"], revoked["key_id"]) == ("elsewhere", "", "stray")
    assert stray.sha256 not in (await memory_stores.access.read_all()).keys


async def test_what_is_not_there_is_named_with_what_is(keeping: AppKeyAdmin) -> None:
    await keeping.ensure_first_apps(NOW)
    for call in (
        keeping.keys(app_id="nope"),
        keeping.rotate("nope", ("secret",), NOW),
        keeping.set_rate_limits("nope", queries_per_s=1),
    ):
        with pytest.raises(NotFound, match="there are: development, playground, production"):
            await call


async def test_limits_change_alone(keeping: AppKeyAdmin) -> None:
    await keeping.ensure_first_apps(NOW)
    limits = await keeping.set_rate_limits("development", queries_per_s=200)
    assert (limits.queries_per_s, limits.query_burst) == (200, 400)
    assert (limits.writes_per_s, limits.write_burst) == (10, 20)
    assert (await keeping.set_rate_limits("development")) == limits


async def test_new_apps_get_the_safe_settings_of_their_environment(keeping: AppKeyAdmin) -> None:
    await keeping.ensure_first_apps(NOW)
    await keeping.create_app("bookshop", "production", NOW)
    settings = {app.app_id: app.settings for app in await keeping.apps()}
    for name in ("production", "bookshop"):
        assert settings[name] == new_app_settings("production")
        assert settings[name].prove_writers
        assert not settings[name].typed_user_hash
        assert settings[name].token_max_age_h == 24
    assert settings["development"] == new_app_settings("development")
    assert not settings["development"].prove_writers
    assert "margin" in settings["development"].confidential_fields


async def test_lists_and_numbers_are_switched_as_people_type_them(keeping: AppKeyAdmin) -> None:
    await keeping.ensure_first_apps(NOW)
    given = {
        "confidential_fields": "margin, custom_attributes.cost",
        "prove_writers": "false",
        "address_share": "0.5",
    }
    settings = await keeping.set_switches("production", given)
    assert settings.confidential_fields == ("margin", "custom_attributes.cost")
    assert (settings.prove_writers, settings.address_share) == (False, 0.5)
    with pytest.raises(Invalid):
        await keeping.set_switches("production", {"address_share": "0"})


async def test_the_token_key_is_shown_where_an_app_has_one(keeping: AppKeyAdmin) -> None:
    await keeping.ensure_first_apps(NOW)
    assert "token_key" not in (await keeping.keys(app_id="production", reveal=True))[0].to_dict()
    await keeping.set_switches("production", {"derived_token_key": "true"})
    secret, publishable = await keeping.keys(app_id="production", reveal=True)
    assert secret.to_dict()["token_key"] == derive_token_key(secret.text.encode()).decode()
    assert "token_key" not in publishable.to_dict()
    assert "token_key" not in (await keeping.keys(app_id="production"))[0].to_dict()


async def test_no_app_has_the_name_of_a_folder_that_all_apps_share(keeping: AppKeyAdmin) -> None:
    assert set(SHARED_FOLDERS) == {
        snapshots.FOLDER,
        *TRAINING_FOLDERS,
        imported_encoders.FOLDER,
        report_store.FOLDER,
    }
    for name in SHARED_FOLDERS:
        with pytest.raises(Invalid, match="a folder that all apps share"):
            await keeping.create_app(name, "production", NOW)
    assert not await keeping.apps()


async def test_an_app_that_already_has_such_a_name_stays_usable(
    keeping: AppKeyAdmin, memory_stores: Stores
) -> None:
    await memory_stores.access.put_app(App(app_id="runs", environment="production", created_at=NOW))
    assert len(await keeping.rotate("runs", ("secret",), NOW)) == 1
