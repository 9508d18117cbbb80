from __future__ import annotations

from cluster.runtime.start_plan import StartPlan


def test_proxies_run_on_every_node_by_default() -> None:
    plan = StartPlan.parse(
        '{"host": "0.0.0.0", "port": 8000, "haproxy": true, "ray_arguments": [], "ray_address": ""}'
    )
    assert plan.proxy_location == "EveryNode"
    assert (
        StartPlan.parse(StartPlan("", 0, True, [], "", proxy_location="HeadOnly").to_json()).proxy_location
        == "HeadOnly"
    )


def test_plans_of_the_releases_beside_this_one_are_read() -> None:
    text = '{"host": "", "port": 1, "haproxy": true, "ray_arguments": [], "ray_address": "", '
    plan = StartPlan.parse(text + '"tracker_means": "shop:open_services", "colour": "red"}')
    assert plan.tracker_services == "shop:open_services"
