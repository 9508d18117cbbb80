"""The origin of the server, from which every address in metadata, tokens and redirects is built.

A public address comes only from the configuration. Any client can write any `Host` or `X-Forwarded-Host`, and
metadata built from them would send other clients to an attacker. Without a configured address, Kiosk serves only
loopback. Clients compare the three names of loopback as text, so the server keeps the name in the request:
a client of `localhost` gets addresses with `localhost`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.addresses.origin import is_loopback, parse_origin


@dataclass(frozen=True, slots=True)
class ServerOrigin:
    """Returns the origin of a request."""

    public_url: str
    "Configured origin; empty if none is configured."
    fallback: str
    "Origin for requests whose `Host` is not loopback, if no origin is configured."
    plain_sign_in: bool = False
    "Whether users may sign in beyond loopback without an https origin."

    @classmethod
    def from_config(
        cls, public_url: str, *, host: str = "127.0.0.1", port: int = 8000, plain_sign_in: bool = False
    ) -> ServerOrigin:
        """Check a configured origin; without one, use `host` and `port`, on which Kiosk listens."""
        loopback = host if host in ("127.0.0.1", "localhost") else "127.0.0.1"
        fallback = f"http://[::1]:{port}" if host == "::1" else f"http://{loopback}:{port}"
        return cls(parse_origin(public_url) if public_url else "", fallback, plain_sign_in)

    def origin_for_host(self, host: str) -> str:
        """Return the origin for a request with this `Host` header."""
        if self.public_url:
            return self.public_url
        return f"http://{host}" if is_loopback(host) else self.fallback

    def may_sign_in(self, host: str) -> bool:
        """Return whether users may type passwords at this `Host`; false if passwords would travel unencrypted."""
        return bool(self.public_url) or self.plain_sign_in or is_loopback(host)
