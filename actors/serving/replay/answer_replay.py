"""Lists of the log of answers, ranked again as they were: same request, rules, experiments, snapshot, state and draw.

state        products and interactions up to the offsets that the row names, in the order in which a replica loaded them
request      as the API parsed it; experiments and stored rules are applied again as they were at that time
draw         of the id of the answer and the secret of the engine
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from actors.experiments.messages import ExperimentTreatment
from actors.experiments.team_draft import find_seed
from actors.language.hashing_embedder import Embedder
from actors.models.loading.snapshot_models import LoadedSnapshot
from actors.recommender.messages import RULE_LABEL, RecommendationResult, UserQuery, with_repeat_pauses
from actors.recommender.rerank.exploration import draw_exploration
from actors.retrieval.messages import SearchQuery
from actors.serving.interleaved_answers import draft_result, list_side
from actors.serving.replay.counterfactual import CounterfactualChange
from actors.serving.replay.logged_requests import add_visitor, decode_request
from actors.serving.replay.state_position import StatePosition
from actors.serving.replay.state_replay import (
    PastHistories,
    StateReplay,
    list_products_by_version,
    pack_offset,
)
from actors.serving.stored_rules import apply_rules
from actors.serving.treatments import apply_treatments
from cluster.artifacts.compacted_state import CompactedState
from cluster.errors import Invalid, KioskError, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.query.language.compiled_rules import CompiledRule
from cluster.records.engine import Engine, Exploration
from cluster.records.experiment import Experiment
from cluster.records.served_list import DITHERED, EXPLORED, RANKED

REPLAYED_ENDPOINTS: Final = (
    "user_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "product_to_products",
    "search",
)
"Endpoints whose lists one state of an app determines. Completions depend on the searches of other users as well."
_SIGNALS_MS: Final = 200
"How old signals of the whole app may be, as in a replica."
_BETWEEN: Final = " + "
_LIVE: Final = "live"
_DRAWN: Final = ("user_to_products", "product_to_products")
_MOST_DRAWS: Final = 800
"Ids that are tried with each set of rules: a place of 19 and a product of 8 have 152 combinations."
_MOST_SHOWN: Final = 100
"Products of an answer that the log keeps."


@dataclass(frozen=True, slots=True)
class ReplayedAnswer:
    """What became of one list."""

    row: Mapping[str, Any]
    products: tuple[str, ...] = ()
    "As ranked again."
    changed: tuple[str, ...] | None = None
    "As ranked again with the change; None without one."
    reasons: tuple[str, ...] = ()
    "Why the list could not be ranked again, or why it may differ."
    is_rebuilt: bool = False

    @property
    def is_equal(self) -> bool:
        """Return whether the list is the one that was served."""
        return self.is_rebuilt and self.products == tuple(self.row["products"])


@dataclass(frozen=True, slots=True)
class PastApp:
    """All that is kept of an app's past. Functions get the time in milliseconds."""

    app_id: str
    state: CompactedState
    versions: Any
    "Versions of products, as `read_versions` returns them."
    users: Sequence[bytes]
    histories: PastHistories
    people: Mapping[str, str]
    "Pseudonym -> user key."
    links: Mapping[str, Sequence[tuple[str, int]]]
    engines: Mapping[str, Engine]
    experiments: Mapping[str, Experiment]
    list_rules: Callable[[str, int], Sequence[CompiledRule]]
    "(engine, time) -> the rules in force."
    list_rule_moments: Callable[[int], Sequence[int]]
    "(time) -> that time, and moments before with other rules: a replica may have read its rules then."
    load_snapshot: Callable[[str, str], LoadedSnapshot]
    "(engine, version) -> the snapshot; raises `NotFound`."
    find_serving: Callable[[str, int], str]
    "(engine, time) -> the version that served."
    list_earlier_pages: Callable[[Mapping[str, Any], str], Sequence[str]]
    "(row, pagination id) -> products of earlier pages."
    explain: Callable[[Mapping[str, Any], Sequence[str]], Sequence[str]]
    "(row, products) -> what changed since, and is not kept."


class AnswerReplayer:
    """Ranks lists of one app again. Lists in the order of their states share the work of loading."""

    def __init__(self, app: PastApp, embedder: Embedder) -> None:
        self._app = app
        self._embedder = embedder
        self._replay: StateReplay | None = None
        self._reached: StatePosition | None = None
        self._signals: tuple[int, int] = (-1, -1)
        self._snapshots: dict[tuple[str, str], LoadedSnapshot | None] = {}
        self._bound: dict[str, str] = {}

    def replay(self, row: Mapping[str, Any], change: CounterfactualChange | None = None) -> ReplayedAnswer:
        """Rank the list of a row of the log again, and with a change.

        Cost:
            a load of the app for the first list, and for lists of another load; some milliseconds for others
        """
        try:
            self._check(row)
            recent, queries = self._build_queries(row)
            replayed = self._move(row, self._list_versions(row, queries[0], change), change)
            products = self._search_draws(replayed, row, queries, recent)
            changed = None
            if change is not None:
                changed = self._rank(replayed, row, change.apply(queries[0]), recent, change)
        except KioskError as error:
            return ReplayedAnswer(row, reasons=(error.message,))
        result = ReplayedAnswer(row, products, changed, is_rebuilt=True)
        return result if result.is_equal else replace(result, reasons=tuple(self._explain(row, products)))

    def _check(self, row: Mapping[str, Any]) -> None:
        """Refuse a row without the facts of a replay.

        Errors:
            Invalid: with the reason
        """
        app = self._app
        if row["endpoint"] not in REPLAYED_ENDPOINTS:
            raise Invalid(f"lists of {row['endpoint']} can't be ranked again")
        if not row["state"]:
            raise Invalid("an earlier release wrote this answer, without the offsets of its state")
        if row["engine_id"] not in app.engines:
            raise Invalid(f"engine {row['engine_id']} was deleted")
        if row["user"] and row["user"] not in app.people and row["level"] == "personal":
            raise Invalid("the user has no interaction and no record any more")
        for treatment in row["experiments"]:
            if treatment["experiment"] not in app.experiments:
                raise Invalid(f"experiment {treatment['experiment']} was deleted")
        reached = app.state.offsets
        state = StatePosition.parse(row["state"])
        for noun, position in (("product", state.products), ("interaction", state.interactions)):
            if position > pack_offset(reached.get(noun, "0")):
                raise Invalid(
                    "the changes before this answer are not in the segments yet; try again in a minute"
                )

    def _build_queries(self, row: Mapping[str, Any]) -> tuple[list[bytes], list[UserQuery]]:
        """Return the recent list, and the query with the rules of that time, then with those of a moment before."""
        app = self._app
        at_ms = int(row["at"])
        # A user who never did anything has no history, and the log has no id.
        user_key = app.people.get(row["user"], f"a:{row['user']}") if row["user"] else ""
        query, names_visitor = decode_request(app.app_id, user_key, row)
        if names_visitor:
            query = add_visitor(query, app.links.get(user_key, ()), at_ms)
        query = apply_treatments(query, self._list_treatments(row, query), at_ms)
        # The list was read when the request came, and the row has the time at which the answer was ready.
        recent = app.histories.read(user_key, at_ms - round(row["took_ms"])) if user_key else []
        queries: list[UserQuery] = []
        for moment_ms in app.list_rule_moments(at_ms):
            treated = self._apply_rules(query, moment_ms)
            # Most changes of rules do not concern this query, and would be ranked again for nothing.
            if treated not in queries:
                queries.append(treated)
        applied = list(row["rules"])
        # First the query whose rules are those that the row names; the others are tried if its list
        # differs.
        queries.sort(key=lambda treated: list_rule_names(treated) != applied)
        return recent, queries

    def _list_treatments(self, row: Mapping[str, Any], query: UserQuery) -> list[ExperimentTreatment]:
        treatments = []
        for named in row["experiments"]:
            experiment = self._app.experiments[named["experiment"]]
            variants = {variant.variant_id: variant for variant in experiment.variants}
            is_drafted = experiment.method == "interleave"
            # A draft takes both sides from the experiment itself, so any variant carries it.
            variant = experiment.variants[0] if is_drafted else variants.get(named["variant"])
            if variant is None:
                raise Invalid(f"experiment {experiment.slug} has no variant {named['variant']} any more")
            if is_drafted:
                variant = variant.model_copy(update={"engine_id": "", "snapshot": "", "boost_rule": ""})
            drafted = experiment if is_drafted else None
            treatments.append(
                ExperimentTreatment(query.app_id, experiment.experiment_id, variant, interleaved=drafted)
            )
        return treatments

    def _apply_rules(self, query: UserQuery, at_ms: int) -> UserQuery:
        app = self._app
        treated = apply_rules(query, app.list_rules(query.engine_id, at_ms))
        engine = app.engines.get(treated.engine_id)
        if engine is not None:
            treated = with_repeat_pauses(treated, engine.repeat_after_days)
        if treated.interleaving is not None:
            rival = treated.interleaving.rival
            rival = apply_rules(rival, app.list_rules(rival.engine_id, at_ms))
            if rival.engine_id in app.engines:
                rival = with_repeat_pauses(rival, app.engines[rival.engine_id].repeat_after_days)
            treated = replace(treated, interleaving=replace(treated.interleaving, rival=rival))
        return treated

    def _list_versions(
        self, row: Mapping[str, Any], query: UserQuery, change: CounterfactualChange | None
    ) -> list[tuple[str, str, str]]:
        """Return engine, version and name of each engine state that a list needs."""
        versions = [name if name != _LIVE else "" for name in row["snapshot"].split(_BETWEEN)]
        needed = [(query.engine_id, versions[0], _name(query.engine_id, versions[0], None))]
        if row["sides"] and query.interleaving is not None:
            engine_id = query.interleaving.rival.engine_id
            needed.append((engine_id, versions[-1], _name(engine_id, versions[-1], None)))
        if query.search is not None:  # texts are found by the index of the default engine
            serving = self._app.find_serving(DEFAULT_ENGINE, int(row["at"]))
            needed.insert(0, (DEFAULT_ENGINE, serving, DEFAULT_ENGINE))
        if change is not None:
            version = change.snapshot or versions[0]
            needed.append((query.engine_id, version, _name(query.engine_id, version, change)))
        return needed

    def _move(
        self,
        row: Mapping[str, Any],
        needed: Sequence[tuple[str, str, str]],
        change: CounterfactualChange | None,
    ) -> StateReplay:
        """Return the app as it was when a list was ranked: first its signals and priors, then what came after them."""
        state = StatePosition.parse(row["state"])
        now_ms = int(row["at"])
        replayed = self._replay
        reached = self._reached
        is_signed = all(self._bound.get(name) == version for _, version, name in needed)
        if replayed is None or reached is None or not state.follows(reached, is_signed=is_signed):
            replayed = self._replay = self._load(state)
        # A replica computes signals and priors seldom, from the changes up to then, and ranks with later
        # ones.
        if state.signals != self._signals or not is_signed:
            replayed.advance_products(state.signal_products + 1)
            replayed.advance_events(state.signal_interactions + 1)
            self._signals = state.signals
            replayed.refresh_global_signals(now_ms)
            for engine_id, version, name in needed:
                self._bind(replayed, engine_id, version, name, change)
                replayed.compute_priors(name, now_ms)
        replayed.advance_products(state.products + 1)
        replayed.advance_events(state.interactions + 1)
        self._reached = state
        return replayed

    def _load(self, state: StatePosition) -> StateReplay:
        app = self._app
        begins = state.loaded_products + 1
        products = list_products_by_version(app.versions, app.state.products.embedder, begins)
        # A fresh state has no signals and no snapshot yet; the next list computes both.
        self._signals = (-1, -1)
        self._bound = {}
        self._reached = None
        return StateReplay(
            app.state,
            app.users,
            products,
            self._embedder,
            state.loaded_interactions + 1,
            refresh_ms=_SIGNALS_MS,
        )

    def _search_draws(
        self, replayed: StateReplay, row: Mapping[str, Any], queries: Sequence[UserQuery], recent: list[bytes]
    ) -> tuple[str, ...]:
        """Return the list that was served, if one of the queries leads to it, else that of the first query.

        The log has no id of a user who never acted, and the id draws cold-start products and coins of drafts. Such a
        draw has few results, so ids are tried until the list has the same ones.
        """
        served = tuple(row["products"])
        first: tuple[str, ...] | None = None
        for query in queries:
            products = self._rank(replayed, row, query, recent)
            if products == served:
                return products
            first = products if first is None else first
        assert first is not None
        if row["user"] and row["user"] not in self._app.people and row["endpoint"] in _DRAWN:
            seed = find_seed(row["sides"], row["start"]) if row["sides"] else ""
            for number in range(_MOST_DRAWS):
                for query in queries:
                    drawn = _replace_visitor(query, f"draw-{number}", seed)
                    if self._rank(replayed, row, drawn, recent) == served:
                        return served
        return first

    def _rank(
        self,
        replayed: StateReplay,
        row: Mapping[str, Any],
        query: UserQuery,
        recent: list[bytes],
        change: CounterfactualChange | None = None,
    ) -> tuple[str, ...]:
        at_ms = int(row["at"])
        versions = [name if name != _LIVE else "" for name in row["snapshot"].split(_BETWEEN)]
        if change is not None and change.snapshot:
            versions = [change.snapshot]
        shown: Sequence[str] = ()
        if query.pagination_id:
            shown = self._app.list_earlier_pages(row, query.pagination_id)
        if row["sides"] and query.interleaving is not None and (change is None or not change.picks_state):
            result = self._draft(replayed, query, versions, recent, shown, at_ms)
        else:
            name = _name(query.engine_id, versions[0], change)
            alone = replace(query, engine_id=name, snapshot="", interleaving=None)
            draw = None
            if change is None or not change.without_exploration:
                settings = infer_exploration(self._app.engines[query.engine_id].exploration, row)
                draw = draw_exploration(settings, query)
            result = replayed.answer(alone, recent, at_ms, shown, draw)
        return list_products(result)[:_MOST_SHOWN]

    def _draft(
        self,
        replayed: StateReplay,
        query: UserQuery,
        versions: Sequence[str],
        recent: list[bytes],
        shown: Sequence[str],
        at_ms: int,
    ) -> RecommendationResult:
        interleaving = query.interleaving
        assert interleaving is not None
        start = max(0, query.start - len(shown))
        names = [
            _name(side.engine_id, version, None)
            for side, version in zip((query, interleaving.rival), (versions[0], versions[-1]), strict=True)
        ]
        sides = [
            replace(side, engine_id=name, snapshot="", start=0, rows=start + query.rows, interleaving=None)
            for side, name in zip((query, interleaving.rival), names, strict=True)
        ]
        results = [replayed.answer(side, recent, at_ms, shown) for side in sides]
        first, second = (
            list_side(side, result, replayed.catalog, len(shown))
            for side, result in zip(sides, results, strict=True)
        )
        if first is None or second is None:
            raise Invalid("a product of the list is missing in the state of that time")
        return draft_result(interleaving, (first, second), results, len(shown), start, query.rows)

    def _bind(
        self,
        replayed: StateReplay,
        engine_id: str,
        version: str,
        name: str,
        change: CounterfactualChange | None,
    ) -> None:
        if self._bound.get(name) == version:
            return
        key = (engine_id, version)
        if key not in self._snapshots:
            try:
                self._snapshots[key] = self._app.load_snapshot(engine_id, version) if version else None
            except NotFound as error:
                raise Invalid(f"snapshot {version} of engine {engine_id} was removed") from error
        learned = self._snapshots[key]
        has_weights = (
            change is not None and bool(change.weights) and name == _name(engine_id, version, change)
        )
        if change is not None and has_weights:
            learned = change.apply_to_blend(learned)
        replayed.set_snapshot(name, learned)
        if change is not None and has_weights:
            replayed.set_weights(name, change.live_weights)
        self._bound[name] = version

    def _explain(self, row: Mapping[str, Any], products: Sequence[str]) -> Iterator[str]:
        yield from self._app.explain(row, products)
        if row["user"] and row["user"] not in self._app.people:
            yield "the log has no id of a user who never acted, and the id draws cold-start products and sides"
        if DITHERED in row["origins"]:
            yield "dithering depends on the order in which the replica got its products"


