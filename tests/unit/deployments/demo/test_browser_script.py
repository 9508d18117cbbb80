from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from deployments.api.http.endpoint import Endpoint
from deployments.demo import browser_script
from deployments.demo.browser_script import (
    MOST_BYTES,
    RELEASES,
    STATIC,
    build_script_routes,
    read_script,
    script_version,
)
from tests.fakes.request_handler import Corner
from tests.fakes.script_integrity import script_integrity
from tests.house.tree import ROOT

SOURCE = STATIC / "kiosk.js"
GUIDE = ROOT / "docs" / "guides" / "browser.md"
TRANSCRIPT = Path(__file__).with_name("transcript.js")


@pytest.fixture
def client() -> TestClient:
    return TestClient(Starlette(routes=build_script_routes()))


def test_the_script_is_small_and_was_minified_from_this_source() -> None:
    assert len(read_script()) <= MOST_BYTES
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    first = read_script().decode().splitlines()[0]
    assert first == f"/*! kiosk.js {script_version()} | Apache-2.0 | source {digest} */", "run .ci/minify"


def test_the_source_uses_nothing_newer_than_es2018_and_writes_no_html() -> None:
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", SOURCE.read_text("utf-8"), flags=re.DOTALL)
    newer = r"\?\.[a-zA-Z\[(]|\?\?|catch \{|\.flat(?:Map)?\(|\.fromEntries\(|\bimport\b|\bexport\b|\.at\(|#[a-z]\w*\("
    assert re.findall(newer, code) == []
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|cookie", code) == []


def test_each_address_serves_the_script_to_pages_of_every_origin(client: TestClient) -> None:
    version = script_version()
    for path in ("/kiosk.js", "/kiosk.js?v=3", "/kiosk-1.js", f"/kiosk-{version}.js"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.content == read_script()
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert client.get(path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    assert client.get("/kiosk.js").headers["cache-control"] == "public, max-age=300"
    assert "immutable" in client.get(f"/kiosk-{version}.js").headers["cache-control"]
    assert client.get("/kiosk-0.9.0.js").status_code == 404


def test_the_bytes_of_a_released_version_never_change() -> None:
    lines = (RELEASES / "SHA256SUMS").read_text("utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in RELEASES.glob("*.js")}
    assert digests == sums, (
        "a released version changed or is gone: restore it, raise VERSION and run .ci/minify"
    )
    assert digests["kiosk-1.0.0.js"] == "67b5752da1d5dd446c4a3886be10467ee49a1af14665358eb28d6f33c5633e35"


def test_earlier_versions_stay_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("0.9.0", "1.9.0", "1.10.0"):
        (tmp_path / f"kiosk-{version}.js").write_text(f"/* {version} */")
    monkeypatch.setattr(browser_script, "RELEASES", tmp_path)
    monkeypatch.setattr(browser_script, "script_version", lambda: "1.10.0")
    read_script.cache_clear()
    try:
        client = TestClient(Starlette(routes=build_script_routes()))
        answers = {
            path: client.get(f"/kiosk{path}.js").text
            for path in ("", "-0", "-1", "-0.9.0", "-1.9.0", "-1.10.0")
        }
    finally:
        read_script.cache_clear()
    assert answers == {
        "": "/* 1.10.0 */", "-0": "/* 0.9.0 */", "-1": "/* 1.10.0 */",
        "-0.9.0": "/* 0.9.0 */", "-1.9.0": "/* 1.9.0 */", "-1.10.0": "/* 1.10.0 */",
    }  # fmt: skip


def test_the_script_is_compressed(client: TestClient) -> None:
    with client.stream("GET", "/kiosk.js", headers={"accept-encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(answer.iter_raw())) == read_script()


def test_the_guide_names_the_version_and_its_hash() -> None:
    text = GUIDE.read_text("utf-8")
    assert f"kiosk-{script_version()}.js" in text
    assert set(re.findall(r"sha384-[A-Za-z0-9+/=]+", text)) == {script_integrity()}


def _is_reached(endpoint: Endpoint, names: set[str]) -> bool:
    path = endpoint.path.removeprefix("/v1/")
    return path in names or f'"{path.split("{")[0]}"' in SOURCE.read_text("utf-8")


async def test_the_script_names_every_query_that_a_publishable_key_may_send(corner: Corner) -> None:
    source = SOURCE.read_text("utf-8")
    table = source.split("const OPERATIONS = {")[1].split("};")[0].replace('" +\n', "").replace('      "', "")
    names = {
        f"{group.strip(chr(34))}/{name}"
        for group, listed in re.findall(r'^\s*("?[a-z_/]+"?): "([^"]+)"', table, re.MULTILINE)
        for name in listed.split()
    }
    allowed = [row for row in corner.handler.endpoints if row.rules.publishable or row.rules.publishable_by]
    # The other form of the history stands behind `kiosk.call`.
    missing = {
        endpoint.path
        for endpoint in allowed
        if not _is_reached(endpoint, names)
        and not re.search(r"/user_history/(?:threads|notifications)", endpoint.path)
    }
    assert missing == set()
    paths = {endpoint.path.removeprefix("/v1/") for endpoint in allowed}
    assert names <= paths
    assert len(names) >= 28


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_source_and_minified_script_do_the_same() -> None:
    outputs = [
        subprocess.run(
            ["node", str(TRANSCRIPT), str(path)], check=True, capture_output=True, timeout=60
        ).stdout
        for path in (SOURCE, RELEASES / f"kiosk-{script_version()}.js")
    ]
    assert outputs[0] == outputs[1]
    requests = [json.loads(line) for line in outputs[0].splitlines()]
    landings, requests = requests[:6], requests[6:]
    assert [(sent.get("address"), sent.get("visit")) for sent in landings] == [
        ("/comet?a=1&b=%20#top", None), (None, "t-_0..na 1/2"), ("/comet?b#top", None), (None, "x.y.z"),
        ("/comet#top", None), (None, None),
    ]  # fmt: skip
    assert [request["path"] for request in requests if "path" in request][:2] == [
        "/v1/recommendation/user_to_products",
        "/v1/recommendation/user_to_products",
    ]
    assert len(requests) >= 12
    uploads = [sent for sent in requests if sent.get("path") == "/v1/interactions"]
    assert [(upload["body"]["data"][0]["type"], upload["keyed"]) for upload in uploads] == [
        ("click", False), ("click", False), ("click", False), ("checkout", True), ("click", False), ("click", False),
    ]  # fmt: skip
    event_ids = [[event.get("event_id") for event in upload["body"]["data"]] for upload in uploads]
    assert event_ids[1] == event_ids[2]
    assert len({event_id for batch in event_ids[:-1] for event_id in batch}) == 5
    assert event_ids[-1] == [None]  # a server of an earlier release refuses the field
