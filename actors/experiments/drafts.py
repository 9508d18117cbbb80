"""Experiments as a person writes them down, and what is wrong with them in one sentence.

{"name": "Paywall after 3 or 5", "goal": ["subscribe"], "traffic": 0.5, "layer": "paywall", "slice": [0, 0.5],
 "variants": [{"name": "three"}, {"name": "five", "weight": 1, "configuration": {"free": 5}}]}
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from cluster.errors import Invalid
from cluster.records.experiment import Experiment
from cluster.records.interaction import INTERACTION_TYPES

_SERVER_FIELDS = (
    "app_id",
    "experiment_id",
    "status",
    "starts_at",
    "ends_at",
    "created_at",
    "weights_at",
    "revision",
)
"What a draft may not say: it is given, or a step of the experiment's life."


def parse_drafts(written: Any) -> list[Any] | None:
    """List the drafts of a document: one, an array, or an object with `experiments`; None when there are none."""
    if isinstance(written, Mapping):
        written = written["experiments"] if "experiments" in written and "name" not in written else [written]
    return list(written) if isinstance(written, list) and written else None


def build_experiments(
    items: Sequence[Any], app_id: str, *, now_ms: int, new_id: Callable[[], str], new_salt: Callable[[], str]
) -> list[Experiment]:
    """Read drafts; ids, salts and missing slugs are made up.

    Errors:
        Invalid: says which draft, which field, and what is wrong
    """
    found = [
        _build_experiment(at, item, app_id, now_ms=now_ms, new_id=new_id, new_salt=new_salt)
        for at, item in enumerate(items)
    ]
    slugs = [experiment.slug for experiment in found]
    for at, slug in enumerate(slugs):
        if slug in slugs[:at]:
            raise Invalid(f"experiments.{at}.slug is invalid. There are two experiments {slug!r} in the file")
    return found


def slug_from_name(name: str) -> str:
    """Make a slug of a name; empty when nothing of it can stand in one."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")[:63].rstrip("-_")


def _build_experiment(
    at: int, item: Any, app_id: str, *, now_ms: int, new_id: Callable[[], str], new_salt: Callable[[], str]
) -> Experiment:
    if not isinstance(item, Mapping):
        raise Invalid(f"experiments.{at} is invalid. An experiment is an object")
    for name in _SERVER_FIELDS:
        if name in item:
            raise Invalid(f"experiments.{at}.{name} is invalid. It is not for a draft to say")
    written: dict[str, Any] = {"entry_salt": new_salt(), "variant_salt": new_salt(), **item}
    written |= {"app_id": app_id, "experiment_id": new_id(), "created_at": now_ms + at}
    written.setdefault("slug", slug_from_name(str(item.get("name", ""))))
    variants = item.get("variants", ())
    if isinstance(variants, Sequence) and not isinstance(variants, str):
        written["variants"] = [_build_variant(variant, new_id) for variant in variants]
    try:
        experiment = Experiment.model_validate(written)
    except ValidationError as error:
        raise Invalid(_error_message(at, error)) from None
    for kind in experiment.goal:
        if kind not in INTERACTION_TYPES:
            raise Invalid(f"experiments.{at}.goal is invalid. There is no interaction of type {kind!r}")
    return experiment


def _build_variant(written: Any, new_id: Callable[[], str]) -> Any:
    if not isinstance(written, Mapping):
        return written
    return {"variant_id": new_id(), "slug": slug_from_name(str(written.get("name", ""))), **written}


def _error_message(at: int, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in ("experiments", at, *first["loc"]))
    return f"{place} is invalid. {first['msg'].removeprefix('Value error, ').capitalize()}"
