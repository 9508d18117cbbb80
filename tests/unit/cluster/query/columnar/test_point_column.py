"""Distance circles."""

from __future__ import annotations

import math
import random

import pytest

from cluster.query.columnar.point_column import EARTH_RADIUS_KM, PointColumn, kilometres
from tests.unit.cluster.query.columnar.distances import distance_km, is_within


@pytest.mark.parametrize(
    ("first", "other", "km"),
    [
        ((52.5200, 13.4050), (48.8566, 2.3522), 877.5),
        ((0, 0), (0, 1), 111.195),
        ((0, 179.5), (0, -179.5), 111.195),
        ((90, 0), (90, 120), 0),
        ((0, 0), (0, 180), math.pi * EARTH_RADIUS_KM),
    ],
)
def test_distances_equal_reference_values(
    first: tuple[float, float], other: tuple[float, float], km: float
) -> None:
    assert distance_km(*first, *other) == pytest.approx(km, rel=1e-3, abs=1e-6)


def test_units_are_kilometres_and_miles() -> None:
    assert kilometres(1) == kilometres(1, "mi") == kilometres(1, "MILES") == 1.609344
    assert kilometres(2, "km") == 2
    assert kilometres(2, "parsec") is None


def test_columns_agree_with_the_haversine() -> None:
    rng = random.Random(3)
    points = [
        [(rng.uniform(-90, 90), rng.uniform(-180, 180)) for _ in range(rng.randint(0, 3))] for _ in range(500)
    ]
    column = PointColumn()
    for row, some in enumerate(points):
        column.set(row, some)
    for radius in (0, 1, 50, 500, 5_000, 12_000, 19_999, 20_020, 30_000):
        lat, lon = rng.uniform(-90, 90), rng.uniform(-180, 180)
        records = [{"location": [{"lat": a, "lon": b} for a, b in some]} for some in points]
        expected = [is_within(record, "location", lat, lon, radius) for record in records]
        assert column.within(lat, lon, radius).tolist() == expected


def test_distances_of_one_and_two_metres_differ() -> None:
    column = PointColumn()
    metre = math.degrees(0.001 / EARTH_RADIUS_KM)
    column.set(0, [(45.0, 7.0)])
    column.set(1, [(45.0 + metre, 7.0)])
    column.set(2, [(45.0 + 2 * metre, 7.0)])
    assert column.within(45.0, 7.0, 0.0005).tolist() == [True, False, False]
    assert column.within(45.0, 7.0, 0.0015).tolist() == [True, True, False]


def test_without_a_point_nothing_is_near() -> None:
    column = PointColumn()
    column.set(0, [])
    column.set(1, [(1.0, 1.0)])
    assert column.within(0, 0, 50_000).tolist() == [False, True]
    assert column.within(1, 1, -1).tolist() == [False, False]
    for location in (None, {}, {"lat": 1}, {"lat": "1", "lon": 1}, {"lat": True, "lon": 1}, "x", [[]]):
        assert not is_within({"location": location}, "location", 1, 1, 50_000)


def test_points_are_replaced() -> None:
    column = PointColumn()
    column.set(0, [(1.0, 1.0), (2.0, 2.0)])
    column.set(0, [(50.0, 50.0)])
    assert column.within(1, 1, 10).tolist() == [False]
    assert column.within(50, 50, 10).tolist() == [True]


def test_replaced_points_leave_nothing_behind() -> None:
    column = PointColumn()
    for turn in range(20_000):
        column.set(turn % 10, [(turn % 90, turn % 180)] * (turn % 3))
        if turn % 100 == 0:
            column.within(0, 0, 1)
    assert column.nbytes < 100_000
