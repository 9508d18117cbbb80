"""Agents that sign their requests: identified by keys from a real HTTPS host, counted, logged, not refused by it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from cluster.errors import Unavailable
from cluster.meter import SilentMeter
from cluster.records.archive.archive_client import ArchiveCall, ClientRule
from deployments.archive.signatures import key_directories
from deployments.archive.signatures.key_directories import read_agent_address, read_key_set
from deployments.archive.signatures.message_signatures import DIRECTORY_PATH
from deployments.operations.insight.archive.usage_report import build_usage_report
from tests.fakes.archive import HOST, ArchiveCorner, open_archive_corner
from tests.fakes.asgi import Answer
from tests.fakes.call_frame import frame_from_calls
from tests.fakes.certificates import Authority
from tests.fakes.document_host import DocumentHost, reply
from tests.fakes.signing_agent import SigningAgent
from tests.suites.doing import require

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/http-message-signatures-directory+json\r\n"
NAME = "agent.example.com"
COVERED = '"signature-agent";key="sig1"'
NOT_ALLOWED = "This client is not allowed to use the archive; ask its publisher"


class CountingMeter(SilentMeter):
    """Counts what is counted, by the value of the only label."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        if name == "kiosk_agent_signatures_total":
            self.counts[tags["state"]] += int(by)


@pytest.fixture
def host(trusted_authority: Authority) -> Iterator[DocumentHost]:
    with closing(DocumentHost(trusted_authority, (NAME, "other.example.com"))) as host:
        yield host


class Scene:
    """An archive that identifies agents, and an agent with a published key."""

    def __init__(self, host: DocumentHost, corner: ArchiveCorner, meter: CountingMeter) -> None:
        self.host = host
        self.corner = corner
        self.meter = meter
        self.agent = SigningAgent()

    @property
    def now_s(self) -> int:
        return self.corner.clock.now_ms() // 1000

    def publish(self, body: bytes | None = None, head: bytes = HEAD, path: str = DIRECTORY_PATH) -> None:
        self.host.answers[path] = reply(self.agent.directory() if body is None else body, head)

    async def ask(self, headers: dict[str, str] | None = None, **signing: Any) -> Answer:
        given = self.agent.sign(HOST, self.now_s, **signing) if headers is None else headers
        message = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "ask_archive", "arguments": {"question": "comet"}},
        }  # fmt: skip
        return await self.corner.post(json.dumps(message).encode(), headers=given)

    async def calls(self) -> list[ArchiveCall]:
        await self.corner.services.workers.usage.write()
        return await self.corner.stores.archive_calls.read_all("playground", "0")

    async def state(self, headers: dict[str, str] | None = None, **signing: Any) -> tuple[str, str]:
        """Return what the log says of a signed call, which is answered whatever its signature proves."""
        answer = await self.ask(headers, **signing)
        assert "result" in answer.json(), answer
        last = (await self.calls())[-1]
        return last.signature, last.agent

    async def rule(self, client: str, **values: Any) -> None:
        await self.corner.stores.client_rules.put("playground", ClientRule(client=client, **values))
        await self.corner.services.workers.gate.read()


@pytest.fixture
async def scene(host: DocumentHost) -> Scene:
    meter = CountingMeter()
    corner = await open_archive_corner(signed_agents="fetch", meter=meter, key_documents=host.client())
    scene = Scene(host, corner, meter)
    scene.publish()
    return scene


async def test_a_verified_agent_is_logged_and_counted_and_its_keys_are_fetched_once(scene: Scene) -> None:
    for _ in range(3):
        assert await scene.state() == ("verified", NAME)
    assert len(scene.host.requests) == 1
    assert scene.host.requests[0].startswith(f"GET {DIRECTORY_PATH} HTTP/1.1\r\nHost: {NAME}".encode())
    assert await scene.state({}) == ("", "")
    assert scene.meter.counts == {"verified": 3}, "unsigned requests are not counted"


@pytest.mark.parametrize(
    "form", ['"https://agent.example.com"', "https://agent.example.com", '"https://AGENT.example.com/"']
)
async def test_older_forms_of_the_header_name_the_agent_too(scene: Scene, form: str) -> None:
    covered = {'"@authority"': HOST, '"signature-agent"': form}
    assert await scene.state(agent_field=form, components=covered) == ("verified", NAME)


async def test_a_key_set_at_another_address_does_not_speak_for_its_host(scene: Scene) -> None:
    scene.agent.address = "https://agent.example.com/team/keys.json?v=1"
    scene.publish(path="/team/keys.json?v=1")
    assert await scene.state() == ("verified", f"{NAME}/team/keys.json")
    await scene.rule(f"agent:{NAME}", decision="deny")
    assert "result" in (await scene.ask()).json()
    await scene.rule("agent:*", decision="deny")
    assert (await scene.ask()).json()["error"]["message"] == NOT_ALLOWED


