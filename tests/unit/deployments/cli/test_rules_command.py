"""`kiosk rules` on a stopped installation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cluster.errors import HouseError, Invalid, NotFound
from deployments.cli.__main__ import command_line
from deployments.operations.content.rules import parse_rules


def _run(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(command_line(), list(words), input=given)


def _run_json(*words: str, given: str | None = None) -> Any:
    result = _run(*words, "--json", given=given)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def _refusal(*words: str, given: str | None = None) -> HouseError:
    error = _run(*words, given=given).exception
    assert isinstance(error, HouseError), error
    return error


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    return tmp_path


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_rules_are_stored_listed_and_deleted(home: Path) -> None:
    _run_json("apps", "create", "bookshop")
    file = home / "rules.json"
    file.write_text(
        json.dumps({"rules": [{"name": "a", "boost_fq": "x:1"}, {"name": "b", "boost_fq": "x:2"}]})
    )
    assert [rule["name"] for rule in _run_json("rules", "put", "bookshop", str(file))["stored"]] == ["a", "b"]
    rule_text = json.dumps({"name": "c", "boost_fq": "x:3", "boosting_tags": ["vip"]})
    _run_json("rules", "put", "bookshop", "-", "--engine", "news", given=rule_text)
    assert [
        (rule["engine_id"], rule["name"]) for rule in _run_json("rules", "list", "bookshop")["rules"]
    ] == [
        ("default", "a"),
        ("default", "b"),
        ("news", "c"),
    ]
    shown = _run("rules", "list", "bookshop", "--engine", "news").output
    assert "tag vip" in shown
    assert " a " not in shown
    assert _refusal("rules", "delete", "bookshop", "b", "z").message == (
        "engine default of bookshop has no rule 'z'; see `kiosk rules list bookshop`"
    )
    assert _run_json("rules", "delete", "bookshop", "a", "b")["deleted"] == 2
    assert [rule["name"] for rule in _run_json("rules", "list", "bookshop")["rules"]] == ["c"]
    assert isinstance(_refusal("rules", "list", "nobody"), NotFound)
    shutil.rmtree(home / "data")


def test_faults_of_a_file_are_reported_before_anything_is_opened(home: Path) -> None:
    for text, words in (
        ("[", "is not what JSON should be"),
        ("[]", "there are no rules in the file"),
        ('{"name": "a", "name": "b"}', "is not what JSON should be"),
        ('[{"name": "a", "boost_fq": "x:("}]', "rules.0.boost_fq is invalid. "),
        ('{"rules": [{"name": "a"}]}', "rules.0 is invalid. The rule does nothing"),
    ):
        assert words in _refusal("rules", "put", "bookshop", "-", given=text).message
    assert "can't be read" in _refusal("rules", "put", "bookshop", str(home / "none.json")).message


def test_rules_without_an_engine_belong_to_the_one_that_was_named() -> None:
    rules = parse_rules(
        [{"name": "a", "boost_fq": "x:1"}, {"name": "a", "boost_fq": "x:1", "engine_id": "e"}], "news"
    )
    assert [rule.engine_id for rule in rules] == ["news", "e"]
    with pytest.raises(Invalid, match=r"boost\.0\.query"):
        parse_rules([{"name": "a", "boost": [{"field": "f", "query": "(", "option": "regex"}]}], "news")
