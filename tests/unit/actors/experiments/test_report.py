"""What a report counts, and what it warns of."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from actors.experiments.report import ExperimentReport, build_report, serving_counts_from
from cluster.records.experiment import Experiment, Exposure
from tests.unit.actors.experiments.test_assignment import experiment

AT = 1_700_000_000_000


def of(
    exposures: Sequence[tuple[str, Exposure]],
    conversions: Sequence[tuple[str, int]] = (),
    *,
    links: dict[str, str] | None = None,
    served: dict[str, int] | None = None,
    about: Experiment | None = None,
) -> ExperimentReport:
    return build_report(about or experiment(), exposures, conversions, links=links or {}, served=served or {})


def met(user_key: str, variant_id: str, **fields: object) -> tuple[str, Exposure]:
    exposure: dict[str, object] = {"variant_id": variant_id, "at_ms": AT, "person": user_key, **fields}
    return user_key, Exposure(**exposure)  # type: ignore[arg-type]


def test_people_convert_once_and_only_after_they_met_the_variant() -> None:
    report = of(
        [met("u:a", "v0"), met("u:b", "v1"), met("u:c", "v1")],
        [("u:a", AT - 1), ("u:b", AT), ("u:b", AT + 5), ("u:z", AT)],
    )
    assert [(line.people, line.converted, line.conversions) for line in report.lines] == [
        (1, 0, 0),
        (2, 1, 2),
    ]
    assert report.lines[1].rate == 0.5
    assert report.lines[0].lift is None


def test_what_happens_after_the_end_does_not_count() -> None:
    report = of([met("u:a", "v0")], [("u:a", AT + 10)], about=experiment(ends_at=AT + 10))
    assert report.lines[0].converted == 0


def test_a_person_of_several_ids_counts_once_and_converts_by_any_of_them() -> None:
    exposures = [met("a:x", "v1"), met("u:ada", "v1", person="a:x"), met("a:y", "v0")]
    report = of(
        exposures, [("u:ada", AT + 1), ("a:x", AT + 2), ("u:bob", AT + 3)], links={"y": "bob", "q": "zoe"}
    )
    assert [(line.people, line.converted, line.conversions) for line in report.lines] == [
        (1, 1, 1),
        (1, 1, 2),
    ]


def test_forced_people_are_counted_and_left_out() -> None:
    report = of([met("u:a", "v1", forced=True), met("u:b", "v1")], [("u:a", AT)])
    line = report.lines[1]
    assert (line.people, line.converted, line.forced) == (1, 0, 1)
    assert not report.split.mismatch


def test_people_who_met_a_split_before_its_weights_changed_are_left_out() -> None:
    exposures = [met("u:a", "v1", at_ms=AT - 5), met("u:b", "v1"), met("a:x", "v0", at_ms=AT - 5)]
    conversions = [("u:a", AT + 1), ("u:b", AT + 1), ("u:ada", AT + 1)]
    report = build_report(
        experiment(weights_at=AT), exposures, conversions,
        links={"x": "ada"}, served={}, settling=[("u:a", AT + 2), ("u:b", AT + 2)],
    )  # fmt: skip
    assert [(line.people, line.converted, line.conversions) for line in report.lines] == [
        (0, 0, 0),
        (1, 1, 1),
    ]
    assert report.settling == 1


def test_a_clear_difference_is_decided_and_a_slight_one_is_not() -> None:
    exposures = [met(f"u:{n}", f"v{n % 2}") for n in range(8_000)]
    clear = [(f"u:{n}", AT + 1) for n in range(8_000) if n % 20 == 0 or n % 10 == 1]
    lift = of(exposures, clear).lines[1].lift
    assert lift is not None
    assert lift.decided
    assert lift.value == pytest.approx(0.1, abs=0.001)
    slight = [(f"u:{n}", AT + 1) for n in range(8_000) if n % 20 in (0, 1)]
    lift = of(exposures, slight).lines[1].lift
    assert lift is not None
    assert not lift.decided


def test_a_broken_split_is_detected_with_its_slice() -> None:
    exposures = [met(f"u:{n}", f"v{n % 2}", device="desktop") for n in range(4_000)]
    exposures += [met(f"u:p{n}", f"v{int(n % 10 > 6)}", device="phone") for n in range(2_000)]
    report = of(exposures)
    assert (report.split.mismatch, report.split.slice) == (True, "device=phone")
    assert not of(exposures[:4_000]).split.mismatch


def test_guardrails_are_broken_by_what_is_surely_worse() -> None:
    served = {"v0:10": 9_990, "v0:over": 10, "v1:10": 9_000, "v1:500": 900, "v0:failed": 20, "v1:failed": 30}
    report = of([met("u:a", "v0"), met("u:b", "v1")], served=served)
    assert report.lines[1].broken == ["latency"]
    assert report.lines[0].broken == []
    assert report.lines[1].served.slow == 900


def test_quantiles_are_the_bounds_of_their_class() -> None:
    report = serving_counts_from({"v:5": 50, "v:20": 44, "v:over": 6, "v:failed": 1, "w:5": 9}, "v")
    assert (report.requests, report.failed, report.p50_ms, report.p95_ms) == (101, 1, 5, None)
    assert serving_counts_from({}, "v").p50_ms is None


def test_a_report_converts_to_json_without_people() -> None:
    report = json.loads(json.dumps(of([]).to_dict(), allow_nan=False))
    assert report["variants"][1]["lift"]["low"] is None
    assert report["split"]["mismatch"] is False
    assert of([met("u:a", "v1")]).to_dict()["days"] == {"2023-11-14": {"v1": 1}}
