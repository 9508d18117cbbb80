"""The products that the search endpoint of ask renders."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.access_tier import NOBODY
from deployments.api.resources.ask_search import AskSearchResource
from deployments.api.wire.ask import AskSearch


@pytest.mark.parametrize(
    ("access", "snippet"), [("subscriber", ""), ("registered", ""), ("open", "secret"), (None, "secret")]
)
def test_the_description_of_a_locked_article_is_no_snippet(access: str | None, snippet: str) -> None:
    client = SimpleNamespace(highlight_excerpt=lambda text, question, chars: text)
    resource = AskSearchResource(cast(Any, SimpleNamespace(client=client)), cast(Any, None), cast(Any, None))
    body = AskSearch.model_construct(q="x", fl=[], snippet_max_chars=None)
    record = {"product_id": "a", "title": "t", "description": "secret"} | (
        {"access": access} if access else {}
    )
    rendered = resource._render_product(body, record, {"a": {"product_id": "a"}}, {}, NOBODY)
    assert rendered == {"product_id": "a", "title": "t", "snippet": snippet}
