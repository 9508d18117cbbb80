"""The life of codes and grants as a state machine: any order of redeeming, replaying, refreshing, stealing,
revoking and locking must leave the store as the model says.

The model knows rounds where the store knows digests: a refresh token belongs to a round of its grant, the current
round is good, the one before for a while, and everything older is theft.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, invariant, rule

from cluster.records.account import Code, Grant
from cluster.store.administration.grants import MOST_SIBLINGS
from tests.suites.doing import NOW
from tests.suites.machines import StoreMachine

GRACE_MS = 15_000
USERS = st.sampled_from(["ada", "grace"])


@dataclass
class Family:
    """What the model knows of a grant."""

    user: str
    round: int = 0
    siblings: int = 1
    until: int = 0
    alive: bool = True


@dataclass
class Issued:
    """What the model knows of a code."""

    user: str
    at: int
    used: bool = False


@dataclass
class Model:
    """What must be true."""

    now: int = NOW
    codes: dict[str, Issued] = field(default_factory=dict)
    families: dict[str, Family] = field(default_factory=dict)
    locked_at: dict[str, int] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def end(self, name: str) -> None:
        """End a grant, if there is one."""
        family = self.families.get(name)
        if family is not None and family.alive:
            family.alive = False
            self.ended.add(name)


class GrantMachine(StoreMachine):
    """Drives a store and the model side by side."""

    codes: Bundle[str] = Bundle("codes")
    tokens: Bundle[tuple[str, int, str]] = Bundle("tokens")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self._number = 0
        self._version = 0

    @rule(target=codes, user=USERS)
    def issue(self, user: str) -> str:
        """A person allows a client."""
        self._number += 1
        name = f"g{self._number}"
        code = Code(
            **self._facts(name, user), redirect_uri="u", challenge="c",
            created_at=self.model.now, expires_at=self.model.now + 60_000,
        )  # fmt: skip
        self._do(self._stores.grants.put_code(_sha(name), code))
        self.model.codes[name] = Issued(user, self.model.now)
        return name

    @rule(target=tokens, user=USERS)
    def connect(self, user: str) -> tuple[str, int, str]:
        """A person allows a client, which takes what it was allowed."""
        return self.redeem(self.issue(user))

    @rule(target=tokens, name=codes)
    def redeem(self, name: str) -> tuple[str, int, str]:
        """A client exchanges a code."""
        issued = self.model.codes[name]
        token = self._token()
        grant = Grant(**self._facts(name, issued.user), created_at=self.model.now)
        became = self._do(self._stores.grants.redeem(_sha(name), grant, _sha(token), now_ms=self.model.now))
        if issued.used:
            assert became == "used"
            self.model.end(name)
        elif self.model.locked_at.get(issued.user, -1) >= issued.at:
            assert became == "gone"
        else:
            assert became == "begun"
            self.model.families[name] = Family(issued.user)
        issued.used = True
        return name, 0, token if became == "begun" else "never issued"

    @rule(name=codes)
    def burn(self, name: str) -> None:
        """A code meets a request that does not fit."""
        self._do(self._stores.grants.burn(_sha(name), now_ms=self.model.now))
        if self.model.codes[name].used:
            self.model.end(name)
        self.model.codes[name].used = True

    @rule(target=tokens, grant=tokens)
    def refresh(self, grant: tuple[str, int, str]) -> tuple[str, int, str]:
        """Somebody presents a refresh token, current or old."""
        name, its_round, token = grant
        family = self.model.families.get(name)
        fresh = self._token()
        became = self._do(
            self._stores.grants.rotate(
                name, _sha(token), _sha(fresh), now_ms=self.model.now, grace_ms=GRACE_MS
            )
        )
        never = (name, -1, "never issued")
        if family is None or not family.alive:
            assert became == "gone"
            return never
        if its_round == family.round and token != "never issued":
            assert became == "rotated"
            family.round, family.siblings, family.until = family.round + 1, 1, self.model.now + GRACE_MS
        elif its_round == family.round - 1 and self.model.now <= family.until and token != "never issued":
            if family.siblings >= MOST_SIBLINGS:
                assert became == "crowded"
                return never
            assert became == "rotated"
            family.siblings += 1
        else:
            assert became == "stolen"
            self.model.end(name)
            return never
        return name, family.round, fresh

    @rule(name=codes)
    def revoke(self, name: str) -> None:
        """A client or an administrator ends a grant."""
        ended = self._do(self._stores.grants.revoke(name, now_ms=self.model.now))
        family = self.model.families.get(name)
        assert ended == (family is not None and family.alive)
        self.model.end(name)

    @rule(user=USERS)
    def lock(self, user: str) -> None:
        """An administrator locks a person out."""
        ended = self._do(self._stores.grants.revoke_user(f"usr-{user}", now_ms=self.model.now))
        mine = [name for name, family in self.model.families.items() if family.user == user and family.alive]
        assert ended == len(mine)
        for name in mine:
            self.model.end(name)
        self.model.locked_at[user] = self.model.now

    @rule(ms=st.sampled_from([1, GRACE_MS, GRACE_MS + 1]))
    def wait(self, ms: int) -> None:
        """Time passes."""
        self.model.now += ms

    @invariant()
    def grants_agree_with_the_model(self) -> None:
        """Live grants are there, ended ones are not, and every door can know."""
        for user in ("ada", "grace"):
            active = self._do(self._stores.grants.of_user(f"usr-{user}"))
            alive = {
                name for name, family in self.model.families.items() if family.user == user and family.alive
            }
            assert {grant.grant.grant_id for grant in active} == alive
        revocations = self._do(self._stores.grants.revocations())
        assert {name for name in revocations.grant_ids if not name.startswith("user:")} == self.model.ended
        assert revocations.version == len(self.model.ended)

    def _facts(self, name: str, user: str) -> dict[str, Any]:
        return {
            "grant_id": name, "client_id": "c_1", "client_name": "C", "resource": "r", "user_id": f"usr-{user}",
            "username": user,
        }  # fmt: skip

    def _token(self) -> str:
        self._number += 1
        return f"token {self._number}"


def _sha(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
