"""The order of the checks of a request. The first failed check answers.

    admit             key (401) -> access (403) -> robot (403) -> rate (429) -> read-only (400) -> space (503)
                      -> size (413)
    validate_request  JSON (400) -> token (401) -> schema (422) -> user_hash (401)
    then the endpoint: engine and record (404)

The two halves are separate because the `Idempotency-Key` is looked up between them: a repeated reply may be a refusal
of the second half.

The replies are listed in `docs/reference/errors.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import structlog

from cluster.errors import Forbidden, ReadOnly, Unauthenticated, Unavailable, messages
from cluster.meter import Meter
from cluster.records.validation.json_limits import load_json
from deployments.edge.access.identity_proof import ClaimedIdentity, verify_identity
from deployments.edge.access.keyring import Keyring
from deployments.edge.access.robot_detection import detect_robot
from deployments.edge.access.tokens import check_same_user, verify_token
from deployments.edge.http.credentials import (
    HEADER,
    Credential,
    UserToken,
    check_single_key,
    find_key,
    key_fault,
    parse_bearer,
)
from deployments.edge.http.request import ApiRequest, read_body
from deployments.edge.limits.leased_buckets import RateLimiter

KEYS_NOT_LOADED = "keys are not loaded yet"

_log = structlog.get_logger()

# A longer parse on the loop would delay every other request of this process.
_INLINE = 200_000
"Bytes of body that are parsed on the event loop; larger bodies are parsed in a thread."


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What an endpoint requires of a request."""

    publishable: bool = False
    "Whether publishable keys may call it."
    publishable_by: str = ""
    "Name of the app's setting that allows publishable keys; empty: none."
    bucket: Literal["query", "write"] = "query"
    writes: bool = False
    "Whether it writes: the playground refuses it, and it accepts an Idempotency-Key."
    body: Literal["ignored", "json", "raw"] = "ignored"
    "`raw`: the schema step parses the JSON itself."
    reads_token: bool = False
    token_in_body: bool = False
    proves_user: bool = False
    "Whether a publishable key must prove a `user_id` by `user_hash` or token."
    proves_writer: bool = False
    "The same if the app's setting `prove_writers` is on."
    proves_asker: bool = False
    "The same as `proves_writer`, for a `user_id` only: a visitor without one stays unproven."
    browser_bytes: int = 1 << 20
    "Largest body with a publishable key, in bytes."


def _ignore_identities(request: ApiRequest) -> None:
    """Leave the ids of a request unlinked."""


class AdmissionServices:
    """What admission depends on."""

    def __init__(
        self,
        keyring: Keyring,
        limits: RateLimiter,
        meter: Meter,
        *,
        most_bytes: int,
        why_no_writes: Callable[[], str] = str,
        link_identities: Callable[[ApiRequest], None] = _ignore_identities,
    ) -> None:
        self.keyring = keyring
        self.limits = limits
        self.meter = meter
        self.most_bytes = most_bytes
        self.why_no_writes = why_no_writes
        "Returns why writes are refused now (a full disk); empty while they are allowed."
        self.link_identities = link_identities
        "Called with every answered request that names a visitor."


async def admit(request: ApiRequest, rules: AdmissionRules, gate: AdmissionServices) -> None:
    """Check key, access, rate and body of a request; set `request.credential` and `request.body`.

    Errors:
        Unauthenticated, Forbidden, TooMany, ReadOnly, TooLarge, Malformed: the request is refused
        ClientDisconnected: the client left before the end of the body
        Unavailable: no keys were read yet, or writes are refused
    Cost: 6 microseconds for a secret key without a body.
    """
    headers = request.headers
    credential = None
    # `headers` is a mapping: equal lengths mean that no name occurs twice, which is nearly always so.
    if len(headers) == len(request.scope["headers"]) or not _has_conflicting_headers(request):
        header = headers.get(HEADER)
        if not header:
            check_single_key(request.query_string)
        credential = gate.keyring.find(find_key(header, request.query_string))
    if credential is None:
        # A 401 would tell clients that their keys are wrong, and HAProxy counts it against their addresses.
        if not gate.keyring.ready:
            raise Unavailable(KEYS_NOT_LOADED, retry_after_s=1)
        fault = key_fault(headers.get(HEADER), request.query_string, headers.get(b"authorization"))
        raise Unauthenticated(messages.INVALID_KEY, key_fault=fault)
    request.credential = credential
    request.has_key = True
    request.gate = gate
    await check_access(request, rules, gate)
    if rules.body != "ignored":
        most_bytes = gate.most_bytes if credential.is_secret else min(rules.browser_bytes, gate.most_bytes)
        # After key and rate, so that nobody makes this server read megabytes without a key.
        request.body = await read_body(
            request.receive,
            announced=headers.get(b"content-length"),
            encoding=headers.get(b"content-encoding"),
            most_bytes=most_bytes,
        )


async def check_access(
    request: ApiRequest, rules: AdmissionRules, gate: AdmissionServices, *, spend: bool = True
) -> None:
    """Check whether a valid key may call this endpoint now; a bulk call repeats this for each request in it.

    Errors:
        Forbidden, TooMany, ReadOnly, Unavailable
    """
    credential = request.credential
    if not credential.is_secret:
        if not (rules.publishable or _is_switched_on(credential, rules.publishable_by)):
            raise Forbidden(messages.SECRET_ONLY)
        _check_robot(request, credential, gate.meter)
    # Browsers send `Origin`, servers do not: a secret key in a page is one that every visitor can read.
    elif b"origin" in request.headers:
        _check_origin(request, credential, gate)
    if spend:
        # Everybody has a publishable key, so its rate is also bounded for each address.
        address = "" if credential.is_secret else request.ip
        await gate.limits.spend(credential, rules.bucket, address)
    if rules.writes:
        if credential.app.read_only:
            raise ReadOnly(messages.PLAYGROUND)
        reason = gate.why_no_writes()
        if reason:
            raise Unavailable(reason, retry_after_s=10, told=True)


