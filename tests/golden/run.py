"""The whole recording, phase by phase. What one phase writes, the next one reads from a fresh process over the same
stores, so no answer depends on how quickly changes are followed."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import structlog

from tests.golden import (
    archiving,
    asking,
    documents,
    experimenting,
    recommending,
    refusing,
    scenes,
    searching,
    signing_in,
    stored,
    writing,
)
from tests.golden.answers import Recording
from tests.golden.caller import Caller
from tests.golden.installation import MARKET, RECIPE, Installation, World, put_rules_and_people
from tests.golden.randomness import FixedRandomness, fixed_randomness
from tests.suites.redis_process import RedisProcess


class Recorder:
    """One recording over one world."""

    def __init__(self, folder: Path, recording: Recording, randomness: FixedRandomness) -> None:
        self.recording = recording
        self.randomness = randomness
        self.world = World(folder)
        self.process: Installation | None = None

    @property
    def running(self) -> Installation:
        """The process that answers now."""
        assert self.process is not None
        return self.process

    def caller(self, family: str) -> Caller:
        """Make a client of the running process."""
        running = self.running
        keys = running.corner.keys
        return Caller(self.recording, self.randomness, family, running.app, self.world.clock, keys)

    async def restart(self, *, logs_queries: bool = False) -> None:
        """Open a fresh process; it reads everything that was written."""
        if self.process is not None:
            await self.process.close()
        self.world.clock.pass_ms(60_000)
        self.randomness.begin("restart")
        self.process = await Installation.open(self.world, logs_queries=logs_queries)

    async def record(self) -> None:
        """Send everything."""
        await self.restart(logs_queries=True)
        await put_rules_and_people(self.world)
        await self._write()
        await self._recommend_and_search()
        await self._ask()
        await experimenting.experiment(self.caller("experiments"))
        await self._archive()
        await self._remove()
        documents.record_documents(self.recording, self.running)
        await self.running.close()

    async def _write(self) -> None:
        caller = self.caller("uploads")
        tasks = await writing.fill_market(caller)
        await writing.refused_uploads(caller)
        await writing.repeated_uploads(caller)
        await self.world.settle()
        version = await asyncio.to_thread(self.world.train, MARKET, RECIPE)
        documents.record_snapshot(self.recording, self.world, version)
        await self.world.promote(MARKET, version)
        await self.restart(logs_queries=True)
        caller = self.caller("uploads")
        tasks += await writing.fill_shop(caller)
        await writing.fill_after_training(caller)
        await recommending.click(caller)
        await self.world.apply()
        await writing.log_queries(caller)
        await self.restart()
        caller = self.caller("records")
        await writing.read_records(caller, tasks)
        await writing.count_values(caller)

    async def _recommend_and_search(self) -> None:
        caller = self.caller("recommendation")
        await recommending.recommend(caller)
        await recommending.refuse(caller)
        await recommending.turn_pages(caller)
        await recommending.after_clicks(caller)
        await recommending.in_bulk(caller)
        caller = self.caller("search")
        await searching.search(caller)
        await searching.read_many(caller)
        await searching.complete(caller)

    async def _ask(self) -> None:
        await asking.fill_bank(self.caller("questions"))
        await self.restart()
        caller = self.caller("questions")
        ids = await asking.ask_questions(caller)
        await asking.read_answers(caller, ids)
        await self.restart()
        caller = self.caller("questions")
        await asking.suggest(caller)
        await asking.use_bank(caller)
        paths = [
            (endpoint.method, endpoint.path)
            for endpoint in self.running.corner.handler.endpoints
            if endpoint.name.startswith("history.") and endpoint.name != "history.list"
        ]
        paths.sort(key=lambda path: "delete" in path[1] or path[0] == "DELETE")
        await asking.walk_history(self.caller("history"), paths)

    async def _archive(self) -> None:
        token = archiving.make_token(self.running)
        await archiving.use_archive(self.caller("archive"), token)
        await archiving.refuse_transport(self.caller("archive"), token)
        await signing_in.sign_in(self.caller("oauth"))
        await refusing.visit_pages(self.caller("pages"))

    async def _remove(self) -> None:
        await refusing.refuse_everywhere(self.caller("refusals"), self.running.corner.handler.endpoints)
        await writing.remove(self.caller("removals"))
        await self.world.apply()
        await self.restart()
        await writing.read_removed(self.caller("removals"))


async def _record(
    folder: Path, recording: Recording, randomness: FixedRandomness, server: RedisProcess
) -> None:
    documents.record_metric_names(recording)
    await scenes.play_scenarios(recording, randomness)
    await scenes.play_examples(recording, randomness)
    await Recorder(folder / "world", recording, randomness).record()
    await stored.record_keys(recording, randomness, server, folder / "redis")


def record(*, whole: bool = False) -> Recording:
    """Send all requests and return the answers."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    recording, began_s = Recording(whole), time.monotonic()
    with fixed_randomness() as randomness, tempfile.TemporaryDirectory(prefix="golden-") as folder:
        server = RedisProcess()
        try:
            asyncio.run(_record(Path(folder), recording, randomness, server.start()))
            stored.record_commands(recording, randomness, server, Path(folder) / "data")
        finally:
            server.stop()
    print(f"{len(recording.lines)} answers in {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    return recording
