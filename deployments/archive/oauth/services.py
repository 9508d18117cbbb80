"""What the endpoints of OAuth work with, put together once a process."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from cluster.clock import Clock
from cluster.secrecy import Vault
from cluster.store.ports.stores import AccountStore, GrantStore, RegistrationStore, Stores
from deployments.archive.oauth.addresses import Addresses
from deployments.archive.oauth.bearer import Bearer
from deployments.archive.oauth.clients import Clients
from deployments.archive.oauth.rate_limits import ChangeLimit, Knocks, OAuthLimits, Rate, SignInLimits
from deployments.archive.oauth.replies import Refused
from deployments.archive.oauth.signing import Signing
from deployments.edge.client_address import DIRECT, ClientAddresses

ACCESS_LIFE_S = 3600
CODE_LIFE_S = 60
GRACE_S = 60
"How long the refresh token before the current one is forgiven: parallel refreshes of one client, a lost answer."


@dataclass(frozen=True, slots=True)
class OAuthMeans:
    """Stores, signatures, addresses and rates."""

    accounts: AccountStore
    grants: GrantStore
    signing: Signing
    clients: Clients
    registrations: RegistrationStore
    clock: Clock
    addresses: Addresses
    bearer: Bearer
    "Started and closed by whoever mounts the routes."
    knocks: Knocks
    sign_ins: SignInLimits
    changes: ChangeLimit
    limits: OAuthLimits
    title: str
    "What the archive is called on pages and in metadata."
    client_addresses: ClientAddresses = DIRECT

    def base(self, request: Request) -> str:
        """Choose the origin this request came to."""
        return self.addresses.base(request.headers.get("host", ""))

    def address(self, request: Request) -> str:
        """Find the address a request comes from."""
        noted = request.headers.get("x-forwarded-for")
        return self.client_addresses.find(request.scope, noted.encode("latin-1") if noted else None)

    def knock(self, request: Request, kind: str, rate: Rate) -> None:
        """Count a request.

        Errors:
            Refused: too many from this address
        """
        wait_s = self.knocks.wait_s(kind, self.address(request), rate)
        if wait_s:
            raise Refused("temporarily_unavailable", "too many requests; try again later", 429, wait_s)


def open_oauth(
    stores: Stores,
    vault: Vault,
    clock: Clock,
    addresses: Addresses,
    *,
    title: str = "News Archive Search",
    limits: OAuthLimits | None = None,
    client_addresses: ClientAddresses = DIRECT,
) -> OAuthMeans:
    """Put the means together; `bearer` is not started yet."""
    limits = limits or OAuthLimits()
    signing = Signing(vault)
    return OAuthMeans(
        accounts=stores.accounts,
        grants=stores.grants,
        signing=signing,
        clients=Clients(signing, stores.registrations),
        registrations=stores.registrations,
        clock=clock,
        addresses=addresses,
        bearer=Bearer(stores.grants, signing, clock),
        knocks=Knocks(clock),
        sign_ins=SignInLimits(stores.limits, signing, clock, limits),
        changes=ChangeLimit(stores.limits, clock, limits.changes),
        limits=limits,
        title=title,
        client_addresses=client_addresses,
    )
