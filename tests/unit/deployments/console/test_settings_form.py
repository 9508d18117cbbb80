"""The form of an app's settings: a label and a sentence for each, in groups, with lists where there are choices."""

from __future__ import annotations

import html
import re

from cluster.records.apps import SWITCHES, AppSettings
from deployments.console.pages.apps import CLOSED_GROUPS, SETTING_GROUPS, list_setting_groups
from deployments.console.texts.console_texts import ConsoleTexts
from deployments.operations.access.apps import switches_to_dict
from tests.fakes.admin_shop import AdminShop
from tests.fakes.console import Visitor, visit_with_role

ACCESS = "/apps/shop/access"


async def _sign_in(shop: AdminShop) -> Visitor:
    return await visit_with_role(shop.corner.stores, shop.corner.clock, "owner", services=shop.services)


def test_each_setting_has_a_group_a_label_and_a_sentence() -> None:
    groups = list_setting_groups(switches_to_dict(AppSettings()), ConsoleTexts())
    inputs = {
        control["name"].removeprefix("switch-"): control for group in groups for control in group["inputs"]
    }
    assert set(inputs) == set(SWITCHES)
    assert sum(len(group["inputs"]) for group in groups) == len(SWITCHES)
    for name, control in inputs.items():
        assert "_" not in control["label"].replace("service_id", "").replace("user_hash", ""), name
        assert control["label"] != name, name
        assert re.fullmatch(r"[A-Z].{20,}\.", control["hint"]), control["hint"]
    assert [value for value, _ in inputs["bot_rule"]["choices"]] == ["off", "log", "on"]
    assert [value for value, _ in inputs["query_log"]["choices"]] == ["pseudonym", "anonymous", "off"]
    assert (inputs["address_share"]["type"], inputs["address_share"]["maximum"]) == ("number", 1)
    assert {group["name"] for group in groups if not group["is_open"]} <= set(CLOSED_GROUPS)
    assert "derived_token_key" in SETTING_GROUPS["proof"]


async def test_the_form_shows_groups_and_changes_one_setting(shop: AdminShop) -> None:
    visitor = await _sign_in(shop)
    page = await visitor.get(ACCESS)
    opened = [
        text for mark, text in re.findall(r'class="group"( open)?><summary>([^<]+)<', page.text) if mark
    ]
    assert "Privacy" in opened
    assert "Proof of identity" not in opened
    assert '<select id="f-switch-bot_rule"' in page.text
    before = (await shop.perform("apps.get")).to_dict()["switches"]
    fields = {
        html.unescape(name): html.unescape(value)
        for name, value in re.findall(r'name="(switch-[a-z_]+)"[^>]*value="([^"]*)"', page.text)
    }
    await visitor.post(f"{ACCESS}/switches", **fields, **{"switch-bot_rule": "off"})
    after = (await shop.perform("apps.get")).to_dict()["switches"]
    assert {name: value for name, value in after.items() if value != before[name]} == {"bot_rule": "off"}
