from __future__ import annotations

import pytest

from cluster.runtime.meter import MOST_SAMPLES, Numbers, RayMeter, RayMetricExporter


class _Kept:
    def __init__(self) -> None:
        self.numbers: list[Numbers] = []
        self.broken = False

    def __call__(self, numbers: Numbers) -> None:
        if self.broken:
            raise RuntimeError("no agent here")
        self.numbers.append(numbers)


@pytest.fixture
def kept() -> _Kept:
    return _Kept()


@pytest.fixture
def meter(kept: _Kept) -> RayMeter:
    return RayMeter(export=kept, every_s=3600)


def test_counts_add_up_by_name_and_tags_whatever_their_order(meter: RayMeter, kept: _Kept) -> None:
    meter.count("kiosk_requests", endpoint="a", status="200")
    meter.count("kiosk_requests", 2, status="200", endpoint="a")
    meter.count("kiosk_requests", endpoint="b", status="200")
    meter.flush()
    assert sorted(kept.numbers[0].counts.values()) == [1, 3]


def test_a_gauge_keeps_the_last_value_and_times_a_sample(meter: RayMeter, kept: _Kept) -> None:
    for value in range(100):
        meter.gauge("kiosk_depth", value, app="shop")
        meter.time("kiosk_load_ms", value)
    meter.flush()
    (numbers,) = kept.numbers
    assert list(numbers.gauges.values()) == [99]
    assert [len(samples) for samples in numbers.times.values()] == [MOST_SAMPLES]


def test_nothing_is_handed_over_twice_and_closing_hands_over_the_rest(meter: RayMeter, kept: _Kept) -> None:
    meter.count("kiosk_a")
    meter.flush()
    meter.count("kiosk_b")
    meter.close()
    meter.close()
    assert [[name for name, _ in numbers.counts] for numbers in kept.numbers] == [["kiosk_a"], ["kiosk_b"]]


def test_a_gauge_is_handed_over_again_until_it_is_removed(meter: RayMeter, kept: _Kept) -> None:
    meter.gauge("kiosk_store_away", 1)
    meter.gauge("kiosk_depth", 3, app="shop")
    meter.flush()
    meter.flush()
    meter.remove_gauge("kiosk_depth", app="shop")
    meter.remove_gauge("kiosk_depth", app="never set")
    meter.flush()
    away, depth = ("kiosk_store_away", ()), ("kiosk_depth", (("app", "shop"),))
    assert [numbers.gauges for numbers in kept.numbers] == [
        {away: 1, depth: 3},
        {away: 1, depth: 3},
        {away: 1},
    ]


def test_a_broken_export_ends_nothing(meter: RayMeter, kept: _Kept) -> None:
    kept.broken = True
    meter.count("kiosk_a")
    meter.flush()
    kept.broken = False
    meter.count("kiosk_a")
    meter.flush()
    assert len(kept.numbers) == 1


@pytest.mark.filterwarnings("ignore")
def test_ray_takes_what_is_handed_over_also_without_a_cluster() -> None:
    export = RayMetricExporter()
    numbers = Numbers()
    numbers.counts["kiosk_things_total", (("kind", "a"),)] = 2
    numbers.counts["kiosk_things_total", ()] = 1
    numbers.gauges["kiosk_depth", ()] = 3
    numbers.times["kiosk_load_ms", (("noun", "user"),)] = [1.0, 2.0]
    export(numbers)
    export(numbers)
