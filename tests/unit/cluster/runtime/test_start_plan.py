from __future__ import annotations

from cluster.runtime.start_plan import StartPlan


def test_proxies_run_on_every_node_unless_the_plan_says_otherwise() -> None:
    plan = StartPlan.parse(
        '{"host": "0.0.0.0", "port": 8000, "haproxy": true, "ray_arguments": [], "ray_address": ""}'
    )
    assert plan.proxy_location == "EveryNode"
    assert (
        StartPlan.parse(StartPlan("", 0, True, [], "", proxy_location="HeadOnly").to_json()).proxy_location
        == "HeadOnly"
    )
