"""Limits on writes with a publishable key: which users it may name, how much it may write, how long lists live.

Every visitor of a page can read the key. So a `user_id` needs a proof (`prove_writers`), and a request carries few
events of few users. A new list of an unproven user lives for a day unless the user returns
(`cluster.store.data.append_plan`).

    {"data": [...], "user_hash": "...", "anonymous_hash": "..."}      proofs for all events of a body
    {"data": [{"type": ..., "user_id": ..., "user_hash": "..."}]}     or for one; they are not stored
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from cluster.records.validation.upload import rejected_upload_error
from cluster.store.data.append_plan import BrowserWriteLimits
from deployments.edge.access.identity_proof import ClaimedIdentity, verify_identity
from deployments.edge.http.request import ApiRequest

PROOFS = ("user_hash", "anonymous_hash", "user_type")
_DAY_MS = 86_400_000
BYTES_PER_EVENT = 2_048
"Bytes of change log that a browser event may cost on average, at the app's query rate."


class BrowserWriteCheck:
    """Checks the interactions of one request; implements `UploadCheck` for every key."""

    def __init__(self, request: ApiRequest) -> None:
        credential = request.credential
        self._request = request
        self._settings = credential.app.settings
        self._is_secret = credential.is_secret
        self._body: Mapping[str, Any] = {}
        self._items: list[Any] = []
        self._proofs: dict[int, dict[str, Any]] = {}
        self._checked: set[tuple[str, str, int]] = set()
        self._user_ids: set[str] = set()
        self._origin = "" if self._is_secret else address_pseudonym(request)
        self.proven: set[str] = set()
        "User ids that the request proved."
        self.checkouts = 0
        "Checkouts of users without proof."

    def take_proofs(self, body: dict[str, Any], items: list[Any]) -> None:
        """Remove the proofs from a body, so that its events have the documented fields only.

        Errors:
            Unprocessable: more events than a browser may send at once
        """
        most = self._settings.browser_events
        if not self._is_secret and most and len(items) > most:
            text = f"The attribute should have at most {most} entries with a publishable key."
            raise rejected_upload_error("interaction", f"data is invalid. {text}")
        self._body = body
        self._items = items
        # One search in the bytes spares a look at each event of a body without proofs.
        if b"_hash" not in self._request.body:
            return
        for at, item in enumerate(items):
            if type(item) is dict and ("user_hash" in item or "anonymous_hash" in item):
                self._proofs[at] = {name: item.pop(name) for name in PROOFS if name in item}

    def check(self, at: int, user_id: str, anonymous_id: str) -> str:
        """Check the user of one event; return the pseudonym of the address if no id is proven.

        Errors:
            Unauthenticated: a user id lacks a required proof
            Unprocessable: the request names more users than a browser may write for
        """
        if self._is_secret:
            return ""
        proof_at = at if at in self._proofs else -1
        # Each pair of ids is verified once, however many events name it.
        if (user_id, anonymous_id, proof_at) not in self._checked:
            self._checked.add((user_id, anonymous_id, proof_at))
            self._count(user_id or anonymous_id)
            self._verify(at, user_id, anonymous_id)
        if user_id in self.proven:
            return ""
        self.checkouts += self._items[at].get("type") == "checkout"
        return self._origin

    def _verify(self, at: int, user_id: str, anonymous_id: str) -> None:
        event_proofs = self._proofs.get(at, {})
        claimed = ClaimedIdentity.from_body(
            {"user_id": user_id, "anonymous_id": anonymous_id, **event_proofs}, self._body
        )
        if self._needs_proof(claimed, event_proofs):
            verify_identity(self._request, claimed)
        token = self._request.token
        if user_id and ((token is not None and token.user_id == user_id) or claimed.user_hash):
            self.proven.add(user_id)

    def _needs_proof(self, claimed: ClaimedIdentity, event_proofs: Mapping[str, Any]) -> bool:
        """Return whether the proofs of an event must be verified: if the app requires one, or if the event has one."""
        settings = self._settings
        if event_proofs or claimed.anonymous_hash:
            return True
        if not claimed.user_id:
            # The hash in the body proves its user. The visitor's events before sign-in may stand beside it.
            return settings.prove_writers and settings.strict_user_hash
        has_pair = bool(claimed.anonymous_id)
        return bool(claimed.user_hash) or settings.prove_writers or (has_pair and settings.strict_user_hash)

    def build_limits(self, now_ms: int) -> BrowserWriteLimits | None:
        """Return the write limits of this request; None for a secret key, which has no limits."""
        if self._is_secret:
            return None
        return build_browser_write_limits(self._request, now_ms, frozenset(self.proven))

    def _count(self, writer_id: str) -> None:
        self._user_ids.add(writer_id)
        most = self._settings.browser_readers
        if most and len(self._user_ids) > most:
            text = f"The entries should be of at most {most} users with a publishable key."
            raise rejected_upload_error("interaction", f"data is invalid. {text}")


def build_browser_write_limits(
    request: ApiRequest, now_ms: int, proven: frozenset[str] = frozenset()
) -> BrowserWriteLimits:
    """Return the write limits of a request with a publishable key."""
    settings = request.credential.app.settings
    return BrowserWriteLimits(
        address=daily_address_digest(request, now_ms),
        now_ms=now_ms,
        proven=proven,
        users_per_address=settings.new_readers_per_address,
        users_per_day=settings.new_readers_per_day,
        bytes_per_minute=int(settings.limits.queries_per_s * 60 * BYTES_PER_EVENT),
    )


def find_new_user_limits(request: ApiRequest, proven_id: str) -> BrowserWriteLimits | None:
    """Return how many new users this request may add; None if its key is secret or its user is proven."""
    if request.credential.is_secret or proven_id:
        return None
    return build_browser_write_limits(request, request.clock.now_ms())


def address_pseudonym(request: ApiRequest) -> str:
    """Return a pseudonym of the client's address, stable for 30 days; it counts distinct users."""
    return _digest(request, request.clock.now_ms() // (30 * _DAY_MS))


def daily_address_digest(request: ApiRequest, now_ms: int) -> str:
    """Return a digest of the client's address for one day, so that the store never holds the address."""
    return _digest(request, now_ms // _DAY_MS)


def _digest(request: ApiRequest, period: int) -> str:
    """Return a keyed digest of the client's address, which changes with each period."""
    secrets = request.credential.secrets
    # An app may have a publishable key alone; no constant key, because addresses are few enough to try all.
    key = secrets[0] if secrets else request.gate.keyring.address_key(request.app_id)
    message = f"{period}\0{request.ip}".encode("utf-8", "surrogatepass")
    return hmac.digest(key, message, "sha256").hex()[:16]
