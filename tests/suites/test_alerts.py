"""Each alert fires while its fault lasts and ceases afterwards: `promtool` runs the rules over made-up series."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "cluster" / "prometheus" / "alerts.yaml"
FAULT, AFTER = 240, 1200
"Samples of 15 seconds: an hour with the fault, five without."


def _gauge(bad: float, good: float) -> str:
    return f"{bad}x{FAULT} {good}x{AFTER}"


def _counter(step: float) -> str:
    return f"0+{step}x{FAULT} {step * FAULT}x{AFTER}"


def _buckets(metric: str, labels: str, high_le: str) -> dict[str, str]:
    """Return a histogram whose samples lie below `high_le` during the fault, and below 1 afterwards."""
    low = f"0x{FAULT} 0+10x{AFTER}"
    whole = f"0+10x{FAULT + 1 + AFTER}"
    return {
        f'{metric}_bucket{{{labels}le="1"}}': low,
        f'{metric}_bucket{{{labels}le="{high_le}"}}': whole,
        f'{metric}_bucket{{{labels}le="+Inf"}}': whole,
    }


K = "ray_kiosk_"
SERIES: dict[str, dict[str, str]] = {
    "KioskSilent": {f"{K}slow_front": f"_x{FAULT} 0x{AFTER}"},
    "KioskErrors": {
        f'{K}requests_total{{status="500"}}': _counter(5),
        f'{K}requests_total{{status="200"}}': f"0+100x{FAULT + AFTER}",
    },
    "KioskSlow": _buckets(f"{K}request_ms", 'endpoint="search",status="200",', "500"),
    "KioskRefusing": {
        'haproxy_frontend_http_responses_total{proxy="http_frontend",code="5xx"}': _counter(60),
    },
    "KioskSlowFront": {f"{K}slow_front": _gauge(1, 0)},
    "KioskEngineShort": {
        f'{K}engine_replicas{{engine="a"}}': _gauge(1, 2),
        f'{K}engine_replicas_wanted{{engine="a"}}': _gauge(2, 2),
    },
    "KioskEngineWaiting": {f"{K}engines_waiting": _gauge(1, 0)},
    "KioskSnapshotRefused": {f'{K}snapshot_refused{{app="a",engine="default"}}': _gauge(1, 0)},
    "KioskTrialUneven": {f'{K}trial_uneven{{app="a",engine="default"}}': _gauge(1, 0)},
    "KioskReplicasDiffer": {f'{K}replicas_differ{{app="a"}}': _gauge(1, 0)},
    "KioskSegmentsDamaged": {f"{K}segments_damaged_total": _counter(1)},
    "KioskBehind": _buckets(f"{K}follow_lag_ms", 'noun="product",', "10000"),
    "KioskProviderCeiling": {f'{K}provider_ceiling_total{{app="a"}}': _counter(1)},
    "KioskRedisFilling": {f"{K}redis_memory_share": _gauge(0.95, 0.4)},
    "KioskAppsReloaded": {f"{K}reloads_total": _counter(10)},
    "KioskAppTooLarge": {f'{K}memory_over_budget{{app="a"}}': _gauge(1.5, 0)},
    "KioskStoreAway": {f"{K}store_away": _gauge(1, 0)},
    "KioskQuarantine": {f'{K}store_quarantined_total{{kind="user"}}': _counter(1)},
    "KioskIntakeStuck": {f'{K}intake_depth{{app="a"}}': _gauge(500, 0)},
    "KioskIntakeGivesUp": {f'{K}intake_given_up_batches_total{{noun="product"}}': _counter(1)},
    "KioskQueriesLost": {f"{K}queries_lost_total": _counter(1)},
    "KioskQueryLogStuck": {f'{K}query_log_refusals_total{{app="a"}}': _counter(1)},
    "KioskAnswersFail": {f"{K}answers_failed_total": _counter(1)},
    "KioskModelFails": {f"{K}model_failures_total": _counter(1)},
    "KioskThreadNewsMissed": {f"{K}thread_gaps_total": _counter(1)},
}


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_has_the_series_of_its_fault() -> None:
    # Alerts that other parts bring along bring their own tests.
    assert SERIES.keys() <= {rule["alert"] for rule in _rules()}
    untested = {rule["alert"] for rule in _rules()} - SERIES.keys()
    assert untested == set(), "add the series of its fault to SERIES"


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian package prometheus) is not installed"
)


@needs_promtool
def test_every_alert_fires_during_its_fault_and_ceases_after_it(tmp_path: Path) -> None:
    check(tmp_path, {rule["alert"]: (SERIES[rule["alert"]], "45m", "4h") for rule in _rules()})


@needs_promtool
def test_a_counter_raises_its_alert_by_its_first_event(tmp_path: Path) -> None:
    """A counter is exported from its first event on, so its first sample is 1 and not 0."""
    first = f"_x{FAULT} 1x{AFTER}"
    cases = {
        rule["alert"]: (dict.fromkeys(SERIES[rule["alert"]], first), "61m", "130m")
        for rule in _rules()
        if "increase(" in rule["expr"] and not rule["expr"].strip().endswith("> 5")
    }
    assert len(cases) == 7
    check(tmp_path, cases)


@needs_promtool
def test_failures_are_counted_over_all_replicas_and_from_the_first_on(tmp_path: Path) -> None:
    cases = {
        name: ({f'{metric}{{WorkerId="{n}"}}': f"_x{FAULT} 3x{AFTER}" for n in range(2)}, "61m", "130m")
        for name, (metric,) in ((name, SERIES[name]) for name in ("KioskAnswersFail", "KioskModelFails"))
    }
    check(tmp_path, cases)


@needs_promtool
def test_an_intake_that_hangs_reports_nothing_and_raises_its_alert(tmp_path: Path) -> None:
    silent = {f'{K}intake_depth{{app="a"}}': f"_x{FAULT} 0x{AFTER}"}
    check(tmp_path, {"KioskIntakeStuck": (silent, "45m", "2h")})


def check(tmp_path: Path, cases: Mapping[str, tuple[dict[str, str], str, str]]) -> None:
    """Run each alert over its series: it fires at the first time and has ceased at the second."""
    tests = []
    for name, (values_of, fires_at, ceased_at) in cases.items():
        series = [{"series": query, "values": values} for query, values in values_of.items()]
        fires = f"count by (alertname) (ALERTS{{alertname='{name}', alertstate='firing'}})"
        firing = [{"labels": f'{{alertname="{name}"}}', "value": 1}]
        expected = [(fires_at, firing), (ceased_at, [])]
        tests.append(
            {
                "name": name, "interval": "15s", "input_series": series,
                "promql_expr_test": [
                    {"expr": fires, "eval_time": at, "exp_samples": samples} for at, samples in expected
                ],
            }
        )  # fmt: skip
    rules = tmp_path / "alerts.yaml"
    tested = [rule for rule in _rules() if rule["alert"] in cases]
    rules.write_text(yaml.safe_dump({"groups": [{"name": "tested", "rules": tested}]}), "utf-8")
    # a minute for all: evaluating more often tells nothing more and takes longer
    plan = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), "utf-8")
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "plan.yaml")], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
