"""Heavy reads of pages are done once while nothing changes, and a change is seen at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deployments.operations.content import rules
from deployments.operations.insight import experiments
from tests.fakes.admin_shop import AdminShop

PIN = {"boost": [{"field": "brand", "option": "is", "query": "Alder", "action": "pin"}]}


def count_calls(call: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def counting(*given: Any) -> Any:
        calls.append("called")
        return call(*given)

    return counting


async def test_the_question_bank_is_read_once_until_it_changes(
    shop: AdminShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, reads = shop.services.stores.question_bank, list[str]()
    await shop.perform("bank.add", question="Is it zinc?")
    monkeypatch.setattr(bank, "load", count_calls(bank.load, reads))
    for contains in ("", "zinc", "oak"):
        await shop.perform("bank.list", contains=contains)
    assert len(reads) == 1
    await shop.perform("bank.add", question="Is it oak?")
    assert (await shop.perform("bank.list", contains="oak")).total == 1


async def test_conflicts_are_sought_once_until_a_rule_changes(
    shop: AdminShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[str] = []
    monkeypatch.setattr(rules, "check_rules", count_calls(rules.check_rules, checks))
    await shop.perform("rules.put", rules=[{"name": "one", "position": [1], **PIN}])
    for _ in range(3):
        assert (await shop.perform("rules.conflicts")).conflicts == ()
    assert len(checks) == 1
    await shop.perform("rules.put", rules=[{"name": "two", "position": [1], **PIN}])
    assert [conflict.kind for conflict in (await shop.perform("rules.conflicts")).conflicts] == ["place"]


async def test_a_report_is_built_once_until_its_experiment_changes(
    shop: AdminShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    monkeypatch.setattr(experiments, "load_report", count_calls(experiments.load_report, loads))
    draft = {
        "name": "Paywall",
        "slug": "paywall",
        "reports_exposure": True,
        "variants": [{"name": "three"}, {"name": "five"}],
    }
    await shop.perform("experiments.create", experiments=[draft])
    for _ in range(3):
        await shop.perform("experiments.report", experiment="paywall")
    assert len(loads) == 1
    await shop.perform("experiments.start", experiment="paywall")
    report = await shop.perform("experiments.report", experiment="paywall")
    assert len(loads) == 2
    assert report.experiment.status == "Active"
