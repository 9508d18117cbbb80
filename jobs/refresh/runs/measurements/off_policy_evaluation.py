"""Evaluation by the log of answers: what lists of a recipe, a snapshot or another engine would have earned.

log          lists whose request can be rebuilt, sampled if there are too many
recipe       trained with the events before the first list
rankings     of the candidate and of the serving version, for the history of each list's user at its time
estimates    `jobs.refresh.evaluation.off_policy_report`
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import polars as pl

from actors.intake.attribution import VIEWS
from actors.language.hashing_embedder import HashingEmbedder
from actors.models.loading.snapshot import Snapshot
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.models.loading.validation import validate_snapshot
from actors.recommender.messages import UserQuery, with_repeat_pauses
from actors.recommender.state.events import offset_time_ms
from actors.serving.model_registry import SnapshotLoader
from actors.serving.replay.logged_requests import NOT_KEPT, add_visitor, decode_request
from actors.serving.replay.state_replay import (
    SEQUENCE_BITS,
    PastHistories,
    StateReplay,
    list_first_times,
    list_links,
    list_products_by_sign,
    product_id_of,
    resolve_pseudonyms,
)
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.segment_stream import SegmentStream
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Fault, Invalid, KioskError, NotFound
from cluster.records.run import DAY_MS
from cluster.records.served_list import RULE
from cluster.store.stores import Stores
from jobs.refresh.build.fit import build_content_weights, train_engine
from jobs.refresh.build.model_snapshot import SnapshotOrigin, write_model_snapshot
from jobs.refresh.evaluation.logged_lists import (
    IS_PAGE,
    LATER_PAGES,
    LoggedLists,
    collect_lists,
    place_ranking,
)
from jobs.refresh.evaluation.off_policy import PolicyPlaces
from jobs.refresh.evaluation.off_policy_report import GROUPED, SEARCHES, build_report
from jobs.refresh.evaluation.report_models import LoggedReport
from jobs.refresh.recipe import Recipe
from jobs.refresh.runs.plan_evaluation import plan_training, split_data
from jobs.refresh.runs.promotion import get_engine
from jobs.refresh.runs.training_source import read_training_source
from jobs.refresh.tuning.variant_training import StepCallback, ignore_step

T = TypeVar("T")

MOST_LISTS: Final = 20_000
"Lists of an evaluation that names no number."
SEED: Final = 26
_ENDPOINTS: Final = ("user_to_products", "user_to_trending", "product_to_products")
"Endpoints whose lists are ranked by the snapshot of their engine alone."
_LEVELS_WITHOUT_USER: Final = ("trending", "newest", "cohort", "seen_again", "similar", "baskets")
"Levels that an answer without a user can have; others need a history that the log does not name."
_COLUMNS: Final = (
    "service_id",
    "endpoint",
    "engine_id",
    "snapshot",
    "level",
    "user",
    "request_digest",
    "start",
    "rows",
    "products",
    "origins",
    "propensities",
    "request",
)
_CLICK_COLUMNS: Final = ("service_id", "type", "places")
# Days after the period whose clicks still belong to its lists.
_CLICK_DAYS: Final = 7
_CANDIDATE = "candidate"
_SERVING = "serving"
_NOT_REBUILT: Final = "requests that can't be rebuilt"
_PAGINATION: Final = pl.col("request").str.extract(r'"pagination_id":("(?:[^"\\]|\\.)*")')
"The `pagination_id` of a request, in quotes; null without one."
_STEP_MS: Final = 60_000
_MOST_STEPS: Final = 2_000
"Steps of the state of an app: each computes the priors of all products again."
_READ_TRIES: Final = 5
_SHOW_EVERY: Final = 500


@dataclass(frozen=True, slots=True)
class LoggedTarget:
    """What is evaluated: a recipe, or a version of an engine; neither: the serving version."""

    recipe: Recipe | None = None
    engine_id: str = ""
    version: str = ""
    pauses: Mapping[str, float] = field(default_factory=dict)
    "Days by type of interaction after which the target may show a product again (`Engine.repeat_after_days`)."
    serving_pauses: Mapping[str, float] = field(default_factory=dict)
    "Those of the engine whose lists are judged."

    def __str__(self) -> str:
        """Return the name for reports."""
        if self.recipe is not None:
            return f"recipe {self.recipe.name}"
        return f"{self.engine_id} {self.version}" if self.version else "the serving version"


async def select_logged_target(
    stores: Stores,
    artifacts: ArtifactStore,
    app_id: str,
    engine_id: str,
    recipe: Recipe | None,
    snapshot: str,
    candidate: str,
) -> tuple[LoggedTarget, str]:
    """Return what to evaluate by the lists of an engine, and the version that serves the engine.

    `snapshot` is the beginning of a version of the engine, `candidate` another engine.

    Errors:
        NotFound: an engine or the version does not exist
        Invalid: more than one target is named, or the candidate serves no version
    """
    if sum(map(bool, (recipe, snapshot, candidate))) > 1:
        raise Invalid("choose one of recipe, snapshot and candidate")
    engine = await get_engine(stores, app_id, engine_id)
    serving = engine.snapshot
    pauses = engine.repeat_after_days
    if candidate:
        rival = await get_engine(stores, app_id, candidate)
        if not rival.snapshot:
            raise Invalid(f"no trained version serves engine {candidate}; name a recipe or a snapshot")
        return LoggedTarget(None, candidate, rival.snapshot, rival.repeat_after_days, pauses), serving
    if snapshot:
        version = await asyncio.to_thread(SnapshotStore(artifacts).find_version, app_id, engine_id, snapshot)
        return LoggedTarget(None, engine_id, version, pauses, pauses), serving
    return LoggedTarget(recipe, pauses=pauses, serving_pauses=pauses), serving


@dataclass(frozen=True, slots=True)
class LogPeriod:
    """Which lists count."""

    since_ms: int
    until_ms: int
    most: int = MOST_LISTS
    seed: int = SEED


@dataclass(frozen=True, slots=True)
class LogServices:
    """Where an evaluation by the log reads. `salt` is that of the pseudonyms of the app."""

    artifacts: ArtifactStore
    segments: SegmentStore
    salt: bytes


def evaluate_log(
    services: LogServices,
    app_id: str,
    engine_id: str,
    serving: str,
    target: LoggedTarget,
    period: LogPeriod,
    on_step: StepCallback = ignore_step,
) -> LoggedReport:
    """Return the report of a target by the lists of one engine; `serving` is the version that serves it.

    Errors:
        Invalid: there is too little data before the period to train a recipe
        NotFound, Fault: a version is missing or damaged
    Cost:
        a load of the app; two answers of about 1 ms for each list; up to 2,000 steps of the priors
    """
    on_step("read the log of answers")
    answers, left_out, total = read_answers(services.artifacts, app_id, engine_id, period)
    clicks = read_clicks(services.artifacts, app_id, period)
    lists = collect_lists(answers, clicks)
    lists = replace(lists, left_out={**lists.left_out, **left_out})
    notes: list[str] = []
    is_serving = target.recipe is None and target.version in ("", serving)
    if lists.answers.height:
        with tempfile.TemporaryDirectory(prefix="kiosk-logged-") as folder:
            load = partial(SnapshotLoader(SnapshotStore(services.artifacts)).load, app_id)
            models = {_SERVING: load(engine_id, serving) if serving else None}
            if target.recipe is not None:
                models[_CANDIDATE] = train_before(
                    services.segments, app_id, target.recipe, period.since_ms, Path(folder), on_step
                )
            elif not is_serving:
                models[_CANDIDATE] = load(target.engine_id, target.version)
            notes += _list_leaks(models, period)
            pauses = {_SERVING: target.serving_pauses, _CANDIDATE: target.pauses}
            rankings, features = rank_lists(services, app_id, lists, models, pauses, on_step)
        # Lists that could not be rebuilt leave both sides: the comparison needs the same lists.
        ranked = lists.answers.filter(pl.col("service_id").is_in(list(rankings[_SERVING])))
        lost = lists.answers.height - ranked.height
        lists = replace(
            _scale_days(collect_lists(ranked, clicks, features), total),
            left_out={**lists.left_out, _NOT_REBUILT: lists.left_out[_NOT_REBUILT] + lost},
        )
        policies = {name: _place(lists, ranking) for name, ranking in rankings.items()}
    else:
        policies = dict.fromkeys((_SERVING, _CANDIDATE), _place(lists, {}))
    on_step("estimate")
    policy = policies[_SERVING if is_serving else _CANDIDATE]
    against = None if is_serving else policies[_SERVING]
    report = build_report(lists, policy, against, serving, f"{app_id} {engine_id}")
    sampled = {"of": total, "seed": period.seed} if total > answers.height else {}
    return report.model_copy(
        update={
            "target": str(target),
            "engine_id": engine_id,
            "serving_version": serving,
            "since_ms": period.since_ms,
            "until_ms": period.until_ms,
            "sample": sampled,
            "notes": notes,
        }
    )


def read_answers(
    artifacts: ArtifactStore, app_id: str, engine_id: str, period: LogPeriod
) -> tuple[pl.DataFrame, dict[str, int], int]:
    """Return the lists of an engine whose request can be rebuilt, what is left out by reason, and their number.

    More than `period.most` lists are sampled.
    """
    store = ServedLogStore(artifacts)
    return _read_again(lambda: _read_answers(store, app_id, engine_id, period))


def _read_again(read: Callable[[], T]) -> T:
    for _ in range(_READ_TRIES):
        try:
            return read()
        except NotFound:  # the intake merged files during the read
            continue
    raise Fault("the files of the log of answers keep changing")


def read_clicks(artifacts: ArtifactStore, app_id: str, period: LogPeriod) -> pl.DataFrame:
    """Return the clicks and views that answers of the period led to."""
    until_ms = period.until_ms + _CLICK_DAYS * DAY_MS
    table = OutcomeStore(artifacts).read(app_id, period.since_ms, until_ms, _CLICK_COLUMNS)
    return pl.DataFrame(pl.from_arrow(table)).filter(pl.col("type").is_in(VIEWS))


def read_earlier_pages(artifacts: ArtifactStore, app_id: str, answers: pl.DataFrame) -> dict[str, list[str]]:
    """Return the products of earlier pages for each answer with a `pagination_id`, by `service_id`.

    Pages of one list have the same user and `pagination_id`, and are at most a day apart.

    Cost:
        one file of the log in memory at a time, and the pages of these answers
    """
    pages = answers.with_columns(pagination=_PAGINATION).drop_nulls("pagination").sort("at")
    if not pages.height:
        return {}
    store = ServedLogStore(artifacts)
    since_ms = int(pages["at"][0]) - DAY_MS
    until_ms = int(pages["at"][-1]) + 1
    lists = pages.select("user", "pagination").unique()
    columns = ("service_id", "user", "request", "products")

    def read() -> pl.DataFrame:
        commit = store.commit(app_id)
        tables = store.files(app_id, commit, since_ms, until_ms, columns)
        frames = (pl.DataFrame(pl.from_arrow(table)).with_columns(pagination=_PAGINATION) for table in tables)
        # an old day may have been dropped since the answers were read, and it may have been the only one
        no_pages = pages.select("at", *columns, "pagination").clear()
        matching = (frame.join(lists, on=["user", "pagination"], how="semi") for frame in frames)
        return pl.concat([no_pages, *matching], how="diagonal_relaxed")

    joined = pages.select("service_id", "at", "user", "pagination").join(
        _read_again(read).sort("at"), on=["user", "pagination"], suffix="_before", maintain_order="right"
    )
    joined = joined.filter(
        pl.col("at_before").is_between(pl.col("at") - DAY_MS, pl.col("at")),
        pl.col("service_id_before") != pl.col("service_id"),
    )
    products = joined.explode("products").drop_nulls("products")
    shown = products.group_by("service_id", maintain_order=True).agg("products")
    return dict(shown.iter_rows())


def train_before(
    segments: SegmentStore,
    app_id: str,
    recipe: Recipe,
    since_ms: int,
    folder: Path,
    on_step: StepCallback = ignore_step,
) -> LoadedSnapshot:
    """Train a recipe with the events before a time, and load the snapshot from a new folder.

    Errors:
        Invalid: there is too little data
    """
    source = read_training_source(segments, app_id, recipe)
    # Only what was known before the first list: the recipe must not learn from the lists that judge it.
    data = source.data.pick(source.data.at_s * 1000 < since_ms)
    if not source.data.clock or not len(data):
        raise Invalid(
            "the app has no events before the lists of the log; choose a shorter --since, or a snapshot instead of "
            "a recipe"
        )
    plan = plan_training(recipe, data, split_data(recipe, data), on_step)
    engine = train_engine(plan.recipe, data, on_step)
    extras: Mapping[str, Any] = {}
    if engine.recipe.content is not None and source.texts:
        learners = {name: part.learner for name, part in engine.recipe.parts.items()}
        extras = build_content_weights(
            engine.recipe.content, source.texts, data, learners, engine.blend, engine.recipe.seed
        )
    origin = SnapshotOrigin({"interaction": f"{since_ms}-0"}, source.embedder)
    write_model_snapshot(engine, folder / "snapshot", written_at_ms=since_ms, origin=origin, extras=extras)
    snapshot = Snapshot.open(folder / "snapshot")
    return validate_snapshot(snapshot, snapshot.version)


def rank_lists(
    services: LogServices,
    app_id: str,
    lists: LoggedLists,
    models: Mapping[str, LoadedSnapshot | None],
    pauses: Mapping[str, Mapping[str, float]],
    on_step: StepCallback,
) -> tuple[dict[str, dict[str, list[str]]], dict[str, list[float]]]:
    """Return the products of each model for each list by `service_id`, and the features of products.

    A list has no products if its request is of another release, or names a product that is gone.

    The user of a list has the interactions that were written before it. The signals of the whole app are at most a
    minute older, or a 2,000th of the period. A page with a `pagination_id` comes after the pages that the log has. The
    feature of a product is the logarithm of its earlier interactions.
    """
    on_step("rebuild the app")
    answers = lists.answers.sort("at")
    begins_ms = int(answers["at"][0])
    ends_ms = int(answers["at"][-1])
    stream = SegmentStream(services.artifacts, app_id)
    state = services.segments.load(app_id, salvage=True)
    users = services.segments.records(app_id, "user", salvage=True)
    first_ms = list_first_times(stream.records("product", ()), state.interactions)
    for product, at in _first_shown(answers).iter_rows():
        first_ms[product] = min(at, first_ms.get(product, at))
    links = list_links(stream.interactions(stream.measure("interaction").offset))
    histories = PastHistories(state.interactions, links)
    earlier = read_earlier_pages(services.artifacts, app_id, answers)
    people = resolve_pseudonyms(answers["user"], state.interactions, users, services.salt)
    products = list_products_by_sign(state.products, first_ms, begins_ms)
    reserved = map(product_id_of, state.products)
    begins = begins_ms << SEQUENCE_BITS
    replayed = StateReplay(state, users, products, HashingEmbedder(), begins, reserved=reserved)
    for name, model in models.items():
        replayed.set_snapshot(name, model)
    step_ms = max(_STEP_MS, (ends_ms - begins_ms) // _MOST_STEPS)
    reached_ms = begins_ms
    rankings: dict[str, dict[str, list[str]]] = {name: {} for name in models}
    for number, row in enumerate(answers.iter_rows(named=True)):
        if number % _SHOW_EVERY == 0:
            on_step(f"rank {number:,} of {answers.height:,} lists")
        if row["at"] >= reached_ms + step_ms:
            reached_ms = row["at"]
            replayed.advance(reached_ms)
        user_key = people.get(row["user"], f"a:{row['user']}") if row["user"] else ""
        recent = histories.read(user_key, row["at"]) if user_key else []
        try:
            query = _build_query(app_id, user_key, row, links)
            results = {
                name: replayed.answer(
                    with_repeat_pauses(replace(query, engine_id=name), pauses[name]),
                    recent,
                    row["at"],
                    earlier.get(row["service_id"], ()),
                )
                for name in models
            }
        except KioskError:
            continue
        for name, result in results.items():
            rankings[name][row["service_id"]] = [str(product["product_id"]) for product in result.products]
    return rankings, _count_popularity(state.interactions, begins_ms)


def _read_answers(
    store: ServedLogStore, app_id: str, engine_id: str, period: LogPeriod
) -> tuple[pl.DataFrame, dict[str, int], int]:
    commit = store.commit(app_id)
    random = np.random.default_rng(period.seed)
    left_out: Counter[str] = Counter()
    sizes: list[int] = []
    # Two passes: the first counts with narrow columns, as the share of the sample needs the total.
    narrow = ("engine_id", "endpoint", "request_digest", "request", "state", "level", "user", "start")
    for table in store.files(app_id, commit, period.since_ms, period.until_ms, narrow):
        frame = pl.DataFrame(pl.from_arrow(table))
        for reason, is_kept in _conditions(engine_id).items():
            kept = frame.filter(is_kept)
            left_out[reason] += frame.height - kept.height
            frame = kept
        sizes.append(frame.height)
    total = sum(sizes)
    share = period.most / max(total, period.most)
    frames = [pl.DataFrame(pl.from_arrow(store.schema.empty_table())).select("at", *_COLUMNS)]
    for table in store.files(app_id, commit, period.since_ms, period.until_ms, (*_COLUMNS, "state")):
        frame = pl.DataFrame(pl.from_arrow(table)).filter(*_conditions(engine_id).values())
        frames.append(frame.filter(random.random(frame.height) < share).select("at", *_COLUMNS))
    return pl.concat(frames, how="vertical_relaxed"), dict(left_out), total


def _conditions(engine_id: str) -> dict[str, pl.Expr]:
    """Return what the request of a list must fulfil, in this order, by the reason that leaves it out otherwise."""
    return {
        "other engines": pl.col("engine_id") == engine_id,
        SEARCHES: pl.col("endpoint") != "search",
        GROUPED: ~pl.col("endpoint").is_in(["user_to_categories", "user_to_attributes"]),
        _NOT_REBUILT: pl.col("endpoint").is_in(_ENDPOINTS),
        LATER_PAGES: IS_PAGE,
        # an earlier release, which wrote no state, kept no filters and boosts
        "requests that are not kept": ~pl.col("request").is_in(list(NOT_KEPT))
        & ((pl.col("state") != "") | (pl.col("request_digest") == "")),
        "unknown users": (pl.col("user") != "") | pl.col("level").is_in(_LEVELS_WITHOUT_USER),
    }


def _build_query(
    app_id: str, user_key: str, row: Mapping[str, Any], links: Mapping[str, Sequence[tuple[str, int]]]
) -> UserQuery:
    """Return the query of a list, with more places."""
    query, names_visitor = decode_request(app_id, user_key, row)
    if names_visitor:
        query = add_visitor(query, links.get(user_key, ()), row["at"])
    # Products of rules keep their places; a ranking needs as many others to fill the rest.
    rows = max(row["rows"], len(row["products"])) + row["origins"].count(RULE)
    return replace(query, rows=rows, snapshot="", service_id="")


def _first_shown(answers: pl.DataFrame) -> pl.DataFrame:
    shown = answers.select("products", pl.col("at").cast(pl.Int64)).explode("products").drop_nulls()
    return shown.group_by("products").agg(pl.col("at").min())


def _count_popularity(interactions: Any, before_ms: int) -> dict[str, list[float]]:
    frame = pl.DataFrame(pl.from_arrow(interactions.select(["product_ids", "at_ms"])))
    counts = (
        frame.filter(pl.col("at_ms") < before_ms).explode("product_ids").group_by("product_ids").len()
    ).drop_nulls()
    # log(1 + n): the difference between 0 and 10 events counts, that between 1,000 and 1,010 does not.
    return {product: [float(np.log1p(count))] for product, count in counts.iter_rows()}


def _place(lists: LoggedLists, ranking: Mapping[str, list[str]]) -> PolicyPlaces:
    return place_ranking(lists, lambda service_id, user: ranking[service_id])


def _scale_days(lists: LoggedLists, total: int) -> LoggedLists:
    """Let the advice of a refusal count all lists of the log, not those of the sample."""
    share = lists.answers.height / max(total, 1)
    return replace(lists, log=replace(lists.log, days=lists.log.days * min(share, 1.0)))


def _list_leaks(models: Mapping[str, LoadedSnapshot | None], period: LogPeriod) -> list[str]:
    """Return a note for each snapshot that was trained with events of the period."""
    notes = []
    for name, model in models.items():
        facts = {} if model is None else model.snapshot.manifest.facts
        until = facts.get("offsets", {}).get("interaction", "")
        if until and offset_time_ms(until) > period.since_ms:
            notes.append(
                f"the {name} version was trained with events of these days, so its estimate may be too high; a "
                "recipe, or a later --since, has no such advantage"
            )
    return notes
