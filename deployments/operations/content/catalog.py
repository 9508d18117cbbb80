"""Use cases on the catalog: search and browse products, and look at one from all sides."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

import orjson
from pydantic import Field

from actors.hosting.uncompacted_interactions import read_uncompacted
from actors.language.analysis import Analyzers, split_words
from actors.retrieval.lexical.messages import FIELDS
from actors.retrieval.lexical.product_fields import read_texts, read_translations
from cluster.artifacts.segments import SegmentStore
from cluster.clock import iso_ms
from cluster.errors import Conflict, KioskError, NotFound
from cluster.ids import DEFAULT_ENGINE
from cluster.records.interaction import INTERACTION_TYPES
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.rest_client import call_api, error_from_answer
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.explanations import explain_product

SHOWN_FIELDS = (
    "title",
    "type",
    "brand",
    "price",
    "availability",
    "categories",
    "cover_image",
    "updated_at",
)
MOST_WORDS = 60
"Words of a field that are shown."
DAY_MS = 86_400_000
_LATE_PAGES = 10
"Pages of the change log that are read for outcomes: 2,000 uploads that are not compacted yet."
_INDEXED_TEXT = 5_000
"Characters of a field whose words are shown."


class SearchProducts(OfApp):
    """What to search for."""

    q: str = Field("*", max_length=1_000, description="Words to search for; `*` lists everything.")
    fq: str = Field("", max_length=10_000)
    engine_id: str = DEFAULT_ENGINE
    limit: int = Field(20, ge=1, le=1_000)
    offset: int = Field(0, ge=0, le=100_000)


class ListRecords(OfApp):
    """A page of ids."""

    prefix: str = Field("", max_length=512, description="The beginning of the ids.")
    after: str = Field("", max_length=512, description="The `next` of the page before.")
    limit: int = Field(50, ge=1, le=1_000)


class OfProduct(OfApp):
    """One product."""

    product_id: str = Field(min_length=1, max_length=512)


class EditProduct(OfProduct):
    """Changes of one product, or a new one."""

    fields: dict[str, Any] = Field(
        min_length=1,
        max_length=100,
        description="Field -> value, as an upload has them; null removes a field.",
    )
    is_new: bool = Field(False, description="Add the product; it must not exist.")


class OfEngineProduct(OfProduct):
    """One product as an engine sees it."""

    engine_id: str = DEFAULT_ENGINE
    limit: int = Field(5, ge=1, le=50)


class ReadProductOutcomes(OfProduct):
    """A period of outcomes."""

    days: int = Field(30, ge=1, le=365, description="Days until today.")


@operation("catalog.search", "GET", "/apps/{app_id}/catalog/search")
async def search_products(services: AdminServices, given: SearchProducts) -> dict[str, Any]:
    """Search the products of an app.

    As the API does, without personalization.
    """
    body: dict[str, Any] = {
        "q": given.q.strip() or "*",
        "rows": given.limit,
        "start": given.offset,
        "engine_id": given.engine_id,
        "fl": ["product_id", *SHOWN_FIELDS],
        "personalization_weight": 0,
    }
    if given.fq:
        body["fq"] = given.fq
    answer = await call_api(services.api, given.app_id, "POST", "/v1/search/search", body)
    data = answer["data"]
    return {
        "total": data.get("total", len(data["products"])),
        "products": data["products"],
        "spellcheck": data.get("spellcheck"),
        "warnings": data.get("warnings", []),
    }


@operation("catalog.list", "GET", "/apps/{app_id}/catalog/products")
async def list_products(services: AdminServices, given: ListRecords) -> dict[str, Any]:
    """List the products of an app by id.

    Without an engine.
    """
    return await list_records(services, given, "product")


async def list_records(
    services: AdminServices, given: ListRecords, noun: Literal["user", "product"]
) -> dict[str, Any]:
    """Return a page of records with the cursor of the next page, and how many there are in all."""
    await require_app(services.stores, given.app_id)
    records = services.stores.records
    ids, total = await asyncio.gather(
        records.page_ids(given.app_id, noun, prefix=given.prefix, after=given.after, limit=given.limit),
        records.count(given.app_id, noun),
    )
    bodies = await records.get_many(given.app_id, noun, ids)
    return {
        "total": total,
        f"{noun}s": [
            # A record may be removed between both reads.
            shorten_record(orjson.loads(body)) if body is not None else {f"{noun}_id": record_id}
            for record_id, body in zip(ids, bodies, strict=True)
        ],
        "next": ids[-1] if len(ids) == given.limit else "",
    }


def shorten_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a record that fit into a line."""
    long = ("description", "paragraphs", "html", "headers", "anchors", "passages")
    return {name: value for name, value in record.items() if name not in long}


