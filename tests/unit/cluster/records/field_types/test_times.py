"""Times: what is a moment, and what is made of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.records.field_types.times import is_stored_moment, moment_ms, moment_text, utc_text


@pytest.mark.parametrize(
    ("sent", "utc"),
    [
        ("2026-03-02", "2026-03-02"),
        ("2024-02-29", "2024-02-29"),
        ("2026-03-02T09:15:30Z", "2026-03-02T09:15:30Z"),
        ("2026-03-02T09:15:30.250Z", "2026-03-02T09:15:30.250Z"),
        ("2026-03-02T09:15:30.123456789Z", "2026-03-02T09:15:30.123456789Z"),
        ("2026-03-02T09:15:30", "2026-03-02T09:15:30Z"),
        ("2026-03-02T09:15", "2026-03-02T09:15:00Z"),
        ("2026-03-02 09:15:30z", "2026-03-02T09:15:30Z"),
        ("2026-03-02T09:15:30,5Z", "2026-03-02T09:15:30.5Z"),
        ("2026-03-02T00:15:30+01:00", "2026-03-01T23:15:30Z"),
        ("2026-03-02T09:15:30.25-0530", "2026-03-02T14:45:30.25Z"),
        ("2026-03-02T09:15:30+02", "2026-03-02T07:15:30Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_days_stay_and_moments_are_written_in_utc(sent: str, utc: str) -> None:
    assert utc_text(sent) == utc


@pytest.mark.parametrize(
    "sent",
    [
        "", "now", "2026", "2026-3-2", "2026-02-30", "2025-02-29", "0000-01-01", "20260302", "2026-W10-1", "1772442930",
        "2026-03-02T24:00:00Z", "2026-03-02T09:60:00Z", "2026-03-02T09:15:61Z", "2026-03-02T09:15:30.Z",
        "2026-03-02T09:15:30.1234567890Z", "2026-03-02T09:15:30+24:00", "2026-03-02T09:15:30+01:60", "2026-03-02Z",
        "2026-03-02T09:15:30 Z", "2026-03-02T09:15:30Z\n", " 2026-03-02", "2026-03-02\n", "-2026-03-02",
        "٢٠٢٦-٠٣-٠٢", "2026-03-02T٠٩:15:30Z", "0001-01-01T00:00:00+00:01", "9999-12-31T23:59:60Z",
        "9999-12-31T23:59:59-00:01", "2026-03-02\x00",
    ],
)  # fmt: skip
def test_other_texts_are_no_times(sent: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the reason differs
        utc_text(sent)


def test_a_plain_day_is_no_moment() -> None:
    with pytest.raises(ValueError, match="not a moment"):
        moment_ms("2026-03-02")


@given(
    st.datetimes(min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29)),  # noqa: DTZ001
    st.integers(-23 * 60, 23 * 60),
)
def test_milliseconds_agree_with_the_standard_library(at: datetime, offset_minutes: int) -> None:
    there = at.replace(tzinfo=timezone(timedelta(minutes=offset_minutes)))
    gone = there - datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert moment_ms(there.isoformat()) == gone // timedelta(milliseconds=1)


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_the_stored_form_can_be_read_back(at_ms: int) -> None:
    text = moment_text(at_ms)
    assert is_stored_moment(text)
    assert moment_ms(text) == at_ms
    assert utc_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-02T09:15:30Z",
        "2026-03-02 09:15:30.250Z",
        "2016-12-31T23:59:60.000Z",
        "2026-03-02T09:15:30.250z",
    ],
)
def test_other_valid_forms_are_not_taken_for_the_stored_one(text: str) -> None:
    moment_ms(text)
    assert not is_stored_moment(text)
