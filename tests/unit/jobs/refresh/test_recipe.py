from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import Invalid, NotFound
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe
from jobs.refresh.learners.protocol import CustomLearnerRecipe
from jobs.refresh.learners.registry import build_learner
from jobs.refresh.recipe import PRESETS, Recipe, load_recipe_file, parse_recipe

SMALL: dict[str, Any] = {"parts": {"rules": {"learner": "rules"}, "trend": {"learner": "popularity"}}}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_read_and_survive_json(name: str) -> None:
    recipe = load_recipe_file(name)
    assert recipe.name == name
    assert parse_recipe(json.loads(recipe.model_dump_json())) == recipe


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\n[parts.rules]\nlearner = "rules"\nwindow = 3\n')
    (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", **SMALL}))
    from_toml = load_recipe_file(tmp_path / "mine.toml")
    assert isinstance(from_toml.parts["rules"], RulesRecipe)
    assert from_toml.parts["rules"].window == 3
    assert list(load_recipe_file(tmp_path / "mine.json").parts) == ["rules", "trend"]


def test_files_of_editors_that_mark_their_encoding_are_read(tmp_path: Path) -> None:
    for name, text in (("a.toml", '[parts.rules]\r\nlearner = "rules"\r\n'), ("a.json", json.dumps(SMALL))):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert "rules" in load_recipe_file(tmp_path / name).parts


def test_an_invalid_recipe_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "image.toml").write_bytes(b"\x89PNG")
    with pytest.raises(Invalid, match=r"image\.toml can't be read"):
        load_recipe_file(tmp_path / "image.toml")
    (tmp_path / "broken.toml").write_text("name = \n")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(Invalid, match=r"broken\.toml is not TOML"):
        load_recipe_file(tmp_path / "broken.toml")
    with pytest.raises(Invalid, match=r"broken\.json is not JSON"):
        load_recipe_file(tmp_path / "broken.json")
    with pytest.raises(
        NotFound, match="neither a file nor one of default, fast, deep, sequence, shop, session"
    ):
        load_recipe_file("shops")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "parts: Field required"),
        ({"parts": {}}, "parts: there must be at least one"),
        ({"parts": {"r": {"learner": "ruels"}}}, "parts.r.learner: name one of ease, rules, item_knn"),
        ({"parts": {"r": {"learner": "rules", "window": 0}}}, "parts.r.window: Input should be greater than"),
        ({"parts": {"r": {"learner": "rules", "windows": 3}}}, "parts.r.windows: there is no such field"),
        ({"parts": {"r": {"learner": "ease", "regularisation": float("nan")}}}, "parts.r.regularisation"),
        ({**SMALL, "blend": {"weights": {"ease": 1}}}, "blend.weights: there is no part ease; parts are rules, trend"),
        ({**SMALL, "blend": {"weights": {"rules": -1}}}, "greater than or equal to 0"),
        ({"parts": {"r": {"learner": "rules", "tune": {"widow": [1]}}}}, "has no parameter 'widow'"),
        ({"parts": {"r": {"learner": "rules", "tune": {"window": []}}}}, "parts.r.tune.window: there must be at least"),
        ({"parts": {"r": {"learner": "rules", "tune": {"window": [0]}}}}, "greater than or equal to 1"),
        ({"parts": {"r": {"learner": "rules", "tune": {"window": [{"window": 2, "back": 2}]}}}}, "than or equal to 1"),
        ({"parts": {"r": {"learner": "rules", "tune": {"back": [{"back": 1, "widow": 1}]}}}}, "no parameter 'widow'"),
        ({**SMALL, "seed": -1}, "seed: Input should be greater"),
        ({"parts": {"r": {"window": 3}}}, "parts.r.learner: name one of ease, rules"),
        ({**SMALL, "events": {"weights": {"click": 50}}}, "events.weights.click: Input should be less than"),
        ({**SMALL, "search": {"learn": 1}}, "search.learn: there is no such field; there are learn_from"),
        ({**SMALL, "name": "../x"}, "name: String should match"),
    ],
)  # fmt: skip
def test_mistakes_are_reported_with_their_place(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_recipe(fields)
    assert message in refused.value.message


def test_fields_are_changed_by_path() -> None:
    recipe = parse_recipe(SMALL).with_changes(
        {"parts.rules.window": 7, "blend.weights": {"rules": 2.0}, "seed": 9}
    )
    assert isinstance(recipe.parts["rules"], RulesRecipe)
    assert (recipe.parts["rules"].window, recipe.blend.weights, recipe.seed) == (7, {"rules": 2.0}, 9)


@pytest.mark.parametrize("path", ["parts.ease.window", "parts.rules.widow", "nothing", "seed.deep"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(Invalid):
        parse_recipe(SMALL).with_changes({path: 1})


@pytest.mark.parametrize(
    "learner",
    [
        "no_such_module:Thing",
        "jobs.refresh.learners.neighbours.ease:NoSuchClass",
        "builtins:dict",
        "jobs.refresh.learners.neighbours.ease:EaseLearner",
    ],
)
def test_a_learner_that_can_not_be_used_is_refused(learner: str, allow_learners: Callable[..., None]) -> None:
    allow_learners(learner)
    with pytest.raises(Invalid, match=f"learner {learner}"):
        build_learner(CustomLearnerRecipe(learner=learner, config={"unknown": 1}))


def test_a_module_that_is_no_python_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allow_learners: Callable[..., None]
) -> None:
    allow_learners("own_broken_module:Mine")
    (tmp_path / "own_broken_module.py").write_text("def train(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Invalid, match="SyntaxError"):
        build_learner(CustomLearnerRecipe(learner="own_broken_module:Mine"))


def test_every_part_of_a_recipe_has_a_sentence_for_every_field() -> None:
    silent = [
        f"{type(part).__name__}.{name}"
        for preset in PRESETS
        for part in load_recipe_file(preset).parts.values()
        for name in type(part).model_fields
        if name != "learner" and not _sentence(type(part), name)
    ]
    assert silent == []
    assert [name for name in Recipe.model_fields if not _sentence(Recipe, name)] == [
        "events",
        "blend",
        "validation",
        "limits",
    ]


def _sentence(model: type, name: str) -> str:
    """Find the text below a field in the source; classes do not keep it."""
    import ast
    import inspect
    import textwrap

    for kind in model.__mro__:
        if name not in vars(kind).get("__annotations__", {}):
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for field, after in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and getattr(field.target, "id", "") == name:
                text = after.value if isinstance(after, ast.Expr) else None
                return str(text.value) if isinstance(text, ast.Constant) else ""
    return ""