@pytest.mark.parametrize(
    ("signing", "state"),
    [
        ({"life_s": -61}, "invalid"), ({"created": "1"}, "invalid"), ({"created": "99999999999"}, "invalid"),
        ({"tag": '"web-bot"'}, ""), ({"expires": ""}, "invalid"), ({"nonce": "n" * 257}, "invalid"),
        ({"components": {'"@method"': "POST"}}, "invalid"),
        ({"components": {'"@authority"': "evil.example", COVERED: '"https://agent.example.com"'}}, "invalid"),
        ({"keyid": '"AAAA"'}, "unverified"),
        ({"agent_field": "", "components": {'"@authority"': HOST}}, "unverified"),
        ({"components": {'"@authority"': HOST}}, "invalid"),
        ({"life_s": 86_400}, "verified"), ({"life_s": -30}, "verified"),
    ],
)  # fmt: skip
async def test_each_signature_has_one_outcome_and_no_call_is_refused_for_it(
    scene: Scene, signing: dict[str, Any], state: str
) -> None:
    assert await scene.state(**signing) == (state, NAME if state == "verified" else "")
    assert scene.meter.counts == ({state: 1} if state else {})


async def test_a_signature_of_another_host_or_of_another_key_proves_nothing(scene: Scene) -> None:
    assert (await scene.state(scene.agent.sign("evil.example", scene.now_s)))[0] == "invalid"
    stolen = {**scene.agent.sign("evil.example", scene.now_s), "host": "evil.example"}
    assert (await scene.state(stolen))[0] == "invalid", "a client chooses its Host header"
    thief = SigningAgent()
    forged = thief.sign(HOST, scene.now_s, keyid=f'"{scene.agent.key_id}"')
    assert (await scene.state(forged))[0] == "invalid"
    other = SigningAgent("https://other.example.com", thief.key)
    assert (await scene.state(other.sign(HOST, scene.now_s)))[0] == "unverified", (
        "that host publishes no such key"
    )


async def test_the_keys_of_one_agent_never_verify_another(scene: Scene) -> None:
    assert await scene.state() == ("verified", NAME)
    scene.publish(b'{"keys": []}')
    thief = SigningAgent("https://other.example.com", scene.agent.key)
    assert await scene.state(thief.sign(HOST, scene.now_s)) == ("unverified", "")


async def test_a_nonce_counts_once_on_all_replicas(scene: Scene) -> None:
    other = await open_archive_corner(
        scene.corner.stores, scene.corner.clock, signed_agents="fetch", key_documents=scene.host.client()
    )
    headers = scene.agent.sign(HOST, scene.now_s, nonce="n-1")
    assert await scene.state(headers) == ("verified", NAME)
    assert (await scene.state(headers))[0] == "invalid"
    assert (await Scene(scene.host, other, scene.meter).state(headers))[0] == "invalid"
    assert (await scene.state(nonce="n-2"))[0] == "verified"
    again = scene.agent.sign(HOST, scene.now_s, life_s=86_400, nonce="n-3")
    without = scene.agent.sign(HOST, scene.now_s, life_s=86_400)
    scene.corner.clock.pass_ms(3_700_000)
    assert (await scene.state(again))[0] == "invalid", "one with a nonce counts for an hour"
    assert (await scene.state(without))[0] == "verified"
    scene.corner.clock.pass_ms(86_400_000)
    assert (await scene.state(without))[0] == "invalid"


async def test_a_store_that_is_away_proves_nothing_and_refuses_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> bool:
        raise Unavailable("away")

    monkeypatch.setattr(scene.corner.stores.grants, "take_assertion", fail)
    assert await scene.state(nonce="n-1") == ("unverified", "")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: https://other.example.com/\r\nContent-Length: 0\r\n\r\n",
        reply(b"<html>", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"),
        reply(b"nonsense", HEAD), reply(b"[]", HEAD),
        reply(b'{"keys": {}}', HEAD), reply(b'{"keys": [1, null, {}, {"kty": "OKP", "crv": "Ed25519", "x": 5}]}', HEAD),
        reply(b'{"keys":' + b"[" * 5_000, HEAD), reply(b"x" * 20_000, HEAD), b"",
    ],
)  # fmt: skip
async def test_keys_that_can_not_be_had_are_fetched_once_a_minute(scene: Scene, answer: bytes) -> None:
    scene.host.answers[DIRECTORY_PATH] = answer
    for _ in range(3):
        assert await scene.state() == ("unverified", "")
    assert len(scene.host.requests) == 1
    scene.publish()
    scene.corner.clock.pass_ms(61_000)
    assert await scene.state() == ("verified", NAME)


