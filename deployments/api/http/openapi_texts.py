"""Who may call an operation, and what each status means there, in words and as OpenAPI security."""

from __future__ import annotations

from deployments.api.http.endpoint import Endpoint

_PROOF = "With a publishable key a `user_id` needs its `user_hash` or a reader token."
_WRITER_PROOF = (
    "With a publishable key a `user_id` needs its `user_hash` or a reader token where the app's switch "
    "`prove_writers` is on, as in `production`."
)
_ASKER_PROOF = (
    "With a publishable key a `user_id` without `user_hash` or reader token is not trusted: the question is answered "
    "and does not join that user's history."
)
_READER = "It needs a reader token; a secret key names the user in `user_id` instead."


def list_security(endpoint: Endpoint) -> list[dict[str, list[str]]]:
    """List the combinations of keys and tokens that an endpoint takes."""
    rules = endpoint.rules
    ways: list[dict[str, list[str]]] = [{"SecretKey": []}]
    if not (rules.publishable or rules.publishable_by):
        return ways
    if not endpoint.about.needs_user:
        ways.append({"PublishableKey": []})
    if rules.reads_token:
        ways.append({"PublishableKey": [], "ReaderToken": []})
    return ways


def describe_keys(endpoint: Endpoint) -> str:
    """Say who may call an endpoint."""
    rules = endpoint.rules
    if rules.publishable_by:
        words = f"**Keys:** secret key. A publishable key needs the app's switch `{rules.publishable_by}`."
    elif not rules.publishable:
        words = "**Keys:** secret key only. A publishable key gets 403."
    elif endpoint.about.needs_user:
        words = f"**Keys:** secret or publishable key. {_READER}"
    else:
        words = f"**Keys:** secret or publishable key.{_describe_proof(endpoint)}"
    return f"{words} The read-only `playground` refuses it." if rules.writes else words


def _describe_proof(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    if rules.proves_reader:
        return f" {_PROOF}"
    if rules.proves_writer or (rules.writes and rules.reads_token):
        return f" {_WRITER_PROOF}"
    return f" {_ASKER_PROOF}" if rules.reads_token else ""


def describe_status(status: int, endpoint: Endpoint, missing: str) -> str:
    """Say what a status means at an endpoint; `missing` is the text of its 404."""
    if status in (400, 422):
        return _bad_request(endpoint) if status == 400 else _unprocessable(endpoint)
    if status == 403:
        return _forbidden(endpoint)
    if status == 404:
        return missing
    if status == 413:
        return _too_large(endpoint)
    if status == 401:
        proof = (
            " Or the `user_hash` or reader token is missing, expired or wrong."
            if _has_proof(endpoint)
            else ""
        )
        return f"The key is missing or unknown.{proof}"
    return _EVERYWHERE[status]


_EVERYWHERE = {
    200: "Success.",
    409: "A request with this `Idempotency-Key` is still running, or the change contradicts the stored state.",
    429: "Over the rate limit of the key or of the address, or the service is overloaded. Retry after `Retry-After` s.",
    500: "A fault of the server. Retry; when it stays, tell the operator the `X-Request-Id`.",
    503: "The server is busy or restarting. Wait `Retry-After` seconds and retry.",
}


def _has_proof(endpoint: Endpoint) -> bool:
    rules = endpoint.rules
    return rules.reads_token or rules.proves_reader or rules.proves_writer


def _bad_request(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    reasons = []
    if rules.body != "ignored" and endpoint.family != "experiments":
        reasons.append("The body is not valid JSON; the message says where.")
    if rules.writes:
        reasons.append("The app is the read-only playground, or the write took too long.")
    return " ".join(reasons)


def _unprocessable(endpoint: Endpoint) -> str:
    if endpoint.family == "upload":
        text = "A record is invalid, and nothing was stored. `data` has one sentence for each invalid record."
    elif endpoint.family == "experiments":
        text = (
            "The body is not valid JSON, or a field is invalid. `data.errors` has one entry for each fault."
        )
    else:
        text = "A field is missing, unknown or invalid. `detail` has one entry for each fault."
    repeated = " Or the `Idempotency-Key` was used with another request."
    return text + repeated if endpoint.rules.writes else text


def _forbidden(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    if rules.publishable:
        return "The request looks automated, and the app's switch `bot_rule` refuses such requests with this key."
    return "A publishable key may not call this operation. Use the secret key, from a server."


def _too_large(endpoint: Endpoint) -> str:
    rules = endpoint.rules
    text = "The body is larger than 32 MiB (setting `KIOSK_MAX_BODY_MB`)."
    if not (rules.publishable or rules.publishable_by):
        return text
    return f"{text[:-1]}, or than {rules.browser_bytes >> 10} KiB with a publishable key."
