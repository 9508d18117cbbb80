"""The schema number of everything stored in Redis, and the releases that run on it."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import split_pairs, text_of


@dataclass(frozen=True, slots=True)
class StoredSchema:
    """The schema of a store; number 0 stands for a store that no release with schema numbers has used."""

    number: int = 0
    oldest: int = 0
    "The schema a release needs to run on it."
    release: str = ""
    at_ms: int = 0
    restoring: str = ""
    "The backup whose restore has not ended; no release may start on it."


@dataclass(frozen=True, slots=True)
class RunningRelease:
    """A release with at least one API replica."""

    release: str
    schema: int
    "The newest schema that the release supports."
    at_ms: int
    build: str = ""
    "The digest of its product files; empty of a release that wrote none."

    @property
    def label(self) -> str:
        """Return the release, the build and the schema for people."""
        build = f" build {self.build}" if self.build else ""
        return f"{self.release}{build} (schema {self.schema})"


SEEN_MS = 30_000
"A release that was not seen for so long does not run."
FORGOTTEN_MS = 86_400_000
_RESTORING = "restoring"


class SchemaStore:
    """The schema number, and the releases that run."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def read(self) -> StoredSchema:
        """Return the stored schema."""
        flat = await self._server.execute_slow("HGETALL", keys.schema())
        fields = {text_of(name): text_of(value) for name, value in split_pairs(flat)}
        numbers = [int(fields.get(name) or 0) for name in ("number", "oldest", "at")]
        return StoredSchema(
            numbers[0], numbers[1], fields.get("release", ""), numbers[2], fields.get(_RESTORING, "")
        )

    async def write(self, schema: StoredSchema) -> None:
        """Replace the stored schema; the caller holds the lease."""
        await self._server.execute_slow(
            "HSET",
            keys.schema(),
            "number",
            schema.number,
            "oldest",
            schema.oldest,
            "release",
            schema.release,
            "at",
            schema.at_ms,
        )

    async def mark_restoring(self, backup_id: str) -> None:
        """Mark the store as one into which a backup is being restored; an empty id removes the mark."""
        if backup_id:
            await self._server.execute_slow("HSET", keys.schema(), _RESTORING, backup_id)
            await self._server.execute_slow("HDEL", keys.schema(), "number", "oldest", "release", "at")
        else:
            await self._server.execute_slow("HDEL", keys.schema(), _RESTORING)

    async def record_release(self, running: RunningRelease) -> None:
        """Record that a release runs."""
        value = orjson.dumps(
            {
                "at": running.at_ms,
                "schema": running.schema,
                "release": running.release,
                "build": running.build,
            }
        )
        # Builds of one release run side by side during an update; an older release shows the name as it stands.
        name = f"{running.release}+{running.build}" if running.build else running.release
        await self._server.execute_slow("HSET", keys.releases(), name, value)

    async def list_releases(self, now_ms: int) -> list[RunningRelease]:
        """Return the builds of releases that run, by name; entries of a day ago are removed."""
        flat = await self._server.execute_slow("HGETALL", keys.releases())
        releases = []
        for name, value in split_pairs(flat):
            fields = orjson.loads(value)
            running = RunningRelease(
                fields.get("release", text_of(name)),
                int(fields["schema"]),
                int(fields["at"]),
                fields.get("build", ""),
            )
            # The clock of the other machine may be ahead of this one.
            if abs(now_ms - running.at_ms) <= SEEN_MS:
                releases.append(running)
            elif now_ms - running.at_ms > FORGOTTEN_MS:
                await self._server.execute_slow("HDEL", keys.releases(), name)
        return sorted(releases, key=lambda running: (running.release, running.build))