@dataclass(frozen=True, slots=True)
class ProductView:
    """A product and how it is found."""

    product: dict[str, Any]
    words: dict[str, list[str]]
    "Field -> stems under which search finds the product, the most frequent first."
    languages: tuple[str, ...]

    def to_lines(self) -> ResultLines:
        """Return a table of the record."""
        return (build_field_value_table(self.product),)


def build_field_value_table(record: Mapping[str, Any]) -> ResultTable:
    """Return the fields of a product as a table."""
    rows = [
        (field, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for field, value in record.items()
    ]
    return ResultTable(("field", "value"), rows)


@operation("catalog.get", "GET", "/apps/{app_id}/catalog/products/{product_id}")
async def get_product(services: AdminServices, given: OfProduct) -> ProductView:
    """Show a product and the words under which search finds it.

    Errors:
        NotFound: there is no such app or product
    """
    await require_app(services.stores, given.app_id)
    body = await services.stores.records.get(given.app_id, "product", given.product_id)
    if body is None:
        raise NotFound(f"there is no product {given.product_id} in {given.app_id}")
    record = orjson.loads(body)
    words, languages = await asyncio.to_thread(list_stems, record)
    return ProductView(record, words, languages)


async def _read_product(services: AdminServices, given: EditProduct) -> Any:
    body = await services.stores.records.get(given.app_id, "product", given.product_id)
    return None if body is None else shorten_record(orjson.loads(body))


@operation(
    "catalog.edit",
    "PATCH",
    "/apps/{app_id}/catalog/products/{product_id}",
    "editor",
    read_before=_read_product,
)
async def edit_product(services: AdminServices, given: EditProduct) -> dict[str, Any]:
    """Change fields of a product, or add a product.

    The intake gets it as an upload of the whole record.

    Errors:
        NotFound: there is no such app or product
        Conflict: the product is to be added and exists, or its values contradict the types of other products
        Unprocessable: a field does not exist, or has no such value
    """
    await require_app(services.stores, given.app_id)
    body = await services.stores.records.get(given.app_id, "product", given.product_id)
    if given.is_new and body is not None:
        raise Conflict(f"there is already a product {given.product_id} in {given.app_id}")
    if not given.is_new and body is None:
        raise NotFound(f"there is no product {given.product_id} in {given.app_id}")
    record = {} if body is None else orjson.loads(body)
    changed = {**record, **given.fields, "product_id": given.product_id}
    # A null removes the field.
    product = {name: value for name, value in changed.items() if value is not None}
    answer = await call_api(services.api, given.app_id, "POST", "/v1/products", {"data": [product]})
    if answer.get("errors"):
        raise Conflict(error_from_answer(409, answer).message)
    return {"product_id": given.product_id, "task_id": answer["data"]["task_id"], "product": product}


def list_stems(record: Mapping[str, Any]) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return the stems of the texts of a product by field, and the languages that stemmed them."""
    analyzers = Analyzers()
    texts = [(field, text, str(record.get("language") or "")) for field, text in read_texts(record)]
    for language, translation in read_translations(record):
        texts += [(field, text, language) for field, text in read_texts(translation)]
    whole = " ".join(text[:_INDEXED_TEXT] for _, text, _ in texts)[: 4 * _INDEXED_TEXT]
    usual = analyzers.detect_language(whole)
    counts: dict[str, Counter[str]] = {}
    languages: dict[str, None] = {}
    for field, text, language in texts:
        named = language or usual
        languages.setdefault(named)
        analyzer = analyzers.get(named)
        stems = (stem for word in split_words(text[:_INDEXED_TEXT]) for stem in analyzer.stems(word))
        counts.setdefault(FIELDS[field], Counter()).update(stems)
    words = {name: [stem for stem, _ in count.most_common(MOST_WORDS)] for name, count in counts.items()}
    return words, tuple(languages)


@operation("catalog.relate", "GET", "/apps/{app_id}/catalog/products/{product_id}/related")
async def relate_product(services: AdminServices, given: OfEngineProduct) -> dict[str, Any]:
    """Show products related to a product with reasons, and questions it answers.

    None are bought together if no order shows one.

    A part that the API refuses (for example an app without an engine) has its reason in `refused`.
    """
    body = {
        "product_id": [given.product_id],
        "rows": given.limit,
        "engine_id": given.engine_id,
        "explain": True,
        "fl": ["product_id", "title", "price", "cover_image"],
    }
    path = "/v1/recommendation/product_to_products"
    similar, together, questions = await asyncio.gather(
        _products(services, given.app_id, path, body),
        _products(services, given.app_id, path, {**body, "buy_together": True}, "baskets"),
        _questions(services, given),
    )
    refused = {
        name: part
        for name, part in (("similar", similar), ("together", together), ("questions", questions))
        if isinstance(part, str)
    }
    return {
        "similar": [] if isinstance(similar, str) else similar,
        "together": [] if isinstance(together, str) else together,
        "questions": [] if isinstance(questions, str) else questions,
        "refused": refused,
    }


async def _products(
    services: AdminServices, app_id: str, path: str, body: Mapping[str, Any], component: str = ""
) -> list[dict[str, Any]] | str:
    """Return products with their reasons, or why there are none; with `component` only those that it connects."""
    try:
        answer = await call_api(services.api, app_id, "POST", path, body)
    except KioskError as error:
        return error.message
    products = answer["data"]["products"]
    if component:
        products = [product for product in products if _has_component(product, component)]
    return explained_products(products)


def _has_component(product: Mapping[str, Any], component: str) -> bool:
    parts = (product.get("_explain") or {}).get("similar_parts") or {}
    return any(name.endswith(f":{component}") and value > 0 for name, value in parts.items())


def explained_products(
    products: Iterable[dict[str, Any]], related: Mapping[str, Mapping[str, str]] = {}
) -> list[dict[str, Any]]:
    """Return products of an answer with `why` in place of `_explain`.

    `related`: product id -> score component -> title of the product of the user's history behind it.
    """
    return [
        {
            **{name: value for name, value in product.items() if name != "_explain"},
            "why": asdict(explain_product(product, related.get(str(product.get("product_id")), {}))),
        }
        for product in products
    ]


async def _questions(services: AdminServices, given: OfEngineProduct) -> list[Any] | str:
    body = {"product_id": given.product_id, "rows": given.limit}
    try:
        answer = await call_api(services.api, given.app_id, "POST", "/v1/ask/related_questions", body)
    except KioskError as error:
        return error.message
    data = answer.get("data") or {}
    return list(data.get("questions", ()) if isinstance(data, dict) else data)


@operation("catalog.outcomes", "GET", "/apps/{app_id}/catalog/products/{product_id}/outcomes")
async def count_outcomes(services: AdminServices, given: ReadProductOutcomes) -> dict[str, Any]:
    """Count the interactions with a product by type and day.

    Days are those of UTC.
    """
    await require_app(services.stores, given.app_id)
    now_ms = services.now_ms()
    since_ms = now_ms - given.days * DAY_MS
    segments = SegmentStore(services.artifacts)
    settled, offset = await asyncio.to_thread(
        segments.count_product_interactions, given.app_id, given.product_id, since_ms
    )
    late = await read_uncompacted(
        services.stores.changes,
        given.app_id,
        offset,
        INTERACTION_TYPES,
        most_pages=_LATE_PAGES,
    )
    counts = Counter(settled)
    counts.update(
        (str(interaction.item["type"]), interaction.at_ms // DAY_MS)
        for interaction in late
        if given.product_id in (interaction.item.get("product_ids") or ()) and interaction.at_ms >= since_ms
    )
    by_type: Counter[str] = Counter()
    by_day: dict[str, Counter[str]] = {}
    for (kind, day), count in counts.items():
        by_type[kind] += count
        by_day.setdefault(iso_ms(day * DAY_MS)[:10], Counter())[kind] += count
    last = datetime.fromtimestamp(now_ms / 1000, timezone.utc).date()
    days = [str(last - timedelta(days=ago)) for ago in reversed(range(given.days))]
    return {
        "total": counts.total(),
        "by_type": dict(by_type.most_common()),
        "days": [{"day": day, "counts": dict(by_day.get(day, {}))} for day in days],
    }
