"""Sweeps: one recipe with all combinations of some field values, evaluated on the same users.

The results are kept in the artifact store, so a repeated sweep evaluates only missing variants:

    sweeps/<app>/<sweep>/data.arrow  <variant>.json  comparison.csv  comparison.md
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Invalid, KioskError, Malformed
from cluster.records.validation.json_limits import load_json
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.evaluation.evaluate import bootstrap_interval, sum_by_person
from jobs.refresh.evaluation.report_models import EvaluationReport, UserMetric
from jobs.refresh.evaluation.significance import correct_p, sign_flip_p
from jobs.refresh.learners.protocol import expand_value
from jobs.refresh.recipe import Recipe
from jobs.refresh.runs.checkpoint import CheckpointStore
from jobs.refresh.runs.plan_evaluation import (
    EVALUATION_USERS,
    apply_confirmation,
    evaluate_plan,
    plan_training,
    split_data,
)
from jobs.refresh.runs.training_source import TrainingSource

MOST_VARIANTS = 200
"Maximum number of variants in one sweep."

_K = 10
"Length of the lists in the comparison, for all variants."
_SEED = 95
_PROVEN_P = 0.05
METRICS = ("ndcg@10", "recall@20", "hit_rate@10", "mrr@10", "coverage@10", "novelty@10")


@dataclass(frozen=True, slots=True)
class SweepVariant:
    """One combination of field values."""

    changes: tuple[tuple[str, Any], ...]
    recipe: Recipe

    @property
    def name(self) -> str:
        """Return a short name that depends only on the recipe."""
        text = json.dumps(self.recipe.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class SweepReport(EvaluationReport):
    """The result of one variant: the report of its evaluation, or an error."""

    changes: dict[str, Any] = Field(default_factory=dict)
    "The fields of the recipe that the variant changes."
    settled: dict[str, Any] = Field(default_factory=dict)
    "Its recipe with the chosen weights."
    error: str = ""
    seconds: float | None = None


def parse_assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Return the fields and values of FIELD=VALUE texts.

    Errors:
        Invalid: a text has another form
    """
    assignments = {}
    for text in texts:
        field, sign, value = text.partition("=")
        if not sign or not field.strip():
            raise Invalid(f"{text!r} is no FIELD=VALUE; for example parts.rules.window=20")
        assignments[field.strip()] = _parse_value(value)
    return assignments


def build_variants(recipe: Recipe, sweeps: Sequence[str]) -> list[SweepVariant]:
    """Return a variant for each combination of FIELD=A,B,C texts.

    Errors:
        Invalid: a text has another form, a field does not exist, a value is not allowed, or there are too many variants
    """
    fields: list[list[tuple[str, Any]]] = []
    for text in sweeps:
        field, sign, values = text.partition("=")
        if not sign or not field.strip() or not values.strip():
            raise Invalid(f"{text!r} is no FIELD=A,B,C; for example parts.rules.window=5,10,20")
        fields.append([(field.strip(), value) for value in _split_values(values)])
    count = 1
    # Counted before the product is built: ten fields of ten values would fill the memory.
    for choices in fields:
        count *= len(choices)
    if count > MOST_VARIANTS:
        raise Invalid(f"that is {count} combinations, {MOST_VARIANTS} at most are tried; give fewer values")
    variants = []
    for combination in itertools.product(*fields):
        variants.append(SweepVariant(combination, _apply_changes(recipe, combination)))
        # Weights belong to the data, which is stored once for the whole sweep.
        if variants[-1].recipe.events.weights != recipe.events.weights:
            raise Invalid(
                "events.weights can't be swept, all variants share their data; train with --set instead"
            )
    return variants


def sweep_id(variants: Sequence[SweepVariant], offsets: Mapping[str, str]) -> str:
    """Return the id of a sweep, which depends on its variants and on the offsets of the compacted data."""
    # With the offset: after new data a repeated command starts a new sweep.
    names = [offsets.get("interaction", "0"), *(variant.name for variant in variants)]
    return "sweep-" + hashlib.sha256(" ".join(names).encode()).hexdigest()[:10]


def evaluate_variant(variant: SweepVariant, data: Interactions) -> SweepReport:
    """Evaluate one variant and return its result."""
    split = split_data(variant.recipe, data)
    plan = plan_training(variant.recipe, data, split)
    report = evaluate_plan(plan, split.test, users=EVALUATION_USERS, k=_K, keeps_users=True)
    settled = apply_confirmation(plan, report).recipe
    return SweepReport(
        **report.to_dict(), changes=dict(variant.changes), settled=settled.model_dump(mode="json")
    )


def evaluate_variant_once(variant: SweepVariant, checkpoints: CheckpointStore) -> SweepReport:
    """Return the stored result of a variant, or evaluate it on the data of its sweep.

    Errors:
        Invalid: the data of the sweep is missing
    """
    kept = checkpoints.get(variant.name)
    if kept is not None:
        return SweepReport.model_validate(kept)
    source = checkpoints.source()
    if source is None:
        raise Invalid("the data of this sweep is missing from the artifact store; start the sweep again")
    report = evaluate_variant(variant, source.data)
    checkpoints.put(variant.name, report.to_dict())
    return report


