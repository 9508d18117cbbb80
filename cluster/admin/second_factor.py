"""Second factors: codes of an authenticator by time (TOTP), and recovery codes.

A code is accepted once: the account remembers the last time step, and a recovery code is deleted with its use.
After 10 wrong codes in a row, codes by time are refused for an hour after each wrong one; recovery codes are not.

Source: RFC 6238; RFC 4226, section 5
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from cluster.crypto import Vault
from cluster.errors import Conflict, Fault, Invalid
from cluster.records.account import Account
from cluster.store.administration.accounts import AccountStore

STEP_S = 30
DIGITS = 6
DRIFT = 1
"Steps that an authenticator's clock may be early or late."
RECOVERY_CODES = 8
LOCKED_AFTER = 10
"Wrong codes in a row. Three of a million codes are right at a time, so nobody guesses one in ten tries."
LOCKED_MS = 3_600_000
_RECOVERY = re.compile(r"[a-z2-7]{16}")

Randomness = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class NewSecondFactor:
    """A secret that waits for its first code."""

    secret: str
    "Base32, to type into an authenticator."
    uri: str
    "The same as an address, for a QR code."
    sealed: str
    "The secret encrypted for this account; it comes back with the first code."


@dataclass(frozen=True, slots=True)
class CodeCheck:
    """Whether a code was right and unused."""

    is_right: bool
    failures: int = 0
    "Wrong codes in a row before this one."
    wait_s: int = 0
    "Seconds until a code by time is checked again; 0: it was checked."


class SecondFactors:
    """Sets up and checks second factors of accounts."""

    def __init__(
        self, accounts: AccountStore, vault: Vault, randomness: Randomness = secrets.token_bytes
    ) -> None:
        self._accounts = accounts
        self._vault = vault
        self._randomness = randomness

    def begin(self, account: Account, issuer: str) -> NewSecondFactor:
        """Return a new secret; nothing is stored before `confirm`."""
        secret = base64.b32encode(self._randomness(20)).decode()
        label = quote(f"{issuer}:{account.username}", safe="")
        uri = f"otpauth://totp/{label}?secret={secret}&issuer={quote(issuer, safe='')}"
        return NewSecondFactor(secret, uri, self._vault.seal(secret, _place(account)))

    async def confirm(self, account: Account, sealed: str, code: str, now_ms: int) -> list[str] | None:
        """Store a secret whose first code is right, and return recovery codes; None: the code is wrong.

        Errors:
            Conflict: the account has a second factor
            Invalid: `sealed` is not what `begin` returned for this account
        """
        try:
            secret = self._vault.open(sealed, _place(account))
        except Fault as error:
            # The client holds the text until now, so a wrong one is the client's fault.
            raise Invalid("this set-up is not valid any more; begin again") from error
        step = find_step(secret, code, now_ms)
        if step is None:
            return None
        codes = [base64.b32encode(self._randomness(10)).decode().lower() for _ in range(RECOVERY_CODES)]

        def change(stored: Account) -> Account:
            if stored.has_second_factor:
                raise Conflict("this account has a second factor; remove it first")
            hashes = tuple(_hash(code) for code in codes)
            # sealed anew, because the page may be older than the current master key
            totp = self._vault.seal(secret, _place(stored))
            return stored.model_copy(update={"totp": totp, "totp_step": step, "recovery_codes": hashes})

        await self._accounts.update(account.username, change)
        return codes

    async def check(self, account: Account, code: str, now_ms: int) -> CodeCheck:
        """Use a code up and return whether it was right; a wrong one counts, also when many come at once."""
        result = CodeCheck(False)

        def change(stored: Account) -> Account:
            nonlocal result
            locked_ms = stored.wrong_code_at + LOCKED_MS - now_ms if stored.wrong_codes >= LOCKED_AFTER else 0
            update = self._use(stored, code, now_ms, is_locked=locked_ms > 0)
            if update is not None:
                result = CodeCheck(True, stored.wrong_codes)
                return stored.model_copy(update={**update, "wrong_codes": 0, "wrong_code_at": 0})
            result = CodeCheck(False, stored.wrong_codes, max(0, math.ceil(locked_ms / 1000)))
            if locked_ms > 0:
                return stored
            return stored.model_copy(update={"wrong_codes": stored.wrong_codes + 1, "wrong_code_at": now_ms})

        await self._accounts.update(account.username, change)
        return result

    def needs_reseal(self, account: Account) -> bool:
        """Return whether a previous master key sealed the secret of an account."""
        return bool(account.totp) and self._reseal(account) is not account

    async def reseal(self, account: Account) -> None:
        """Seal the secret of an account with the current master key."""
        await self._accounts.update(account.username, self._reseal)

    async def remove(self, account: Account) -> None:
        """Remove the second factor and its recovery codes."""
        nothing = {"totp": "", "totp_step": 0, "recovery_codes": (), "wrong_codes": 0, "wrong_code_at": 0}
        await self._accounts.update(account.username, lambda stored: stored.model_copy(update=nothing))

    def _reseal(self, account: Account) -> Account:
        try:
            if account.totp:
                self._vault.without_previous().open(account.totp, _place(account))
            return account
        except Fault:
            secret = self._vault.open(account.totp, _place(account))
        return account.model_copy(update={"totp": self._vault.seal(secret, _place(account))})

    def _use(self, account: Account, code: str, now_ms: int, *, is_locked: bool) -> dict[str, Any] | None:
        if not account.totp:
            return None
        plain = code.replace(" ", "").replace("-", "").lower()
        # Also while it is locked, as strangers could keep it locked: nobody guesses 80 random bits.
        if _RECOVERY.fullmatch(plain):
            given = _hash(plain)
            kept = tuple(
                recovery_code
                for recovery_code in account.recovery_codes
                if not hmac.compare_digest(recovery_code, given)
            )
            return {"recovery_codes": kept} if len(kept) < len(account.recovery_codes) else None
        if is_locked:
            return None
        step = find_step(self._vault.open(account.totp, _place(account)), plain, now_ms)
        # A code counts once, also within its 30 seconds (RFC 6238, 5.2).
        return {"totp_step": step} if step is not None and step > account.totp_step else None


def find_step(secret: str, code: str, now_ms: int) -> int | None:
    """Return the time step of a code; None if it belongs to none near now."""
    code = code.replace(" ", "")
    if len(code) != DIGITS or not code.isascii() or not code.isdigit():
        return None
    # Authenticators know SHA-1 only; its weaknesses do not touch HMAC.
    totp = TOTP(base64.b32decode(secret), DIGITS, SHA1(), STEP_S)  # noqa: S303
    now = now_ms // 1000 // STEP_S
    matched = None
    for step in range(now - DRIFT, now + DRIFT + 1):
        if hmac.compare_digest(totp.generate(step * STEP_S), code.encode()):
            matched = step
    return matched


def _place(account: Account) -> str:
    return f"totp {account.user_id}"


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
