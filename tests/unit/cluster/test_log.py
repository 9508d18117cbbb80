"""What may never stand in a log line, and that striking it out stays cheap."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import time

import pytest
import structlog

from cluster.crypto import mint_key
from cluster.log import redact, set_up_logging

SECRET = mint_key("secret", "development")
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (f"key {SECRET} refused", SECRET[8:]),
        (f"GET /v1/users/x?api_key={SECRET}&a=b", "a=b"),
        ("GET /v1/users/x?note=CANARY", "CANARY"),
        (f"Authorization: Bearer {TOKEN}", TOKEN),
        (f"token {TOKEN}", "c2lnbmF0dXJl"),
        ("unix://:s3cret@/tmp/redis.sock away", "s3cret"),
        ("redis://user:s3cret@host:1/0", "s3cret"),
        ('{"user_hash": "CANARY"}', "CANARY"),
        ("requirepass CANARY", "CANARY"),
    ],
    # Names of their own: a key is random, and test workers must agree on the names.
    ids=["key", "key in an address", "query", "header", "token", "socket", "server", "JSON", "password"],
)
def test_secrets_and_query_strings_are_struck_out(text: str, hidden: str) -> None:
    assert hidden in text
    assert hidden not in redact(text)


@pytest.mark.parametrize("text", ["is this right? yes", "redis://host:6379/0", "task 1 of app playground"])
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "seed", ["/", "?", "eyJ-", "bearer ", "password ", "a://", "ksk_dev_", "user_hash\t", "eyJaaaa.", "a:/@"]
)
def test_hostile_text_costs_linear_time(seed: str) -> None:
    def cost(size: int) -> float:
        text = seed * (size // len(seed))
        best = 1e9
        for _ in range(3):
            begin = time.thread_time()
            redact(text)
            best = min(best, time.thread_time() - begin)
        return best

    small, large = cost(20_000), cost(160_000)
    assert large < 8 * 6 * max(small, 1e-4)


def test_events_of_ours_and_of_libraries_are_cleaned() -> None:
    stream = io.StringIO()
    try:
        set_up_logging(stream=stream)
        structlog.get_logger("fresh").info(
            "key_refused", key=SECRET, redis_url="unix://:p@/x", app="playground"
        )
        try:
            raise ValueError(f"bad key {SECRET}")
        except ValueError:
            structlog.get_logger("fresh").exception("step_failed", password="hunter2", raw=b"bytes")
        logging.getLogger("library").warning("GET %s", f"/v1/x?api_key={SECRET}")
    finally:
        structlog.reset_defaults()
        logging.basicConfig(level=logging.WARNING, handlers=[], force=True)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    assert SECRET[8:] not in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    first = json.loads(lines[0])
    assert (first["event"], first["redis_url"], first["app"]) == ("key_refused", "***", "playground")


def test_a_process_names_itself_in_every_line_also_in_those_of_libraries() -> None:
    out = io.StringIO()
    set_up_logging(stream=out, process="api")
    try:
        structlog.get_logger().info("keys_loaded", request_id="r1")
        try:
            raise ValueError(f"broken by {SECRET}")
        except ValueError:
            structlog.get_logger().exception("request_failed", request_id="r2")
            logging.getLogger("a.library").exception("it said %s", SECRET)
    finally:
        set_up_logging()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines[:2]] == ["keys_loaded", "request_failed"]
    assert {(line["process"], line["pid"]) for line in lines} == {("api", os.getpid())}
    assert [line["level"] for line in lines] == ["info", "error", "error"]
    assert len(lines) == 3, "a traceback stays in its line"
    assert "ValueError" in lines[1]["exception"]
    assert "ValueError" in lines[2]["exception"]
    assert lines[2]["logger"] == "a.library"
    assert SECRET[8:] not in out.getvalue()


def test_lines_reach_the_standard_error_at_once_when_serve_replaced_it() -> None:
    code = """
import os, signal, sys
class Holds:
    def write(self, text): pass
    def flush(self): pass
sys.stderr = Holds()
import structlog
from cluster.log import open_stderr, set_up_logging
set_up_logging(stream=open_stderr(), process="api")
structlog.get_logger().info("keys_loaded")
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert json.loads(done.stderr)["event"] == "keys_loaded"
