"""`kiosk sbom` writes what CycloneDX's own schema accepts, and names what is really here."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from typer.testing import CliRunner

from cluster.local.bill_of_materials import parse_lock_file
from cluster.local.redis_binary import find_redis
from deployments.cli.__main__ import command_line

pytestmark = pytest.mark.usefixtures("allow_world")


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("sbom") / "sbom.cdx.json"
    result = CliRunner().invoke(command_line(), ["sbom", "--out", str(path)])
    assert result.exit_code == 0, result.output
    return json.loads(path.read_text())


def test_it_is_valid_by_the_schema(bill: Any) -> None:
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill))
    assert fault is None, fault


def test_packages_have_version_purl_licence_and_the_hashes_of_the_lock(bill: Any) -> None:
    components = {component["name"]: component for component in bill["components"]}
    ray = components["ray"]
    assert ray["purl"] == f"pkg:pypi/ray@{ray['version']}"
    assert components["pydantic"]["licenses"]
    hashes = ray["externalReferences"][0]["hashes"]
    assert hashes
    assert {each["alg"] for each in hashes} == {"SHA-256"}
    assert "kiosk" not in components
    assert bill["metadata"]["component"]["name"] == "kiosk"


def test_the_servers_inside_packages_are_there_with_the_hash_of_the_file(bill: Any) -> None:
    programs = {each["name"]: each for each in bill["components"] if each["type"] == "application"}
    server = find_redis()
    shown = programs[server.product]
    assert shown["version"] == ".".join(map(str, server.version))
    assert shown["hashes"][0]["content"] == hashlib.sha256(Path(server.path).read_bytes()).hexdigest()
    assert programs["haproxy"]["version"].startswith("2.")


def test_dependencies_name_components_that_exist(bill: Any) -> None:
    components = {component["bom-ref"] for component in bill["components"]} | {"kiosk"}
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    assert set(edges) <= components
    assert {target for targets in edges.values() for target in targets} <= components


def test_a_file_that_can_not_be_written_is_an_error_with_advice() -> None:
    result = CliRunner().invoke(command_line(), ["sbom", "--out", "/nowhere/sbom.json"])
    assert result.exit_code != 0
    assert "choose another file with --out" in str(result.exception)


def test_a_lock_is_read_by_name_and_version() -> None:
    hashes = f"    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}\n"
    text = f"A_b==1.0 ; python_version < '3.11' \\\n{hashes}a-b==2\n"
    assert parse_lock_file(text) == {("a-b", "1.0"): ["0" * 64, "1" * 64], ("a-b", "2"): []}
