"""Experiments through their life: made, started, met by users, changed, reported, ended; and the queries they treat."""

from __future__ import annotations

from typing import Any

from tests.golden.caller import Caller
from tests.golden.catalog import user_id
from tests.golden.installation import MARKET

DRAFTS: list[Any] = [
    {
        "name": "Paywall 3 or 5",
        "goal": ["checkout"],
        "variants": [{"name": "three"}, {"name": "five", "weight": 2, "configuration": {"free": 5}}],
    },
    {
        "name": "Half",
        "slug": "half",
        "traffic": 0.5,
        "reports_exposure": True,
        "variants": [{"name": "a"}, {"name": "b"}],
    },
    {
        "name": "Layered",
        "slug": "left",
        "layer": "shop",
        "slice": [0, 0.5],
        "reports_exposure": True,
        "variants": [{"name": "a"}, {"name": "b"}],
    },
    {
        "name": "Layered too",
        "slug": "right",
        "layer": "shop",
        "slice": [0.5, 1],
        "reports_exposure": True,
        "variants": [{"name": "a"}, {"name": "b"}],
    },
    {
        "name": "Engines",
        "slug": "engines",
        "engines": ["default"],
        "variants": [{"name": "now"}, {"name": "rule", "boost_rule": "guests"}],
    },
    {"name": "x", "variants": []},
    {"variants": [{"name": "a"}]},
    {},
    [],
    5,
    {"name": "x", "variants": [{"name": "a", "weight": -1}]},
    {"name": "y", "traffic": 2, "variants": [{"name": "a"}]},
    {"name": "Half", "slug": "half", "variants": [{"name": "a"}]},
    {"name": "z", "layer": "shop", "slice": [0.4, 0.6], "variants": [{"name": "a"}]},
    {"name": "w", "variants": [{"name": "a", "engine_id": "nobodys"}]},
    {"name": "v", "slug": "No Slug!", "variants": [{"name": "a"}]},
]
SLUGS = ["paywall-3-or-5", "half", "left", "right", "engines"]
EDITS: list[Any] = [
    {"name": "Renamed"},
    {"traffic": 0.9},
    {"traffic": 0.1},
    {"weights": {"a": 3}},
    {"weights": {"nobody": 1}},
    {"ends_at": "2027-01-01T00:00:00Z"},
    {"ends_at": "soon"},
    {"goal": ["click"]},
    {"layer": "x" * 70},
    {"slice": [1, 0]},
    5,
]


async def experiment(caller: Caller) -> None:
    """Lead all experiments through their lives."""
    for draft in DRAFTS:
        await caller.post("/v1/experiments", draft, app=MARKET, what="draft")
    await caller.post("/v1/experiments/right/schedule", {"starts_at": "2026-04-01T00:00:00Z"}, app=MARKET)
    for body in (
        {},
        {"starts_at": "x"},
        {"starts_at": "2026-04-01T00:00:00Z", "ends_at": "2026-03-01T00:00:00Z"},
    ):
        await caller.post("/v1/experiments/half/schedule", body, app=MARKET, what="bad schedule")
    for slug in [*SLUGS, "unknown"]:
        await _step(caller, slug, "start")
        await caller.get(f"/v1/experiments/{slug}", app=MARKET)
    caller.clock.pass_ms(10_000)
    await _meet(caller)
    for slug in ("half", "paywall-3-or-5", "unknown"):
        for edit in EDITS:
            await caller.send(
                "PUT", f"/v1/experiments/{slug}", json=edit, key=(MARKET, "secret"), what=f"edit {slug}"
            )
    caller.clock.pass_ms(10_000)
    for number in range(0, 60, 5):
        await caller.post(
            "/v1/experiments/half/events", {"user_id": user_id(number)}, app=MARKET, what="met again"
        )
    for slug in SLUGS:
        await caller.get(f"/v1/experiments/{slug}/report", app=MARKET)
        for step in ("pause", "start", "complete", "start", "archive", "archive"):
            await _step(caller, slug, step)
    for query in ("", "?status=Active", "?x=1"):
        await caller.get(f"/v1/experiments{query}", app=MARKET, what=f"list {query}")


async def _meet(caller: Caller) -> None:
    """Let users meet experiments, by themselves and by queries."""
    for number in range(60):
        who: dict[str, Any] = (
            {"user_id": user_id(number)} if number % 3 else {"anonymous_id": f"visitor-{number}"}
        )
        for slug in SLUGS[:3]:
            await caller.post(f"/v1/experiments/{slug}/events", who, app=MARKET, what=f"meet {slug}")
        body = {**who, "rows": 2, "fl": ["brand"]}
        await caller.post(
            "/v1/recommendation/user_to_products", body, app=MARKET, what="treated recommendation"
        )
        await caller.post("/v1/search/search", {**body, "q": "steel"}, app=MARKET, what="treated search")
    bad: list[Any] = [
        {},
        {"user_id": 5},
        {"user_id": "u", "variant_name": "nobody"},
        {"user_id": "u", "timestamp": "soon"},
        5,
        {"user_id": "u", "variant_name": "five"},
        {"user_id": "u", "timestamp": "2026-01-01T00:00:00Z"},
    ]
    for slug in ("paywall-3-or-5", "right", "unknown"):
        for body in bad:
            await caller.post(f"/v1/experiments/{slug}/events", body, app=MARKET, what=f"bad event {slug}")
            target = f"/v1/experiments/{slug}/events"
            await caller.send(
                "POST", target, json=body, key=(MARKET, "publishable"), what=f"public event {slug}"
            )


async def _step(caller: Caller, slug: str, step: str) -> None:
    target = f"/v1/experiments/{slug}/{step}"
    await caller.send("POST", target, key=(MARKET, "secret"), what=f"{step} {slug}")
