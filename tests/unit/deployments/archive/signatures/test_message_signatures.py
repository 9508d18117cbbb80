"""Signatures of RFC 9421 and of Web Bot Auth: published vectors, captured requests, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

import pytest

from deployments.archive.signatures.message_signatures import (
    AgentSignature,
    SignedRequest,
    UnusableSignature,
    build_signed_text,
    decode_key,
    read_signature,
    thumbprint,
)
from deployments.archive.signatures.structured_fields import InnerList, Item, parse_dictionary
from tests.fakes.signing_agent import SigningAgent

RFC_KEY = decode_key("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs")
KEY_ID = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U"
AGENT = "https://signature-agent.test"


def request_with(
    headers: Mapping[str, str],
    method: str = "POST",
    origin: str = "https://example.com",
    path: str = "/foo",
    query: str = "",
) -> SignedRequest:
    named = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    return SignedRequest(method, origin, path, query, named.get)


def verify_plain(request: SignedRequest, label: str, key: bytes | None) -> bool:
    """Verify a signature without the profile of agents."""
    covered = parse_dictionary(request.field("signature-input") or "")[label]
    signature = parse_dictionary(request.field("signature") or "")[label]
    assert isinstance(covered, InnerList)
    assert isinstance(signature, Item)
    assert isinstance(signature.value, bytes)
    assert key is not None
    whole = AgentSignature("", 0, 0, "", "", build_signed_text(request, covered), signature.value)
    return whole.is_signed_by(key)


RFC_HEADERS = {
    "date": "Tue, 20 Apr 2021 02:07:55 GMT", "content-type": "application/json", "content-length": "18",
    "signature-input": 'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length")'
    ';created=1618884473;keyid="test-key-ed25519"',
    "signature": "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
}  # fmt: skip
TRANSFORM_HEADERS = {
    "accept": "application/json, */*",
    "signature-input": 'transform=("@method" "@path" "@authority" "accept");created=1618884473'
    ';keyid="test-key-ed25519"',
    "signature": "transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:",
}


def test_rfc_9421_appendix_b_2_6() -> None:
    request = request_with(RFC_HEADERS, query="param=Value&Pet=dog")
    assert verify_plain(request, "sig-b26", RFC_KEY)
    assert read_signature(request) is None, "it has not the tag of agents"
    for name in ("date", "content-type", "content-length"):
        assert not verify_plain(request_with({**RFC_HEADERS, name: "x"}), "sig-b26", RFC_KEY)
    assert not verify_plain(request_with(RFC_HEADERS, "GET"), "sig-b26", RFC_KEY)
    assert not verify_plain(request_with(RFC_HEADERS, path="/bar"), "sig-b26", RFC_KEY)


def test_rfc_9421_appendix_b_4() -> None:
    right = {"origin": "https://example.org", "path": "/demo", "query": "name1=Value1&Name2=value2"}
    assert verify_plain(request_with(TRANSFORM_HEADERS, "GET", **right), "transform", RFC_KEY)
    changed = {**TRANSFORM_HEADERS, "accept": "*/*, application/json"}
    assert not verify_plain(request_with(changed, "GET", **right), "transform", RFC_KEY)
    assert not verify_plain(request_with(TRANSFORM_HEADERS, "POST", **right), "transform", RFC_KEY)


def test_thumbprints_of_rfc_8037_and_of_the_test_key() -> None:
    published = decode_key("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
    assert published is not None
    assert RFC_KEY is not None
    assert thumbprint(published) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert thumbprint(RFC_KEY) == KEY_ID


def agent_input(label: str, covered: str, expires: int, nonce: str) -> str:
    return (
        f'{label}=({covered});created=1735689600;keyid="{KEY_ID}";alg="ed25519";expires={expires};nonce="{nonce}"'
        ';tag="web-bot-auth"'
    )


WITHOUT_AGENT = {
    "signature-input": agent_input(
        "sig1", '"@authority"', 4889289600,
        "zIW8+cdmA3vdYagbxojpONwa/l0EKJ/O3/wD486VvsQjO/RxPaSt6ZxvQaMcQzNnqKN/mQ6hpGiFro2L2qkz5A==",
    ),
    "signature": "sig1=:QKN4fTdIYfh82fvoZCQiQA1weuozfCS/Led2zTMbewMMqH8PI2Wsy/5c4ao6B6D09nraNQdBNOADg8aM1MqfCg==:",
}  # fmt: skip
DICTIONARY = {
    "signature-agent": f'agent2="{AGENT}"',
    "signature-input": agent_input(
        "sig2", '"@authority" "signature-agent";key="agent2"', 4889289600,
        "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
    ),
    "signature": "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:",
}  # fmt: skip
QUOTED = {
    "signature-agent": f'"{AGENT}"',
    "signature-input": agent_input(
        "sig2", '"@authority" "signature-agent"', 1735693200,
        "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
    ),
    "signature": "sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:",
}  # fmt: skip


@pytest.mark.parametrize(("headers", "agent"), [(WITHOUT_AGENT, ""), (DICTIONARY, AGENT), (QUOTED, AGENT)])
def test_vectors_of_web_bot_auth(headers: dict[str, str], agent: str) -> None:
    signature = read_signature(request_with(headers, "GET", path="/path/to/resource"))
    assert signature is not None
    assert RFC_KEY is not None
    assert (signature.agent, signature.key_id, signature.created) == (agent, KEY_ID, 1735689600)
    assert signature.is_signed_by(RFC_KEY)
    assert not signature.is_signed_by(bytes(32))
    elsewhere = read_signature(request_with(headers, "GET", "https://example.net"))
    assert elsewhere is not None
    assert not elsewhere.is_signed_by(RFC_KEY)


DUCKDUCKBOT = "5HvpfNA946z6lcCXEIOOpzlN5l0mdZE42jdqimEwPf8"
AHREFSBOT = "e3vpiy0B6M1Wdxnizw3dqRSgpqS6SXM2qiQ6HtUwZ5g"


@pytest.mark.parametrize(
    ("path", "agent", "x", "given", "signature"),
    [
        (
            "/favicon.ico", "https://bot.duckduckgo.com", "pVqc2ohmGpL_H1OJGq7mIGkxAk65mm5JkY7qSdJachE",
            'sig1=("@method" "@authority" "@path" "signature-agent");created=1788411573;expires=1788412173'
            f';alg="ed25519";tag="web-bot-auth";keyid="{DUCKDUCKBOT}"',
            "sig1=:63joPbtMnsFXGyPmWp8mkRzsxiT0Ugujee2gB5dFajTA/ODK8bTRdkuM1/gYaU1f5DpDBvn5KMvoRkreGyWtCQ==:",
        ),
        (
            "/robots.txt", '"https://ahrefs.com"', "0g1xFRWdVlSOm1h92tZ4VFl7FWGtvRnTZ0PwuBdJuDU",
            f'sig=("@authority" "signature-agent");created=1788417112;keyid="{AHREFSBOT}";alg="ed25519"'
            ';expires=1788417172;nonce="G1Ywem9vmQEo0fdcGB7X5U9zPBDn7t1bL_ThO2xn3SomHhITaea-gLCYBUaHp0YRIDGvnVmofZM9h6dNaVTTig"'
            ';tag="web-bot-auth"',
            "sig=:+B/zW07ZjErBYQKeX5yYs7W/hTzbARoe9EDTg8WehmDZ6lsQfNgUR0Wrv/ggxa0JCu4RAfBi72XAFYw4I9FNAg==:",
        ),
    ],
)  # fmt: skip
def test_captured_requests_of_crawlers(path: str, agent: str, x: str, given: str, signature: str) -> None:
    headers = {"signature-agent": agent, "signature-input": given, "signature": signature}
    read = read_signature(request_with(headers, "GET", "https://gkoreli.com", path))
    key = decode_key(x)
    assert read is not None
    assert key is not None
    assert read.agent == agent.strip('"')
    assert read.key_id == thumbprint(key)
    assert read.is_signed_by(key)


def test_all_components_that_an_agent_may_cover() -> None:
    agent = SigningAgent()
    origin, path, query = "https://news.example.com:8443", "/mcp", "a=1&b=%20"
    components = {
        '"@method"': "POST", '"@authority"': "news.example.com:8443", '"@scheme"': "https", '"@path"': path,
        '"@query"': f"?{query}", '"@target-uri"': f"{origin}{path}?{query}", '"@request-target"': f"{path}?{query}",
        '"content-type"': "application/json", '"signature-agent";key="sig1"': f'"{agent.address}"',
    }  # fmt: skip
    headers = {**agent.sign("", 1, components=components), "content-type": " application/json "}
    signature = read_signature(request_with(headers, "POST", origin, path, query))
    assert signature is not None
    assert signature.is_signed_by(agent.key.public_key().public_bytes_raw())
    bare = agent.sign(
        "", 1, components={'"@query"': "?", '"@target-uri"': "https://a.example/"}, agent_field=""
    )
    empty = read_signature(request_with(bare, "GET", "https://a.example", "/"))
    assert empty is not None
    assert empty.is_signed_by(agent.key.public_key().public_bytes_raw())


def _without(name: str) -> Callable[[dict[str, str]], object]:
    return lambda headers: headers.pop(name)


def _change(name: str, before: str, after: str) -> Callable[[dict[str, str]], None]:
    def change(headers: dict[str, str]) -> None:
        assert before in headers[name]
        headers[name] = headers[name].replace(before, after)

    return change


@pytest.mark.parametrize(
    "spoil",
    [
        _without("signature"), _change("signature", "sig1=", "sig2="), _change("signature", ":", "?"),
        _change("signature", "sig1=:", 'sig1=":'), _change("signature-input", "created=", "made="),
        _change("signature-input", ";expires=", ";ends="), _change("signature-input", "keyid=", "kid="),
        _change("signature-input", '"ed25519"', '"hmac-sha256"'), _change("signature-input", "@authority", "@status"),
        _change("signature-input", '"@authority"', '"@path"'),
        _change("signature-input", '"@authority"', '"@authority";req'),
        _change("signature-input", '"@authority"', '"@authority" "@authority"'),
        _change("signature-input", '"@authority"', '"@authority" @method'),
        _change("signature-input", '"@authority"', '"@authority" "x-absent"'),
        _change("signature-input", '"@authority"', '"@authority" "Signature-Agent"'),
        _change("signature-input", '"@authority"', '"@authority" "signature-agent";bs'),
        _change("signature-input", ' "signature-agent";key="sig1"', ""),
        _change("signature-input", 'key="sig1"', 'key="sig9"'), _change("signature-input", "created=", "created=1."),
        _change("signature-input", "created=", "created=?1;was="),
        _change("signature-input", '"web-bot-auth"', '"web-bot-auth'),
        _change("signature-agent", "https", "ä"), _change("signature-agent", 'sig1="', 'sig1=1;x="'),
        _change("signature-input", "(", "((" ), _change("signature-input", ")", ""),
    ],
)  # fmt: skip
def test_other_signatures_are_not_usable(spoil: Callable[[dict[str, str]], object]) -> None:
    headers = SigningAgent().sign("example.com", 1)
    assert read_signature(request_with(headers)) is not None
    spoil(headers)
    with pytest.raises(UnusableSignature):
        read_signature(request_with(headers))


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"signature": "sig1=:AA==:"}, {"signature-agent": '"https://a.example"'},
        {"signature-input": "", "signature": ""}, {"signature-input": "sig1=1"},
        {"signature-input": 'a=();tag="other"'},
    ],
)  # fmt: skip
def test_requests_without_a_signature_of_an_agent_have_none(headers: dict[str, str]) -> None:
    assert read_signature(request_with(headers)) is None


def test_whatever_a_client_sends_is_a_signature_or_refused() -> None:
    random = Random(5)
    pieces = [
        "sig1", "=", "(", ")", '"', ";", ",", ":", " ", "@authority", "@target-uri", "signature-agent", "key", "tag",
        '"web-bot-auth"', "created=1", "expires=2", "nonce", "\\", "?1", "AA==", "é", "\t", "-", "9" * 20, "*", "https://a",
    ]  # fmt: skip
    outcomes = {"none": 0, "refused": 0}
    for _ in range(10_000):
        good = SigningAgent.sign(AN_AGENT, "example.com", 1)
        name = random.choice(list(good))
        text = good[name]
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(text) + 1)
            text = text[:at] + random.choice(pieces) + text[at + random.randint(0, 6) :]
        try:
            read = read_signature(request_with({**good, name: text}))
            outcomes["none"] += read is None
        except UnusableSignature:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 3_000


AN_AGENT = SigningAgent()


@pytest.mark.parametrize("name", ["signature-input", "signature", "signature-agent"])
def test_a_field_has_a_length(name: str) -> None:
    headers = AN_AGENT.sign("example.com", 1)
    headers[name] += "," + "x" * 9_000
    with pytest.raises(UnusableSignature, match="too long"):
        read_signature(request_with(headers))


def test_a_dictionary_has_a_number_of_members() -> None:
    many = ",".join(f"m{number}=1" for number in range(33))
    with pytest.raises(ValueError, match="too many"):
        parse_dictionary(many)


@pytest.mark.parametrize(
    "text",
    [
        'sig1=("@authority" "signature-agent";key="a");created=1;x;y=?0', 'a=1, b="q\\"\\\\ r";p=tok/en:*, c, d=:AAEC:',
        "a=-5, b=(), c=(1 2);z=:AA==:", 'a=("x" "y" "z");a;b="c"',
    ],
)  # fmt: skip
def test_members_are_written_as_they_were_read(text: str) -> None:
    members = parse_dictionary(text)
    written = [
        name if member.serialize() == "?1" else f"{name}={member.serialize()}"
        for name, member in members.items()
    ]
    assert ", ".join(written) == text


def test_byte_sequences_are_strict() -> None:
    assert parse_dictionary("a=:AA==:")["a"] == Item(b"\0", {})
    for wrong in ("a=:AA:", "a=:A===:", "a=:A A=:", "a=:AA==", "a=:?:"):
        with pytest.raises(ValueError, match=r".+"):
            parse_dictionary(wrong)
