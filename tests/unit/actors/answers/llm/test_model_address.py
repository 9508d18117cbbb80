from __future__ import annotations

import httpx
import pytest

from actors.answers.llm.model_address import GuardedTransport, InternalAddressError, ModelConfig, is_internal
from cluster.errors import Invalid


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


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["1.1.1.1", "10.0.0.1"], []])
async def test_a_name_that_leads_inside_is_not_followed(addresses: list[str]) -> None:
    async def look_up(host: str, port: int) -> list[str]:
        assert (host, port) == ("models.example.com", 443)
        return addresses

    transport = GuardedTransport(may_be_internal=False, look_up=look_up)
    with pytest.raises(InternalAddressError):
        await transport.handle_async_request(httpx.Request("POST", "https://models.example.com/v1"))
    await transport.aclose()


@pytest.mark.parametrize(
    ("url", "model"),
    [
        ("models.example.com", "m"), ("ftp://x.example", "m"), ("http://models.example.com/v1", "m"), ("https://", "m"),
        ("https://me:secret@models.example.com", "m"), ("https://models.example.com", " "),
    ],
)  # fmt: skip
def test_terms_that_make_no_sense_are_refused(url: str, model: str) -> None:
    with pytest.raises(Invalid) as refused:
        ModelConfig(url, model).validate()
    assert "secret" not in str(refused.value)


def test_terms_name_the_provider_without_its_key() -> None:
    terms = ModelConfig("https://models.example.com/v1", "m-1", key="sk-secret").validate()
    assert terms.name == "m-1@models.example.com"
    assert "sk-secret" not in repr(terms)
