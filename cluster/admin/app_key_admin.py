"""Administration of apps and keys: create, list, rotate, revoke. Over the store's port, no Ray.

Every change increments the version that API replicas poll four times a second, so it takes effect everywhere
within a second without a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from cluster.artifacts.app_storage import SHARED_FOLDERS
from cluster.crypto import Vault, derive_token_key, key_sha256
from cluster.errors import Conflict, FilterSyntax, Invalid, KioskError, NewerRelease, NotFound
from cluster.query.language.parser import parse
from cluster.records.api_keys import ApiKey, IssuedKey, KeyKind, issue_key, reveal_key
from cluster.records.apps import LISTS, SWITCHES, App, AppSettings, Environment, Limits, new_app_settings
from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.named_archive import NamedArchive
from cluster.records.field_types.record_changes import with_changes
from cluster.store.administration.apps_and_keys import AppAndKeyStore, AppsAndKeys

KINDS: tuple[KeyKind, ...] = ("secret", "publishable")
FIRST_APPS: tuple[Environment, ...] = ("playground", "development", "production")
"The apps of a new installation; each is named after its environment."


LONGEST_DISPLAY_NAME = 100
"Characters."


def parse_display_name(text: str) -> str:
    """Return a display name without blanks around it.

    Errors:
        Invalid: it is too long or has control characters
    """
    name = text.strip()
    if len(name) > LONGEST_DISPLAY_NAME or not name.isprintable():
        raise Invalid(
            f"a display name has up to {LONGEST_DISPLAY_NAME} characters, without line breaks and control characters"
        )
    return name


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One key with its app."""

    app: App | None
    "None for a revoked key whose app only a newer release can read, or is gone."
    key: ApiKey
    text: str
    "Empty unless revealed."

    def to_dict(self) -> dict[str, object]:
        """Return the entry for JSON; a revealed one has `key`, and the key of user tokens where it is separate."""
        fields: dict[str, object] = {
            "app_id": self.key.app_id,
            "environment": self.app.environment if self.app else "",
            "kind": self.key.kind,
            "key_id": self.key.key_id,
            "hint": self.key.hint,
            "created_at": self.key.created_at,
        }
        if not self.text:
            return fields
        fields["key"] = self.text
        if self.key.kind == "secret" and self.app and self.app.settings.derived_token_key:
            fields["token_key"] = derive_token_key(self.text.encode()).decode()
        return fields


