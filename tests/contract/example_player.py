"""Sends the examples of the OpenAPI document, one after the other, to an app that is empty at first.

    python -m tests.contract.example_player     writes the answers into the examples

Ids that the server makes differ in each run: one stands in the examples, and the other is sent.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import deployments.api.reference
from actors.intake.batch_preparation import prepare_batch
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from cluster.clock import Clock
from cluster.meter import SilentMeter
from deployments.api.http.endpoint import Endpoint
from deployments.api.reference.openapi_texts import Example, read_examples
from tests.fakes.asgi import Answer, call
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores

FILE = Path(deployments.api.reference.__file__).with_name("examples.json")
SECOND_MS = 1_000
_MADE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WAIT_S = 0.02


class ExamplePlayer:
    """An empty app, and which of its ids stands for which id of the examples."""

    def __init__(self, corner: Corner, host: EngineHost) -> None:
        self.corner = corner
        self._host = host
        self._sent: dict[str, str] = {}
        self._endpoints = {endpoint.name: endpoint for endpoint in corner.handler.endpoints}

    @classmethod
    async def open(cls, clock: Clock | None = None) -> ExamplePlayer:
        """Open an installation in this process. Without a clock its time passes by a second for each example."""
        clock = clock or StillClock()
        stores = memory_stores(clock)
        host = EngineHost(stores, None, clock, SilentMeter())
        await host.start()
        corner = await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host))
        await corner.asking.start()
        return cls(corner, host)

    async def close(self) -> None:
        """Close it."""
        await self.corner.close()
        await self._host.close()

    async def send(self, example: Example) -> Answer:
        """Send an example with the secret key; an answer that is not finished is asked for again."""
        endpoint = self._endpoints[example.operation]
        for _ in range(500):
            body = None if example.body is None else json.dumps(self._translated(example.body)).encode()
            answer = await call(
                self.corner.handler, endpoint.method, self._target(endpoint, example),
                headers=self.corner.headers(), body=body,
            )  # fmt: skip
            if endpoint.name != "ask.answer" or answer.json()["data"]["finished"]:
                break
            await asyncio.sleep(_WAIT_S)
        await self.apply()
        self.corner.clock.pass_ms(SECOND_MS)
        return answer

    def learn(self, example: Example, answered: Any) -> None:
        """Note which id of the answer stands where in the documented one."""
        for ours, theirs in zip(made_ids(example.reply), made_ids(answered), strict=False):
            self._sent.setdefault(ours, theirs)

    def shown(self, answered: Any) -> Any:
        """Put the ids of the examples into an answer."""
        text = json.dumps(answered)
        for ours, theirs in self._sent.items():
            text = text.replace(theirs, ours)
        return json.loads(text)

    def _target(self, endpoint: Endpoint, example: Example) -> str:
        path = endpoint.path
        for name, value in example.path.items():
            path = path.replace(f"{{{name}}}", quote(self._translated(value), safe=""))
        return f"{path}?{urlencode(example.query)}" if example.query else path

    def _translated(self, value: Any) -> Any:
        text = json.dumps(value)
        for ours, theirs in self._sent.items():
            text = text.replace(ours, theirs)
        return json.loads(text)

    async def apply(self) -> None:
        """Apply accepted batches with the steps of the intake."""
        stores, now_ms = self.corner.stores, self.corner.clock.now_ms()
        for batch in await stores.intake.claim("test", ["shop"], count=100, block_ms=0):
            if batch.op == "put":
                made = prepare_batch(batch.noun, batch.payload, HashingEmbedder())
                await stores.intake.apply_put(
                    batch, made.records, change_payload=made.change_payload, vectors=made.vectors,
                    embedder=made.embedder, failed=made.failed, now_ms=now_ms,
                )  # fmt: skip
            else:
                await stores.intake.apply_remove(batch, json.loads(batch.payload), now_ms=now_ms)


def made_ids(value: Any) -> list[str]:
    """List the ids in a value that a server made, in their order."""
    return _MADE.findall(json.dumps(value))


async def record() -> None:
    """Play all examples and write what was answered."""
    entries = json.loads(FILE.read_text("utf-8"))
    player = await ExamplePlayer.open()
    try:
        for entry, example in zip(entries, read_examples(), strict=True):
            answer = await player.send(example)
            answered = answer.json()
            print(answer.status, example.operation)
            if example.operation in _FIRST:
                player._sent[_FIRST[example.operation]] = made_ids(answered)[0]
            elif len(made_ids(example.reply)) == len(made_ids(answered)):
                player.learn(example, answered)
            entry["reply"] = _steady(player.shown(answered))
    finally:
        await player.close()
    lines = [
        ",\n ".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in e.items())
        for e in entries
    ]
    FILE.write_text("[\n" + ",\n".join(f"{{{line}}}" for line in lines) + "\n]\n", "utf-8")


_FIRST = {
    "users.upload": "6f6c2e0e-64f8-4a2a-9f5e-0f3f6b1f2a10",
    "products.upload": "0d9b7c1e-52a4-4b0b-8f3a-7c1d2e3f4a51",
    "ask.questions": "1d3bb1a8-8a39-4c1b-9f0d-3f6b6d0a2e41",
    "users.delete_one": "5b0f6c11-7e9f-4d0a-9a55-1f2e3d4c5b6a",
}
"Ids that later examples send again."


_USUAL = {
    "took": 3, "request_id": "f40f2ffddcf74faa", "entry_salt": "fbb786167592ede9f74297a0",
    "variant_salt": "b355ff3dd85ea07e0ee41944", "subject": "c8791b0c47f5ebfcff9d570c",
}  # fmt: skip
"What differs in each run and is not asked for again."


def _steady(value: Any) -> Any:
    """Give what differs in each run its usual value."""
    if isinstance(value, dict):
        return {name: _USUAL.get(name, _steady(item)) for name, item in value.items()}
    return [_steady(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    asyncio.run(record())