def refresh_credential(credential: Credential, gate: AdmissionServices) -> Credential:
    """Look the key of a request up again, with the current settings of its app.

    Errors:
        Unauthenticated: it was revoked
    """
    live = gate.keyring.find(credential.text)
    if live is None:
        raise Unauthenticated(messages.INVALID_KEY)
    return live


async def validate_request(
    request: ApiRequest, rules: AdmissionRules, schema: Callable[[Any], Any] | None
) -> None:
    """Validate the body of a request; set `request.payload` and `request.parsed`.

    `schema` is called with the request.

    Errors:
        Malformed, Unauthenticated, Unprocessable
    """
    if len(request.body) > _INLINE:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, _examine, request, rules, schema)
    else:
        _examine(request, rules, schema)


def _examine(request: ApiRequest, rules: AdmissionRules, schema: Callable[[Any], Any] | None) -> None:
    if rules.body == "json":
        request.payload = load_json(request.body, refuse_duplicates=rules.writes)
    if rules.reads_token:
        try:
            _read_token(request, rules)
        except Unauthenticated:
            if rules.body == "raw":
                # The schema step would have parsed it; invalid JSON is reported before an invalid token.
                load_json(request.body, refuse_duplicates=True)
            raise
    if schema is not None:
        request.parsed = schema(request)
    credential = request.credential
    if not credential.is_secret and (
        rules.proves_user or (rules.proves_writer and credential.app.settings.prove_writers)
    ):
        verify_identity(request, ClaimedIdentity.from_body(request.payload))
    elif rules.proves_asker and not credential.is_secret and credential.app.settings.prove_writers:
        claimed = ClaimedIdentity.from_body(request.payload)
        if claimed.user_id:
            verify_identity(request, claimed)


def _is_switched_on(credential: Credential, switch: str) -> bool:
    return bool(switch) and getattr(credential.app.settings, switch) is True


def _check_robot(request: ApiRequest, credential: Credential, meter: Meter) -> None:
    rule = credential.app.settings.bot_rule
    if rule == "off":
        return
    reason = detect_robot(request.headers.get(b"user-agent"))
    if not reason:
        return
    request.is_automated = True
    meter.count("kiosk_robot_requests", app=credential.app.app_id, reason=reason)
    _log.info(
        "robot_suspected",
        request_id=request.request_id,
        app=credential.app.app_id,
        reason=reason,
        refused=rule == "on",
        advice=f"kiosk apps switch {credential.app.app_id} bot_rule={'log' if rule == 'on' else 'on'}",
    )
    if rule == "on":
        raise Forbidden(messages.ROBOT)


def _check_origin(request: ApiRequest, credential: Credential, gate: AdmissionServices) -> None:
    """Record a secret key that a page of another origin sent; Kiosk's pages may hold the key of their user.

    Errors:
        Forbidden: the app refuses such requests
    """
    headers = request.headers
    # Without the scheme, because `Host` has none to compare with.
    _, _, origin = headers[b"origin"].partition(b"://")
    if origin and origin == headers.get(b"host"):
        return
    gate.keyring.record_exposed(credential, request.clock.now_ms(), in_browser=True)
    gate.meter.count("kiosk_secret_keys_in_browsers", app=credential.app.app_id)
    rule = credential.app.settings.secret_key_in_browser
    if rule == "refuse":
        raise Forbidden(messages.SECRET_IN_BROWSER)


def _has_conflicting_headers(request: ApiRequest) -> bool:
    """Return whether an identity header occurs twice with different values."""
    for name in (HEADER, b"authorization"):
        if len({value for header, value in request.scope["headers"] if header == name}) > 1:
            return True
    return False


def verify_bearer_token(request: ApiRequest) -> UserToken | None:
    """Return the token in the header; None without one.

    Errors:
        Unauthenticated
    """
    text = parse_bearer(request.headers.get(b"authorization"))
    return None if text is None else _verify_token(request, text)


def _verify_token(request: ApiRequest, text: str) -> UserToken:
    credential = request.credential
    settings = credential.app.settings
    secrets = credential.token_keys if settings.derived_token_key else credential.secrets
    now_ms = request.clock.now_ms()
    token = verify_token(text, secrets, now_s=now_ms / 1000, max_age_s=settings.token_max_age_h * 3600)
    request.gate.keyring.ended_tokens.check(request.app_id, token, now_ms)
    return token


def _read_token(request: ApiRequest, rules: AdmissionRules) -> None:
    text = parse_bearer(request.headers.get(b"authorization"))
    payload = request.payload
    if text is None and rules.token_in_body and type(payload) is dict and "jwt_token" in payload:
        text = _field(request, "jwt_token") or None
    if text is None:
        return
    token = _verify_token(request, text)
    check_same_user(token, _field(request, "user_id"), _field(request, "user_type"))
    request.token = token


def _field(request: ApiRequest, name: str) -> str:
    """Return a text field of a JSON object; empty if it is absent. The schema refuses values of other types."""
    payload = request.payload
    value = payload.get(name) if isinstance(payload, dict) else None
    return value if isinstance(value, str) else ""
