"""A provider of identities through which people may sign in: OpenID Connect with PKCE, state and nonce.

Source: OpenID Connect Core 1.0, sections 3.1 and 5.7; OpenID Connect Discovery 1.0; RFC 7636; RFC 9207
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import structlog
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from cluster.access_tier import tiers_from_claims
from cluster.addresses.origin import is_loopback
from cluster.clock import Clock
from cluster.errors import Unavailable

DISCOVERY = "/.well-known/openid-configuration"
SCOPE = "openid email"
TIERS_SCOPE = SCOPE + " offline_access"
"Scope where a claim names tiers: the provider then gives a refresh token, by which the claim is read again."
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
"Signatures by a key of the provider; never `none`, and never by the client's secret."
KEPT_S = 3600.0
REFRESH_S = 60.0
"Least seconds between two reads of the provider's keys."
TIMEOUT_S = 5.0
FAILED_S = 5.0
"Seconds after a failed read in which everybody gets its error, so that nobody waits for a queue of them."
MOST_BYTES = 1 << 20
MOST_REFRESH = 8_192
"Characters of a refresh token that is stored."
LEEWAY_S = 60

_HTTP = next(parent for parent in AsyncOAuth2Client.__mro__ if parent.__name__ == "AsyncClient")
_CLIENT_ERRORS: tuple[type[Exception], ...] = (
    httpx.HTTPError,
    import_module(_HTTP.__module__.partition(".")[0]).HTTPError,
)
"Authlib uses httpx2 where it is installed, whose errors are other classes."

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Where the provider is, and how it knows this installation."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    tiers_claim: str = ""
    "Claim of the ID token that names tiers; empty: none does."
    tiers: Mapping[str, str] = field(default_factory=dict)
    "Value of the claim -> tier; empty: the values are the tiers."

    @property
    def name(self) -> str:
        """Return the name that the sign-in page shows."""
        return urlsplit(self.issuer).hostname or self.issuer


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """What one sign-in must bring back; a signed cookie holds it."""

    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Who somebody is, as the provider says."""

    subject: str
    "Issuer and subject."
    email: str
    "In lower case; empty unless the provider verified it."
    tiers: frozenset[str] | None = None
    "Tiers by the claim; None where no claim names them, or the provider sent no ID token."
    refresh_token: str = field(default="", repr=False)
    "By which the provider gives the claims again; empty: it gave none."


