"""Sign-in through the provider of identities."""

from __future__ import annotations

import hmac
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from cluster.errors import NotFound, TooMany
from cluster.records.account import Account
from deployments.console.page import Page
from deployments.console.pages.access.signin import HOME, go_on, show_form
from deployments.console.request import ConsoleRequest
from deployments.edge.limits.token_buckets import BucketRate
from deployments.sign_in.identity_provider import Identity, IdentityProvider, SignInFlow
from deployments.sign_in.sessions import PATH
from deployments.sign_in.sign_in import SignInResult, safe_redirect

CALLBACK = "/sign-in/provider/callback"
FLOW_S = 600
ANSWERS = BucketRate(0.5, 60)
"Answers of the provider from one address; each makes this server send a request to the provider."


async def begin(request: ConsoleRequest) -> Response:
    """Lead the browser to the provider."""
    provider = _provider(request)
    address, flow = await provider.begin(_callback(request))
    response = request.redirect("/", external=address)
    value = {
        **asdict(flow),
        "goal": safe_redirect(request.query.get("next", "")),
        "till": request.services.clock.now_ms() // 1000 + FLOW_S,
    }
    sealed = request.services.signing.steps.seal(value)
    request.sessions.set_flow(response, sealed, FLOW_S, secure=request.secure)
    return response


async def finish(request: ConsoleRequest) -> Response:
    """Sign somebody in whom the provider sent back.

    Errors:
        TooMany: one address sends answers of the provider too often
    """
    provider = _provider(request)
    services = request.services
    browser = services.browser(request.raw)
    value = services.signing.steps.open(request.sessions.flow(request.raw, secure=request.secure))
    flow = _flow(value, services.clock.now_ms() // 1000)
    # Many providers send no `iss`; one that is sent must be right (RFC 9207, 2.4).
    issuer = request.query.get("iss", provider.config.issuer)
    state = request.query.get("state", "")
    code = request.query.get("code", "")
    # Without the state, an attacker could sign a victim into the attacker's account with a code of their own.
    same = flow is not None and hmac.compare_digest(flow.state.encode(), state.encode("utf-8", "replace"))
    if flow is None or value is None or not same or not code or issuer != provider.config.issuer:
        return show_form(request, HOME, services.text("signin.provider_failed"), 403)
    # The goal is read from the sealed cookie only, so no link can lead to another site after the sign-in.
    goal = safe_redirect(value["goal"])
    wait_s = services.limits.wait_s("provider", browser.address, ANSWERS)
    if wait_s:
        raise TooMany(services.text("error.too_many"), retry_after_s=wait_s)
    identity = await provider.finish(_callback(request), flow, code)
    if identity is None:
        await services.sign_in.record_refused_identity(browser, None, "the provider confirmed no identity")
        return show_form(request, goal, services.text("signin.provider_failed"), 403)
    account = await find_account(request, identity)
    if account is None:
        await services.sign_in.record_refused_identity(browser, None, "identity without an account")
        name = identity.email or identity.subject.partition(" ")[2]
        return show_form(request, goal, services.text("signin.provider_unknown", name=name), 403)
    if services.sign_in.claimed is not None:
        account = await services.sign_in.claimed.apply(account, identity)
    response = await go_on(request, SignInResult(account, "identity provider"), goal)
    # A flow serves once: a second answer with the same state finds no cookie.
    request.sessions.set_flow(response, "", 0, secure=request.secure)
    return response


async def find_account(request: ConsoleRequest, identity: Identity) -> Account | None:
    """Return the account of an identity; none is ever created.

    The subject decides. An account without one, whose name is the verified address of the identity, is bound to it.
    """
    accounts = request.services.accounts
    bound = [account for account in await accounts.all() if account.oidc_subject == identity.subject]
    if bound:
        return None if bound[0].disabled else bound[0]
    account = await accounts.get(identity.email) if identity.email else None
    # An address can pass to another person at the provider; an account that is bound stays with its first
    # identity.
    if account is None or account.disabled or account.oidc_subject:
        return None

    def bind(account: Account) -> Account:
        return (
            # Looked at again inside of the update, because two identities may claim the account at once.
            account if account.oidc_subject else account.model_copy(update={"oidc_subject": identity.subject})
        )

    account = await accounts.update(identity.email, bind)
    return account if account is not None and account.oidc_subject == identity.subject else None


def _provider(request: ConsoleRequest) -> IdentityProvider:
    provider = request.services.sign_in.provider
    if provider is None:
        raise NotFound(request.services.text("error.not_found"))
    return provider


def _callback(request: ConsoleRequest) -> str:
    return request.services.origin(request.raw) + PATH + CALLBACK


def _flow(value: Any, now_s: int) -> SignInFlow | None:
    if not isinstance(value, dict) or "verifier" not in value or value["till"] <= now_s:
        return None
    return SignInFlow(value["state"], value["nonce"], value["verifier"])


PAGES = (
    Page("/sign-in/provider", begin, role=None, is_public=True),
    Page(CALLBACK, finish, role=None, is_public=True),
)
