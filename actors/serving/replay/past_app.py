"""What is kept of the past of an app, read for replays: segments, versions of products, rules, promotions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from actors.serving.model_registry import SnapshotLoader
from actors.serving.replay.answer_replay import PastApp
from actors.serving.replay.state_position import StatePosition
from actors.serving.replay.state_replay import (
    PastHistories,
    list_links,
    pack_offsets,
    resolve_pseudonyms,
)
from actors.serving.stored_rules import parse_rules
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.replaced_products import ReplacedProducts, read_versions
from cluster.artifacts.segment_commits import SegmentCommits
from cluster.artifacts.segment_stream import SegmentStream
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Fault, NotFound
from cluster.query.language.compiled_rules import CompiledRule
from cluster.records.boost_rule import BoostRule, RuleVersion
from cluster.records.engine import Engine, Promotion
from cluster.records.experiment import Experiment
from cluster.records.run import DAY_MS
from cluster.store.stores import Stores

MOST_RULE_VERSIONS: Final = 2_000
MOST_PROMOTIONS: Final = 100
LOADED_BYTES: Final = 80_000_000
"Memory of a snapshot and of what a replay imports."
MEMORY: Final = {"product": (3_000, 6.5), "interaction": (600, 2.2)}
"""Noun -> bytes for each row, and for each byte of its decoded columns; former versions of products count as products.
The peaks of processes that loaded and ranked were 0.60 to 0.93 of it, with 5,000 to 35,000 versions of 0.4 to 4.4 kB,
and 200,000 to 400,000 interactions of 0.1 to 1.1 kB (`tests/drills/test_replay.py`)."""
_READ_TRIES: Final = 5
_STALE_MS: Final = 3_600_000
_MOST_MOMENTS: Final = 6
_PAGES_MS: Final = 86_400_000
"How long earlier pages of a list are looked for."


class PastRules:
    """The stored rules of an app at any time, from the rules of now and the history of their changes."""

    def __init__(self, app_id: str, rules: Sequence[BoostRule], versions: Sequence[RuleVersion]) -> None:
        """`versions` come newest first."""
        self._app_id = app_id
        self._rules = {(rule.engine_id, rule.name): rule for rule in rules}
        self._versions = versions
        self._parsed: dict[tuple[str, int], tuple[CompiledRule, ...]] = {}
        is_cut = len(versions) >= MOST_RULE_VERSIONS
        self.since_ms = versions[-1].at if is_cut else 0
        "Changes before this time are not kept."

    def list_moments(self, at_ms: int) -> Sequence[int]:
        """Return a time, and the moments before the last changes: a replica without requests reads no rules."""
        changed = dict.fromkeys(
            version.at for version in self._versions if at_ms - _STALE_MS <= version.at <= at_ms
        )
        return [at_ms, *(changed_ms - 1 for changed_ms in changed)][:_MOST_MOMENTS]

    def list(self, engine_id: str, at_ms: int) -> tuple[CompiledRule, ...]:
        """Return the rules of an engine that were in force at a time, highest priority first."""
        # Versions come newest first, so these are the ones to take back.
        undone = sum(version.at > at_ms for version in self._versions)
        if (engine_id, undone) not in self._parsed:
            rules = dict(self._rules)
            for version in self._versions[:undone]:
                name = version.engine_id, version.name
                # The rule was created by this change and did not exist before.
                if version.before is None:
                    rules.pop(name, None)
                else:
                    rules[name] = version.before
            self._parsed[engine_id, undone] = parse_rules(self._app_id, engine_id, list(rules.values()))
        rules_then = self._parsed[engine_id, undone]
        return tuple(compiled for compiled in rules_then if compiled.rule.is_in_force(at_ms))


@dataclass(frozen=True, slots=True)
class PastSettings:
    """What the store of an app holds: engines, experiments, rules, promotions."""

    salt: bytes
    engines: Mapping[str, Engine]
    experiments: Mapping[str, Experiment]
    rules: PastRules
    promotions: Mapping[str, Sequence[Promotion]]
    "Engine -> its promotions, newest first."

    def find_serving(self, engine_id: str, at_ms: int) -> str:
        """Return the version that served an engine at a time."""
        promotions = self.promotions.get(engine_id, ())
        for promotion in promotions:
            if promotion.at_ms <= at_ms:
                return promotion.version
        return promotions[-1].before if promotions else ""


async def read_past_settings(stores: Stores, app_id: str) -> PastSettings:
    """Read the settings of an app with their history."""
    engines = {engine.engine_id: engine for engine in await stores.engines.all(app_id)}
    book = await stores.experiments.read_all(app_id)
    versions = await stores.rule_versions.newest(app_id, count=MOST_RULE_VERSIONS)
    return PastSettings(
        await stores.served.salt(app_id),
        engines,
        {experiment.experiment_id: experiment for experiment in book.experiments},
        PastRules(app_id, await stores.boost_rules.all(app_id), versions),
        {
            engine_id: await stores.promotions.history(app_id, engine_id, MOST_PROMOTIONS)
            for engine_id in engines
        },
    )


def load_past_app(
    artifacts: ArtifactStore, app_id: str, settings: PastSettings, pseudonyms: Sequence[str]
) -> PastApp:
    """Read the past of an app; `pseudonyms` are those of the users whose lists are ranked again. Blocks.

    Cost:
        that of a load of the app, once more for the versions of products
    """
    segments = SegmentStore(artifacts)
    stream = SegmentStream(artifacts, app_id)
    state = segments.load(app_id)
    users = segments.records(app_id, "user")
    links = list_links(stream.interactions(stream.measure("interaction").offset))
    loader = SnapshotLoader(SnapshotStore(artifacts))
    versions = read_versions(artifacts, app_id)
    losses = _Losses(artifacts, app_id, settings, versions)
    return PastApp(
        app_id,
        state,
        versions,
        users,
        PastHistories(state.interactions, links),
        resolve_pseudonyms(pseudonyms, state.interactions, users, settings.salt),
        links,
        settings.engines,
        settings.experiments,
        settings.rules.list,
        settings.rules.list_moments,
        lambda engine_id, version: loader.load(app_id, engine_id, version),
        settings.find_serving,
        EarlierPages(artifacts, app_id, pseudonyms).list,
        lambda row, products: list(losses.list(row, products)),
    )


def estimate_memory(artifacts: ArtifactStore, app_id: str) -> int:
    """Return a bound of the bytes that the past of an app takes while lists are ranked again. Blocks.

    Errors:
        Fault: the segments are damaged, or keep changing
    Cost:
        reads and decodes each file of products and interactions once, one at a time
    """
    files = SegmentCommits(artifacts, SystemClock())
    replaced = ReplacedProducts(artifacts)
    for _ in range(_READ_TRIES):
        needed = LOADED_BYTES
        try:
            for entry in files.manifest(app_id).files:
                if entry.facts["noun"] in MEMORY:
                    needed += _estimate_table(files.table(app_id, entry), entry.facts["noun"])
            for entry in replaced.commit(app_id).files:
                versions = replaced.read_file(app_id, entry, replaced.schema.names)
                needed += 0 if versions is None else _estimate_table(versions, "product")
        except NotFound:  # the intake merged files during the read
            continue
        return needed
    raise Fault(f"the segments of {app_id} keep being replaced while they are read")


def _estimate_table(table: Any, noun: str) -> int:
    per_row, per_byte = MEMORY[noun]
    return int(table.num_rows * per_row + table.nbytes * per_byte)


@dataclass(frozen=True, slots=True)
class _LoggedPage:
    """A page of a list with a `pagination_id`."""

    at_ms: int
    service_id: str
    products: Sequence[str]


class EarlierPages:
    """Products of earlier pages of some users, from the log of answers: each day of it is read once."""

    def __init__(self, artifacts: ArtifactStore, app_id: str, pseudonyms: Sequence[str]) -> None:
        self._log = ServedLogStore(artifacts)
        self._app_id = app_id
        self._users = pa.array(sorted({*pseudonyms, ""}))
        self._days: dict[int, Mapping[tuple[str, str], Sequence[_LoggedPage]]] = {}

    def list(self, row: Mapping[str, Any], pagination_id: str) -> list[str]:
        """Return what earlier pages of the same user and `pagination_id` showed, in order."""
        at_ms = int(row["at"])
        since_ms = at_ms - _PAGES_MS
        shown: list[str] = []
        for day in dict.fromkeys((since_ms // DAY_MS, at_ms // DAY_MS)):
            if day not in self._days:
                self._days[day] = self._read_day(day)
            # The list itself is in the log too, and is no earlier page of its own.
            for page in self._days[day].get((row["user"], pagination_id), ()):
                if since_ms <= page.at_ms <= at_ms and page.service_id != row["service_id"]:
                    shown += page.products
        return shown

    def _read_day(self, day: int) -> Mapping[tuple[str, str], Sequence[_LoggedPage]]:
        """Return the pages of a day by user and `pagination_id`, oldest first."""
        columns = ("service_id", "user", "request", "products")
        answers = self._log.read(self._app_id, day * DAY_MS, (day + 1) * DAY_MS - 1, columns)
        is_page = pc.and_(
            pc.is_in(answers["user"], value_set=self._users),
            pc.match_substring(answers["request"], '"pagination_id"'),
        )
        pages: dict[tuple[str, str], list[_LoggedPage]] = {}
        for page in answers.filter(is_page).to_pylist():
            pagination_id = orjson.loads(page["request"]).get("pagination_id")
            logged = _LoggedPage(page["at"], page["service_id"], page["products"])
            pages.setdefault((page["user"], str(pagination_id)), []).append(logged)
        return pages


class _Losses:
    """What changed since a list was served and is not kept."""

    def __init__(self, artifacts: ArtifactStore, app_id: str, settings: PastSettings, versions: Any) -> None:
        self._erasures = SegmentStore(artifacts).erasures(app_id)
        self._settings = settings
        self._first: dict[str, int] = {}
        for record_id, position in zip(
            versions["id"].to_pylist(), pack_offsets(versions).tolist(), strict=True
        ):
            self._first.setdefault(record_id, position)

    def list(self, row: Mapping[str, Any], products: Sequence[str]) -> Iterator[str]:
        """Yield the reasons why a list may differ, as sentences without their full stops."""
        at_ms = int(row["at"])
        state = StatePosition.parse(row["state"])
        lost = [
            product
            for product in dict.fromkeys((*row["products"], *products))
            if self._first.get(product, 1 << 62) > state.products
        ]
        if lost:
            yield f"products changed since, and their content of that time is not kept: {', '.join(lost[:5])}"
        erased = sum(erased_ms >= at_ms for _, _, erased_ms in self._erasures.listed)
        if erased:
            yield f"{erased:,} erasures since then took interactions out of the counts of the app"
        if self._settings.rules.since_ms > at_ms:
            yield "rules were changed since, more often than their history is kept"
        if row["level"] == "cohort":
            yield "attributes of users are those of now"
