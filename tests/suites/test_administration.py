"""What the ports of the administration promise: personal tokens, and an audit log that only grows."""

from __future__ import annotations

import asyncio

from cluster.records.administration import AdminToken, AuditRow, Invitation
from cluster.store.administration.audit import AuditFilter
from cluster.store.administration.audit_chain import START, next_chain, row_json
from cluster.store.stores import Stores
from tests.suites.doing import NOW
from tests.suites.test_people import sha


def a_token(name: str = "t1", user: str = "ada", **more: object) -> AdminToken:
    facts = {
        "token_id": f"tok-{name}", "sha256": sha(name), "hint": "kat_...abcd", "name": name, "user_id": f"usr-{user}",
        "username": user, "created_at": NOW, "expires_at": NOW + 1000,
    }  # fmt: skip
    return AdminToken.model_validate(facts | more)


def an_invitation(name: str = "i1", **more: object) -> Invitation:
    facts = {
        "invitation_id": f"inv-{name}", "sha256": sha(name), "inviter": "ada", "roles": {"shop": "editor"},
        "created_at": NOW, "expires_at": NOW + 1000,
    }  # fmt: skip
    return Invitation.model_validate(facts | more)


def a_row(number: int = 0, **more: object) -> AuditRow:
    facts = {
        "at": NOW + number, "user_id": "usr-ada", "username": "ada", "way": "console", "operation": "keys.rotate",
        "app_id": "shop", "outcome": "done", "arguments": {"number": number, "name": "<b>Zoë</b>"},
    }  # fmt: skip
    return AuditRow.model_validate(facts | more)


class TestAdminTokens:
    async def test_a_token_is_read_by_its_hash_only(self, stores: Stores) -> None:
        assert await stores.admin_tokens.find(sha("t1")) is None
        await stores.admin_tokens.add(a_token(), now_ms=NOW)
        assert await stores.admin_tokens.find(sha("t1")) == a_token()
        assert await stores.admin_tokens.find("tok-t1") is None

    async def test_tokens_are_listed_by_age_and_of_a_person(self, stores: Stores) -> None:
        for number, (name, user) in enumerate((("b", "ada"), ("a", "grace"), ("c", "ada"))):
            await stores.admin_tokens.add(a_token(name, user, created_at=NOW + number), now_ms=NOW)
        assert [token.name for token in await stores.admin_tokens.all()] == ["b", "a", "c"]
        assert [token.name for token in await stores.admin_tokens.of_user("usr-ada")] == ["b", "c"]

    async def test_tokens_end_one_by_one_or_with_their_account(self, stores: Stores) -> None:
        for name in ("a", "b", "c"):
            await stores.admin_tokens.add(a_token(name), now_ms=NOW)
        await stores.admin_tokens.add(a_token("d", "grace"), now_ms=NOW)
        assert await stores.admin_tokens.remove("tok-a")
        assert not await stores.admin_tokens.remove("tok-a")
        assert await stores.admin_tokens.remove_user("usr-ada") == 2
        assert await stores.admin_tokens.remove_user("usr-ada") == 0
        assert [token.name for token in await stores.admin_tokens.all()] == ["d"]

    async def test_a_new_token_takes_the_place_of_expired_ones(self, stores: Stores) -> None:
        await stores.admin_tokens.add(a_token("old", expires_at=NOW + 1), now_ms=NOW)
        await stores.admin_tokens.add(a_token("new"), now_ms=NOW + 1)
        assert [token.name for token in await stores.admin_tokens.all()] == ["new"]


class TestInvitations:
    async def test_an_invitation_is_read_by_its_hash_and_removed_by_one_of_many(self, stores: Stores) -> None:
        assert await stores.invitations.find(sha("i1")) is None
        await stores.invitations.add(an_invitation(), now_ms=NOW)
        assert await stores.invitations.find(sha("i1")) == an_invitation()
        gone = await asyncio.gather(*(stores.invitations.remove(sha("i1")) for _ in range(10)))
        assert sum(gone) == 1
        assert await stores.invitations.all() == []

    async def test_expired_invitations_go_with_the_next(self, stores: Stores) -> None:
        await stores.invitations.add(an_invitation("old", expires_at=NOW + 1), now_ms=NOW)
        for number, name in enumerate(("b", "a")):
            await stores.invitations.add(an_invitation(name, created_at=NOW + number), now_ms=NOW + 1)
        assert [invitation.invitation_id for invitation in await stores.invitations.all()] == [
            "inv-b",
            "inv-a",
        ]


