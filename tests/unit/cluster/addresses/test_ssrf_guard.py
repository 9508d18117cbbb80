from __future__ import annotations

import pytest

from cluster.addresses.ssrf_guard import find_address_fault, find_host, is_internal, is_loopback_address


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "nonsense", "",
        "::127.0.0.1", "fec0::1", "64:ff9b:1::1", "64:ff9b:1:7f00:1::", "192.0.0.8", "192.0.0.9", "::ffff:0:127.0.0.1",
        "192.88.99.1", "2002:101:101::", "2001:0:101:101::1", "0.1.2.3", "240.0.0.1", "3fff::1", "5f00::1", "4000::1",
        "64:ff9b::a9fe:a9fe", "::ffff:192.0.0.8", "2001:db8::1", "100::1", "233.252.0.1", "239.1.1.1", "ff0e::1",
    ],
)  # fmt: skip
def test_addresses_of_ours_are_internal(address: str) -> None:
    assert is_internal(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_addresses_of_the_world_are_not(address: str) -> None:
    assert not is_internal(address)


def test_loopback_counts_in_its_plain_spelling_only() -> None:
    assert is_loopback_address("127.0.0.1")
    assert is_loopback_address("127.9.9.9")
    assert is_loopback_address("::1")
    assert not any(
        map(is_loopback_address, ("::ffff:127.0.0.1", "64:ff9b::7f00:1", "10.0.0.1", "", "localhost"))
    )


@pytest.mark.parametrize(
    "address",
    [
        "https://app.example.com/client.json", "https://app.example.com:8443/a/b", "https://App.Example.com/x",
        "https://93.184.216.34/x", "https://[2606:4700::1]/x", "https://[2606:4700::1]:444/x", "https://localhost:1/x",
        "https://app.example.com/x?version=2", "https://app.example.com/x?a=../b", "https://a-b.example/%2f",
        "https://app.example.com/..x/.y/z..", "https://xn--bcher-kva.example/x", "https://1.example/x",
    ],
)  # fmt: skip
def test_addresses_of_documents(address: str) -> None:
    assert find_address_fault(address) == ""


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("http://app.example.com/x", "https"), ("HTTPS://app.example.com/x", "https"), ("ftp://a.example/x", "https"),
        ("https:/app.example.com/x", "https"), ("https:app.example.com/x", "https"), ("javascript:alert(1)", "https"),
        ("https://app.example.com", "path"), ("https://app.example.com/", "path"),
        ("https://app.example.com?x", "path"),
        ("https://app.example.com/?x=/y", "path"),
        ("https://app.example.com/x#", "fragment"), ("https://app.example.com/x#y", "fragment"),
        ("https://me@app.example.com/x", "user"), ("https://me:secret@app.example.com/x", "user"),
        ("https://app.example.com@evil.example/x", "user"), ("https://@app.example.com/x", "user"),
        ("https://app.example.com/./x", "dot"), ("https://app.example.com/a/../x", "dot"),
        ("https://app.example.com/a/%2e%2E/x", "dot"), ("https://app.example.com/.%2e", "dot"),
        ("https://app.example.com/x/..?y", "dot"),
        ("https://app.example.com\\@evil.example/x", "character"), ("https://app.example.com/x y", "character"),
        ("https://app.example.com/x\n", "character"), ("https://\u00e4.example/x", "character"), ("", "character"),
        ("https://app.example.com/\x7f", "character"), ("https://app.example.com/\udcff", "character"),
        ("https:///x", "host"), ("https://.example/x", "host"), ("https://example./x", "host"),
        ("https://a..example/x", "host"), ("https://-a.example/x", "host"), ("https://a_b.example/x", "host"),
        ("https://%61.example/x", "host"), ("https://a" + "a" * 63 + ".example/x", "host"),
        ("https://" + "a." * 127 + "example/x", "host"), ("https://*.example/x", "host"),
        ("https://2130706433/x", "host"), ("https://0x7f000001/x", "host"), ("https://0x7f.1/x", "host"),
        ("https://127.1/x", "host"), ("https://0177.0.0.1/x", "host"), ("https://1.2.3.0x4/x", "host"),
        ("https://app.example.0x/x", "host"), ("https://127.0.0.01/x", "host"), ("https://256.1.1.1/x", "host"),
        ("https://1.2.3.4.5/x", "host"), ("https://[::1/x", "host"), ("https://[fe80::1%25eth0]/x", "host"),
        ("https://[1.2.3.4]/x", "host"), ("https://[v1.x]/x", "host"), ("https://[]/x", "host"),
        ("https://app.example.com:/x", "port"), ("https://app.example.com:0/x", "port"),
        ("https://app.example.com:65536/x", "port"), ("https://app.example.com:+1/x", "port"),
        ("https://app.example.com/" + "x" * 2000, "longer"),
    ],
)  # fmt: skip
def test_addresses_from_which_nothing_is_fetched(address: str, fault: str) -> None:
    assert fault in find_address_fault(address)


def test_a_host_has_its_port_unless_it_is_that_of_https() -> None:
    assert find_host("https://App.example.com/x?y=/z") == "App.example.com"
    assert find_host("https://app.example.com:443/x") == "app.example.com"
    assert find_host("https://[::1]:8443/x") == "[::1]:8443"
