"""Results of operations as the reference shows them.

Those of `PERFORMED` were made by performing the operations (`python -m tests.performed_examples`); a test performs them
again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PERFORMED: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("performed_examples.json").read_text("utf-8")
)

_PRODUCT: Final = {"product_id": "b-1", "title": "Oak board", "type": "tool", "price": 22.0}
_WHY: Final = {
    "product_id": "b-1", "place": 0, "score": 1.31, "reasons": ["Often bought together"],
    "parts": [["live:baskets", 1.2], ["live:popular", 0.11]],
}  # fmt: skip
_ERASURE: Final[Mapping[str, Any]] = {
    "erasure_id": "0190d2b4-7c1e-7000-8000-5f3a1c9d2e10", "app_id": "bookshop", "subject": "7d1c...",
    "request_id": "0190d2b4-7c1e-7000-8000-5f3a1c9d2e11", "by": "api", "status": "queued",
    "created_at": "2026-03-02T09:15:30.250Z", "finished_at": None, "later": False, "places": [], "left": 0,
}  # fmt: skip
_IMPORT: Final = {
    "import_id": "0190d2b4-7c1e-7000-8000-5f3a1c9d2e12", "file_name": "catalog.csv", "format": "csv",
    "size": 18_204, "noun": "product", "status": "running", "is_stopping": False,
    "created_at": "2026-03-02T09:15:30.250Z", "created_by": "ada", "started_at": "2026-03-02T09:16:02.000Z",
    "updated_at": "2026-03-02T09:16:04.000Z", "mapping": ["product_id=sku", "title=name"], "is_removed": False,
    "rows": 500, "accepted": 498, "refused": 2, "failed": 0, "error": "", "reasons": [], "warnings": [],
}  # fmt: skip
_PREVIEW: Final = {
    "rows": 200, "accepted": 198, "refused": 2, "warnings": [],
    "reasons": [{"text": "product_id is required.", "count": 2, "row": 17, "example": "{}"}],
    "samples": [_PRODUCT],
}  # fmt: skip
_TRIED: Final = {
    "status": 200, "took_ms": 2.1, "answer": {"message": "success", "data": {"products": [_PRODUCT]}}, "error": "",
    "products": [{**_PRODUCT, "why": _WHY}], "served_by": "personal", "snapshot": "053040c827b6cf19",
    "rules": [], "missing": [],
    "snippets": {"curl": "curl -X POST ...", "python": "import httpx ...", "javascript": "const answer = ..."},
}  # fmt: skip
_ENTRY: Final = {
    "id": "1795355062000-0", "source": "store", "app_id": "bookshop", "kind": "record", "noun": "product",
    "name": "b-1", "reason": "the checksum does not match", "at": 1_795_355_062_000, "bytes": 112,
    "is_damaged": True, "time": "2026-11-22T10:04:22.000Z", "why_not_replayed": "its checksum does not match",
}  # fmt: skip

RESULTS: Final[Mapping[str, Any]] = {
    "catalog.search": {"total": 1, "products": [_PRODUCT], "spellcheck": None, "warnings": []},
    "catalog.list": {"total": 1, "products": [_PRODUCT], "next": ""},
    "catalog.get": {"product": _PRODUCT, "words": {"title": ["oak", "board"]}, "languages": ["en"]},
    "catalog.edit": {
        "product_id": "b-1", "task_id": "0190d2b4-7c1e-7000-8000-5f3a1c9d2e13",
        "product": {**_PRODUCT, "price": 24.5, "availability": "IN_STOCK"},
    },
    "catalog.relate": {
        "similar": [], "together": [{**_PRODUCT, "why": _WHY}], "questions": [], "refused": {},
    },
    "catalog.outcomes": {
        "total": 2, "by_type": {"click": 2}, "days": [{"day": "2026-03-02", "counts": {"click": 2}}],
    },
    "users.search": {"total": 1, "active": 1, "users": [{"user_id": "ada", "city": "Bern"}], "next": ""},
    "users.get": {
        "user_id": "ada", "anonymous_id": "", "record": {"user_id": "ada"}, "visitors": ["v-81"], "linked_to": "",
        "profile": {
            "sentences": ["Prefers Kitchen > Boards (100%)."], "types": {"click": 1},
            "categories": [["Kitchen > Boards", 1.0]], "brands": [], "price": [22.0, 22.0],
        },
        "history": [
            {
                "type": "click", "at": "2026-03-02T09:15:30.250Z", "value": 0.0,
                "products": [{"product_id": "b-1", "title": "Oak board"}],
            }
        ],
    },
    "users.recommend": {"served_by": "personal", "rules": [], "products": [{**_PRODUCT, "why": _WHY}]},
    "users.explain": {
        "product_id": "b-7", "is_returned": False, "place": None, "sentences": ["it is not available"],
        "reasons": [{"reason": "out_of_stock"}], "rules": [], "instead": [{**_PRODUCT, "why": _WHY}],
    },
    "users.erase": _ERASURE,
    "users.erasure": _ERASURE,
    "users.erasures": [_ERASURE],
    "users.export": {
        "about": {"app_id": "bookshop", "user_id": "ada", "places": {"profile": 1}},
        "rows": [{"place": "profile", "item": {"user_id": "ada"}}],
    },
    "try.recommend": {"path": "/v1/recommendation/user_to_products", "variants": [_TRIED]},
    "try.search": {"path": "/v1/search/search", "variants": [_TRIED]},
    "try.complete": {"path": "/v1/search/autocomplete", "variants": [_TRIED]},
    "try.ask": {"path": "/v1/ask/questions", "variants": [_TRIED]},
    "try.answer": _TRIED,
    "imports.upload": {**_IMPORT, "status": "uploaded"},
    "imports.list": {"imports": [_IMPORT]},
    "imports.get": _IMPORT,
    "imports.preview": {
        "columns": [
            {
                "name": "sku", "kind": "text", "filled": 200, "samples": ["b-1"], "field": "product_id",
                "rule": "product_id=sku", "reading": "", "values": [], "table": {},
            }
        ],
        "chosen": {"0": "product_id"}, "readings": {}, "tables": {}, "row_type": "", "joins_rows": False,
        "has_refunds": False, "more": [], "choices": {"condition": ["NEW", "USED", "REFURBISHED"]}, "encoding": "",
        "proposed_encoding": "",
        "fields": ["product_id", "type", "title"], "proposed": ["product_id=sku"], "mapping": ["product_id=sku"],
        "preview": _PREVIEW,
    },
    "imports.dry_run": _PREVIEW,
    "imports.start": _IMPORT,
    "imports.cancel": {**_IMPORT, "is_stopping": True},
    "imports.remove": {"removed": "0190d2b4-7c1e-7000-8000-5f3a1c9d2e12"},
    "imports.refused": {
        "rows": [{"row": 18, "reason": "product_id is required.", "text": '{"title": "Oak"}'}], "has_more": False,
    },
    "quarantine.list": {"app": "bookshop", "entries": 1, "newest": [_ENTRY]},
    "quarantine.get": {**_ENTRY, "payload": '{"product_id": "b-1"}'},
    "quarantine.replay": {
        "app": "bookshop", "replayed": 1, "entries": 1,
        "results": [{"id": "1795355062000-0", "status": "replayed", "reason": ""}],
    },
    "quarantine.drop": {"app": "bookshop", "dropped": 1},
}  # fmt: skip
