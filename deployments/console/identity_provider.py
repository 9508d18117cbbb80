"""The provider of identities through which people may sign in (OpenID Connect)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Where the provider is, and how it knows this installation."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
