"""Use cases on the users of an app: search, view, explain recommendations."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice, takewhile
from typing import Any

import orjson
from pydantic import Field

from cluster.artifacts.segments import SegmentStore
from cluster.clock import iso_ms
from cluster.errors import Invalid, KioskError, NotFound
from cluster.ids import DEFAULT_ENGINE, user_key_from_anonymous_id, user_key_from_id
from cluster.records.interaction import RecentEvent
from deployments.operations.content.catalog import (
    ListRecords,
    explained_products,
    shorten_record,
)
from deployments.operations.content.interest_summary import summarize_interests
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.rest_client import call_api
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.explanations import describe_missing, describe_rules

MOST_EVENTS = 200
MOST_LOOKED_THROUGH = 20_000
"Users with a record whose ids a search looks through."
_IDS_AT_ONCE = 1_000
MOST_PRODUCTS = 100
"Records of products that are read for a profile."
_NAME_PARTS = ("name", "mail")
"In the names of attributes that hold names or e-mail addresses."
MOST_ANCHORS = 10
"Newest products of a user that reasons may name."
_RECOMMENDATIONS = "/v1/recommendation/user_to_products"
_SIMILAR = "/v1/recommendation/product_to_products"
_FIELDS = ["product_id", "title", "type", "price", "cover_image"]


class OfUser(OfApp):
    """A user or a visitor; exactly one of both."""

    user_id: str = Field("", max_length=512)
    anonymous_id: str = Field("", max_length=1_024)


class SearchUsers(ListRecords):
    """A page of users."""

    contains: str = Field(
        "", max_length=512, description="A part of the ids; upper and lower case are alike."
    )
    text: str = Field(
        "",
        max_length=512,
        description="The begin of a name, of an e-mail address, or of a word of the name or description in the records "
        "of users; upper and lower case are alike. It is not combined with `contains`.",
    )
    exact: bool = Field(False, description="The text is the whole name or e-mail address.")


class OfEngineUser(OfUser):
    """A person as an engine sees them."""

    engine_id: str = DEFAULT_ENGINE
    limit: int = Field(10, ge=1, le=100)


class ExplainMissingProduct(OfEngineUser):
    """A product that a person does not get."""

    product_id: str = Field(min_length=1, max_length=512)
    fq: str = Field("", max_length=10_000)


@operation(
    "users.search",
    "GET",
    "/apps/{app_id}/users",
    "analyst",
    secret_fields={"after", "contains", "prefix", "text"},
    recorded=True,
)
async def search_users(services: AdminServices, given: SearchUsers) -> dict[str, Any]:
    """List users by their ids, names or e-mail addresses.

    Users with a record or with compacted interactions; the total counts both.

    With `text`, only records are searched: `name`, text attributes with `name` or `mail` in their own name, and, unless
    the text is exact, `description`. A call looks through `MOST_LOOKED_THROUGH` records; a page with few users, or
    none, can name a next one.

    Cost:
        the ids of interactions are read once in a minute; with `text`, a second for 20,000 records
    """
    await require_app(services.stores, given.app_id)
    if given.text.strip():
        return await _search_names(services, given)
    active: list[str] = await services.cache.get(
        ("users.active", given.app_id), lambda: _list_active_users(services, given.app_id), keep_s=60
    )
    part = given.contains.casefold()
    (stored, until), total = await asyncio.gather(
        _list_stored_users(services, given, part), services.stores.records.count(given.app_id, "user")
    )
    begin = (
        # A later page begins behind its cursor, the first one at the prefix.
        bisect_right(active, given.after)
        if given.after >= given.prefix
        else bisect_left(active, given.prefix)
    )
    fitting = takewhile(lambda user_id: user_id.startswith(given.prefix), islice(active, begin, None))
    shown, after = merge_user_ids(
        stored, until, (user_id for user_id in fitting if part in user_id.casefold()), given.limit
    )
    bodies = await services.stores.records.get_many(given.app_id, "user", shown)
    return {
        "total": total,
        "active": len(active),
        "users": [
            shorten_record(orjson.loads(body)) if body is not None else {"user_id": user_id}
            for user_id, body in zip(shown, bodies, strict=True)
        ],
        "next": after,
    }


def merge_user_ids(
    stored: Sequence[str], until: str | None, active: Iterable[str], limit: int
) -> tuple[list[str], str]:
    """Return a page of two sorted lists of ids, and the cursor of the next page; empty at the end.

    `until`: stored ids after this one were not looked through, so no active id after it can be shown yet; None: there
    are none. A page may be empty before the end.
    """
    reached = takewhile(lambda user_id: until is None or user_id <= until, active)
    merged = sorted({*stored, *islice(reached, limit + 1)})
    shown = merged[:limit]
    return shown, shown[-1] if len(merged) > limit else until or ""


async def _search_names(services: AdminServices, given: SearchUsers) -> dict[str, Any]:
    """Return users whose records have a name or an e-mail address."""
    text = given.text.strip().casefold()
    records = services.stores.records
    users: list[dict[str, Any]] = []
    after = given.after
    ids = list[str]()
    for _ in range(MOST_LOOKED_THROUGH // _IDS_AT_ONCE):
        ids = await records.page_ids(
            given.app_id, "user", prefix=given.prefix, after=after, limit=_IDS_AT_ONCE
        )
        for user_id, body in zip(ids, await records.get_many(given.app_id, "user", ids), strict=True):
            after = user_id
            record = {} if body is None else orjson.loads(body)
            described = [] if given.exact else [record.get("description") or ""]
            if any(matches_name(value, text, exact=given.exact) for value in list_names(record) + described):
                users.append(shorten_record(record))
                if len(users) == given.limit:
                    break
        if len(users) == given.limit or len(ids) < _IDS_AT_ONCE:
            break
    is_end = not ids or (len(ids) < _IDS_AT_ONCE and after == ids[-1])
    total = await records.count(given.app_id, "user")
    active = await services.cache.get(
        ("users.active", given.app_id), lambda: _list_active_users(services, given.app_id), keep_s=60
    )
    return {"total": total, "active": len(active), "users": users, "next": "" if is_end else after}


def list_names(record: Mapping[str, Any]) -> list[str]:
    """Return the name of a user and the text attributes that hold names or e-mail addresses."""
    attributes = record.get("custom_attributes") or {}
    named = {"name": record.get("name"), **(attributes if isinstance(attributes, Mapping) else {})}
    return [
        value
        for name, value in named.items()
        if isinstance(value, str) and any(part in name.casefold() for part in _NAME_PARTS)
    ]


def matches_name(value: str, text: str, *, exact: bool) -> bool:
    """Return whether a name or an e-mail address fits a text in lower case: as a whole, or by its begin."""
    folded = value.casefold().strip()
    if exact:
        return folded == text
    return folded.startswith(text) or f" {text}" in folded


async def _list_active_users(services: AdminServices, app_id: str) -> list[str]:
    segments = SegmentStore(services.artifacts)
    counts = await asyncio.to_thread(segments.count_interactions, app_id, "reader")
    return sorted(user_key[2:] for user_key in counts if user_key.startswith("u:"))


async def _list_stored_users(
    services: AdminServices, given: SearchUsers, part: str
) -> tuple[list[str], str | None]:
    """Return ids of users with a record after a cursor, and the last id that was looked through; None at the end.

    With a part, at most `MOST_LOOKED_THROUGH` ids are looked through.
    """
    stored: list[str] = []
    after = given.after
    # Few ids may contain the text, and pages as short as the limit would need many reads.
    size = _IDS_AT_ONCE if part else given.limit
    for _ in range(MOST_LOOKED_THROUGH // _IDS_AT_ONCE):
        ids = await services.stores.records.page_ids(
            given.app_id, "user", prefix=given.prefix, after=after, limit=size
        )
        stored += [user_id for user_id in ids if part in user_id.casefold()]
        if len(ids) < size:
            return stored, None
        after = ids[-1]
        if len(stored) >= given.limit:
            break
    return stored, after


@operation(
    "users.get",
    "GET",
    "/apps/{app_id}/users/one",
    "analyst",
    secret_fields={"anonymous_id", "user_id"},
    recorded=True,
)
async def get_user(services: AdminServices, given: OfUser) -> dict[str, Any]:
    """Show what is known of a user or a visitor.

    Errors:
        Invalid: not exactly one of both ids is given
        NotFound: there is no such app, or nothing is known of the person
    """
    _require_one(given)
    await require_app(services.stores, given.app_id)
    stores = services.stores
    user_keys = [
        user_key_from_id(given.user_id) if given.user_id else user_key_from_anonymous_id(given.anonymous_id)
    ]
    record, packed, visitors, linked = await asyncio.gather(
        _read_record(services, given),
        stores.interactions.recent(given.app_id, user_keys, MOST_EVENTS),
        _list_visitors(services, given),
        _find_link(services, given),
    )
    if record is None and not packed and not visitors and not linked:
        who = given.user_id or given.anonymous_id
        raise NotFound(f"nothing is known of {who} in {given.app_id}")
    events = [RecentEvent.unpack(event) for event in packed]
    ids = list(dict.fromkeys(product_id for event in events for product_id in event.product_ids))
    bodies = await stores.records.get_many(given.app_id, "product", ids[:MOST_PRODUCTS])
    products = {
        product_id: shorten_record(orjson.loads(body))
        for product_id, body in zip(ids, bodies, strict=False)
        if body is not None
    }
    return {
        "user_id": given.user_id,
        "anonymous_id": given.anonymous_id,
        "record": record,
        "visitors": visitors,
        "linked_to": linked,
        "profile": asdict(summarize_interests(events, products, is_cut=len(events) >= MOST_EVENTS)),
        "history": [
            {
                "type": event.type,
                "at": iso_ms(event.at_ms),
                "value": event.value,
                "products": [
                    {"product_id": product_id, "title": products.get(product_id, {}).get("title", "")}
                    for product_id in event.product_ids
                ],
            }
            for event in events
        ],
    }


@operation("users.recommend", "GET", "/apps/{app_id}/users/one/recommendations", "analyst")
async def recommend_user(services: AdminServices, given: OfEngineUser) -> dict[str, Any]:
    """Show what a user would get next, with reasons."""
    _require_one(given)
    body = {**_who(given), "rows": given.limit, "engine_id": given.engine_id, "explain": True, "fl": _FIELDS}
    answer = await call_api(services.api, given.app_id, "POST", _RECOMMENDATIONS, body)
    data = answer["data"]
    explanation = data.get("explanation") or {}
    related = await _find_related(
        services, given, [str(product["product_id"]) for product in data["products"]]
    )
    return {
        "served_by": explanation.get("served_by", ""),
        "rules": describe_rules(explanation.get("rules", ())),
        "products": explained_products(data["products"], related),
    }


async def _find_related(
    services: AdminServices, given: OfEngineUser, product_ids: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Return product id -> score component -> title of the newest product of the user that it is connected with most.

    Cost: one request to the API for each of at most `MOST_ANCHORS` products of the history
    """
    user_key = (
        user_key_from_id(given.user_id) if given.user_id else user_key_from_anonymous_id(given.anonymous_id)
    )
    packed = await services.stores.interactions.recent(given.app_id, [user_key], MOST_EVENTS)
    events = [RecentEvent.unpack(entry) for entry in packed]
    history = dict.fromkeys(product_id for event in events for product_id in event.product_ids)
    anchors = list(history)[:MOST_ANCHORS]
    if not anchors or not product_ids:
        return {}
    # Ids may hold quotes and backslashes, which would end the phrase and change the filter.
    quoted = (product_id.replace("\\", "\\\\").replace('"', '\\"') for product_id in product_ids)
    body = {
        "rows": len(product_ids),
        "engine_id": given.engine_id,
        "explain": True,
        "fl": ["product_id"],
        "fq": "product_id:(" + " OR ".join(f'"{product_id}"' for product_id in quoted) + ")",
    }
    bodies, *answers = await asyncio.gather(
        services.stores.records.get_many(given.app_id, "product", anchors),
        *(_call_similar(services, given.app_id, {**body, "product_id": [anchor]}) for anchor in anchors),
    )
    best: dict[tuple[str, str], tuple[float, str]] = {}
    for anchor, record, products in zip(anchors, bodies, answers, strict=True):
        title = str(orjson.loads(record).get("title") or anchor) if record is not None else anchor
        for product in products:
            for name, value in (product["_explain"].get("similar_parts") or {}).items():
                key = (str(product["product_id"]), name)
                # The newest product of the history wins a tie, as `max` keeps the first.
                best[key] = max(best.get(key, (0.0, "")), (value, title), key=lambda pair: pair[0])
    related: dict[str, dict[str, str]] = {}
    for (product_id, name), (_, title) in best.items():
        related.setdefault(product_id, {})[name] = title
    return related


