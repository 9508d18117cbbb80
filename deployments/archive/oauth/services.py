"""What the OAuth endpoints depend on, created once per process, and the rates of their limits."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.records.account import Account
from cluster.store.administration.accounts import AccountStore
from cluster.store.administration.grants import GrantStore
from cluster.store.administration.registrations import RegistrationStore
from cluster.store.installation.rate_limits import LimitStore
from cluster.store.stores import Stores
from deployments.archive.archive_apps import ArchiveApps, DefaultArchive
from deployments.archive.oauth.access_tokens import AccessTokens
from deployments.archive.oauth.client_identity.clients import OAuthClients
from deployments.archive.oauth.client_identity.document_clients import DocumentClients
from deployments.archive.oauth.replies import OAuthError
from deployments.archive.oauth.signing import OAuthSigner
from deployments.edge.http.body_pace import SMALL_BODY
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.server_origin import ServerOrigin
from deployments.edge.limits.signin_limits import SignInRates, take_shared_token
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets
from deployments.sign_in.identity_provider import IdentityProvider, ProviderConfig
from deployments.sign_in.sign_in import Browser, SignIn


@dataclass(frozen=True, slots=True)
class OAuthLimits(SignInRates):
    """The rates of all OAuth limits."""

    registrations: BucketRate = BucketRate(5.0, 60)
    "Per address and replica. A registration stores nothing, so this limit protects only the processors."
    changes: BucketRate = BucketRate(0.2, 500)
    "Changed registrations, for all clients and replicas together: each change is stored, so this limits the storage."
    token_calls: BucketRate = BucketRate(20.0, 200)
    "Per address and replica; one address may be the whole fleet of assistants of one provider."
    pages: BucketRate = BucketRate(10.0, 100)
    "Per address and replica."
    body_s: float = SMALL_BODY.within_s
    "Seconds in which a body of at most 20 kB must arrive."


class ChangeLimit:
    """Changes and removals of registrations, counted for all replicas together."""

    def __init__(self, store: LimitStore, clock: Clock, rate: BucketRate) -> None:
        self._store = store
        self._clock = clock
        self._rate = rate

    async def wait_s(self) -> int:
        """Count one change; return 0 to admit it, else the seconds to wait."""
        return await take_shared_token(self._store, self._clock, "all", "registration-changes", self._rate)


# Shorter than the two hours for which revocations are held: a revoked token ends before it is forgotten.
ACCESS_LIFE_S = 3600
# RFC 6749, 4.1.2 allows ten minutes; clients redeem a code at once.
CODE_LIFE_S = 60
GRACE_S = 60
"Seconds for which the previous refresh token stays valid: for parallel refreshes of a client, and lost answers."


@dataclass(frozen=True, slots=True)
class OAuthServices:
    """Stores, signatures, addresses and rate limits."""

    accounts: AccountStore
    grants: GrantStore
    signing: OAuthSigner
    clients: OAuthClients
    "Clients that registered."
    documents: DocumentClients
    "Clients whose ids are the addresses of their metadata documents."
    registrations: RegistrationStore
    clock: Clock
    addresses: ServerOrigin
    access_tokens: AccessTokens
    "The code that mounts the routes starts and closes it."
    address_limits: TokenBuckets
    sign_in: SignIn
    changes: ChangeLimit
    limits: OAuthLimits
    title: str
    "Name of the default archive on pages and in metadata."
    archives: ArchiveApps
    client_addresses: ClientAddresses = DIRECT

    def find_title(self, archive_id: str) -> str | None:
        """Return the name of an archive, the default one for an empty id; None if there is no such archive."""
        if not archive_id:
            return self.title
        archive = self.archives.find_archive(archive_id)
        return None if archive is None else archive.title

    def may_use(self, archive_id: str, account: Account) -> bool:
        """Return whether an account may connect clients to an archive: some archives are for members only."""
        if not archive_id:
            return True
        archive = self.archives.find_archive(archive_id)
        is_member = account.role == "administrator" or archive_id in account.roles
        return archive is not None and (is_member or not archive.members_only)

    def origin(self, request: Request) -> str:
        return self.addresses.origin_for_host(request.headers.get("host", ""))

    def client_address(self, request: Request) -> str:
        return self.client_addresses.find(request.scope)

    def browser(self, request: Request) -> Browser:
        """Return the browser of a request, for the sign-in."""
        secure = self.origin(request).startswith("https:")
        return Browser(request, "archive", self.client_address(request), secure)

    def count_request(self, request: Request, kind: str, rate: BucketRate) -> None:
        """Count a request against the limit of its address.

        Errors:
            OAuthError: the address sends too many requests
        """
        wait_s = self.address_limits.wait_s(kind, self.client_address(request), rate)
        if wait_s:
            raise OAuthError("temporarily_unavailable", "too many requests; try again later", 429, wait_s)


def open_oauth(
    stores: Stores,
    vault: Vault,
    clock: Clock,
    addresses: ServerOrigin,
    *,
    title: str = "News Archive Search",
    limits: OAuthLimits | None = None,
    client_addresses: ClientAddresses = DIRECT,
    provider: ProviderConfig | None = None,
    has_passwords: bool = True,
    documents: DocumentClients | None = None,
    archives: ArchiveApps | None = None,
) -> OAuthServices:
    """Create the services; `access_tokens` is not started yet."""
    limits = limits or OAuthLimits()
    signing = OAuthSigner(vault)
    return OAuthServices(
        accounts=stores.accounts,
        grants=stores.grants,
        signing=signing,
        clients=OAuthClients(signing, stores.registrations),
        documents=documents or DocumentClients("off", {}, clock),
        registrations=stores.registrations,
        clock=clock,
        addresses=addresses,
        access_tokens=AccessTokens(stores.grants, signing, clock),
        address_limits=TokenBuckets(clock),
        sign_in=SignIn(
            stores,
            vault,
            clock,
            rates=limits,
            has_passwords=has_passwords,
            provider=None if provider is None else IdentityProvider(provider, clock),
        ),
        changes=ChangeLimit(stores.limits, clock, limits.changes),
        limits=limits,
        title=title,
        archives=archives or DefaultArchive(),
        client_addresses=client_addresses,
    )
