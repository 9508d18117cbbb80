"""Terms contradict themselves never, and their usage preferences never allow what the terms do not."""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cluster.records.archive.archive_terms import (
    ArchiveTerms,
    Payment,
    Usage,
    express_preferences,
    find_fault,
    find_terms,
    name_terms,
)

USES = get_args(Usage)
CONDITIONS: tuple[dict[str, Any], ...] = (
    {}, {"users": ("education",)}, {"not_users": ("commercial",)}, {"countries": ("DE",)}, {"not_countries": ("DE",)},
    {"server": "https://rights.example.org"},
)  # fmt: skip


def allows(terms: ArchiveTerms, use: str) -> bool | None:
    """Return whether RSL lets anybody make a use without more; None: it says nothing."""
    wider = {"ai-train": ("ai-train", "ai-all", "all"), "search": ("search", "all")}[use]
    if any(word in terms.prohibits for word in wider):
        return False
    if not terms.permits:
        return None
    costs = terms.payment not in ("", "free", "attribution")
    some_only = terms.users or terms.not_users or terms.countries or terms.not_countries
    return any(word in terms.permits for word in wider) and not (costs or some_only or terms.server)


def test_preferences_say_what_the_terms_say_for_all_combinations() -> None:
    sets = list(chain.from_iterable(combinations(USES, size) for size in range(3)))
    letters = {True: "y", False: "n"}
    seen = set()
    for permits, prohibits, payment, condition in product(sets, sets, get_args(Payment), CONDITIONS):
        terms = ArchiveTerms(permits=permits, prohibits=prohibits, payment=payment, **condition)
        states = {"train-ai": allows(terms, "ai-train"), "search": allows(terms, "search")}
        written = ", ".join(f"{name}={letters[state]}" for name, state in states.items() if state is not None)
        assert express_preferences(terms) == written, terms
        seen.add(written)
    assert len(seen) == 7, "every mix of y, n and nothing that can occur"


@pytest.mark.parametrize(
    ("given_terms", "fault"),
    [
        ({}, "the terms say nothing"),
        ({"holder": "The Gazette"}, "the terms say nothing"),
        ({"permits": ("search",), "prohibits": ("search",)}, "the use search is allowed and excluded"),
        ({"payment": "free", "users": ("personal",), "not_users": ("personal",)}, "the user personal"),
        ({"payment": "free", "countries": ("DE",), "not_countries": ("DE",)}, "the country DE"),
        ({"payment": "crawl", "amount": "1"}, "an amount and a currency"),
        ({"payment": "crawl", "currency": "EUR"}, "an amount and a currency"),
        (
            {"payment": "attribution", "amount": "1", "currency": "EUR"},
            "the payment attribution has no price",
        ),
        ({"permits": ("all",), "amount": "1", "currency": "EUR"}, "the payment free has no price"),
        ({"permits": ("ai-all",), "prohibits": ("ai-train",)}, ""),
        ({"payment": "crawl", "amount": "0.015", "currency": "USD"}, ""),
    ],
)
def test_faults_of_terms_are_named(given_terms: dict[str, Any], fault: str) -> None:
    named_fault = find_fault(ArchiveTerms(**given_terms))
    assert fault in named_fault
    assert bool(fault) == bool(named_fault)


@pytest.mark.parametrize(
    "wrong",
    [
        {"permits": ("train-ai",)}, {"users": ("everybody",)}, {"countries": ("Germany",)}, {"countries": ("de",)},
        {"payment": "inference"}, {"amount": "-1"}, {"amount": "1e9"}, {"amount": "1\n"}, {"currency": "Euro"},
        {"standard": "javascript:alert(1)"}, {"custom": "https://a b"}, {"terms_url": "ftp://a.example"},
        {"contact": "licences@example.com"}, {"contact": "mailto:a b@c"}, {"server": "//a.example"},
        {"holder": "a\nb"}, {"holder": "\x00"}, {"holder": "\ufffe"}, {"holder": "\ud800"}, {"holder": "x" * 201},
        {"holder_type": "company"}, {"paths": ()}, {"paths": ("news/",)}, {"paths": ("/ä",)}, {"paths": ("/a b",)},
        {"paths": ("/a#b",)}, {"paths": ("/a\n",)}, {"valid_days": 0}, {"standard": "https://a.example/" + "x" * 500},
        {"custom": "https://a.example/["}, {"custom": "https://a.example/%zz"},
    ],
)  # fmt: skip
def test_what_rsl_or_xml_can_not_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ArchiveTerms(**wrong)


@given(st.text(max_size=200))
def test_the_name_of_terms_is_a_short_word_and_names_itself(licence: str) -> None:
    name = name_terms(licence)
    assert len(name) <= 64
    assert name_terms(name) == name
    assert not set(name) & set("/?#%. {}")


def test_articles_have_the_terms_of_their_licence_else_those_of_the_archive() -> None:
    archive, agency = ArchiveTerms(permits=("search",)), ArchiveTerms(prohibits=("all",))
    terms = {"": archive, "agency-wire": agency}
    assert find_terms(terms, "Agency Wire ") == ("agency-wire", agency)
    for licence in ("", "CC BY 4.0", "Agency", "---"):
        assert find_terms(terms, licence) == ("", archive)
    assert find_terms({"agency-wire": agency}, "CC BY 4.0") is None
    assert find_terms({}, "") is None
