"""`kiosk rules` on a stopped installation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cluster.errors import Invalid, NotFound
from deployments.operations.content.rules import parse_rules
from tests.fakes.command_runner import refusal_of, run_command, run_json


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_rules_are_stored_listed_and_deleted(data_dir: Path) -> None:
    run_json("apps", "create", "bookshop")
    file = data_dir.parent / "rules.json"
    file.write_text(
        json.dumps({"rules": [{"name": "a", "boost_fq": "x:1"}, {"name": "b", "boost_fq": "x:2"}]})
    )
    assert [rule["name"] for rule in run_json("rules", "put", "bookshop", str(file))["stored"]] == ["a", "b"]
    rule_text = json.dumps({"name": "c", "boost_fq": "x:3", "boosting_tags": ["vip"]})
    run_json("rules", "put", "bookshop", "-", "--engine", "news", typed=rule_text)
    assert [(rule["engine_id"], rule["name"]) for rule in run_json("rules", "list", "bookshop")["rules"]] == [
        ("default", "a"),
        ("default", "b"),
        ("news", "c"),
    ]
    shown = run_command("rules", "list", "bookshop", "--engine", "news").output
    assert "tag vip" in shown
    assert " a " not in shown
    assert refusal_of("rules", "delete", "bookshop", "b", "z").message == (
        "engine default of bookshop has no rule 'z'; see `kiosk rules list bookshop`"
    )
    assert run_json("rules", "delete", "bookshop", "a", "b")["deleted"] == 2
    assert [rule["name"] for rule in run_json("rules", "list", "bookshop")["rules"]] == ["c"]
    assert isinstance(refusal_of("rules", "list", "nobody"), NotFound)
    shutil.rmtree(data_dir)


def test_faults_of_a_file_are_reported_before_anything_is_opened(data_dir: Path) -> None:
    for text, words in (
        ("[", "is not what JSON should be"),
        ("[]", "there are no rules in the file"),
        ('{"name": "a", "name": "b"}', "is not what JSON should be"),
        ('[{"name": "a", "boost_fq": "x:("}]', "rules.0.boost_fq is invalid. "),
        ('{"rules": [{"name": "a"}]}', "rules.0 is invalid. The rule does nothing"),
    ):
        assert words in refusal_of("rules", "put", "bookshop", "-", typed=text).message
    assert (
        "can't be read" in refusal_of("rules", "put", "bookshop", str(data_dir.parent / "none.json")).message
    )


def test_rules_without_an_engine_belong_to_the_one_that_was_named() -> None:
    rules = parse_rules(
        [{"name": "a", "boost_fq": "x:1"}, {"name": "a", "boost_fq": "x:1", "engine_id": "e"}], "news"
    )
    assert [rule.engine_id for rule in rules] == ["news", "e"]
    with pytest.raises(Invalid, match=r"boost\.0\.query"):
        parse_rules([{"name": "a", "boost": [{"field": "f", "query": "(", "option": "regex"}]}], "news")
