"""The token endpoint exchanges a code for a grant, and a refresh token for the next one; the other endpoint revokes.

    code      read -> compare with all that it is bound to -> redeem (atomic, one request succeeds), else delete it
    refresh   compare with what the grant is bound to -> rotate (atomic); a refused request changes nothing
    revoke    one token ends the whole grant; an unknown token is no error, one of another client is refused
              (RFC 7009, 2.1 and 2.2)

Source: RFC 6749 sections 4.1.3 and 6, RFC 7636, RFC 8707, OAuth 2.1 section 4.3, RFC 7009.
"""

from __future__ import annotations

import structlog
from starlette.requests import Request
from starlette.responses import Response

from cluster.records.account import Account, Code, Grant
from deployments.archive.oauth.addresses import archive_of
from deployments.archive.oauth.client_authentication import authenticate_client
from deployments.archive.oauth.client_identity.clients import OAuthClient, short_id
from deployments.archive.oauth.forms import Parameters, read_form
from deployments.archive.oauth.pkce import is_verifier_of
from deployments.archive.oauth.redirects import describe_target
from deployments.archive.oauth.replies import NO_STORE, OAuthError, render_document
from deployments.archive.oauth.services import ACCESS_LIFE_S, GRACE_S, OAuthServices
from deployments.edge.access.signing import sha256


