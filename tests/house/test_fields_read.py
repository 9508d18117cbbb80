"""Every field that a request may carry is read somewhere, or stands here with the reason why not."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, get_args

import pytest
from pydantic import BaseModel

import deployments.api.wire
from cluster.records.experiment import ExperimentGoal, ExperimentUpdate
from cluster.records.interaction import INTERACTION_MODELS, Campaign, Context, Page
from cluster.records.product import Child, Product
from cluster.records.user import User
from deployments.api.wire.experiments import ExperimentEdit
from deployments.api.wire.query_bodies import RequestModel
from tests.house.tree import ROOT, sources

READ_AT_THE_EDGE: Final = {"user_hash", "anonymous_hash", "user_type", "jwt_token"}
"Fields that prove who asks: `deployments.edge` reads them in the parsed JSON, before any model is made of it."

UNREAD: Final[dict[str, str]] = {
    "AnswerFormatBody.cite_end": "read by `Formatted.format`, which goes through the names of `Format`",
    "AnswerFormatBody.cite_link": "likewise",
    "AnswerFormatBody.cite_start": "likewise",
    "AnswerFormatBody.source_fl": "likewise",
    "AskQuestion.wiki_link_template": "likewise",
    "AskSearch.wiki_link_template": "likewise",
    **{
        f"ExperimentEdit.{name}": "the resource makes an `ExperimentUpdate` of the whole body"
        for name in ExperimentEdit.model_fields
        if name in ExperimentUpdate.model_fields
    },
    "ManyProducts.anonymous_id": "a record is the same for everybody; the edge proves the id",
    "ManyProducts.user_id": "likewise",
    "QuestionAnswering.version": "both versions are answered alike; the reference tells no difference (8.10, 48)",
}
"`Model.field` -> why no code names it."


_PATHS: Final = {
    **{f"Context.{name}": f"context.{name}" for name in Context.model_fields},
    **{f"Campaign.{name}": f"context.campaign.{name}" for name in Campaign.model_fields},
    **{f"Page.{name}": f"context.page.{name}" for name in Page.model_fields},
    "CategoryVisit.category": "category",
    "CustomAction.custom_action_name": "custom_action_name",
    "Feedback.result_type": "result_type",
    "SearchTerms.filters": "search.filters.color",
}
"Fields of interactions that no code names: goals of experiments count by their values."
_NAMED: Final = re.compile(r"""\.[a-z_0-9]+\b|"[a-z_0-9]+"|'[a-z_0-9]+'""")
"An attribute, or a whole text in quotes."
_INTERACTIONS: Final = tuple(
    dict.fromkeys(
        base
        for model in INTERACTION_MODELS
        for base in (model, *model.__mro__)
        if base.__module__ == "cluster.records.interaction"
    )
)
"Models of interactions, with the models that they extend."
_HANDLERS: Final = (
    "actors/experiments/", "actors/history/", "actors/hosting/", "actors/intake/", "actors/recommender/state/",
    "actors/retrieval/popular_queries.py", "cluster/records/validation/recent_events.py",
    "deployments/api/http/browser_writes.py", "deployments/operations/insight/feedback_report.py", "jobs/refresh/data/",
)  # fmt: skip
"Code that handles interactions. Elsewhere, names such as `value`, `category` and `region` name something else."
_OF_USERS: Final = (
    "actors/models/cohorts.py",
    "deployments/console/pages/users.py",
    "deployments/operations/content/users.py",
)
_OF_PRODUCTS: Final = (
    "actors/",
    "cluster/query/",
    "deployments/api/",
    "deployments/archive/",
    "deployments/operations/content/",
    "jobs/refresh/",
)
"Code that handles users, and products."
_NOT_READERS = (
    "cluster/records/",
    "jobs/playground/",
    "jobs/ingest/",
    "jobs/export/",
    "deployments/api/wire/",
)
"What describes, makes or brings records reads nothing of them."

_OTHER_BODIES: Final = {"Bulk", "BulkItem", "Generation", "ExperimentEdit", "ScheduleBody"}
"Request bodies that are no `Wire`; all other models there are replies."


def _models() -> list[type[BaseModel]]:
    found: dict[type[BaseModel], None] = {}
    for info in pkgutil.iter_modules(deployments.api.wire.__path__):
        module = importlib.import_module(f"deployments.api.wire.{info.name}")
        for value in vars(module).values():
            if (
                inspect.isclass(value)
                and issubclass(value, BaseModel)
                and value.__module__ == module.__name__
            ):
                found[value] = None
    return [model for model in found if issubclass(model, RequestModel) or model.__name__ in _OTHER_BODIES]


MODELS: Final = _models()
LOOSE: Final = {"Any", "BaseModel", "HasBoostRules", "T"}
"Annotations that say nothing of the model."
MODULES: Final = {model.__module__ for model in MODELS}
NAMES: Final = {model.__name__ for model in MODELS}


class _Reads(ast.NodeVisitor):
    """Collects the attributes that code reads, by the annotation of the variable they are read of."""

    def __init__(self) -> None:
        self.typed: defaultdict[str, set[str]] = defaultdict(set)
        "Word of an annotation, or name of the class `self` is of -> attributes."
        self.of_body: defaultdict[str, set[str]] = defaultdict(set)
        "Imported module -> attributes of variables without a telling annotation that are called `body`."
        self.imported: set[str] = set()
        "Modules of bodies that the file in hand imports."
        self.loose: set[str] = set()
        "Attributes of other such variables, and of attributes."
        self._types: dict[str, set[str]] = {}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        before, self._types = self._types, {**self._types, "self": {node.name}}
        self.generic_visit(node)
        self._types = before

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before, self._types = self._types, {**self._types, **dict(_typed_names(node))}
        self.generic_visit(node)
        self._types = before

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._read(node.value, node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and isinstance(node.args[1], ast.Constant)
        ):
            self._read(node.args[0], str(node.args[1].value))
        self.generic_visit(node)

    def _read(self, of: ast.expr, name: str) -> None:
        words = self._types.get(of.id, set()) if isinstance(of, ast.Name) else set()
        if words & (NAMES | {"self"}):
            for word in words:
                self.typed[word].add(name)
        elif isinstance(of, ast.Name) and of.id in ("body", "asked") and words <= LOOSE:
            for module in self.imported:
                self.of_body[module].add(name)
        else:
            self.loose.add(name)


def _typed_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, set[str]]]:
    """Name the variables of a function with the words of their annotations, or of what is assigned to them."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield node.arg, _words(node.annotation)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, _words(node.annotation)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            words = _words(node.value) & NAMES
            if words:
                yield node.targets[0].id, words