async def test_an_outage_takes_no_keys_away_and_a_removal_does(scene: Scene) -> None:
    assert (await scene.state())[0] == "verified"
    scene.host.answers[DIRECTORY_PATH] = b"HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n"
    scene.corner.clock.pass_ms(120_000)
    assert (await scene.state())[0] == "verified"
    assert len(scene.host.requests) == 2
    scene.corner.clock.pass_ms(90_000_000)
    assert (await scene.state())[0] == "unverified", "a day later nobody can tell"
    scene.publish()
    scene.corner.clock.pass_ms(61_000)
    assert (await scene.state())[0] == "verified"
    scene.publish(b'{"keys": []}')
    scene.corner.clock.pass_ms(61_000)
    assert (await scene.state())[0] == "unverified"


async def test_a_rotated_key_is_fetched_before_the_old_set_ends(scene: Scene) -> None:
    scene.publish(head=HEAD + b"Cache-Control: max-age=86400\r\n")
    assert (await scene.state())[0] == "verified"
    scene.agent = SigningAgent()
    scene.publish()
    assert (await scene.state())[0] == "unverified", "not more often than once a minute"
    scene.corner.clock.pass_ms(61_000)
    assert (await scene.state())[0] == "verified"


@pytest.mark.parametrize(
    "address",
    [
        "http://agent.example.com", "https://user@agent.example.com", "https://agent.example.com#x", "https://",
        "https://2130706433", "https://agent.example.com?x=1", "https://agent.example.com/../x", "data:,x", "https://[::1",
        "https://" + "a" * 3_000 + ".example",
    ],
)  # fmt: skip
async def test_nothing_is_fetched_from_other_addresses(scene: Scene, address: str) -> None:
    scene.agent.address = address
    assert await scene.state() == ("unverified", "")
    assert scene.host.connected == []


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.7", "::1", "::ffff:192.168.0.1"])
async def test_nothing_is_fetched_from_hosts_inside(host: DocumentHost, address: str) -> None:
    client = host.client(look_up=lambda name, port: [address])
    corner = await open_archive_corner(signed_agents="fetch", key_documents=client)
    assert await Scene(host, corner, CountingMeter()).state() == ("unverified", "")
    assert host.connected == []


async def test_a_slow_directory_delays_only_the_calls_that_name_it(host: DocumentHost) -> None:
    corner = await open_archive_corner(signed_agents="fetch", key_documents=host.client(within_s=0.6))
    scene = Scene(host, corner, CountingMeter())
    host.answers[DIRECTORY_PATH] = lambda secured: host.is_closing.wait(5) and None
    begun_s = time.monotonic()
    slow = [asyncio.create_task(scene.ask()) for _ in range(5)]
    await asyncio.sleep(0.05)
    await scene.ask({})
    assert not any(task.done() for task in slow)
    assert time.monotonic() - begun_s < 0.4
    answers = await asyncio.gather(*slow)
    assert all("result" in answer.json() for answer in answers)
    assert time.monotonic() - begun_s < 3
    assert len(host.requests) == 1, "they wait for one fetch"


async def test_a_fetch_for_which_there_was_no_room_is_repeated_at_the_next_call(host: DocumentHost) -> None:
    corner = await open_archive_corner(signed_agents="fetch", key_documents=host.client(most_at_once=1))
    scene, slow, may_answer = (
        Scene(host, corner, CountingMeter()),
        SigningAgent("https://other.example.com/slow"),
        threading.Event(),
    )
    scene.publish()
    host.answers["/slow"] = lambda secured: may_answer.wait(5) and None
    crowding = asyncio.create_task(scene.ask(slow.sign(HOST, scene.now_s)))
    while not host.requests:  # noqa: ASYNC110 - the host is in another thread
        await asyncio.sleep(0.01)
    assert await scene.state() == ("unverified", "")
    may_answer.set()
    await crowding
    assert await scene.state() == ("verified", NAME)


async def test_a_person_can_not_make_the_server_fetch_without_bound(scene: Scene) -> None:
    states = []
    for number in range(30):
        agent = SigningAgent(f"https://agent.example.com/{number}")
        scene.host.answers[f"/{number}"] = reply(agent.directory(), HEAD)
        states.append((await scene.state(agent.sign(HOST, scene.now_s)))[0])
    assert states == ["verified"] * 20 + ["unverified"] * 10
    assert len(scene.host.requests) == 20


