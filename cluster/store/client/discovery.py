"""Where the servers are, by redis-py: the master that Sentinel names, and the slots of a Redis Cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError

from cluster.errors import Unavailable
from cluster.store.client.address import Address, Credentials, ServerAddress
from cluster.store.client.handshake import Locate
from cluster.store.client.routing import SLOTS

CONNECT_S = 1.0
"Seconds that a Sentinel or a cluster node may take to answer before the client tries the next one."


def library_options(address: Address, credentials: Credentials) -> dict[str, Any]:
    """Return the options of redis-py for one connection of an address: who we are, TLS, and no repetition.

    The library never repeats a command, because only the caller can decide whether repeating is safe.
    """
    username, password = credentials.read()
    options: dict[str, Any] = {
        "username": username or None,
        "password": password or None,
        # RESP 3 would give maps and sets; all callers expect the lists of RESP 2.
        "protocol": 2,
        # Else redis-py sends CLIENT SETINFO at each connection, which the rights of `acl` do not include.
        "driver_info": None,
        "retry": Retry(NoBackoff(), 0),
        "socket_connect_timeout": CONNECT_S,
        "socket_keepalive": True,
    }
    if (tls := address.tls) is not None:
        tls.open_context()
        options |= {
            "ssl": True,
            "ssl_ca_certs": tls.ca or None,
            "ssl_certfile": tls.cert or None,
            "ssl_keyfile": tls.key or None,
            "ssl_check_hostname": tls.checks_host,
        }
    return options


class ConcurrentSentinel(Sentinel):
    """redis-py's client of Sentinels, without the loss of one of them.

    redis-py moves the Sentinel that answers to the front of a list. Concurrent questions overwrite each other's moves,
    so that a Sentinel is asked no more and its connections stay open. Here each question moves a list of its own.
    """

    def __init__(self, places: Sequence[tuple[str, int]], options: dict[str, Any]) -> None:
        super().__init__(places, sentinel_kwargs=options)  # type: ignore[no-untyped-call]

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return host and port of the master."""
        # A shallow copy: it shares the clients and their connections, but not the list.
        question = Sentinel.__new__(Sentinel)
        question.__dict__ = {**self.__dict__, "sentinels": list(self.sentinels)}
        master: tuple[str, int] = await question.discover_master(service_name)
        self.sentinels = question.sentinels
        return master


def open_sentinel(address: Address) -> ConcurrentSentinel:
    """Return redis-py's client of the Sentinels."""
    options = library_options(address, address.sentinel)
    places = [(endpoint.host, endpoint.port) for endpoint in address.endpoints]
    return ConcurrentSentinel(places, {**options, "socket_timeout": CONNECT_S})


def open_cluster(address: Address, nodes: Iterable[ServerAddress], **options: Any) -> RedisCluster:
    """Return redis-py's client of a cluster, given some of its nodes; it has sent no command yet."""
    defaults = library_options(address, address.credentials)
    # Commands on slots without a master are refused one by one; the others continue.
    return RedisCluster(
        startup_nodes=[ClusterNode(node.host, node.port) for node in nodes],
        require_full_coverage=False,
        **{**defaults, **options},
    )


def build_locator(address: Address) -> Locate:
    """Return the function that locates the server of an address; not for a cluster."""
    if address.kind == "server":
        (endpoint,) = address.endpoints

        async def stay() -> ServerAddress:
            return endpoint

        return stay

    async def ask() -> ServerAddress:
        sentinel = open_sentinel(address)
        try:
            host, port = await sentinel.discover_master(address.service)
            return ServerAddress(host=str(host), port=int(port))
        except MasterNotFoundError as error:
            reason = f"no Sentinel at {address.place} knows a master {address.service!r}"
            raise Unavailable(
                "the store has no master at the moment", retry_after_s=1, reason=reason
            ) from error
        except AuthenticationError:
            raise Unavailable("Sentinel refuses our password or rights", retry_after_s=5) from None
        except RedisError as error:
            reason = type(error).__name__
            raise Unavailable("Sentinel can't be reached", retry_after_s=1, reason=reason) from None
        finally:
            await asyncio.gather(*(client.aclose() for client in sentinel.sentinels), return_exceptions=True)

    return ask


class ClusterMap:
    """The masters of a cluster by slot."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._endpoints = address.endpoints

    async def read(self) -> list[ServerAddress | None]:
        """Ask the cluster and return the master of each slot.

        Errors:
            Unavailable: no node answers
        """
        # The client is new each time: passwords and certificates may have changed, and a process needs it
        # seldom.
        nodes = open_cluster(self._address, self._endpoints, socket_timeout=CONNECT_S).nodes_manager
        try:
            await nodes.initialize()
            places: dict[str, ServerAddress] = {}
            slots: list[ServerAddress | None] = [None] * SLOTS
            for slot, (master, *_) in nodes.slots_cache.items():
                place = places.setdefault(
                    master.name, ServerAddress(host=str(master.host), port=int(master.port))
                )
                slots[slot] = place
            others = [
                ServerAddress(host=str(node.host), port=int(node.port)) for node in nodes.nodes_cache.values()
            ]
            # The addresses of the URL stay: all others may have been replaced meanwhile.
            self._endpoints = tuple(dict.fromkeys([*self._address.endpoints, *others]))
            return slots
        except RedisError as error:
            reason = str(error)[:200]
            raise Unavailable(
                "the store's cluster can't be reached", retry_after_s=1, reason=reason
            ) from None
        finally:
            await nodes.aclose()
            await nodes.aclose("startup_nodes")
