"""What a question may carry that comes with a publishable key: its answer is kept, and shown to whoever has its id."""

from __future__ import annotations

import orjson

from deployments.api.http.confidential_fields import check_format
from deployments.api.wire.ask import AnswerFormatBody, AskBody
from deployments.api.wire.faults import refuse
from deployments.edge.request import ApiRequest

MOST_METADATA = 4 << 10
"Bytes of `metadata` as JSON."
_MARKUP = frozenset("<>&")


def check_browser_question(request: ApiRequest, body: AnswerFormatBody) -> None:
    """Check metadata and format of a question.

    Errors:
        Unprocessable
    """
    if not request.credential.is_secret:
        _check_metadata(body)
        check_browser_format(request, body)


def check_browser_format(request: ApiRequest, body: AnswerFormatBody) -> None:
    """Check that no mark of a citation is markup: pages put answers into their HTML.

    Errors:
        Unprocessable
    """
    if request.credential.is_secret:
        return
    check_format(request, body)
    for name in ("cite_start", "cite_end"):
        mark = getattr(body, name) or ""
        if any(char in _MARKUP or not char.isprintable() for char in mark):
            refuse("ensure this value has no <, > or &, and no control characters", name)


def _check_metadata(body: AskBody) -> None:
    for name, value in (("metadata", body.metadata), ("_meta", body.meta)):
        if value and len(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)) > MOST_METADATA:
            refuse(f"ensure this value has at most {MOST_METADATA} bytes", name, kind="value_error.size")
