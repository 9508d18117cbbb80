"""The comparison itself must be able to fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.scenario import differences, filled


@pytest.mark.parametrize(
    ("expected", "given", "whole"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": "<int>"}, {"a": 7}, True),
        (["~ell", "<uuid>"], ["hello", "6f6c2e0e-64f8-4a2a-9f5e-0f3f6b1f2a10"], True),
        ({"a": "<absent>"}, {"b": 1}, False),
    ],
)
def test_what_fits_has_no_differences(expected: Any, given: Any, whole: bool) -> None:
    assert differences(expected, given, whole=whole) == []


@pytest.mark.parametrize(
    ("expected", "given", "whole"),
    [
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, True),
        ({"a": 1}, [], False),
        ([1], [1, 2], False),
        ({"a": "<absent>"}, {"a": None}, False),
        ("<int>", True, False),
        ("<uuid>", "x", False),
        ("<str>", "", False),
        ("~ell", "help", False),
        (True, 1, False),
    ],
)
def test_a_message_reports_unsupported_options(expected: Any, given: Any, whole: bool) -> None:
    assert differences(expected, given, whole=whole)


def test_kept_values_fill_every_place() -> None:
    assert filled({"a": ["x${t}"], "b": 1}, {"t": "7"}) == {"a": ["x7"], "b": 1}
