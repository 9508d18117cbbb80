from __future__ import annotations

import json
from typing import Any, get_args

import pytest
import structlog

from cluster import errors
from cluster.errors import KioskError, messages
from deployments.edge.http.errors import BUSY, Family, reply_from_error

FAMILIES: tuple[Family, ...] = get_args(Family)


def body_of(error: BaseException, family: Family = "message") -> tuple[int, Any]:
    reply = reply_from_error(error, family, request_id="r1")
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ReadOnly(messages.PLAYGROUND), 400),
        (errors.TooLarge("too large"), 413),
        (errors.Forbidden(messages.ROBOT), 403),
        (errors.NotFound(messages.NOT_FOUND), 404),
        (errors.Conflict("still running"), 409),
        (errors.TooMany(messages.TOO_MANY, retry_after_s=3), 429),
        (errors.Unauthenticated(messages.TOKEN_INVALID), 401),
    ],
)
def test_most_errors_are_a_message_in_every_family(error: KioskError, status: int, family: Family) -> None:
    assert body_of(error, family) == (status, {"message": error.message})


def test_each_family_has_a_specific_422() -> None:
    entry = {"loc": ["body", "field"], "msg": "field required", "type": "value_error.missing"}
    error = errors.Unprocessable("schema", detail=[entry])
    assert body_of(error, "detail") == (422, {"detail": [entry]})
    assert body_of(error, "message") == (422, {"detail": [entry]})
    assert body_of(error, "experiments") == (
        422,
        {"message": messages.EXPERIMENT_SCHEMA, "data": {"errors": [entry]}},
    )
    assert body_of(error, "upload") == (
        422,
        {"errors": True, "message": "schema", "data": ["field is invalid. field required"]},
    )


def test_upload_messages_come_as_they_are() -> None:
    error = errors.Unprocessable(messages.UPLOAD_REJECTED, messages=["data.0 is invalid. x"])
    assert body_of(error, "upload")[1]["data"] == ["data.0 is invalid. x"]


def test_malformed_is_400_but_422_for_experiments() -> None:
    entry = {"loc": ["body", 35], "msg": "Expecting ',' delimiter", "type": "value_error.jsondecode"}
    error = errors.Malformed(messages.MALFORMED, detail=[entry])
    assert body_of(error, "upload") == (400, {"message": "Malformed request.", "detail": [entry]})
    assert body_of(error, "experiments")[1]["data"] == {"errors": [entry]}
    assert body_of(errors.ReadOnly(messages.PLAYGROUND), "experiments")[0] == 400


def test_experiments_describe_a_bad_key_differently() -> None:
    error = errors.Unauthenticated(messages.INVALID_KEY)
    assert body_of(error, "experiments") == (401, {"message": messages.EXPERIMENT_KEY})
    assert body_of(error, "message") == (401, {"message": "invalid api key."})


def test_the_missing_data_set_repeats_its_status() -> None:
    reply = reply_from_error(
        errors.NotFound(messages.NOT_FOUND, status_code=True), "message", request_id="r1"
    )
    assert reply.body == b'{"status_code":404,"message":"not found"}'


@pytest.mark.parametrize(
    "error", [errors.TooMany("x", retry_after_s=3), errors.Unavailable("x", retry_after_s=3)]
)
def test_a_header_gives_the_delay(error: KioskError) -> None:
    assert reply_from_error(error, "detail", request_id="r1").headers == ((b"retry-after", b"3"),)


def test_an_outage_is_described_only_when_public() -> None:
    assert body_of(errors.Unavailable("redis://:secret@10.0.0.1")) == (503, {"message": BUSY})
    assert body_of(errors.Unavailable("The disk is full.", told=True)) == (
        503,
        {"message": "The disk is full."},
    )


def test_a_fault_is_logged_once_and_reveals_nothing() -> None:
    def fail() -> None:
        secret = "ksk_dev_CANARY"
        raise ValueError(f"could not use {secret}")

    with pytest.raises(ValueError, match="CANARY") as raised:
        fail()
    with structlog.testing.capture_logs() as lines:
        assert body_of(raised.value) == (500, {"message": messages.FAULT})
    assert len(lines) == 1
    assert (lines[0]["event"], lines[0]["request_id"], lines[0]["kind"]) == (
        "request_failed",
        "r1",
        "ValueError",
    )
    assert "test_errors" in lines[0]["place"]
    assert "CANARY" not in str(lines)


def test_every_error_of_the_tree_has_a_status() -> None:
    def kinds(kind: type[KioskError]) -> list[type[KioskError]]:
        return [kind, *(deeper for child in kind.__subclasses__() for deeper in kinds(child))]

    expected = {errors.KioskError: 500, errors.Fault: 500}
    for kind in kinds(errors.KioskError):
        if kind.__module__ != "cluster.errors":
            continue
        with structlog.testing.capture_logs():
            status, _ = body_of(kind("x"))
        assert (status == 500) == (kind in expected), kind
