"""The clients people really use, unchanged, from discovery to a cited article; sign-in page included.

They are installed by `tests/clients/install.sh` (KIOSK_TEST_CLIENTS says where) and skipped where they are not.
Against a running installation: KIOSK_CLIENTS_URL, KIOSK_USER, KIOSK_PASSWORD and KIOSK_CLIENTS_QUESTION.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from cluster.process.free_ports import free_ports
from tests.clients.server import DOCUMENT

pytestmark = [pytest.mark.drill, pytest.mark.usefixtures("allow_world")]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
ROOMS = Path(os.environ.get("KIOSK_TEST_CLIENTS", ROOT / ".clients"))
NODE = ROOMS / "node"
LIVE = os.environ.get("KIOSK_CLIENTS_URL", "")
QUESTION = os.environ.get("KIOSK_CLIENTS_QUESTION", "river water rules")
ADDRESS = re.compile(r"https?://\S+/oauth/authorize/archive\?\S+")
REFUSED = "product_id and offset were not returned by ask_archive; call ask_archive first"
PROCESS_S = 90
STATELESS = "2026-07-28"
TOOLS = ["ask_archive", "get_archive_article", "check_citations"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server and the environment clients are run in."""
    home = tmp_path_factory.mktemp("home")
    user, password = (
        os.environ.get("KIOSK_USER", "ida"),
        os.environ.get("KIOSK_PASSWORD", "correct-horse-battery"),
    )
    env = {
        **os.environ, "HOME": str(home), "KIOSK_USER": user, "KIOSK_PASSWORD": password, "QUESTION": QUESTION,
        "PYTHON": sys.executable, "BROWSER_SCRIPT": str(FOLDER / "browser.py"), "CLIENT_ROOM": str(NODE),
        "DOCUMENT": DOCUMENT,
        "BROWSER": f"{sys.executable} {FOLDER / 'browser.py'} %s &", "MCP_REMOTE_CONFIG_DIR": str(home / "remote"),
    }  # fmt: skip
    if LIVE:
        yield {**env, "MCP_URL": f"{LIVE}/mcp"}
        return
    [port] = free_ports(1)
    command = [sys.executable, "-m", "tests.clients.server", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield {**env, "MCP_URL": f"http://127.0.0.1:{port}/mcp"}
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()


@pytest.mark.parametrize("room", ["python2", "python1"])
def test_the_python_sdk_goes_the_whole_way(room: str, world: dict[str, str]) -> None:
    report = _run([str(_python(room)), str(FOLDER / "python_sdk.py")], world)
    _check(report)
    assert report["sign_ins"] == 1
    assert report["refreshed"] is True


@pytest.mark.parametrize("package", ["sdk", "client"])
def test_the_typescript_sdk_goes_the_whole_way(package: str, world: dict[str, str]) -> None:
    _needs(NODE / "node_modules" / "@modelcontextprotocol" / package)
    report = _run([_node(), str(FOLDER / "typescript_sdk.mjs"), package], world)
    _check(report)
    assert report["sign_ins"] == 1
    assert report["refreshed"] is True


def test_fastmcp_goes_the_whole_way(world: dict[str, str]) -> None:
    _check(_run([str(_python("fastmcp")), str(FOLDER / "fast_client.py"), "legacy"], world))


@pytest.mark.parametrize("mode", ["auto", STATELESS])
@pytest.mark.parametrize("client", ["python2", "typescript", "fastmcp"])
def test_a_stateless_client_signs_in_by_its_document(client: str, mode: str, world: dict[str, str]) -> None:
    if LIVE:
        pytest.skip("the installation does not know the document")
    if client == "typescript":
        _needs(NODE / "node_modules" / "@modelcontextprotocol" / "client")
        command = [_node(), str(FOLDER / "typescript_sdk.mjs"), "client", mode]
    else:
        script = {"python2": "python_sdk.py", "fastmcp": "fast_client.py"}[client]
        command = [str(_python(client)), str(FOLDER / script), mode]
    report = _run(command, world)
    _check(report, STATELESS, [*TOOLS, "search", "fetch"])
    if client != "fastmcp":  # it shows neither its client id nor its tokens
        assert report["supported"] == [STATELESS]
        assert report["client_id"] == DOCUMENT
        assert report["sign_ins"] == 1
        assert report["refreshed"] is True


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
def test_a_remote_proxy_passes_everything_on(protocol: str, world: dict[str, str]) -> None:
    proxy = NODE / "node_modules" / ".bin" / "mcp-remote"
    _needs(proxy)
    command = [_node(), str(proxy), world["MCP_URL"], "--protocol", protocol]
    home = {"MCP_REMOTE_CONFIG_DIR": f"{world['MCP_REMOTE_CONFIG_DIR']}-{protocol}"}
    with Watched(command, {**world, **home}) as process:
        client = {"name": "x", "version": "1"}
        proposal = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        hello = process.ask("initialize", proposal)
        process.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        tools = process.ask("tools/list", {})["tools"]
        content = process.tool("ask_archive", {"question": QUESTION})["structuredContent"]
        pair = {name: content["results"][0][name] for name in ("product_id", "offset")}
        article = process.tool("get_archive_article", pair)["structuredContent"]
        refused = process.tool("get_archive_article", {**pair, "offset": pair["offset"] + 1})
    assert process.signed_in == 1
    report = {
        "version": hello["protocolVersion"], "tools": [tool["name"] for tool in tools], "article": article,
        "results": content["results"], "refused": str(refused), "again": article["url"],
    }  # fmt: skip
    if protocol == "legacy":
        _check(report)
    else:  # the proxy answers the handshake itself, as the revision its caller proposed
        _check(report, "2025-11-25", [*TOOLS, "search", "fetch"])


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_calls_the_tools_in_separate_processes(era: str, world: dict[str, str]) -> None:
    inspector = NODE / "node_modules" / ".bin" / "mcp-inspector"
    _needs(inspector)
    env = {**world, "MCP_AUTO_OPEN_ENABLED": "true", "MCP_INSPECTOR_SECRET_STORE": "file", "BROWSER": "true"}
    start = [
        _node(),
        str(inspector),
        "--cli",
        "--server-url",
        world["MCP_URL"],
        "--transport",
        "http",
        "--protocol-era",
        era,
        "--method",
    ]

    def inspect(*words: str) -> dict[str, Any]:
        with Watched([*start, *words], env) as process:
            return process.whole()

    tools = inspect("tools/list")["tools"]
    ask = inspect("tools/call", "--tool-name", "ask_archive", "--tool-arg", f"question={QUESTION}")
    first = ask["structuredContent"]["results"][0]
    arguments = [f"product_id={first['product_id']}", f"offset={first['offset']}"]
    article = inspect("tools/call", "--tool-name", "get_archive_article", "--tool-arg", *arguments)
    assert [tool["name"] for tool in tools] == TOOLS + (["search", "fetch"] if era == "modern" else [])
    assert article["structuredContent"]["product_id"] == first["product_id"]


@dataclass
class Watched:
    """A client's process; where it says an address to sign in at, somebody goes there."""

    command: list[str]
    env: dict[str, str]
    signed_in: int = 0
    lines: list[str] = field(default_factory=list)
    _last_id: int = -1

    def __enter__(self) -> Watched:
        self._process = subprocess.Popen(
            self.command, env=self.env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._errors = threading.Thread(target=self._watch, args=(self._process.stderr, None), daemon=True)
        self._errors.start()
        self._stop = threading.Timer(PROCESS_S, self._process.kill)
        self._stop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.cancel()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._errors.join(10)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def say(self, message: dict[str, Any]) -> None:
        """Send one message."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a call, ids from 0 on, and wait for its result or its error."""
        self._last_id += 1
        self.say({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            assert line, "\n".join(self.lines)
            answer = json.loads(line)
            if answer.get("id") == self._last_id:
                return answer.get("result", answer.get("error"))

    def tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def whole(self) -> dict[str, Any]:
        """Wait for the end; what it printed is one JSON object, perhaps after other lines."""
        out: list[str] = []
        self._watch(self._process.stdout, out)
        self._process.wait(PROCESS_S)
        text = "".join(out)
        assert self._process.returncode == 0, text + "".join(self.lines)
        message: dict[str, Any] = json.loads(text[text.index("{") :])
        return message

    def _watch(self, stream: IO[str] | None, keep: list[str] | None) -> None:
        assert stream is not None
        for line in stream:
            (self.lines if keep is None else keep).append(line)
            address = ADDRESS.search(line)
            if address is not None and not self.signed_in:
                self.signed_in += 1
                browser = [sys.executable, str(FOLDER / "browser.py"), address.group()]
                subprocess.run(browser, env=self.env, check=False, timeout=60, capture_output=True)


def _check(report: dict[str, Any], version: str = "2024-11-05", tools: Sequence[str] = tuple(TOOLS)) -> None:
    assert report["version"] == version
    assert report["tools"] == list(tools)
    assert report["results"]
    assert report["article"]["product_id"] == report["results"][0]["product_id"]
    assert report["article"]["citation_format"].startswith("[")
    assert REFUSED in report["refused"]
    assert report["again"] == report["article"]["url"]


def _run(command: list[str], env: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PROCESS_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return report


def _python(room: str) -> Path:
    path = ROOMS / room / "bin" / "python"
    _needs(path)
    return path


def _node() -> str:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    return program


def _needs(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"{path} is not installed; run tests/clients/install.sh")