async def _call_similar(services: AdminServices, app_id: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return products with explanations; none where the API refuses, because a reason without a title is enough."""
    try:
        answer = await call_api(services.api, app_id, "POST", _SIMILAR, body)
    except KioskError:
        return []
    return list(answer["data"]["products"])


@operation("users.explain", "GET", "/apps/{app_id}/users/one/explanation", "analyst")
async def explain_absence(services: AdminServices, given: ExplainMissingProduct) -> dict[str, Any]:
    """Tell why a user does not get a product.

    What removed it, or which products score higher.
    """
    _require_one(given)
    body: dict[str, Any] = {
        **_who(given),
        "rows": given.limit,
        "engine_id": given.engine_id,
        "explain": [given.product_id],
        "fl": _FIELDS,
    }
    if given.fq:
        body["fq"] = given.fq
    answer = await call_api(services.api, given.app_id, "POST", _RECOMMENDATIONS, body)
    data = answer["data"]
    explanation = data.get("explanation") or {}
    reasons: list[dict[str, Any]] = next(
        (
            entry["reasons"]
            for entry in explanation.get("missing", ())
            if entry["product_id"] == given.product_id
        ),
        [],
    )
    products = explained_products(data["products"])
    place = next(
        (at for at, product in enumerate(products) if product["product_id"] == given.product_id), None
    )
    return {
        "product_id": given.product_id,
        "is_returned": place is not None,
        "place": place,
        "sentences": describe_missing(reasons),
        "reasons": reasons,
        "rules": describe_rules(explanation.get("rules", ())),
        "instead": products,
    }


def _require_one(given: OfUser) -> None:
    if bool(given.user_id) == bool(given.anonymous_id):
        raise Invalid("name either user_id or anonymous_id")


def _who(given: OfUser) -> dict[str, str]:
    return {"user_id": given.user_id} if given.user_id else {"anonymous_id": given.anonymous_id}


async def _read_record(services: AdminServices, given: OfUser) -> dict[str, Any] | None:
    if not given.user_id:
        return None
    body = await services.stores.records.get(given.app_id, "user", given.user_id)
    return None if body is None else dict(orjson.loads(body))


async def _list_visitors(services: AdminServices, given: OfUser) -> list[str]:
    if not given.user_id:
        return []
    person = await services.stores.erasures.person(given.app_id, given.user_id, "")
    return list(person.anonymous_ids)


async def _find_link(services: AdminServices, given: OfUser) -> str:
    """Return the user that a visitor was linked to; empty without one."""
    if not given.anonymous_id:
        return ""
    links = await services.stores.interactions.links(given.app_id, [given.anonymous_id])
    return links.get(given.anonymous_id, "")