async def test_the_memory_of_directories_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_directories, "MOST_CACHED", 2)
    for number in (1, 2, 3, 1):
        agent = SigningAgent(f"https://agent.example.com/{number}", scene.agent.key)
        scene.publish(path=f"/{number}")
        assert (await scene.state(agent.sign(HOST, scene.now_s)))[0] == "verified"
    assert len(scene.host.requests) == 4


async def test_visitors_without_a_token_make_the_server_fetch_nothing(scene: Scene) -> None:
    headers = scene.agent.sign(HOST, scene.now_s)
    for token in ("", "wrong"):
        answer = await scene.corner.post(b"{}", headers=headers, token=token)
        assert answer.status == 401
    assert scene.host.connected == []


async def test_signatures_are_ignored_while_the_setting_is_off(scene: Scene) -> None:
    corner = await open_archive_corner(key_documents=scene.host.client())
    assert await Scene(scene.host, corner, scene.meter).state() == ("", "")
    assert scene.host.connected == []
    assert scene.meter.counts == {}


async def test_rules_depend_on_the_signature_if_the_publisher_wants_it(scene: Scene) -> None:
    await scene.rule("agent:invalid", decision="deny")
    assert (await scene.ask(life_s=-100)).json()["error"]["message"] == NOT_ALLOWED
    assert "result" in (await scene.ask({})).json()
    await scene.rule("agent:none", decision="deny")
    assert (await scene.ask({})).json()["error"]["message"] == NOT_ALLOWED
    assert (await scene.ask(keyid='"unknown"')).json()["error"]["message"] == NOT_ALLOWED
    assert "result" in (await scene.ask()).json()
    await scene.rule(f"Agent:{NAME.upper()}", decision="deny")
    assert (await scene.ask()).json()["error"]["message"] == NOT_ALLOWED
    refused = (await scene.calls())[-1]
    assert (refused.outcome, refused.signature, refused.agent) == ("refused", "verified", NAME)


async def test_signed_and_unsigned_requests_have_limits_of_their_kind(scene: Scene) -> None:
    await scene.rule("agent:*", calls_per_minute=120)
    await scene.rule("agent:none", calls_per_minute=12)
    signed = ["result" in (await scene.ask()).json() for _ in range(12)]
    unsigned = ["result" in (await scene.ask({})).json() for _ in range(3)]
    assert (signed.count(True), unsigned.count(True)) == (10, 1), "five seconds of each rate"
    bob = scene.corner.token("bob")
    signed_by_bob = {**scene.agent.sign(HOST, scene.now_s), "authorization": f"Bearer {bob}"}
    assert "result" in (await scene.ask(signed_by_bob)).json(), "a rate is that of one person"


async def test_no_client_can_claim_to_be_an_agent_by_its_name(scene: Scene) -> None:
    await scene.rule("agent:none", decision="deny")
    await scene.rule(f"agent:{NAME}", decision="allow")
    token = scene.corner.token(name=f"agent:{NAME}")
    answer = await scene.ask({"authorization": f"Bearer {token}"})
    assert answer.json()["error"]["message"] == NOT_ALLOWED


def test_addresses_of_agents_and_their_names() -> None:
    origin = require(read_agent_address("https://Agent.Example:8443/"))
    assert (origin.directory, origin.name) == (
        f"https://Agent.Example:8443{DIRECTORY_PATH}",
        "agent.example:8443",
    )
    whole = require(read_agent_address(f"https://agent.example{DIRECTORY_PATH}"))
    assert (whole.directory, whole.name) == (f"https://agent.example{DIRECTORY_PATH}", "agent.example")


def test_published_test_keys_and_private_keys_are_refused() -> None:
    agent = SigningAgent()
    document = json.loads(agent.directory())
    key = document["keys"][0]
    assert list(read_key_set(json.dumps(document).encode())) == [agent.key_id]
    test_key = {**key, "x": "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}
    others = ({"d": "x"}, {"use": "enc"}, {"crv": "X25519"}, {"x": key["x"] + "A"})
    for wrong in (test_key, *({**key, **other} for other in others)):
        assert read_key_set(json.dumps({"keys": [wrong]}).encode()) == {}
    many = {"keys": [key | {"x": SigningAgent().directory().decode()}] * 60 + [key]}
    assert read_key_set(json.dumps(many).encode()) == {}


async def test_the_report_lists_agents_and_counts_signatures(scene: Scene) -> None:
    await scene.ask()
    await scene.ask()
    await scene.ask({})
    await scene.ask(life_s=-100)
    calls = [replace(entry, at=5) for entry in await scene.calls()]
    report = build_usage_report(frame_from_calls(calls), since=0, until=10).to_dict()
    assert report["signatures"] == {"invalid": 1, "verified": 2}
    assert report["signers"] == [{"agent": NAME, "calls": 2, "asks": 2, "reads": 0, "refused": 0}]