class TestAudit:
    async def test_rows_continue_a_chain_that_anyone_can_check(self, stores: Stores) -> None:
        first = await stores.audit.append(a_row(1))
        second = await stores.audit.append(a_row(2))
        assert first.chain == next_chain(START, row_json(a_row(1)))
        assert second.chain == next_chain(first.chain, row_json(a_row(2)))
        verdict = await stores.audit.verify()
        assert (verdict.is_whole, verdict.rows, verdict.chain) == (True, 2, second.chain)
        assert (verdict.first_id, verdict.last_id) == (first.row_id, second.row_id)

    async def test_an_empty_log_is_whole(self, stores: Stores) -> None:
        assert (await stores.audit.verify()).is_whole
        assert (await stores.audit.page(AuditFilter())).rows == []

    async def test_pages_run_from_the_newest_to_the_oldest(self, stores: Stores) -> None:
        for number in range(5):
            await stores.audit.append(a_row(number))
        page = await stores.audit.page(AuditFilter(), limit=2)
        assert [row.at - NOW for row in page.rows] == [4, 3]
        page = await stores.audit.page(AuditFilter(), before=page.next, limit=2)
        assert [row.at - NOW for row in page.rows] == [2, 1]
        page = await stores.audit.page(AuditFilter(), before=page.next, limit=2)
        assert ([row.at - NOW for row in page.rows], page.next) == ([0], "")

    async def test_rows_are_selected(self, stores: Stores) -> None:
        more = (
            {}, {"app_id": "news"}, {"operation": "keys.list"}, {"operation": "apps.create"}, {"username": "grace"},
        )  # fmt: skip
        for number, facts in enumerate(more):
            await stores.audit.append(a_row(number, **facts))

        async def numbers(**criteria: object) -> list[int]:
            page = await stores.audit.page(AuditFilter(**criteria))  # type: ignore[arg-type]
            return [row.at - NOW for row in page.rows]

        assert await numbers(app_id="news") == [1]
        assert await numbers(operation="keys.list") == [2]
        assert await numbers(operation="keys") == [4, 2, 1, 0]
        assert await numbers(username="grace") == [4]
        assert await numbers(since=NOW + 1, until=NOW + 2) == [2, 1]

    async def test_the_export_has_every_row_in_order(self, stores: Stores) -> None:
        written = [await stores.audit.append(a_row(number)) for number in range(7)]
        assert [row async for row in stores.audit.rows()] == written

    async def test_rows_of_many_writers_form_one_chain(self, stores: Stores) -> None:
        await asyncio.gather(*(stores.audit.append(a_row(number)) for number in range(20)))
        verdict = await stores.audit.verify()
        assert (verdict.is_whole, verdict.rows) == (True, 20)

    async def test_a_begun_change_is_noted_until_its_row_is_there(self, stores: Stores) -> None:
        begun = a_row(1, outcome="begun")
        first, second = await stores.audit.begin(begun), await stores.audit.begin(begun)
        assert {name for name, _ in await stores.audit.begun()} == {first, second}
        await stores.audit.append(a_row(1), begun_id=first)
        assert [row async for row in stores.audit.rows()][-1].outcome == "done"
        assert await stores.audit.begun() == [(second, begun)]
        for _ in range(3):
            await stores.audit.append(begun, begun_id=second, only_begun=True)
        assert [row.outcome async for row in stores.audit.rows()] == ["done", "begun"]
        assert await stores.audit.begun() == []
        await stores.audit.append(a_row(2), begun_id=second)
        assert (await stores.audit.verify()).rows == 3
