"""`kiosk cluster` and `kiosk node` before any Ray: what they refuse, and what to do instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import Invalid
from deployments.cli.cluster_commands import _check_proxies, _parse_replicas, _prepare


@pytest.mark.parametrize(("text", "numbers"), [("", (0, 0)), ("3", (3, 3)), ("3:12", (3, 12))])
def test_numbers_of_replicas(text: str, numbers: tuple[int, int]) -> None:
    assert _parse_replicas(text) == numbers


@pytest.mark.parametrize("text", ["x", "3:x", "4:3", "0:3", ":3", "-1"])
def test_numbers_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="MIN:MAX"):
        _parse_replicas(text)


def test_proxies_run_on_every_node_or_on_the_head() -> None:
    assert _check_proxies("HeadOnly") == "HeadOnly"
    with pytest.raises(Invalid, match="EveryNode or HeadOnly"):
        _check_proxies("Disabled")


def test_the_address_of_the_dashboard_is_for_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("KIOSK_REDIS_URL", "redis://redis")
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    with pytest.raises(Invalid, match="ray job submit -- kiosk cluster up"):
        _prepare()


def test_without_a_shared_redis_nothing_is_deployed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    for name in ("KIOSK_REDIS_URL", "KIOSK_REDIS_URL_FILE", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Invalid, match="KIOSK_REDIS_URL_FILE"):
        _prepare()
    assert not (tmp_path / "master.key").exists()
