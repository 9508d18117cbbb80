"""Ports nobody uses."""

from __future__ import annotations

import socket

import pytest

from cluster.process.free_ports import accepts_connections, free_ports, is_free, is_local_address, port_range

pytestmark = pytest.mark.usefixtures("allow_world")


def test_free_ports_are_all_different_and_free() -> None:
    ports = free_ports(6)
    assert len(set(ports)) == 6
    assert all(is_free("127.0.0.1", port) and not accepts_connections("127.0.0.1", port) for port in ports)


def test_free_ports_are_outside_those_of_outgoing_connections() -> None:
    assert all(29_000 <= port < 32_768 or port >= 61_000 for port in free_ports(50))


def test_a_machine_without_free_server_ports_gets_ephemeral_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        taken = server.getsockname()[1]
        monkeypatch.setattr("cluster.process.free_ports.SERVER_PORTS", (taken,))
        ports = free_ports(3)
    assert len(set(ports)) == 3
    assert taken not in ports


def test_a_port_somebody_listens_on_is_neither_free_nor_silent() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        assert accepts_connections("127.0.0.1", port)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "localhost"])
def test_a_program_can_listen_on_addresses_of_this_machine(host: str) -> None:
    assert is_local_address(host)


@pytest.mark.parametrize("host", ["nonsense", "192.0.2.1", "a b", "x" * 300])
def test_nobody_can_listen_on_addresses_of_others(host: str) -> None:
    assert not is_local_address(host)


@pytest.mark.parametrize("mark", ["00000000", "ffffffff", "deadbeef"])
def test_ranges_for_replicas_stay_below_the_ports_systems_hand_out(mark: str) -> None:
    low, high = port_range(mark)
    assert 20_000 <= low < high < 32_768
    assert port_range(mark) == (low, high)
