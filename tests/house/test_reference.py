"""The pages of docs/reference are generated from the code, and nothing is missing there."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from cluster.settings import Settings
from docs.generate import commands, errors, metrics
from docs.generate.pages import FOLDER, build_pages
from docs.generate.rest import build_document
from tests.house.tree import ROOT

pytestmark = pytest.mark.usefixtures("allow_world")
"Building the REST page runs an event loop, which opens a pair of sockets."


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return build_pages()


def test_the_pages_equal_what_the_code_generates(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        committed = (FOLDER / name).read_text("utf-8")
        assert committed == text, f"docs/reference/{name} differs; run `python -m docs.generate`"
    assert {page.name for page in FOLDER.iterdir()} == set(pages)


def test_every_field_of_a_request_has_a_row(pages: dict[str, str]) -> None:
    document = build_document()
    schemas, text = document["components"]["schemas"], pages["rest.md"]
    waiting = [
        operation["requestBody"]["content"]["application/json"]["schema"]
        for methods in document["paths"].values()
        for operation in methods.values()
        if "requestBody" in operation
    ]
    read: set[str] = set()
    names: set[str] = set()
    while waiting:
        schema = waiting.pop()
        model = schema.get("$ref", "").rpartition("/")[2]
        if model and model not in read:
            read.add(model)
            waiting.append(schemas[model])
        names.update(schema.get("properties", ()))
        waiting += schema.get("properties", {}).values()
        waiting += [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        waiting += [
            part
            for part in (schema.get("items"), schema.get("additionalProperties"))
            if isinstance(part, dict)
        ]
    assert len(names) > 100
    lost = [
        name for name in sorted(names) if not re.search(rf"^\| `{re.escape(name)}` \|", text, re.MULTILINE)
    ]
    inline = set(re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"object with [^|]+", text))))
    assert [name for name in lost if name not in inline] == []


def test_every_setting_has_a_row_with_a_meaning(pages: dict[str, str]) -> None:
    rows = re.findall(
        r"^\| `(KIOSK_[A-Z_]+)` \|.*\| (yes|no) \| (.+) \|$", pages["settings.md"], re.MULTILINE
    )
    assert sorted(name for name, _, _ in rows) == sorted(
        f"KIOSK_{name.upper()}" for name in Settings.model_fields
    )
    secret = {name for name, is_secret, _ in rows if is_secret == "yes"}
    assert secret == {
        "KIOSK_REDIS_URL", "KIOSK_REDIS_PASSWORD", "KIOSK_MASTER_KEY", "KIOSK_LLM_KEY", "KIOSK_OIDC_CLIENT_SECRET",
    }  # fmt: skip


def test_every_command_has_a_section_with_its_options(pages: dict[str, str]) -> None:
    sections = re.split(r"^## ", pages["commands.md"], flags=re.MULTILINE)
    by_name = {section.partition("\n")[0]: section for section in sections}
    for name, command in commands.walk_commands():
        assert command.help, name
        for option in commands.option_names(command):
            assert f"`{option}`" in by_name[name], (name, option)


def test_every_class_and_message_of_errors_has_cause_and_remedy() -> None:
    data = errors.read_texts()
    assert set(data["classes"]) == set(errors.list_classes())
    assert set(data["messages"]) == set(errors.list_messages())
    for entry in (*data["classes"].values(), *data["messages"].values()):
        assert entry["cause"]
        assert entry["remedy"]


def test_every_metric_has_a_meaning_and_every_meaning_a_metric() -> None:
    meanings = [name for group in metrics.read_meanings().values() for name in group]
    assert sorted(meanings) == sorted(metrics.scan_metrics())


def test_every_kind_of_a_filter_error_is_explained() -> None:
    kinds = set()
    for path in (metrics.ROOT / "cluster" / "query" / "language").glob("*.py"):
        kinds |= set(re.findall(r'syntax_error\(\s*"(\w+)"', path.read_text("utf-8")))
    families = {family["title"]: family["rows"] for family in errors.read_texts()["families"]}
    assert {row["text"] for row in families["Filter errors"]} == kinds


def test_the_generator_needs_no_ray() -> None:
    code = "import sys, docs.generate.pages; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=False).returncode == 0