def result_rows(
    results: Sequence[tuple[SweepVariant, SweepReport]], *, has_tests: bool = True
) -> list[dict[str, Any]]:
    """Return the results as rows, the best first, each with its paired difference to the first row.

    `difference` is the first row's NDCG@10 minus that of the row, over the same users, with a 95 % interval;
    `p_corrected` is the p of a paired test, corrected for the number of rows. A row without them was evaluated on other
    users, for example with another protocol, or by an earlier release.

    Cost: tenths of a second a row, because each difference takes thousands of samples; without `has_tests` none
    """
    table = []
    for variant, report in results:
        ndcg = report.everybody.get("ndcg@10")
        table.append(
            {
                **dict(variant.changes),
                **{name: round(report.figures[name], 5) for name in METRICS if name in report.figures},
                "low": None if ndcg is None else ndcg.low,
                "high": None if ndcg is None else ndcg.high,
                "readers": report.users,
                "seconds": report.seconds,
                "error": report.error,
            }
        )
    # Failed variants have no NDCG and come last.
    order = sorted(range(len(table)), key=lambda at: -table[at].get("ndcg@10", -1.0))
    for at in order[1:] if has_tests else ():
        table[at] |= _paired_difference(results[order[0]][1].per_user, results[at][1].per_user)
    tested = [at for at in order if "p_corrected" in table[at]]
    # Of 200 variants ten would be "significant" at 5 % by chance (Holm's method).
    corrected = correct_p(np.array([table[at]["p_corrected"] for at in tested]))
    for at, chance in zip(tested, corrected.tolist(), strict=True):
        table[at]["p_corrected"] = round(chance, 6)
    return [table[at] for at in order]


def _paired_difference(first: UserMetric | None, other: UserMetric | None) -> dict[str, float]:
    """Return the mean difference over the same users with interval and p; nothing if the users differ."""
    # A paired test needs the same users with the same targets.
    if first is None or other is None or first.targets != other.targets:
        return {}
    values = np.asarray(first.values, np.float64) - np.asarray(other.values, np.float64)
    rng = np.random.default_rng(_SEED)
    people = None if first.people is None else np.asarray(first.people, np.int64)
    # A person is the unit: several lists of one person are not independent.
    summed = values[None] if people is None else sum_by_person(values[None], people)[0]
    low, high = bootstrap_interval(values, rng, people)
    return {
        "difference": round(float(values.mean()), 5),
        "difference_low": round(low, 5),
        "difference_high": round(high, 5),
        "p_corrected": float(sign_flip_p(summed, rng)[0]),
    }


