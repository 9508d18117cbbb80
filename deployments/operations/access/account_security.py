"""What people change about their own account: the password, the second factor, and all sessions.

A password or a code is needed each time, and only the console may ask: a leaked token must not become a password.
"""

from __future__ import annotations

import asyncio
import math
import secrets

from pydantic import Field

from cluster.admin.accounts import AccountAdmin
from cluster.admin.second_factor import SecondFactors
from cluster.errors import Conflict, Forbidden, Invalid, TooMany
from cluster.records.account import Account, check_password
from deployments.operations.framework.operation import Arguments, operation
from deployments.operations.framework.result_table import PlainResult
from deployments.operations.framework.services import AdminServices

ISSUER = "Kiosk"
LIMITED = "kiosk:admin"
"Replaces the app id in limits; no app can have this id."


class ChangePassword(Arguments):
    """Arguments of `me.change_password`."""

    current: str = Field(max_length=256)
    new: str = Field(max_length=256, description="At least 10 characters.")


class ProvePassword(Arguments):
    """Arguments of `me.begin_second_factor`."""

    password: str = Field(max_length=256)


class ConfirmSecondFactor(Arguments):
    """Arguments of `me.confirm_second_factor`."""

    pending: str = Field(max_length=500, description="What `me.begin_second_factor` returned.")
    code: str = Field(max_length=20)


class ProveCode(Arguments):
    """Arguments of `me.remove_second_factor`."""

    code: str = Field(max_length=40, description="A code of the authenticator, or a recovery code.")


@operation("me.change_password", "PUT", "/me/password", scope="person", secret_fields={"current", "new"})
async def change_password(services: AdminServices, given: ChangePassword) -> PlainResult:
    """Change your password; for the console.

    All sessions, tokens and connections of the principal end.

    Errors:
        Forbidden: not from the console
        Invalid: the current password is wrong, or the new one is not allowed
    """
    account = await _account(services)
    await _count_attempt(services, account)
    await _check_password(account, given.current)
    if given.new == given.current:
        raise Invalid("the new password is the old one")
    people = AccountAdmin(services.stores.accounts, services.stores.grants)
    if not given.new:
        raise Invalid("the new password is empty")
    await people.set_password(account.username, given.new, services.now_ms())
    return PlainResult({"username": account.username, "password_changed": True})


@operation(
    "me.begin_second_factor",
    "POST",
    "/me/second-factor",
    scope="person",
    secret_fields={"password"},
    secret_results={"pending", "secret", "uri"},
)
async def begin_second_factor(services: AdminServices, given: ProvePassword) -> PlainResult:
    """Begin to set up a second factor; for the console.

    The secret takes effect with `me.confirm_second_factor`.

    Errors:
        Forbidden: not from the console
        Conflict: the account has a second factor
        Invalid: the password is wrong
    """
    account = await _account(services)
    if account.has_second_factor:
        raise Conflict("this account has a second factor; remove it first")
    await _count_attempt(services, account)
    await _check_password(account, given.password)
    fresh = _factors(services).begin(account, ISSUER)
    facts = {"secret": fresh.secret, "uri": fresh.uri, "pending": fresh.sealed}
    return PlainResult({"username": account.username, **facts})


@operation(
    "me.confirm_second_factor",
    "PUT",
    "/me/second-factor",
    scope="person",
    secret_fields={"code", "pending"},
    secret_results={"recovery_codes"},
)
async def confirm_second_factor(services: AdminServices, given: ConfirmSecondFactor) -> PlainResult:
    """Switch the second factor on with its first code; for the console.

    Sessions and connected applications that the password alone made end.

    Errors:
        Forbidden: not from the console
        Conflict: the account has a second factor
        Invalid: the code is wrong
    """
    account = await _account(services)
    await _count_attempt(services, account)
    codes = await _factors(services).confirm(account, given.pending, given.code, services.now_ms())
    if codes is None:
        raise Invalid("this code is wrong; check the clock of the phone, and type the newest code")
    await services.stores.grants.revoke_user(account.user_id, now_ms=services.now_ms())
    return PlainResult({"username": account.username, "second_factor": True, "recovery_codes": codes})


@operation("me.remove_second_factor", "DELETE", "/me/second-factor", scope="person", secret_fields={"code"})
async def remove_second_factor(services: AdminServices, given: ProveCode) -> PlainResult:
    """Switch the second factor off; for the console.

    Errors:
        Forbidden: not from the console
        Invalid: the code is wrong
        TooMany: ten wrong codes in a row, within the hour
    """
    account = await _account(services)
    factors = _factors(services)
    await _count_attempt(services, account)
    check = await factors.check(account, given.code, services.now_ms())
    if check.wait_s:
        raise TooMany("too many wrong codes; use a recovery code, or wait", retry_after_s=check.wait_s)
    if not check.is_right:
        raise Invalid("this code is wrong, or was used before")
    await factors.remove(account)
    return PlainResult({"username": account.username, "second_factor": False})


@operation("me.end_sessions", "DELETE", "/me/sessions", scope="person")
async def end_sessions(services: AdminServices, _: Arguments) -> PlainResult:
    """End all your browser sessions; for the console.

    Errors:
        Forbidden: not from the console
    """
    account = await _account(services)
    await services.stores.accounts.end_sessions(account.user_id, secrets.token_urlsafe(9))
    return PlainResult({"username": account.username, "sessions_ended": True})


async def _account(services: AdminServices) -> Account:
    principal = services.principal
    account = await services.stores.accounts.get(principal.username) if principal.way == "console" else None
    if account is None or account.user_id != principal.user_id:
        raise Forbidden("people change their own account in the console")
    return account


async def _count_attempt(services: AdminServices, account: Account) -> None:
    """Count an attempt at the password or a code, so that a stolen session can't guess them.

    Errors:
        TooMany: too many attempts at this account
    """
    # Ten attempts at once, then one in half a minute: 2,880 guesses a day.
    grant = await services.stores.limits.take(
        LIMITED, account.user_id, "credentials", rate=1 / 30, burst=10, want=1, now_ms=services.now_ms()
    )
    if not grant.granted:
        wait_s = max(1, math.ceil(grant.retry_after_ms / 1000))
        raise TooMany(f"too many attempts; try again in {wait_s} seconds", retry_after_s=wait_s)


async def _check_password(account: Account, password: str) -> None:
    if not await asyncio.to_thread(check_password, password, account.password):
        raise Invalid("the current password is wrong")


def _factors(services: AdminServices) -> SecondFactors:
    return SecondFactors(services.stores.accounts, services.vault)
