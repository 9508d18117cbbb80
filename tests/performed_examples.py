"""Examples of results that operations gave on a seeded shop: `python -m tests.performed_examples` writes them anew."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from cluster.artifacts.logs.day_files import DAY_MS, name_day
from cluster.artifacts.logs.outcomes import COLUMNS as OUTCOME_COLUMNS
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.logged_query import LoggedQuery
from cluster.records.served_list import ServedAnswer
from deployments.operations.all_operations import OPERATIONS
from deployments.operations.framework.examples import PATH, example_arguments, load_examples
from deployments.operations.framework.operation import result_to_json
from deployments.operations.framework.services import AdminConfig
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.corner_shop import APP, NOW_MS

LINE = 110
WALK = """
    experiments.create experiments.list experiments.get experiments.edit experiments.schedule experiments.start
    experiments.report experiments.pause experiments.start experiments.complete experiments.archive
    experiments.interleave experiments.interleaving
    rules.put rules.list rules.order rules.conflicts rules.preview rules.delete rules.history
    search.report outcomes.report archive.report
    archive.set_terms archive.terms archive.remove_terms
"""
"Operations in an order in which each can be performed, with the arguments of its example."
_ID = re.compile(r"exp-[0-9a-f]+|[0-9a-f]{16,}|[0-9a-f]{8}-[0-9a-f-]{27}")


async def perform_examples(folder: Path) -> dict[str, Any]:
    """Return operation -> its result as JSON; ids that chance chose are made equal."""
    results: dict[str, Any] = {}
    async with open_admin_shop(folder) as shop:
        shop.services = replace(shop.services, config=AdminConfig(archive_app=APP))
        await _seed(shop)
        for name in WALK.split():
            given = example_arguments(OPERATIONS[name])
            app_id = given.pop("app_id")
            result = json.loads(json.dumps(result_to_json(await shop.perform(name, **given))))
            results[name] = _mask(result, app_id)
    return results


async def _seed(shop: AdminShop) -> None:
    stores = shop.services.stores
    rules = [{"name": "no tea", "boost": [{"field": "type", "query": "tea", "action": "remove"}]}]
    await shop.perform("rules.put", rules=rules)
    services = shop.services
    log = QueryLogStore(services.artifacts, shop.corner.clock)
    queries = (("bread knife", 2, 3.5), ("bread knife", 2, 90.0), ("bred knife", 0, 4.0))
    log.append(
        APP,
        [
            LoggedQuery(at=NOW_MS - 1000, kind="search", text=text, total=n, took_ms=ms)
            for text, n, ms in queries
        ],
        "0",
    )
    answers = [
        ServedAnswer(
            f"list-{at}", NOW_MS - at, "user_to_products", "default", user="ada", products=("b-1", "b-2")
        )
        for at in (9_000, 8_000)
    ]
    ServedLogStore(services.artifacts, shop.corner.clock).append(APP, answers, "0")
    click = dict.fromkeys(OUTCOME_COLUMNS.names) | {
        "at": NOW_MS - 7_000, "answered_at": NOW_MS - 9_000, "type": "click", "product": "b-1", "value": 0.0,
        "service_id": "list-9000", "places": [1], "origins": [0], "user": "ada", "engine_id": "default",
        "endpoint": "user_to_products",
    }  # fmt: skip
    table = pa.Table.from_pylist([click], schema=OUTCOME_COLUMNS)
    OutcomeStore(services.artifacts).replace_days(APP, {name_day(NOW_MS // DAY_MS): table}, {})
    call = ArchiveCall(
        at=NOW_MS - 2, tool="ask_archive", client="c-1", client_name="Claude", question="who won", skill_used="news",
        articles=("b-1",), coverage=0.8, took_ms=4.0, call_id="c1", question_id="c1", reply_bytes=2_400, marked=True,
        signature="verified", agent="agent.example.com",
    )  # fmt: skip
    refused = replace(call, outcome="refused", refusal="rate", articles=(), call_id="c2", marked=False)
    missed = replace(call, question="who lost", articles=(), coverage=0.0, call_id="c3")
    visit = replace(call, at=NOW_MS - 1, event="visit")
    await stores.archive_calls.append(APP, [call, refused, missed, visit])


def _mask(value: Any, app_id: str) -> Any:
    if isinstance(value, dict):
        return {name: _mask(part, app_id) for name, part in value.items()}
    if isinstance(value, list):
        return [_mask(part, app_id) for part in value]
    if value == APP:
        return app_id
    return _ID.sub("0190d2b47c1e7000", value) if isinstance(value, str) else value


def render(value: Any, indent: str = "") -> str:
    """Return JSON in which what fits into a line is one."""
    text = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(text) <= LINE or not isinstance(value, dict | list) or not value:
        return text
    deeper = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {render(part, deeper)}" for name, part in value.items()]
        return "{\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + render(part, deeper) for part in value) + f"\n{indent}]"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        examples = {name: dict(example) for name, example in load_examples().items()}
        for operation, result in asyncio.run(perform_examples(Path(made))).items():
            examples[operation]["result"] = result
    PATH.write_text(render(examples) + "\n", "utf-8")
