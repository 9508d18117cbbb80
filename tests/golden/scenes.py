"""The scenarios of the specification and the examples of the OpenAPI document, as they are answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tests.contract
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.api.reference.openapi_texts import read_examples
from tests.contract.example_player import ExamplePlayer
from tests.contract.scenario import Scenario, load
from tests.contract.test_experiments import with_experiments
from tests.contract.test_history import with_threads
from tests.contract.test_rest import play
from tests.contract.ways import InProcess
from tests.fakes.asgi import Answer
from tests.fakes.request_handler import Corner, open_corner
from tests.golden.answers import Recording
from tests.golden.randomness import FixedRandomness

_FOLDER = Path(tests.contract.__path__[0])
_UNKNOWN_KEY = "ksk_dev_" + "A" * 43


class _Recorded(InProcess):
    """A way in that records what is answered; labels come from what is sent, so titles may change."""

    def __init__(
        self, corner: Corner, app: Any, recording: Recording, randomness: FixedRandomness, stem: str
    ) -> None:
        super().__init__(corner, app)
        self._recording, self._randomness, self._stem = recording, randomness, stem
        self._count = 0

    async def send(
        self, method: str, target: str, headers: Mapping[str, str | bytes], body: bytes | None
    ) -> Answer:
        self._count += 1
        label = f"{self._stem} {self._count} {method} {target.partition('?')[0]}"
        self._randomness.begin(label)
        answer = await super().send(method, target, headers, body)
        self._recording.add("scenarios", label, answer.status, answer.headers, answer.body)
        return answer


async def play_scenarios(recording: Recording, randomness: FixedRandomness) -> None:
    """Play the scenarios whose data stand in the stores."""
    makers = {"rest": open_corner, "experiments": with_experiments, "history": with_threads}
    for folder, make in makers.items():
        for scenario in load(_FOLDER / folder):
            randomness.begin(scenario_name(scenario))
            corner = await make()
            asgi = build_application(corner.handler, version="0")
            app = HotPathMiddleware(asgi, lambda corner=corner: corner.handler)  # type: ignore[misc]
            way = _Recorded(corner, app, recording, randomness, f"{folder} {scenario_name(scenario)}")
            await play(scenario, way, _UNKNOWN_KEY)
            await corner.archive.close()


def scenario_name(scenario: Scenario) -> str:
    """Name a scenario by what it sends."""
    sent = [
        [step["send"], *(step.get(part) for part in ("as", "json", "text", "headers", "token"))]
        for step in scenario.steps
    ]
    return hashlib.sha256(json.dumps(sent, sort_keys=True, default=str).encode()).hexdigest()[:10]


async def play_examples(recording: Recording, randomness: FixedRandomness) -> None:
    """Play the examples of the OpenAPI document in their order."""
    player = await ExamplePlayer.open()
    try:
        for example in read_examples():
            label = recording.label("examples", example.operation)
            randomness.begin(label)
            answer = await player.send(example)
            player.learn(example, answer.json())
            recording.add("examples", label, answer.status, answer.headers, answer.body)
    finally:
        await player.close()
