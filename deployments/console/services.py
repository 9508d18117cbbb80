"""What the console depends on, created once per process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from cluster.clock import Clock
from cluster.store.administration.accounts import AccountStore
from deployments.console.texts.console_texts import ConsoleTexts
from deployments.edge.http.body_pace import UploadSlots
from deployments.edge.http.client_address import DIRECT, ClientAddresses
from deployments.edge.http.server_origin import ServerOrigin
from deployments.edge.limits.token_buckets import TokenBuckets
from deployments.operations.framework.operation_executor import Administration
from deployments.operations.framework.result_cache import ResultCache
from deployments.sign_in.sign_in import Browser, SignIn
from deployments.sign_in.signing import SignInSigner


@dataclass(frozen=True, slots=True)
class ConsoleServices:
    """The administration, the sign-in, addresses and limits."""

    administration: Administration[Any]
    accounts: AccountStore
    sign_in: SignIn
    limits: TokenBuckets
    "Of people and of addresses, in this process."
    clock: Clock
    addresses: ServerOrigin
    app_ids: Callable[[], Iterable[str]]
    "All apps of the installation, from memory."
    client_addresses: ClientAddresses = DIRECT
    display_name_of: Callable[[str], str] = str
    "App id -> the name that pages show."
    uploads: UploadSlots = field(default_factory=UploadSlots)
    live: ResultCache = field(default_factory=ResultCache)
    "Parts of live pages that many consoles share."
    live_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    "Stands in these parts for the token of forms, which each person has an own one of."
    text: ConsoleTexts = field(default_factory=ConsoleTexts)
    title: str = "Kiosk"
    version: str = ""

    def origin(self, request: Request) -> str:
        return self.addresses.origin_for_host(request.headers.get("host", ""))

    def is_secure(self, request: Request) -> bool:
        """Return whether browsers reach this installation over https."""
        return self.origin(request).startswith("https:")

    def client_address(self, request: Request) -> str:
        return self.client_addresses.find(request.scope)

    @property
    def signing(self) -> SignInSigner:
        """Return the signatures of sessions and forms."""
        return self.sign_in.signing

    def browser(self, request: Request) -> Browser:
        """Return the browser of a request, for the sign-in."""
        return Browser(request, "console", self.client_address(request), self.is_secure(request))