class AppKeyAdmin:
    """The administrator's operations on apps and keys."""

    def __init__(self, access: AppAndKeyStore, vault: Vault) -> None:
        self._access = access
        self._vault = vault

    async def ensure_first_apps(self, now_ms: int) -> bool:
        """Create the three apps of a new installation with two keys each; return False when nothing was missing.

        An app without a key of some kind gets one, so an interrupted start is completed.
        """
        book = await self._access.read_all()
        missing = [name for name in FIRST_APPS if name not in book.apps and name not in book.unreadable_apps]
        if (book.apps or book.unreadable_apps) and len(missing) == len(FIRST_APPS):
            # An administrator created other apps and removed the default ones.
            return False
        changed = False
        if book.unreadable_keys:
            return False  # one of them may be the key that seems to be missing
        for name in FIRST_APPS:
            if name in book.unreadable_apps:
                continue
            app = book.apps.get(name) or _new_app(name, name, now_ms)
            if name in missing:
                await self._access.put_app(app)
            for kind in KINDS:
                if not any(key.app_id == name and key.kind == kind for key in book.keys.values()):
                    await self._access.put_key(issue_key(self._vault, app, kind, now_ms=now_ms).record)
                    changed = True
        return changed

    async def create_app(
        self, app_id: str, environment: Environment, now_ms: int, display_name: str = ""
    ) -> list[IssuedKey]:
        """Create an app and return its two keys.

        Errors:
            Conflict: the name is taken
            Invalid: the name or the display name is not allowed
        """
        display_name = parse_display_name(display_name)
        if app_id in SHARED_FOLDERS:
            raise Invalid(f"{app_id!r} is the name of a folder that all apps share; choose another name")
        try:
            app = _new_app(app_id, environment, now_ms)
        except ValueError as error:
            raise Invalid(
                f"{app_id!r} can't be the name of an app: up to 64 lower case letters, digits and -, the first no -"
            ) from error
        # The app before its keys: keys of an unknown app are in no list, so nobody could revoke them.
        if not await self._access.add_app(app.model_copy(update={"display_name": display_name})):
            raise Conflict(f"there is already an app named {app_id}; choose another name")
        issued = [issue_key(self._vault, app, kind, now_ms=now_ms) for kind in KINDS]
        for key in issued:
            await self._access.put_key(key.record)
        return issued

    async def apps(self) -> list[App]:
        """Return the apps: playground, development and production first, then the others by name."""
        return _ordered(await self._access.read_all())

    async def set_display_name(self, app_id: str, display_name: str) -> App:
        """Change the name that people read beside the id of an app; an empty one removes it.

        Errors:
            NotFound: no such app
            Invalid: the name is too long or has control characters
        """
        name = parse_display_name(display_name)
        return await self._update(app_id, lambda app: app.model_copy(update={"display_name": name}))

    async def choose_archive_app(self, app_id: str, now_ms: int) -> App:
        """Let agents read an app from now on, in place of the one they read before.

        Errors:
            NotFound: no such app
        """
        newest = max((app.archive_since for app in (await self._access.read_all()).apps.values()), default=0)
        since = max(now_ms, newest + 1)
        return await self._update(app_id, lambda app: app.model_copy(update={"archive_since": since}))

    async def set_archive(self, app_id: str, archive: NamedArchive | None) -> App:
        """Give an app an address of its own for agents, or take it away with None.

        Errors:
            NotFound: no such app
        """
        return await self._update(app_id, lambda app: app.model_copy(update={"archive": archive}))

    async def set_archive_terms(self, app_id: str, terms: Mapping[str, ArchiveTerms]) -> App:
        """Replace the terms of an app's articles that machines read, by the name of a licence.

        Errors:
            NotFound: no such app
        """
        return await self._update(app_id, lambda app: app.model_copy(update={"terms": dict(terms)}))

    async def set_rate_limits(
        self, app_id: str, *, queries_per_s: float | None = None, writes_per_s: float | None = None
    ) -> Limits:
        """Change the rate limits of an app; bursts become two seconds' worth.

        Errors:
            NotFound: no such app
        """
        change: dict[str, float | int] = {}
        if queries_per_s is not None:
            change |= {"queries_per_s": queries_per_s, "query_burst": max(1, round(2 * queries_per_s))}
        if writes_per_s is not None:
            change |= {"writes_per_s": writes_per_s, "write_burst": max(1, round(2 * writes_per_s))}

        def limit(app: App) -> App:
            limits = app.settings.limits.model_copy(update=change)
            return app.model_copy(update={"settings": app.settings.model_copy(update={"limits": limits})})

        return (await self._update(app_id, limit)).settings.limits

    async def set_switches(self, app_id: str, given: Mapping[str, str]) -> AppSettings:
        """Change switches of an app and return its settings; values are texts, lists are comma-separated.

        Errors:
            NotFound: no such app
            Invalid: no such switch, or a value it does not accept
        """
        change: dict[str, str | list[str]] = {}
        for name, text in given.items():
            if name not in SWITCHES:
                raise Invalid(f"there is no switch {name!r}; choose from {', '.join(SWITCHES)}")
            if name == "affiliation_fq" and text.strip():
                _check_filter(name, text)
            change[name] = (
                [part.strip() for part in text.split(",") if part.strip()] if name in LISTS else text
            )
        try:
            changed = await self._update(
                app_id, lambda app: app.model_copy(update={"settings": with_changes(app.settings, change)})
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise Invalid(f"{first['loc'][0]}: {first['msg'].lower()}") from None
        return changed.settings

    async def keys(self, *, app_id: str = "", reveal: bool = False) -> list[KeyEntry]:
        """Return the keys, app by app, secret ones first.

        Errors:
            NotFound: no such app
        """
        book = await self._access.read_all()
        if app_id and app_id not in book.apps:
            raise _app_missing_error(app_id, book)
        return [
            KeyEntry(app, key, reveal_key(self._vault, key) if reveal else "")
            for app in _ordered(book)
            if app_id in ("", app.app_id)
            for key in _list_keys(book, app.app_id)
        ]

    async def rotate(self, app_id: str, kinds: Sequence[KeyKind], now_ms: int) -> list[IssuedKey]:
        """Replace an app's keys of these kinds; old keys, and tokens signed with them, are refused at once.

        Errors:
            NotFound: no such app
            NewerRelease: only a newer release can read some keys, and one of them may be an old key of the app
        """
        app = await self.app(app_id)
        book = await self._access.read_all()
        if book.unreadable_keys:
            raise NewerRelease(
                "a newer release of kiosk wrote some keys; rotate with its commands, or upgrade"
            )
        old = [key for key in _list_keys(book, app_id) if key.kind in kinds]
        issued = [issue_key(self._vault, app, kind, now_ms=now_ms) for kind in kinds]
        # The new keys first: if the process dies in between, the app has both and not none.
        for key in issued:
            await self._access.put_key(key.record)
        for replaced in old:
            await self._access.revoke_key(replaced.sha256)
        return issued

    async def revoke(self, name: str) -> KeyEntry:
        """Revoke one key, given by its id, its text or its hint, and return it.

        Errors:
            NotFound: no key in use matches
            Invalid: several keys match
        """
        book = await self._access.read_all()
        digest = key_sha256(name)
        matches = [
            key for key in book.keys.values() if digest == key.sha256 or name in (key.key_id, key.hint)
        ]
        if not matches:
            raise NotFound("no key in use is called that; see `kiosk keys list`")
        if len(matches) > 1:
            raise Invalid("several keys are called that; use the key id from `kiosk keys list`")
        await self._access.revoke_key(matches[0].sha256)
        return KeyEntry(book.apps.get(matches[0].app_id), matches[0], "")

    async def app(self, app_id: str) -> App:
        """Return one app.

        Errors:
            NotFound: no such app
        """
        book = await self._access.read_all()
        if app_id not in book.apps:
            raise _app_missing_error(app_id, book)
        return book.apps[app_id]

    async def _update(self, app_id: str, change: Callable[[App], App]) -> App:
        """Replace an app by what `change` makes of it; of concurrent changes none is lost."""
        try:
            changed = await self._access.update_app(app_id, change)
        except NewerRelease:
            changed = None
        if changed is None:
            raise _app_missing_error(app_id, await self._access.read_all())
        return changed


def _new_app(app_id: str, environment: Environment, now_ms: int) -> App:
    settings = new_app_settings(environment)
    return App(app_id=app_id, environment=environment, settings=settings, created_at=now_ms)


def _app_missing_error(app_id: str, book: AppsAndKeys) -> KioskError:
    if app_id in book.unreadable_apps:
        return NewerRelease(f"a newer release of kiosk wrote the app {app_id}; use its commands, or upgrade")
    return NotFound(f"there is no app named {app_id}; there are: {', '.join(sorted(book.apps)) or 'none'}")


def _ordered(book: AppsAndKeys) -> list[App]:
    def place(app: App) -> tuple[int, str]:
        first = list(FIRST_APPS)
        return (first.index(app.app_id) if app.app_id in first else len(first), app.app_id)

    return sorted(book.apps.values(), key=place)


def _list_keys(book: AppsAndKeys, app_id: str) -> list[ApiKey]:
    mine = [key for key in book.keys.values() if key.app_id == app_id]
    return sorted(mine, key=lambda key: (KINDS.index(key.kind), key.created_at, key.key_id))


def _check_filter(name: str, text: str) -> None:
    """Check the filter of a switch.

    Errors:
        Invalid: it does not parse
    """
    try:
        parse(text)
    except FilterSyntax as error:
        raise Invalid(f"{name}: {error.message}") from None
