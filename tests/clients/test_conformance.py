"""The official conformance suite against our server: what can pass passes, and what can't is named with its reason.

`tests/clients/install.sh` installs it (KIOSK_TEST_CLIENTS says where); it needs Node 22. The suite brings no token, so
a proxy adds one. Its scenarios for fixture tools, server-sent events, resources, prompts and logging ask for what the
specification of this endpoint rules out: two fixed tools, four methods, no stream, no session.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from cluster.process.free_ports import free_ports
from tests.clients.test_clients import FOLDER, NODE, ROOT, _needs

pytestmark = [pytest.mark.drill, pytest.mark.usefixtures("allow_world"), pytest.mark.timeout(600)]

SUITE = NODE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE_22 = NODE / "node_modules" / ".bin" / "node"
PASSED = {
    "server-initialize": 2,
    "ping": 2,
    "tools-list": 3,
    "dns-rebinding-protection": 2,
    "server-session-lifecycle": 0,  # no session: nothing to check
    "server-sse-multiple-streams": 0,  # a warning: no session id
    "server-sse-polling": 0,  # a warning: no events
}
"Scenarios that test what we have, and how many checks of theirs pass; none may fail."
PASSED_STATELESS = {
    "server-stateless": (21, 4),  # four ask for fixture tools
    "tools-list": (4, 0),
    "caching": (4, 3),  # three ask for prompts and resources
    "http-header-validation": (14, 0),
    "dns-rebinding-protection": (2, 0),
    "server-sse-multiple-streams": (1, 0),
}
"Scenarios of revision 2026-07-28, and how many of their checks pass and fail."
_COUNTED = re.compile(r"Passed: (\d+)/\d+, (\d+) failed")
_ACCOUNT = {"KIOSK_USER": "ida", "KIOSK_PASSWORD": "correct-horse-battery"}


@contextmanager
def _running(module: str, *ports: int) -> Iterator[None]:
    command = [sys.executable, "-m", module, *map(str, ports)]
    env = {**os.environ, **_ACCOUNT}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """A server and the proxy in front of it."""
    _needs(SUITE)
    _needs(NODE_22)
    with ExitStack() as running:
        archive, proxy = free_ports(2)
        running.enter_context(_running("tests.clients.server", archive))
        running.enter_context(_running("tests.clients.bearer_proxy", proxy, archive))
        yield archive, proxy


@pytest.mark.parametrize("scenario", list(PASSED))
def test_a_scenario_of_the_suite_passes(scenario: str, ports: tuple[int, int]) -> None:
    url = f"http://localhost:{ports[1]}/mcp"
    output = _suite("server", "--url", url, "--scenario", scenario)
    assert _counted(output) == (PASSED[scenario], 0), output


@pytest.mark.parametrize("scenario", list(PASSED_STATELESS))
def test_a_scenario_of_the_stateless_revision_passes(scenario: str, ports: tuple[int, int]) -> None:
    url = f"http://localhost:{ports[1]}/mcp"
    output = _suite("server", "--url", url, "--scenario", scenario, "--spec-version", "2026-07-28")
    assert _counted(output) == PASSED_STATELESS[scenario], output


def test_the_suite_signs_in_and_finds_no_fault_with_the_authorization_server(
    ports: tuple[int, int], tmp_path: Path
) -> None:
    archive, callback = ports[0], free_ports(1)[0]
    origin = f"http://127.0.0.1:{archive}"
    client = _registered(origin, f"http://127.0.0.1:{callback}/callback")
    given = ["--url", f"{origin}/archive", "--client-id", client, "--port", str(callback)]
    output = tmp_path / "told.txt"
    with output.open("w") as stream:
        command = [str(NODE_22), str(SUITE), "authorization", *given]
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    try:
        address = _shown(output, process)
        env = {**os.environ, **_ACCOUNT}
        subprocess.run([sys.executable, str(FOLDER / "browser.py"), address], env=env, check=True, timeout=60)
        process.wait(60)
    finally:
        process.kill()
        process.wait(10)
    log = output.read_text()
    assert "✗" not in log, log
    assert log.count("✓") >= 2, log


def _suite(*arguments: str) -> str:
    run = subprocess.run(
        [str(NODE_22), str(SUITE), *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    return run.stdout + run.stderr


def _counted(output: str) -> tuple[int, int]:
    match = _COUNTED.search(output)
    assert match is not None, output
    return int(match[1]), int(match[2])


def _shown(output: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait for the address the suite wants to be opened."""
    for _ in range(300):
        match = re.search(r"http://\S+/oauth/authorize/archive\?\S+", output.read_text())
        if match:
            return match[0]
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(output.read_text())


def _registered(origin: str, redirect: str) -> str:
    body = {"client_name": "suite", "redirect_uris": [redirect], "token_endpoint_auth_method": "none"}
    request = urllib.request.Request(
        f"{origin}/oauth/register", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        client: str = json.load(reply)["client_id"]
    return client
