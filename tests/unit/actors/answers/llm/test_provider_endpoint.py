from __future__ import annotations

import httpx
import pytest

from actors.answers.llm.provider_endpoint import GuardedTransport, InternalAddressError, LanguageModelConfig
from cluster.errors import Invalid


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
        LanguageModelConfig(url, model).validate()
    assert "secret" not in str(refused.value)


def test_terms_name_the_provider_without_its_key() -> None:
    terms = LanguageModelConfig("https://models.example.com/v1", "m-1", key="sk-secret").validate()
    assert terms.name == "m-1@models.example.com"
    assert "sk-secret" not in repr(terms)
