"""What the ports of people promise: accounts, codes and grants."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from cluster.clock import SystemClock
from cluster.errors import Forbidden
from cluster.meter import SilentMeter
from cluster.records.account import Account, Code, Grant
from cluster.records.archive.archive_client import Registration, revocation_id
from cluster.store.administration.grants import MOST_GRANTS, MOST_SIBLINGS, RotateOutcome
from cluster.store.administration.registrations import RegistrationStore
from cluster.store.connect import OpenStores
from cluster.store.seals.quarantine import Quarantine
from cluster.store.stores import Stores
from tests.fakes.stores.accounts import MemoryRegistrations
from tests.suites.doing import NOW, require

GRACE_MS = 60_000


def an_account(username: str = "ada", **more: object) -> Account:
    facts = {"username": username, "user_id": f"usr-{username}", "password": "scrypt$x", "created_at": NOW}
    return Account.model_validate(facts | more)


def a_grant(name: str = "g1", user: str = "ada") -> Grant:
    return Grant(
        grant_id=name, client_id="c_1", client_name='<b>"Reader"</b>', resource="https://x/mcp",
        user_id=f"usr-{user}", username=user, created_at=NOW,
    )  # fmt: skip


def a_code(grant: Grant, created_at: int = NOW) -> Code:
    facts = grant.model_dump() | {"redirect_uri": "http://localhost/", "challenge": "x" * 43}
    return Code.model_validate(facts | {"created_at": created_at, "expires_at": created_at + 60_000})


def sha(name: str) -> str:
    """Hash a name."""
    return hashlib.sha256(name.encode()).hexdigest()


async def begin(stores: Stores, grant: Grant, refresh: str = "r0", *, now_ms: int = NOW) -> None:
    """Make a grant the way doors do."""
    code = sha(f"code of {grant.grant_id}")
    await stores.grants.put_code(code, a_code(grant, now_ms))
    assert await stores.grants.redeem(code, grant, sha(refresh), now_ms=now_ms) == "begun"


class TestAccounts:
    async def test_accounts_read_back_and_are_listed_by_name(self, stores: Stores) -> None:
        assert await stores.accounts.get("ada") is None
        assert await stores.accounts.all() == []
        for name in ("grace", "ada"):
            assert await stores.accounts.add(an_account(name))
        assert await stores.accounts.get("ada") == an_account()
        assert [account.username for account in await stores.accounts.all()] == ["ada", "grace"]

    async def test_a_name_is_given_once_even_when_many_want_it(self, stores: Stores) -> None:
        accounts = [an_account(user_id=f"usr-{number}") for number in range(10)]
        given = await asyncio.gather(*(stores.accounts.add(account) for account in accounts))
        assert given.count(True) == 1
        assert await stores.accounts.get("ada") == accounts[given.index(True)]

    async def test_an_account_is_replaced_whole(self, stores: Stores) -> None:
        await stores.accounts.add(an_account())
        await stores.accounts.put(an_account(disabled=True, epoch=3, role="administrator"))
        assert await stores.accounts.get("ada") == an_account(disabled=True, epoch=3, role="administrator")

    async def test_of_many_changes_at_once_none_is_lost(self, stores: Stores) -> None:
        await stores.accounts.add(an_account())

        def grant(number: int) -> Callable[[Account], Account]:
            return lambda account: account.model_copy(
                update={"roles": {**account.roles, f"app{number}": "viewer"}}
            )

        await asyncio.gather(*(stores.accounts.update("ada", grant(number)) for number in range(5)))
        account = require(await stores.accounts.get("ada"))
        assert sorted(account.roles) == [f"app{number}" for number in range(5)]
        assert await stores.accounts.update("nobody", grant(1)) is None

    async def test_a_refused_change_writes_nothing(self, stores: Stores) -> None:
        await stores.accounts.add(an_account(totp_step=7))

        def use(account: Account) -> Account:
            if account.totp_step >= 7:
                raise Forbidden("the code was used before")
            return account

        with pytest.raises(Forbidden):
            await stores.accounts.update("ada", use)
        assert await stores.accounts.get("ada") == an_account(totp_step=7)

    async def test_sessions_carry_the_mark_of_the_last_sign_out(self, stores: Stores) -> None:
        assert await stores.accounts.session_mark("usr-ada") == ""
        await stores.accounts.end_sessions("usr-ada", "first")
        await stores.accounts.end_sessions("usr-ada", "second")
        assert await stores.accounts.session_mark("usr-ada") == "second"
        assert await stores.accounts.session_mark("usr-grace") == ""

    async def test_an_assertion_counts_once(self, stores: Stores) -> None:
        takes = [stores.grants.take_assertion(sha("a"), life_ms=60_000) for _ in range(8)]
        assert sorted(await asyncio.gather(*takes)) == [False] * 7 + [True]
        assert await stores.grants.take_assertion(sha("b"), life_ms=60_000)

    async def test_a_deleted_account_leaves_nothing_and_its_name_is_free(self, stores: Stores) -> None:
        await stores.accounts.add(an_account())
        await stores.accounts.end_sessions("usr-ada", "mark")
        assert await stores.accounts.remove(an_account())
        assert await stores.accounts.get("ada") is None
        assert await stores.accounts.session_mark("usr-ada") == ""
        assert not await stores.accounts.remove(an_account())
        assert await stores.accounts.add(an_account())


class TestGrants:
    async def test_a_code_becomes_a_grant_once(self, stores: Stores) -> None:
        grant, code = a_grant(), sha("code")
        await stores.grants.put_code(code, a_code(grant))
        assert await stores.grants.code(code) == a_code(grant)
        assert await stores.grants.grant("g1") is None
        assert await stores.grants.redeem(code, grant, sha("r"), now_ms=NOW) == "begun"
        assert await stores.grants.grant("g1") == grant
        assert (await stores.grants.of_user("usr-ada"))[0].grant == grant

    async def test_a_replayed_code_is_refused_and_its_grant_revoked(self, stores: Stores) -> None:
        grant = a_grant()
        await begin(stores, grant)
        version = await stores.grants.version()
        code = sha("code of g1")
        assert await stores.grants.redeem(code, grant, sha("other"), now_ms=NOW + 5) == "used"
        assert await stores.grants.grant("g1") is None
        assert await stores.grants.of_user("usr-ada") == []
        assert await stores.grants.version() > version
        assert "g1" in (await stores.grants.revocations()).grant_ids
        assert await stores.grants.redeem(code, grant, sha("other"), now_ms=NOW + 6) == "used"

    async def test_of_many_at_once_one_redeems(self, stores: Stores) -> None:
        grant, code = a_grant(), sha("code")
        await stores.grants.put_code(code, a_code(grant))
        became = await asyncio.gather(
            *(stores.grants.redeem(code, grant, sha(f"r{n}"), now_ms=NOW) for n in range(100))
        )
        assert became.count("begun") == 1
        assert became.count("used") == 99

    async def test_a_burnt_code_is_used_up_and_burning_a_used_one_ends_its_grant(
        self, stores: Stores
    ) -> None:
        burnt = sha("burnt")
        await stores.grants.put_code(burnt, a_code(a_grant("g2")))
        await stores.grants.burn(burnt, now_ms=NOW)
        assert await stores.grants.redeem(burnt, a_grant("g2"), sha("r"), now_ms=NOW) == "used"
        assert await stores.grants.grant("g2") is None
        await begin(stores, a_grant("g3"))
        await stores.grants.burn(sha("code of g3"), now_ms=NOW)
        assert await stores.grants.grant("g3") is None

    async def test_nothing_comes_of_a_code_nobody_issued(self, stores: Stores) -> None:
        assert await stores.grants.code(sha("x")) is None
        assert await stores.grants.redeem(sha("x"), a_grant(), sha("r"), now_ms=NOW) == "gone"
        await stores.grants.burn(sha("x"), now_ms=NOW)
        assert await stores.grants.version() == 0

    async def rotate(self, stores: Stores, old: str, new: str, at_ms: int) -> RotateOutcome:
        return await stores.grants.rotate("g1", sha(old), sha(new), now_ms=NOW + at_ms, grace_ms=GRACE_MS)

    async def test_each_refresh_token_leads_to_the_next(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        for number in range(5):
            at_ms = number * 3_600_000
            assert await self.rotate(stores, f"r{number}", f"r{number + 1}", at_ms) == "rotated"
        assert (await stores.grants.of_user("usr-ada"))[0].used_at == NOW + 4 * 3_600_000

    async def test_the_one_before_is_forgiven_for_a_while(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        assert await self.rotate(stores, "r0", "r1", 0) == "rotated"
        assert await self.rotate(stores, "r0", "r1b", 59_000) == "rotated"
        # Both successors are good: whichever the client kept.
        assert await self.rotate(stores, "r1b", "r2", 100_000) == "rotated"
        assert await self.rotate(stores, "r1", "r2b", 101_000) == "rotated"

    async def test_it_is_theft_after_the_grace(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        await self.rotate(stores, "r0", "r1", 0)
        assert await self.rotate(stores, "r0", "r1b", GRACE_MS + 1) == "stolen"
        assert await self.rotate(stores, "r1", "r2", GRACE_MS + 2) == "gone"
        assert "g1" in (await stores.grants.revocations()).grant_ids

    async def test_it_is_theft_once_a_successor_was_used(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        await self.rotate(stores, "r0", "r1", 0)
        await self.rotate(stores, "r1", "r2", 1000)
        assert await self.rotate(stores, "r0", "x", 2000) == "stolen"
        assert await stores.grants.grant("g1") is None

    async def test_many_refreshes_at_once_are_all_forgiven_up_to_a_bound(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        became = await asyncio.gather(*(self.rotate(stores, "r0", f"r1-{n}", n) for n in range(40)))
        assert became.count("rotated") == MOST_SIBLINGS
        assert became.count("crowded") == 40 - MOST_SIBLINGS
        assert await self.rotate(stores, "r1-0", "r2", 5000) == "rotated"

    async def test_a_grant_ends_once(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        assert await stores.grants.revoke("g1", now_ms=NOW)
        version = await stores.grants.version()
        assert not await stores.grants.revoke("g1", now_ms=NOW)
        assert await stores.grants.version() == version
        assert await self.rotate(stores, "r0", "r1", 0) == "gone"

    async def test_all_grants_of_a_person_end_and_nobody_elses(self, stores: Stores) -> None:
        for number in range(3):
            await begin(stores, a_grant(f"g{number}"))
        await begin(stores, a_grant("other", "grace"))
        assert await stores.grants.revoke_user("usr-ada", now_ms=NOW + 9) == 3
        assert await stores.grants.revoke_user("usr-ada", now_ms=NOW + 9) == 0
        assert [active.grant.grant_id for active in await stores.grants.of_user("usr-grace")] == ["other"]

    async def test_a_code_on_its_way_ends_with_its_persons_grants_and_a_later_one_does_not(
        self, stores: Stores
    ) -> None:
        early, late = sha("early"), sha("late")
        await stores.grants.put_code(early, a_code(a_grant(), NOW))
        await stores.grants.revoke_user("usr-ada", now_ms=NOW + 1)
        await stores.grants.put_code(late, a_code(a_grant("g2"), NOW + 2))
        assert await stores.grants.redeem(early, a_grant(), sha("r"), now_ms=NOW + 3) == "gone"
        assert await stores.grants.redeem(late, a_grant("g2"), sha("r"), now_ms=NOW + 3) == "begun"

    async def test_revocations_are_forgotten_when_no_token_can_live_any_more(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        await begin(stores, a_grant("g2"))
        await stores.grants.revoke("g1", now_ms=NOW)
        await stores.grants.revoke("g2", now_ms=NOW + 3 * 3_600_000)
        assert (await stores.grants.revocations()).grant_ids == {"g2"}

    async def test_a_person_keeps_the_grants_used_last(self, stores: Stores) -> None:
        for number in range(MOST_GRANTS + 3):
            await begin(stores, a_grant(f"g{number}"), now_ms=NOW + number)
        active = await stores.grants.of_user("usr-ada")
        assert len(active) == MOST_GRANTS
        assert {grant.grant.grant_id for grant in active}.isdisjoint({"g0", "g1", "g2"})

    async def test_a_clients_grants_end_together_and_nobody_elses(self, stores: Stores) -> None:
        others = a_grant("g3", "grace").model_copy(update={"client_id": "c_2"})
        for grant in (a_grant("g1"), a_grant("g2", "grace"), others):
            await begin(stores, grant)
        before = await stores.grants.version()
        assert await stores.grants.revoke_client("c_1", now_ms=NOW + 1) == 2
        assert [await stores.grants.grant(name) is not None for name in ("g1", "g2", "g3")] == [
            False,
            False,
            True,
        ]
        revoked = await stores.grants.revocations()
        assert {"g1", "g2", revocation_id("c_1")} == revoked.grant_ids
        assert revoked.version > before
        assert [active.grant.grant_id for active in await stores.grants.of_user("usr-grace")] == ["g3"]
        assert await stores.grants.revoke_client("c_1", now_ms=NOW + 1) == 0

    async def test_a_refresh_does_not_hide_a_grant_from_its_client(self, stores: Stores) -> None:
        await begin(stores, a_grant())
        await stores.grants.rotate("g1", sha("r0"), sha("r1"), now_ms=NOW + 1, grace_ms=GRACE_MS)
        assert await stores.grants.revoke_client("c_1", now_ms=NOW + 2) == 1


class TestRegistrations:
    async def test_a_change_reads_back_and_a_removal_is_for_good(self, stores: Stores) -> None:
        first = Registration(client_id="c_1", name="Reader", redirect_uris=("app.x:/cb",), issued_at=1)
        assert await stores.registrations.get("c_1") is None
        assert await stores.registrations.put(first, now_ms=NOW)
        second = first.model_copy(update={"name": "Writer", "method": "client_secret_post"})
        assert await stores.registrations.put(second, now_ms=NOW + 1)
        assert await stores.registrations.get("c_1") == second
        assert await stores.registrations.put(second.model_copy(update={"removed": True}), now_ms=NOW + 2)
        assert not await stores.registrations.put(first, now_ms=NOW + 3)
        registration = require(await stores.registrations.get("c_1"))
        assert registration.removed

    async def test_changes_and_a_removal_at_once_end_removed(self, stores: Stores) -> None:
        first = Registration(client_id="c_1", issued_at=1)
        removal = first.model_copy(update={"removed": True})
        changes = [first.model_copy(update={"name": f"n{number}"}) for number in range(3)]
        await asyncio.gather(
            *(stores.registrations.put(registration, now_ms=NOW) for registration in (*changes, removal))
        )
        stored = require(await stores.registrations.get("c_1"))
        assert stored.removed

    async def test_the_one_used_longest_ago_makes_room(self, stores: Stores) -> None:
        narrow = replace(stores, registrations=_registrations_of_three(stores))
        for number in range(3):
            await narrow.registrations.put(
                Registration(client_id=f"c_{number}", issued_at=1), now_ms=NOW + number
            )
        await narrow.registrations.touch("c_0", now_ms=NOW + 9)
        await narrow.registrations.touch("c_unknown", now_ms=NOW + 9)
        await narrow.registrations.put(Registration(client_id="c_3", issued_at=1), now_ms=NOW + 10)
        kept = [await narrow.registrations.get(f"c_{number}") is not None for number in range(4)]
        assert kept == [True, False, True, True]


def _registrations_of_three(stores: Stores) -> RegistrationStore | MemoryRegistrations:
    """Make a store over the same data that has room for three."""
    if not isinstance(stores, OpenStores):
        return MemoryRegistrations(most=3)
    return RegistrationStore(stores.server, Quarantine(stores.server, SystemClock(), SilentMeter()), most=3)