class IdentityProvider:
    """Talks to the provider; reads its addresses and keys once an hour."""

    def __init__(self, config: ProviderConfig, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._lock = asyncio.Lock()
        self._metadata: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._read_at = -KEPT_S
        # Not 0: the monotonic clock may be near zero, and that would look like a recent failure.
        self._failed_at = -FAILED_S
        self._failure = ""

    async def begin(self, callback: str) -> tuple[str, SignInFlow]:
        """Return the address at the provider that a sign-in begins with, and what it must bring back."""
        metadata, _ = await self._read()
        flow = SignInFlow(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48))
        async with self._client(callback) as client:
            address, _ = client.create_authorization_url(
                _address(metadata, "authorization_endpoint"),
                state=flow.state,
                nonce=flow.nonce,
                code_challenge=create_s256_code_challenge(flow.verifier),
                code_challenge_method="S256",
            )
        return str(address), flow

    async def finish(self, callback: str, flow: SignInFlow, code: str) -> Identity | None:
        """Exchange a code for the identity; None if anything about it is wrong.

        Errors:
            Unavailable: the provider does not answer, or not as one
        """
        metadata, _ = await self._read()
        try:
            async with self._client(callback) as client:
                token = await client.fetch_token(
                    _address(metadata, "token_endpoint"), code=code, code_verifier=flow.verifier
                )
        except OAuthError as error:
            # Cut, because the text is the provider's and goes into the log.
            _log.warning("identity_refused", reason=str(error.error)[:100])
            return None
        except _CLIENT_ERRORS as error:
            raise Unavailable(f"the provider of identities does not answer: {type(error).__name__}") from None
        except ValueError:
            raise Unavailable("the provider of identities does not answer as one") from None
        claims = await self._verify(str(token.get("id_token") or ""))
        # Another nonce belongs to another sign-in, whose code was injected (OpenID Connect Core, 3.1.3.7).
        if claims is None or claims.get("nonce") != flow.nonce:
            return None
        return self._identify(claims, token)

    async def renew(self, refresh_token: str, subject: str) -> Identity | None:
        """Return the identity as the provider says it now; None if it refuses, or names somebody else.

        `subject`: see `Identity.subject`.

        Errors:
            Unavailable: the provider does not answer, or not as one
        """
        metadata, _ = await self._read()
        try:
            async with self._client("") as client:
                token = await client.refresh_token(_address(metadata, "token_endpoint"), refresh_token)
        except OAuthError as error:
            _log.warning("claims_refused", reason=str(error.error)[:100])
            # Any other refusal concerns this installation: the person keeps the tiers until they end by
            # themselves.
            if error.error == "invalid_grant":
                return None
            raise Unavailable("the provider of identities refuses this installation") from None
        except _CLIENT_ERRORS as error:
            raise Unavailable(f"the provider of identities does not answer: {type(error).__name__}") from None
        except ValueError:
            raise Unavailable("the provider of identities does not answer as one") from None
        # A provider that sends no new refresh token goes on with this one (RFC 6749, 6).
        fresh = str(token.get("refresh_token") or refresh_token)
        if not token.get("id_token"):
            return Identity(subject, "", refresh_token=fresh if len(fresh) <= MOST_REFRESH else "")
        claims = await self._verify(str(token["id_token"]))
        identity = None if claims is None else self._identify(claims, token)
        return None if identity is None or identity.subject != subject else identity

    def _identify(self, claims: dict[str, Any], token: Mapping[str, Any]) -> Identity | None:
        subject = claims.get("sub")
        email = claims.get("email")
        if not isinstance(subject, str) or not 0 < len(subject) <= 255:
            return None
        # At many providers anybody may type any address; only a verified one may name an account.
        verified = claims.get("email_verified") is True and isinstance(email, str)
        name = self.config.tiers_claim
        refresh = token.get("refresh_token")
        return Identity(
            f"{self.config.issuer} {subject}",
            str(email).lower() if verified else "",
            tiers_from_claims(claims, name, self.config.tiers) if name else None,
            refresh if name and isinstance(refresh, str) and len(refresh) <= MOST_REFRESH else "",
        )

    async def _verify(self, text: str) -> dict[str, Any] | None:
        """Return the claims of an ID token that the provider signed for this client and that holds now."""
        now_s = self._clock.now_ms() // 1000
        for is_fresh in (False, True):
            _, keys = await self._read(fresh=is_fresh)
            try:
                claims: dict[str, Any] = jwt.decode(text, keys, algorithms=ALGORITHMS).claims
                break
            except (JoseError, ValueError, TypeError, KeyError) as error:
                # The provider may have new keys.
                _log.info("identity_token_unverified", reason=type(error).__name__)
        else:
            return None
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        is_ours = self.config.client_id in audiences and claims.get("iss") == self.config.issuer
        # With several audiences `azp` must be there, and be this client (OpenID Connect Core, 3.1.3.7).
        authorized = claims.get("azp", self.config.client_id if len(audiences) == 1 else None)
        expires = claims.get("exp")
        issued = claims.get("iat")
        if not isinstance(expires, int | float) or not isinstance(issued, int | float):
            return None
        holds = issued - LEEWAY_S <= now_s < expires + LEEWAY_S
        return claims if is_ours and authorized == self.config.client_id and holds else None

    async def _read(self, *, fresh: bool = False) -> tuple[dict[str, Any], KeySet]:
        # Many sign-ins at once cause a single read of the provider's documents.
        async with self._lock:
            now_s = self._clock.monotonic_s()
            most_s = REFRESH_S if fresh else KEPT_S
            if self._keys is None or now_s - self._read_at >= most_s:
                if now_s - self._failed_at < FAILED_S:
                    raise Unavailable(self._failure)
                try:
                    self._metadata, self._keys = await self._fetch_all()
                except Unavailable as error:
                    self._failed_at = self._clock.monotonic_s()
                    self._failure = error.message
                    raise
                self._read_at = now_s
            return self._metadata, self._keys

    async def _fetch_all(self) -> tuple[dict[str, Any], KeySet]:
        metadata = await _fetch(self.config.issuer.rstrip("/") + DISCOVERY)
        # Exactly equal, or the document of one issuer could stand in for another (Discovery, 4.3).
        if metadata.get("issuer") != self.config.issuer:
            raise Unavailable("the provider of identities names another issuer than KIOSK_OIDC_ISSUER")
        try:
            return metadata, KeySet.import_key_set(await _fetch(_address(metadata, "jwks_uri")))  # type: ignore[arg-type]
        except (JoseError, ValueError, TypeError, KeyError):
            raise Unavailable("the keys of the provider of identities can't be read") from None

    def _client(self, callback: str) -> Any:
        return AsyncOAuth2Client(
            self.config.client_id,
            self.config.client_secret,
            scope=TIERS_SCOPE if self.config.tiers_claim else SCOPE,
            redirect_uri=callback or None,
            timeout=TIMEOUT_S,
            # Code and client secret go to this address only: not along a redirect, nor through a proxy of the
            # environment.
            follow_redirects=False,
            trust_env=False,
        )


def _address(metadata: dict[str, Any], name: str) -> str:
    text = metadata.get(name)
    parts = urlsplit(text) if isinstance(text, str) else None
    if parts is None or not (
        parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.netloc))
    ):
        raise Unavailable(f"the provider of identities names no usable {name}")
    return str(text)


async def _fetch(address: str) -> dict[str, Any]:
    try:
        async with (
            httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client,
            # httpx follows no redirect by default, so no answer leads this process to an inner address.
            client.stream("GET", address) as reply,
        ):
            body = b""
            async for part in reply.aiter_bytes():
                body += part
                if len(body) > MOST_BYTES:
                    raise Unavailable("an answer of the provider of identities is too large")
            if reply.status_code != 200:
                raise Unavailable(f"the provider of identities answers {reply.status_code}")
    except httpx.HTTPError as error:
        raise Unavailable(f"the provider of identities does not answer: {type(error).__name__}") from None
    try:
        document = orjson.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise Unavailable("the provider of identities does not answer as one")
    return document
