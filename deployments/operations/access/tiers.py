"""Use cases of tiers: which locked articles the agents of an account may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from cluster.access_tier import MOST_OF_ACCOUNT, is_tier
from cluster.clock import iso_ms
from cluster.errors import Invalid
from cluster.records.field_types.units import Moment
from deployments.operations.access.people import OfPerson, account_admin
from deployments.operations.framework.operation import operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices


class SetTiers(OfPerson):
    """The tiers of an account from now on."""

    tiers: Annotated[list[str], Field(max_length=MOST_OF_ACCOUNT)] = Field(
        description="Names of tiers, as subscriber; none: open articles and those for everybody registered."
    )
    until: Moment | None = Field(None, description="When they end; absent: when they are replaced.")


@dataclass(frozen=True, slots=True)
class AccountTiers:
    """The tiers of an account."""

    username: str
    tiers: Mapping[str, int]
    "Tier -> its end, milliseconds since 1970; 0: none."
    claimed: Mapping[str, int]
    "Those that the provider of identities claims."

    def to_dict(self) -> dict[str, Any]:
        """Return tiers and ends as JSON."""
        return {
            "username": self.username,
            "tiers": [{"tier": tier, "until": end_ms or None} for tier, end_ms in sorted(self.tiers.items())],
            "claimed": [{"tier": tier, "until": end_ms} for tier, end_ms in sorted(self.claimed.items())],
        }

    def to_lines(self) -> ResultLines:
        """Return a table of the tiers."""
        rows = [
            (tier, iso_ms(end_ms)[:19] if end_ms else "", source)
            for source, tiers in (("set", self.tiers), ("claim", self.claimed))
            for tier, end_ms in sorted(tiers.items())
        ]
        return (
            ResultTable(
                ("tier", "until", "source"), rows, f"{self.username} reads open and registered articles only."
            ),
        )


async def _read_tiers(services: AdminServices, given: OfPerson) -> dict[str, Any]:
    return (await show_tiers(services, given)).to_dict()


_PATH = "/people/{username}/tiers"


@operation("tiers.show", "GET", _PATH, "owner", scope="installation")
async def show_tiers(services: AdminServices, given: OfPerson) -> AccountTiers:
    """Show which tiers of articles the agents of an account may read.

    Errors:
        NotFound: no such account
    """
    account = await account_admin(services).find(given.username)
    return AccountTiers(account.username, account.tiers, account.claimed_tiers)


@operation("tiers.set", "PUT", _PATH, "owner", scope="installation", read_before=_read_tiers)
async def set_tiers(services: AdminServices, given: SetTiers) -> AccountTiers:
    """Set the tiers of articles that the agents of an account may read.

    Within a second no replica accepts access tokens with the old tiers. Clients renew them; connections stay.
    Tiers by a claim of the provider of identities end too, until the renewal reads the claim again.

    Errors:
        NotFound: no such account
        Invalid: a name is no tier
    """
    for tier in given.tiers:
        if not is_tier(tier):
            raise Invalid(
                f"{tier[:64]!r} is no name of a tier: lower case letters, digits, - and _, as subscriber"
            )
    # 0 in an account means no end; a caller's 0 is a moment long ago.
    end_ms = 0 if given.until is None else max(given.until, 1)
    tiers = dict.fromkeys(given.tiers, end_ms)
    account = await account_admin(services).set_tiers(given.username, tiers, services.now_ms())
    return AccountTiers(account.username, account.tiers, account.claimed_tiers)
