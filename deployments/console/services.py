"""What the console depends on, created once per process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from cluster.admin.second_factor import SecondFactors
from cluster.clock import Clock
from cluster.secrecy import Vault
from cluster.store.ports.accounts import AccountStore
from cluster.store.ports.stores import Stores
from deployments.console.identity_provider import IdentityProvider, ProviderConfig
from deployments.console.signing import ConsoleSigner
from deployments.console.texts.console_texts import ConsoleTexts
from deployments.edge.body_pace import UploadSlots
from deployments.edge.client_address import DIRECT, ClientAddresses
from deployments.edge.password_checks import PasswordChecks
from deployments.edge.server_addresses import ServerAddresses
from deployments.edge.signin_limits import AddressLimits, SignInLimits, SignInRates
from deployments.operations.administration import Administration
from deployments.operations.result_cache import ResultCache


@dataclass(frozen=True, slots=True)
class ConsoleServices:
    """The administration, accounts, signatures, addresses and limits."""

    administration: Administration[Any]
    accounts: AccountStore
    passwords: PasswordChecks
    factors: SecondFactors
    signing: ConsoleSigner
    sign_ins: SignInLimits
    limits: AddressLimits
    "Of people and of addresses, in this process."
    clock: Clock
    addresses: ServerAddresses
    client_addresses: ClientAddresses
    app_ids: Callable[[], Iterable[str]]
    "All apps of the installation, from memory."
    provider: IdentityProvider | None = None
    "Provider of identities; None: people sign in with passwords only."
    uploads: UploadSlots = field(default_factory=UploadSlots)
    live: ResultCache = field(default_factory=ResultCache)
    "Parts of live pages that many consoles share."
    live_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    "Stands in these parts for the token of forms, which each person has an own one of."
    text: ConsoleTexts = field(default_factory=ConsoleTexts)
    title: str = "Kiosk"
    version: str = ""

    def origin(self, request: Request) -> str:
        """Return the origin of this request."""
        return self.addresses.origin_for_host(request.headers.get("host", ""))

    def is_secure(self, request: Request) -> bool:
        """Return whether browsers reach this installation over https."""
        return self.origin(request).startswith("https:")

    def client_address(self, request: Request) -> str:
        """Return the client address of a request."""
        return self.client_addresses.find(request.scope)


def open_console(
    administration: Administration[Any],
    stores: Stores,
    vault: Vault,
    clock: Clock,
    addresses: ServerAddresses,
    *,
    app_ids: Callable[[], Iterable[str]],
    client_addresses: ClientAddresses = DIRECT,
    provider: ProviderConfig | None = None,
    rates: SignInRates | None = None,
    uploads: UploadSlots | None = None,
    title: str = "Kiosk",
    version: str = "",
) -> ConsoleServices:
    """Create the services of the console."""
    signing = ConsoleSigner(vault)
    return ConsoleServices(
        administration=administration,
        accounts=stores.accounts,
        passwords=PasswordChecks(stores.accounts),
        factors=SecondFactors(stores.accounts, vault),
        signing=signing,
        sign_ins=SignInLimits(stores.limits, signing.hash_slot, clock, rates or SignInRates()),
        limits=AddressLimits(clock),
        clock=clock,
        addresses=addresses,
        client_addresses=client_addresses,
        app_ids=app_ids,
        provider=None if provider is None else IdentityProvider(provider, clock),
        uploads=uploads or UploadSlots(),
        title=title,
        version=version,
    )
