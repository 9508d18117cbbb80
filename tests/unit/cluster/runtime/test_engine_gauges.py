from __future__ import annotations

from cluster.records.engine import EngineStatus
from cluster.runtime.engine_gauges import EngineGauges
from tests.fakes.counting_meter import CountingMeter


def status(replicas: int) -> EngineStatus:
    return EngineStatus(
        app_id="shop", engine_id="default", state="starting", replicas=replicas, target=2, message="", at=0
    )


def test_gauges_go_with_their_engine_and_with_the_lease() -> None:
    meter = CountingMeter()
    gauges = EngineGauges(meter)
    gauges.report_waiting(1)
    gauges.report_replicas("engine-a", status(1))
    gauges.report_replicas("engine-b", status(2))
    assert meter.gauges == {
        ("kiosk_engines_waiting",): 1,
        ("kiosk_engine_replicas", "engine-a"): 1, ("kiosk_engine_replicas_wanted", "engine-a"): 2,
        ("kiosk_engine_replicas", "engine-b"): 2, ("kiosk_engine_replicas_wanted", "engine-b"): 2,
    }  # fmt: skip
    gauges.remove("engine-a")
    assert {name[1] for name in meter.gauges if len(name) > 1} == {"engine-b"}
    gauges.clear()
    assert meter.gauges == {}