def _words(tree: ast.AST) -> set[str]:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return {node.id if isinstance(node, ast.Name) else node.attr for node in names}


def _unread() -> Iterator[str]:
    reads = _Reads()
    for source in sources():
        if source.name.startswith("deployments/"):
            imports = {source.module, *(name for _, name in source.imports)}
            reads.imported = {
                module for module in MODULES if any(f"{name}.".startswith(f"{module}.") for name in imports)
            }
            reads.visit(source.tree)
    nested = {
        word
        for model in MODELS
        for field in model.model_fields.values()
        for word in _types_of(field.annotation)
    }
    for model in MODELS:
        family = [one for one in MODELS if issubclass(one, model) or issubclass(model, one)]
        read = READ_AT_THE_EDGE.union(
            *(reads.typed[one.__name__] for one in family), *(reads.of_body[one.__module__] for one in family)
        )
        if nested & {one for one in MODELS if issubclass(one, model)}:
            read |= reads.loose
        yield from (f"{model.__name__}.{name}" for name in _declared_fields(model) if name not in read)


def _declared_fields(model: type[BaseModel]) -> list[str]:
    return [name for name in model.__annotations__ if name in model.model_fields]


def _types_of(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _types_of(part)


def test_every_field_of_a_request_is_read() -> None:
    assert sorted(_unread()) == sorted(UNREAD)


def _named_in(prefixes: tuple[str, ...]) -> set[str]:
    return {
        one.strip(".\"'")
        for source in sources()
        if source.name.startswith(prefixes)
        and (
            not source.name.startswith(_NOT_READERS)
            or source.name == "cluster/records/validation/recent_events.py"
        )
        for one in _NAMED.findall(source.text)
    }


def test_every_field_of_a_record_is_read() -> None:
    products, interactions = (
        dict.fromkeys((Product, Child), _OF_PRODUCTS),
        dict.fromkeys(_INTERACTIONS, _HANDLERS),
    )
    readers = {**products, **interactions, User: _OF_USERS}
    named = {prefixes: _named_in(prefixes) for prefixes in set(readers.values())}
    unread = {
        f"{model.__name__}.{name}"
        for model, prefixes in readers.items()
        for name in _declared_fields(model)
        if model in (Context, Campaign, Page) or name not in named[prefixes]
    }
    assert unread == set(_PATHS)


def test_the_guide_names_what_reads_the_fields_that_no_ranking_reads() -> None:
    guide = (ROOT / "docs" / "guides" / "data-out.md").read_text("utf-8")
    table = guide.split("Some fields enter no ranking.")[1].split("\n## ")[0]
    fields = {"name", "description", "profile_image", "created_at", "updated_at", "context"}
    fields |= {name.split(".")[1] for name, path in _PATHS.items() if not path.startswith("context.")}
    assert [name for name in sorted(fields) if f"`{name}`" not in table] == []


@pytest.mark.parametrize("path", _PATHS.values())
def test_a_goal_counts_by_each_field_that_nothing_else_reads(path: str) -> None:
    goal = ExperimentGoal(name="some", types=("custom",), value="count", where={path: "x"})
    assert goal.where == {path: "x"}
