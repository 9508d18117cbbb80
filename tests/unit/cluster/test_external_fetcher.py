from __future__ import annotations

import pytest

from cluster.external_fetcher import find_life_s

HOUR = "Fri, 27 Nov 2026 10:00:00 GMT"
NEXT = "Fri, 27 Nov 2026 11:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "life_s"),
    [
        ({}, 60),
        ({"cache-control": "max-age=600"}, 600),
        ({"cache-control": 'public, Max-Age="600"', "age": "100"}, 500),
        ({"cache-control": "max-age=600", "expires": NEXT, "date": HOUR}, 600),
        ({"cache-control": "max-age=600", "age": "nonsense"}, 600),
        ({"cache-control": "max-age=1"}, 60),
        ({"cache-control": "max-age=999999999"}, 86_400),
        ({"cache-control": "max-age=" + "9" * 5_000}, 60),
        ({"cache-control": "max-age=-5"}, 60),
        ({"cache-control": "no-store, max-age=600"}, 60),
        ({"cache-control": "no-cache, max-age=600"}, 60),
        ({"expires": NEXT, "date": HOUR}, 3_600),
        ({"expires": HOUR, "date": NEXT}, 60),
        ({"expires": NEXT}, 60),
        ({"expires": "0", "date": HOUR}, 60),
        ({"cache-control": ",=,;max-age"}, 60),
    ],
)
def test_the_life_of_a_document_has_bounds(headers: dict[str, str], life_s: int) -> None:
    assert find_life_s(headers) == life_s