def compare_rows(table: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return whether the first row of a sweep is proven to be the best, and a sentence about it.

    It is, if the interval of its paired difference to every other row is above zero, and the corrected p is below .05.
    """
    rows = [row for row in table if not row.get("error")]
    if len(rows) < 2:
        return {"is_proven": False, "equal": len(rows), "sentence": "there is nothing to compare"}
    others = [row for row in rows[1:] if "difference" in row]
    # Both must hold: the interval is not corrected for the number of variants, p is.
    equal = [row for row in others if row["difference_low"] <= 0 or row["p_corrected"] >= _PROVEN_P]
    if len(others) < len(rows) - 1:
        sentence = (
            "no difference proven: some variants were evaluated on other users, so pairs can't be compared"
        )
    elif equal:
        near = equal[0]
        sentence = (
            f"no difference proven: {len(equal)} of the other {len(others)} variants may be as good as the first; "
            f"the next one is {near['difference']:.4f} behind in NDCG@10 (95 % interval of the paired difference "
            f"{near['difference_low']:+.4f} to {near['difference_high']:+.4f})"
        )
    else:
        near = others[0]
        sentence = (
            f"the first is certainly the best: {near['difference']:+.4f} in NDCG@10 against the next one (95 % "
            f"interval of the paired difference {near['difference_low']:+.4f} to {near['difference_high']:+.4f})"
        )
    return {
        "is_proven": not equal and len(others) == len(rows) - 1,
        "equal": len(equal) + 1,
        "sentence": sentence,
    }


def csv_from_rows(table: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV."""
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in table for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n", restval="")
    writer.writeheader()
    for row in table:
        writer.writerow({name: _csv_cell(value) for name, value in row.items()})
    return out.getvalue()


def markdown_from_rows(table: Sequence[Mapping[str, Any]], title: str, head: str = "") -> str:
    """Return rows as a Markdown table, the best first; `head` tells the protocol and the dates of the test."""
    names = list(dict.fromkeys(name for row in table for name in row))
    lines = [f"# {title}", "", *([head, ""] if head else [])]
    lines += ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    for row in table:
        cells = [_markdown_cell(row.get(name)) for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    note = (
        "`low` and `high` are the 95 % interval of NDCG@10. `difference` is the NDCG@10 of the first row minus that of "
        "the row over the same users, with its 95 % interval; `p_corrected` is the p of a paired sign-flip test, "
        "corrected by Holm's method for the number of rows."
    )
    sentence = compare_rows(table)["sentence"]
    lines += ["", f"{sentence[:1].upper()}{sentence[1:]}.", "", note]
    return "\n".join(lines) + "\n"


def _markdown_cell(value: Any) -> str:
    """Return the text of a Markdown table cell, on one line and with escaped borders."""
    return "" if value is None else " ".join(str(value).split()).replace("|", "\\|")


def _csv_cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _apply_changes(recipe: Recipe, combination: Sequence[tuple[str, Any]]) -> Recipe:
    """Return the recipe with changed fields; candidate values of `tune` that would set one of them are removed."""
    swept = dict(combination)
    changes = dict(swept)
    for path in swept:
        steps = path.split(".")
        tune_path = ".".join((*steps[:2], "tune"))
        if len(steps) == 3 and steps[0] == "parts" and steps[1] in recipe.parts and tune_path not in swept:
            tune = changes.get(tune_path, recipe.parts[steps[1]].tune)
            # The value of the sweep is meant, not a search around it.
            kept = {
                name: [value for value in values if steps[2] not in expand_value(name, value)]
                for name, values in tune.items()
            }
            changes[tune_path] = {name: values for name, values in kept.items() if values}
    return recipe.with_changes(changes)


def _split_values(text: str) -> list[Any]:
    """Split a text at commas outside of brackets."""
    parts = [""]
    depth = 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [_parse_value(part) for part in parts]


def _parse_value(text: str) -> Any:
    try:
        return load_json(text.encode("utf-8", "replace"), refuse_duplicates=False)
    except Malformed:
        return text.strip()


VariantCallback = Callable[[SweepVariant, SweepReport], None]

FOLDER = "sweeps"


def run_sweep(
    variants: Sequence[SweepVariant], checkpoints: CheckpointStore, on_variant: VariantCallback
) -> None:
    """Evaluate variants one after the other; a variant that fails gets the error as result."""
    for variant in variants:
        on_variant(variant, try_variant(variant, checkpoints))


def try_variant(variant: SweepVariant, checkpoints: CheckpointStore) -> SweepReport:
    """Evaluate one variant and return its result, or the error."""
    started_s = time.perf_counter()
    try:
        report = evaluate_variant_once(variant, checkpoints)
    except KioskError as error:
        return SweepReport(error=error.message)
    except Exception as error:  # noqa: BLE001
        # any error of a library or a custom learner fails only this variant
        return SweepReport(error=f"{type(error).__name__}: {error}")
    return report.model_copy(update={"seconds": round(time.perf_counter() - started_s, 2)})


def open_sweep(
    artifacts: ArtifactStore,
    segments: SegmentStore,
    app_id: str,
    variants: Sequence[SweepVariant],
    read_source: Callable[[], TrainingSource],
) -> tuple[str, CheckpointStore]:
    """Return the id of a sweep and its checkpoints, which have the data if a variant is missing."""
    name = sweep_id(variants, segments.offsets(app_id))
    checkpoints = CheckpointStore(artifacts, app_id, name, folder=FOLDER)
    # A complete sweep is only read. Its data was deleted, and is not needed again.
    if any(checkpoints.get(variant.name) is None for variant in variants) and checkpoints.source() is None:
        checkpoints.put_source(read_source())
    return name, checkpoints


def delete_sweep_data(
    checkpoints: CheckpointStore, results: Sequence[tuple[SweepVariant, SweepReport]]
) -> None:
    """Delete the data of a complete sweep; its results remain."""
    # A failed variant is tried again by a repeated sweep, which then needs the data.
    if not any(report.error for _, report in results):
        checkpoints.delete_source()


def find_split(results: Sequence[tuple[SweepVariant, SweepReport]]) -> dict[str, Any]:
    """Return the description of the test of the first variant that was evaluated."""
    return next((report.split for _, report in results if report.split), {})


def finish_sweep(
    artifacts: ArtifactStore,
    app_id: str,
    name: str,
    checkpoints: CheckpointStore,
    results: Sequence[tuple[SweepVariant, SweepReport]],
    title: str,
    out: Path | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Write the comparison and return its rows and its paths; the data of a complete sweep is deleted."""
    delete_sweep_data(checkpoints, results)
    table = result_rows(results)
    head = str(find_split(results).get("sentence", ""))
    return table, write_comparison(artifacts, app_id, name, table, title, out, head)


def write_comparison(
    artifacts: ArtifactStore,
    app_id: str,
    name: str,
    table: Sequence[Mapping[str, Any]],
    title: str,
    out: Path | None,
    head: str = "",
) -> list[str]:
    """Write the comparison as CSV and Markdown into the artifact store and a local folder; return the paths."""
    texts = {"comparison.csv": csv_from_rows(table), "comparison.md": markdown_from_rows(table, title, head)}
    places = []
    for file, text in texts.items():
        path = f"{FOLDER}/{app_id}/{name}/{file}"
        artifacts.write(path, text.encode())
        places.append(str(artifacts.local_path(path) or path))
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            (out / file).write_text(text, "utf-8")
            places.append(str(out / file))
    return places
