"""Tiers by a claim of the provider of identities: read at each sign-in through it, and at each refresh of a grant.

    sign-in             the ID token's claim -> tiers, and the provider's refresh token, encrypted
    refresh of a grant  at most once a minute: refresh token -> new ID token -> tiers
    the provider        refuses: the tiers end    is silent: they stay, until a day after the last claim

Source: OpenID Connect Core 1.0, sections 11 and 12
"""

from __future__ import annotations

import structlog

from cluster.admin.accounts import AccountAdmin
from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.errors import Fault, Unavailable
from cluster.records.account import Account
from cluster.store.stores import Stores
from deployments.sign_in.identity_provider import Identity, IdentityProvider

EVERY_MS = 60_000
"Least time between two requests for the claims of one account, over all its clients and all replicas."
CLAIM_LIFE_MS = 24 * 3_600_000
"Time after which tiers end that the provider did not claim again."

_log = structlog.get_logger()


class ClaimedTierSync:
    """Reads the claim, and keeps what it gives in the account."""

    def __init__(self, stores: Stores, vault: Vault, provider: IdentityProvider, clock: Clock) -> None:
        self._accounts = stores.accounts
        self._admin = AccountAdmin(stores.accounts, stores.grants)
        self._vault = vault
        self._provider = provider
        self._clock = clock

    async def apply(self, account: Account, identity: Identity) -> Account:
        """Give an account the tiers that its identity claims, and return it."""
        if identity.tiers is None:
            return account
        now_ms = self._clock.now_ms()
        refresh = identity.refresh_token and self._vault.seal(identity.refresh_token, _place(account))
        return await self._admin.set_claimed_tiers(
            account, dict.fromkeys(identity.tiers, now_ms + CLAIM_LIFE_MS), refresh, now_ms
        )

    async def refresh(self, account: Account) -> Account:
        """Ask the provider for the claim of an account again, and return the account as it is then."""
        if not account.oidc_refresh or not await self._take_turn(account):
            return account
        try:
            token = self._vault.open(account.oidc_refresh, _place(account))
            identity = await self._provider.renew(token, account.oidc_subject)
        except (Unavailable, Fault) as error:
            _log.warning("claims_unread", user_id=account.user_id, reason=error.message[:200])
            return account
        if identity is None:
            return await self._admin.set_claimed_tiers(account, {}, "", self._clock.now_ms())
        if identity.tiers is None:
            # The provider sends no ID token here; the next sign-in brings one.
            return await self._replace_refresh(account, identity.refresh_token)
        return await self.apply(account, identity)

    async def _replace_refresh(self, account: Account, token: str) -> Account:
        """Store the provider's newest refresh token of an account: many providers accept each one once."""
        sealed = token and self._vault.seal(token, _place(account))

        def replace(stored: Account) -> Account:
            is_same = bool(sealed) and stored.oidc_refresh == account.oidc_refresh
            return stored.model_copy(update={"oidc_refresh": sealed}) if is_same else stored

        return await self._accounts.update(account.username, replace) or account

    async def _take_turn(self, account: Account) -> bool:
        """Return whether this request may ask: of concurrent ones only one, as providers replace refresh tokens."""
        now_ms = self._clock.now_ms()
        is_turn = False

        def take(stored: Account) -> Account:
            nonlocal is_turn
            # With another stored token, a concurrent request has asked already.
            is_turn = stored.claimed_at + EVERY_MS <= now_ms and stored.oidc_refresh == account.oidc_refresh
            return stored.model_copy(update={"claimed_at": now_ms}) if is_turn else stored

        await self._accounts.update(account.username, take)
        return is_turn


def _place(account: Account) -> str:
    # Sealed for one account: a value that is copied to another account does not open there.
    return f"refresh token of the provider, {account.user_id}"
