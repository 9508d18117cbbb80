"""The code on the page about identities makes digests and tokens that the edge accepts."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import messages
from deployments.edge.access.identity_proof import sign_user_id
from deployments.edge.access.tokens import verify_token

PAGE = (Path(__file__).parents[4] / "docs" / "concepts" / "identities.md").read_text("utf-8")


@pytest.fixture
def page() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(code, names)
    return names


def test_the_digest_of_the_page_is_the_one_that_is_compared(page: dict[str, Any]) -> None:
    assert page["user_hash"]("secret", "ada-7") == sign_user_id(b"secret", "ada-7")


def test_the_token_of_the_page_is_accepted(page: dict[str, Any]) -> None:
    token = page["user_token"]("secret", "ada-7")
    read = verify_token(token, [b"secret"], now_s=time.time())
    assert read.user_id == "ada-7"


def test_the_page_quotes_the_messages_as_they_are() -> None:
    for text in (
        messages.HASH_REQUIRED,
        messages.HASH_INVALID,
        messages.TOKEN_INVALID,
        messages.TOKEN_OTHER_USER,
    ):
        assert f"`{text}`" in PAGE
    for text in (messages.ROBOT, messages.SECRET_IN_BROWSER):
        assert re.search(rf"`{re.escape(text[:30])}[^`]*\.\.\.`", PAGE)
