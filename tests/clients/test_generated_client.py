"""A client generated from our OpenAPI document by openapi-python-client, unchanged, walks the interface.

`.ci/run` installs the generator from `cluster/locks/clients.lock` (KIOSK_TEST_CLIENTS says where), and so does
`tests/clients/install.sh`. Without it, and on Python 3.10, which the generator does not know, the test is skipped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.process.free_ports import free_ports
from tests.clients.test_clients import FOLDER, ROOMS, ROOT, _needs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("allow_world"), pytest.mark.timeout(300)]

ROOM = ROOMS / "openapi" / "bin"
PROCESS_S = 120


@pytest.fixture
def site() -> Iterator[tuple[str, str]]:
    """The interface on a port, and its secret key."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "tests.clients.shop_server", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        ready = next(line for line in server.stdout if line.startswith('{"ready"'))
        yield f"http://127.0.0.1:{port}", json.loads(ready)["secret_key"]
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()


def test_a_generated_client_has_every_operation_and_walks_from_upload_to_experiment(
    site: tuple[str, str], tmp_path: Path
) -> None:
    generator = ROOM / "openapi-python-client"
    _needs(generator)
    url, key = site
    with urllib.request.urlopen(f"{url}/openapi.json", timeout=30) as reply:
        document = json.loads(reply.read())
    described = tmp_path / "openapi.json"
    described.write_text(json.dumps(document), "utf-8")
    package = tmp_path / "kiosk_client"
    output = _run(
        generator,
        "generate",
        "--path",
        described,
        "--output-path",
        package,
        "--meta",
        "none",
        "--fail-on-warning",
    )
    assert "WARNING" not in output
    modules = {path.stem for path in (package / "api").glob("*/*.py")} - {"__init__"}
    names = {
        operation["operationId"].replace(".", "_")
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert modules == names
    walked = json.loads(
        _run(ROOM / "python", FOLDER / "generated_client.py", tmp_path, url, key).splitlines()[-1]
    )
    assert walked["recommended"] == ["Steel hand fork"]
    assert walked["sought"] == ["trowel"]
    assert walked["completed"][0] == "Steel hand trowel"
    assert "15 cm" in walked["answer"]
    assert walked["variant"] in ("three", "five")
    assert walked["refused"] == "body.fq"


def _run(*words: str | Path) -> str:
    ended = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=PROCESS_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr
