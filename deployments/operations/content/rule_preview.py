"""What a draft of a rule would change: real queries answered with the rules in force, and with the draft among them.

Each sample request is shaped so that the conditions of the draft hold: it sends its tag, its session variables and
its filter. A preview is answered by this process; it reaches no query log, and no experiment counts it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from actors.serving.stored_rules import MODULE, PREVIEW, Preview
from cluster.query.language.compiled_rules import CompiledRule
from cluster.records.boost_rule import BoostRule
from deployments.operations.content.rule_conflicts import RuleConflict, check_rules, idle_reason
from deployments.operations.content.rule_history import rule_to_dict
from deployments.operations.content.rules import compile_or_none, parse_rules
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfEngine, operation
from deployments.operations.framework.services import AdminServices

MOST_SAMPLES = 6
"Requests of one kind; each is sent twice."
LOOKED_THROUGH = 100
"Places that are looked through for the new place of a product that leaves the shown ones."
_TITLE = "title"
_IMAGE = "cover_image"
_EVERYTHING = "*"
_Texts = Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=MOST_SAMPLES)]
_Ids = Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=MOST_SAMPLES)]
_NEGATED = ("is_not", "not_contain", "regex")

Movement = Literal["same", "up", "down", "new", "gone"]


class PreviewRule(OfEngine):
    """A draft, and what to try it on."""

    rule: dict[str, Any]
    "As `rules.put` takes it; the stored rule of this name is replaced in the preview."
    queries: _Texts = Field(default_factory=list)
    "Search texts; none: those of the rule, or everything."
    users: _Ids = Field(default_factory=list)
    "User ids; none: a visitor without history."
    products: _Ids = Field(default_factory=list)
    "Products of whose pages lists are shown; none: those of the rule."
    rows: int = Field(default=10, ge=1, le=50)


@dataclass(frozen=True, slots=True)
class ProductMovement:
    """A product of a sample, and its places."""

    product_id: str
    title: str
    before: int | None
    "1-based place without the draft; None: not in the list."
    after: int | None
    "Place with the draft; None: removed, or below the places that are looked through."
    change: Movement
    cover_image: str = ""


@dataclass(frozen=True, slots=True)
class SamplePreview:
    """One request, answered without and with the draft."""

    endpoint: str
    label: str
    "The search text, the user or the product; empty for a visitor without history."
    moved: int
    "Products whose place differs."
    products: tuple[ProductMovement, ...] = ()
    "The list with the draft, then those that left it."
    error: str = ""
    "What the API answered if it refused."


@dataclass(frozen=True, slots=True)
class RulePreview:
    """What a draft would change."""

    rule: BoostRule
    samples: tuple[SamplePreview, ...]
    selected: int | None = None
    "Products that `boost_fq` selects; None: the rule has none."
    idle: str = ""
    "Why no query would trigger the rule."
    conflicts: tuple[RuleConflict, ...] = field(default=())

    @property
    def moved(self) -> int:
        """Return the number of places that differ, over all samples."""
        return sum(sample.moved for sample in self.samples)

    def to_dict(self) -> dict[str, Any]:
        """Return the preview as JSON."""
        return {
            "rule": rule_to_dict(self.rule),
            "selected": self.selected,
            "moved": self.moved,
            "idle": self.idle,
            "conflicts": [asdict(conflict) for conflict in self.conflicts],
            "samples": [asdict(sample) for sample in self.samples],
        }


@dataclass(frozen=True, slots=True)
class _SampleRequest:
    endpoint: str
    label: str
    path: str
    body: Mapping[str, Any]


@operation(
    "rules.preview", "POST", "/apps/{app_id}/engines/{engine_id}/rules/preview", "analyst", is_query=True
)
async def preview_rule(services: AdminServices, given: PreviewRule) -> RulePreview:
    """Answer sample requests without and with a draft of a rule.

    The draft is not stored.

    Errors:
        Invalid: the draft makes no sense; NotFound: no such app
        Unavailable: this process has no API
    Cost:
        two requests for each sample, all at once
    """
    draft = parse_rules([{**given.rule, "engine_id": given.engine_id}], given.engine_id)[0]
    await require_app(services.stores, given.app_id)
    now_ms = services.now_ms()
    stored = [
        ready
        for rule in await services.stores.boost_rules.all(given.app_id)
        if rule.engine_id == given.engine_id and (ready := compile_or_none(rule)) is not None
    ]
    before = _sort([ready for ready in stored if ready.rule.is_in_force(now_ms)])
    # as if its window were open: an editor wants to see it before it begins
    shown = draft.model_copy(update={"enabled": True, "starts_at": None, "ends_at": None})
    ready = compile_or_none(shown)
    assert ready is not None
    others = [compiled for compiled in before if compiled.rule.name != draft.name]
    after = _sort([*others, ready])
    samples = build_samples(draft, given)
    selected, lists = await asyncio.gather(
        _count_selected(services, given, draft),
        asyncio.gather(
            *(_preview_sample(services, given.app_id, sample, before, after) for sample in samples)
        ),
    )
    rest = [compiled for compiled in stored if compiled.rule.name != draft.name]
    report = await asyncio.to_thread(check_rules, [*rest, ready], now_ms)
    conflicts = tuple(
        conflict for conflict in report.conflicts if draft.name in (conflict.winner, conflict.loser)
    )
    return RulePreview(draft, tuple(lists), selected, idle_reason(draft, now_ms), conflicts)


def build_samples(rule: BoostRule, given: PreviewRule) -> list[_SampleRequest]:
    """Return requests that meet the conditions of a rule, for the endpoints it applies to."""
    shared = {"engine_id": given.engine_id, "rows": given.rows, "fl": [_TITLE, _IMAGE], **_conditions(rule)}
    samples: list[_SampleRequest] = []

    def applies(endpoint: str) -> bool:
        return not rule.api_names or endpoint in rule.api_names

    if applies("search") and not rule.anchor_products:
        for text in given.queries or _trigger_texts(rule) or [_EVERYTHING]:
            samples.append(_SampleRequest("search", text, "/v1/search/search", {**shared, "q": text}))
    # Recommendations have no text, so a rule that waits for one never applies to them.
    if rule.search_texts:
        return samples
    for endpoint in ("user_to_products", "user_to_trending"):
        is_requested = endpoint == "user_to_products" or endpoint in rule.api_names
        if not (applies(endpoint) and is_requested) or rule.anchor_products:
            continue
        for user_id in given.users or [""]:
            who = {"user_id": user_id} if user_id else {}
            path = f"/v1/recommendation/{endpoint}"
            samples.append(_SampleRequest(endpoint, user_id, path, {**shared, **who}))
    if applies("product_to_products"):
        path = "/v1/recommendation/product_to_products"
        for product_id in given.products or rule.anchor_products[:MOST_SAMPLES]:
            body = {**shared, "product_id": product_id}
            samples.append(_SampleRequest("product_to_products", product_id, path, body))
    return samples


def compare_lists(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], rows: int = 0
) -> list[ProductMovement]:
    """Return the first products of the second list and those that left the first one, with their places.

    `after` may be longer than the `rows` that are shown: it then has the places of products that moved down.
    """
    rows = rows or len(after)
    top = {str(product.get("product_id")) for product in after[:rows]}
    places = {str(product.get("product_id")): place for place, product in enumerate(before, 1)}
    later = {str(product.get("product_id")): place for place, product in enumerate(after, 1)}
    shown = [*after[:rows], *(product for product in before if str(product.get("product_id")) not in top)]
    return [
        ProductMovement(
            product_id := str(product.get("product_id")),
            str(product.get(_TITLE) or ""),
            places.get(product_id),
            later.get(product_id),
            _movement(places.get(product_id), later.get(product_id)),
            str(product.get(_IMAGE) or ""),
        )
        for product in shown
    ]


def _movement(before: int | None, after: int | None) -> Movement:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return "same" if before == after else "up" if after < before else "down"


def _conditions(rule: BoostRule) -> dict[str, Any]:
    """Return parameters of a request that meet the conditions of a rule."""
    context = {name: values[0] for name, values in rule.context.items() if values}
    if rule.module_names:
        context[MODULE] = rule.module_names[0]
    parameters: dict[str, Any] = {"custom_context": context} if context else {}
    if rule.boosting_tags:
        parameters["boosting_tags"] = rule.boosting_tags[:1]
    if rule.filter_query:
        parameters["fq"] = " AND ".join(f"({clause.query})" for clause in rule.filter_query)
    return parameters


def _trigger_texts(rule: BoostRule) -> list[str]:
    """Return search texts that trigger a rule; patterns and excluded texts are none."""
    return [] if rule.query_option in _NEGATED else list(rule.search_texts[:MOST_SAMPLES])


def _sort(rules: Sequence[CompiledRule]) -> tuple[CompiledRule, ...]:
    return tuple(sorted(rules, key=lambda ready: (-ready.rule.priority, ready.rule.name)))


async def _preview_sample(
    services: AdminServices,
    app_id: str,
    sample: _SampleRequest,
    before: tuple[CompiledRule, ...],
    after: tuple[CompiledRule, ...],
) -> SamplePreview:
    (status, first), (_, second) = await asyncio.gather(
        _call_with_rules(services, app_id, sample.path, sample.body, before),
        _call_with_rules(services, app_id, sample.path, {**sample.body, "rows": LOOKED_THROUGH}, after),
    )
    if status >= 400:
        return SamplePreview(sample.endpoint, sample.label, 0, error=_read_error(first))
    rows = int(sample.body["rows"])
    products = compare_lists(_products_of(first), _products_of(second), rows)
    moved = sum(product.change != "same" for product in products)
    return SamplePreview(sample.endpoint, sample.label, moved, tuple(products))


async def _count_selected(services: AdminServices, given: PreviewRule, rule: BoostRule) -> int | None:
    if rule.boost_fq is None:
        return None
    body = {"engine_id": given.engine_id, "q": _EVERYTHING, "fq": rule.boost_fq, "rows": 0}
    status, answer = await _call_with_rules(services, given.app_id, "/v1/search/search", body, ())
    total = _data_of(answer).get("total")
    return total if status < 400 and isinstance(total, int) else None


async def _call_with_rules(
    services: AdminServices,
    app_id: str,
    path: str,
    body: Mapping[str, Any],
    rules: tuple[CompiledRule, ...],
) -> tuple[int, Any]:
    """Call an endpoint as if the given rules were the stored ones. Await it in a task of its own."""
    token = PREVIEW.set(Preview(rules))  # each coroutine of a `gather` is a task with a context of its own
    try:
        return await services.api.call(app_id, "POST", path, body)
    finally:
        PREVIEW.reset(token)


def _data_of(answer: Any) -> Mapping[str, Any]:
    data = answer.get("data") if isinstance(answer, dict) else None
    return data if isinstance(data, dict) else {}


def _products_of(answer: Any) -> list[Mapping[str, Any]]:
    products = _data_of(answer).get("products")
    return (
        [product for product in products if isinstance(product, dict)] if isinstance(products, list) else []
    )


def _read_error(answer: Any) -> str:
    if not isinstance(answer, dict):
        return "the API refused the request"
    detail = answer.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):
        return str(detail[0].get("msg", ""))[:300]
    return str(answer.get("message", ""))[:300] or "the API refused the request"
