"""A node that ends is found among Ray's nodes, and its replicas are counted by their titles."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.errors import Invalid, Unavailable
from cluster.runtime import drain


def node(name: str, address: str, *, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "NodeManagerAddress": address, "Alive": alive}


def test_the_living_node_at_this_address_is_drained() -> None:
    nodes = [node("a", "10.0.0.1"), node("b", "10.0.0.2", alive=False), node("c", "10.0.0.2")]
    assert drain.find_node(nodes, {"127.0.0.1", "10.0.0.2"})["NodeID"] == "c"


def test_without_a_node_at_this_address_nothing_is_drained() -> None:
    with pytest.raises(Unavailable, match="no living Ray node"):
        drain.find_node([node("b", "10.0.0.2", alive=False)], {"10.0.0.2"})


def test_only_replicas_of_serve_are_waited_for() -> None:
    titles = [
        "ray::ServeReplica:api:api",
        "ray::ServeReplica:api:api.handle",
        "ray::ServeReplica:proxies:node",
        "haproxy",
        "",
    ]
    assert drain.count_replicas(titles) == 2


@pytest.mark.parametrize("words", [[], ["soon"], ["-1"], ["1", "2"], ["1.5"]])
def test_the_time_of_a_drain_is_a_whole_number_of_seconds(words: list[str]) -> None:
    with pytest.raises(Invalid, match="how many seconds"):
        drain.parse_seconds(words)
    assert drain.main(words) == 2


def test_a_drain_waits_until_replicas_are_gone_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, waited = "ray::ServeReplica:api:api", []
    titles = iter([[replica, replica], [replica], []])
    monkeypatch.setattr(drain, "drain_node", lambda address, seconds: None)
    monkeypatch.setattr(drain, "_titles", lambda: next(titles))
    monkeypatch.setattr(drain.time, "sleep", waited.append)
    assert drain.main(["60"]) == 0
    assert waited == [drain.SETTLE_S, drain.POLL_S, drain.POLL_S]


def test_a_drain_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "drain_node", lambda address, seconds: None)
    monkeypatch.setattr(drain, "_titles", lambda: ["ray::ServeReplica:api:api"])
    monkeypatch.setattr(drain.time, "sleep", lambda s: None)
    assert drain.main(["0"]) == 0