class TokenEndpoint:
    """Issues tokens."""

    def __init__(self, services: OAuthServices) -> None:
        self._services = services

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._services.count_request(request, "token", self._services.limits.token_calls)
        form = await read_form(request, self._services.limits.body_s)
        client = await authenticate_client(request, form, self._services, form.get("grant_type") or "")
        return await self._exchange(form, client)

    async def _exchange(self, form: Parameters, client: OAuthClient) -> Response:
        # No parameter may be repeated (RFC 6749, 3.2), or two parts of a system could read different values.
        if form.doubled:
            raise OAuthError("invalid_request", f"{min(form.doubled)} stands there more than once")
        kind = form.get("grant_type")
        if kind == "authorization_code":
            return await self._grant_from_code(form, client)
        if kind == "refresh_token":
            return await self._grant_from_refresh(form, client)
        if kind is None:
            raise OAuthError("invalid_request", "grant_type is missing")
        raise OAuthError("unsupported_grant_type", "grant_type is authorization_code or refresh_token")

    async def _grant_from_code(self, form: Parameters, client: OAuthClient) -> Response:
        text = form.get("code")
        if text is None:
            raise OAuthError("invalid_request", "code is missing")
        # The store has digests only: whoever reads it can't use a code or a token.
        digest = sha256(text)
        grants = self._services.grants
        now_ms = self._services.clock.now_ms()
        code = await grants.code(digest)
        if code is None:
            raise _invalid_grant("code")
        try:
            account = await self._check_code(form, client, code, now_ms)
        except OAuthError:
            # A failed attempt spends the code too, so that a thief has one try at client and verifier.
            await grants.burn(digest, now_ms=now_ms)
            raise
        grant = Grant(
            grant_id=code.grant_id,
            client_id=code.client_id,
            client_name=code.client_name,
            resource=code.resource,
            user_id=code.user_id,
            username=code.username,
            created_at=now_ms,
            target=describe_target(code.redirect_uri),
            sign_in=code.sign_in,
            client_keys=code.client_keys,
        )
        refresh = self._services.signing.issue_refresh(grant.grant_id)
        became = await grants.redeem(digest, grant, sha256(refresh), now_ms=now_ms)
        if became != "begun":
            # The store has revoked what the first use gave (RFC 6749, 4.1.2).
            if became == "used":
                _log.warning("code_replayed", grant=code.grant_id, client=short_id(code.client_id))
            raise _invalid_grant("code")
        _log.info("grant_begun", grant=grant.grant_id, client=short_id(grant.client_id))
        await self._services.clients.mark_used(client, now_ms)
        return self._issue_tokens(grant, refresh, account)

    async def _check_code(self, form: Parameters, client: OAuthClient, code: Code, now_ms: int) -> Account:
        """Check that the request matches all values to which the code is bound, and return the account."""
        if now_ms >= code.expires_at or client.client_id != code.client_id:
            raise _invalid_grant("code")
        # Byte for byte: also the port of a loopback address, which registrations ignore (RFC 6749, 4.1.3).
        if form.get("redirect_uri") != code.redirect_uri:
            raise OAuthError("invalid_grant", "redirect_uri is not the one the code was sent to")
        if not is_verifier_of(form.get("code_verifier") or "", code.challenge):
            raise OAuthError("invalid_grant", "code_verifier does not belong to the code_challenge")
        _check_resource(form, code.resource)
        return await self._check_account(code)

    async def _grant_from_refresh(self, form: Parameters, client: OAuthClient) -> Response:
        token = form.get("refresh_token")
        if token is None:
            raise OAuthError("invalid_request", "refresh_token is missing")
        signing = self._services.signing
        grants = self._services.grants
        grant_id = signing.grant_of_refresh(token)
        grant = await grants.grant(grant_id) if grant_id else None
        # A refresh token is bound to the client that got it (RFC 6749, 10.4).
        if grant is None or grant.client_id != client.client_id:
            raise _invalid_grant("refresh_token")
        # All checks before the rotation: a refused request must not spend the token of an honest client.
        _check_resource(form, grant.resource)
        account = await self._check_account(grant)
        # The provider may have changed the account's tiers since the last token.
        if self._services.sign_in.claimed is not None:
            account = await self._services.sign_in.claimed.refresh(account)
        fresh = signing.issue_refresh(grant.grant_id)
        now_ms = self._services.clock.now_ms()
        became = await grants.rotate(
            grant.grant_id, sha256(token), sha256(fresh), now_ms=now_ms, grace_ms=GRACE_S * 1000
        )
        # Each use of the previous token within its grace makes one more valid token; their number is bounded.
        if became == "crowded":
            raise OAuthError("temporarily_unavailable", "too many refreshes at once", 429, GRACE_S)
        if became != "rotated":
            # Nobody can tell the thief from the owner, so the store has ended the grant (OAuth 2.1, 4.3.1).
            if became == "stolen":
                _log.warning("refresh_reused", grant=grant.grant_id, client=short_id(grant.client_id))
            raise _invalid_grant("refresh_token")
        await self._services.clients.mark_used(client, now_ms)
        return self._issue_tokens(grant, fresh, account)

    async def _check_account(self, given: Code | Grant) -> Account:
        """Return the account behind a code or a grant; raise if it has lost its right."""
        account = await self._services.accounts.get(given.username)
        # The name of a deleted account may belong to somebody else now.
        if account is None or account.disabled or account.user_id != given.user_id:
            raise OAuthError("invalid_grant", "the account is locked")
        if not self._services.may_use(archive_of(given.resource), account):
            raise OAuthError("invalid_grant", "the archive is not open to the account")
        if account.has_second_factor and given.sign_in in ("", "password"):
            # Earlier releases did not ask for the factor here.
            await self._services.grants.revoke(given.grant_id, now_ms=self._services.clock.now_ms())
            raise OAuthError("invalid_grant", "the account has a second factor since; connect again")
        return account

    def _issue_tokens(self, grant: Grant, refresh: str, account: Account) -> Response:
        now_ms = self._services.clock.now_ms()
        end_ms = account.tiers_at(now_ms)[1]
        # A tier ends with the token; the next one is without it.
        life_s = min(ACCESS_LIFE_S, max((end_ms - now_ms) // 1000, 1)) if end_ms else ACCESS_LIFE_S
        document = {
            "access_token": self._services.access_tokens.issue(grant, life_s, account),
            "token_type": "Bearer",
            "expires_in": life_s,
            "refresh_token": refresh,
        }
        return render_document(document, headers=NO_STORE)


def is_same_resource(requested: str, resource: str) -> bool:
    """Return whether a request names this resource; one slash at the end is ignored."""
    return requested in (resource, resource + "/")


def _check_resource(form: Parameters, resource: str) -> None:
    # Optional here, as the code or the grant determines the resource already (RFC 8707, 2.2).
    requested = form.get("resource")
    if requested is not None and not is_same_resource(requested, resource):
        raise OAuthError("invalid_target", "resource is not the one that was allowed")


def _invalid_grant(what: str) -> OAuthError:
    return OAuthError("invalid_grant", f"{what} is invalid")


class RevocationEndpoint:
    """Revokes tokens."""

    def __init__(self, services: OAuthServices) -> None:
        self._services = services

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        self._services.count_request(request, "token", self._services.limits.token_calls)
        form = await read_form(request, self._services.limits.body_s)
        client = await authenticate_client(request, form, self._services, "revocation")
        token = form.once("token")
        if token is None:
            raise OAuthError("invalid_request", "token is missing")
        grant_id = self._services.signing.grant_of_refresh(token) or self._services.access_tokens.grant_of(
            token
        )
        grant = await self._services.grants.grant(grant_id) if grant_id else None
        if grant is not None:
            if grant.client_id != client.client_id:
                raise OAuthError("invalid_grant", "the token was issued to another client")
            await self._services.grants.revoke(grant.grant_id, now_ms=self._services.clock.now_ms())
        # An unknown token is a success too: the client can do nothing about it (RFC 7009, 2.2).
        return render_document({}, headers=NO_STORE)


_log = structlog.get_logger()
