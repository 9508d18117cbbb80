"""Define the protocol of a Redis client for the stores, and open clients.

multiplexed_client, cluster_client   for what a request waits for: commands of one turn share a packet
library_client                       redis-py, for commands, jobs and actors that nobody waits for
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from cluster.store.client.multiplexer import Argument
from cluster.store.client.script import Script

HOT_S = 0.15
SLOW_S = 2.0
BLOCK_GRACE_S = 2.0
"How much later than its BLOCK time a blocking read may answer."
MAX_WAITERS = 128


class RedisClient(Protocol):
    """One Redis, used from one event loop; a server, a master that Sentinel names, or a Redis Cluster."""

    @property
    def is_away(self) -> bool:
        """Return whether it did not answer lately."""

    def execute(self, *command: Argument) -> Awaitable[Any]:
        """Send a short command of the hot path and return an awaitable of its reply.

        Errors:
            Unavailable: the store can't be reached, or did not answer by the deadline
        """

    def execute_slow(self, *command: Argument) -> Awaitable[Any]:
        """Send a command with a large argument or reply and return an awaitable of its reply."""

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[Argument],
        *,
        hot: bool = False,
        is_bulk: bool = False,
    ) -> Any:
        """Run a script and return its reply; its keys are exactly `keys`, and all of one slot.

        A script that moves many megabytes is `is_bulk`: others do not wait behind it, and its time-outs say nothing
        about the server.
        """

    async def wait(self, *command: Argument, block_ms: int) -> Any:
        """Send a command that blocks up to `block_ms` on a separate connection, and return its reply.

        Errors:
            Unavailable: the store is unreachable, or too many callers wait already
        """

    async def execute_everywhere(self, *command: Argument) -> list[Any]:
        """Send a command without keys to every master and return the replies."""

    def group(self, names: Sequence[str]) -> list[list[str]]:
        """Return keys in groups that one command may name together; one group outside of a cluster."""

    async def ready(self, within_s: float = 2.0) -> bool:
        """Wait for the first connections; return False when the server does not answer yet (reconnecting
        continues).
        """

    async def close(self) -> None:
        """Close every connection and wait until the sockets are gone."""