def _replace_visitor(query: UserQuery, anonymous_id: str, seed: str) -> UserQuery:
    """Return a query of another visitor, with both of its sides; `seed` is that of their draft, if there is one."""
    interleaving = query.interleaving
    if interleaving is not None:
        rival = replace(interleaving.rival, anonymous_id=anonymous_id)
        interleaving = replace(interleaving, rival=rival, seed=seed or interleaving.seed)
    return replace(query, anonymous_id=anonymous_id, interleaving=interleaving)


def _name(engine_id: str, version: str, change: CounterfactualChange | None) -> str:
    """Return the name of the engine state with a version, and with the weights of a change."""
    return f"{engine_id} {version}" + ("" if change is None or not change.weights else f" {change.weights}")


def infer_exploration(settings: Exploration, row: Mapping[str, Any]) -> Exploration:
    """Return how an engine explored when it served a list, as the propensities of the list say."""
    chances = [
        chance
        for origin, chance in zip(row["origins"], row["propensities"], strict=False)
        if origin == RANKED and chance is not None
    ]
    places = len(row["origins"])
    if not chances:
        return settings if EXPLORED in row["origins"] else settings.model_copy(update={"share": 0.0})
    # An engine explores one of `places` with the probability `share`, so a place keeps its product with 1 -
    # share / places.
    share = round((1.0 - chances[0]) * places, 4)
    return settings.model_copy(update={"share": min(max(share, 0.0), 1.0)})


def list_products(result: RecommendationResult) -> tuple[str, ...]:
    """Return the product ids of a result as the log has them: those of groups one after the other."""
    if result.groups:
        return tuple(str(product["product_id"]) for group in result.groups for product in group.products)
    return tuple(str(product["product_id"]) for product in result.products)


def list_rule_names(query: UserQuery) -> list[str]:
    """Return the names of the stored rules that apply to a treated query, as the log has them."""
    search: SearchQuery | None = query.search
    if search is not None and search.applied:
        return list(search.applied)
    boosts = (*query.boosts, *query.removed)
    return list(dict.fromkeys(boost.name for boost in boosts if boost.label.startswith(RULE_LABEL)))
