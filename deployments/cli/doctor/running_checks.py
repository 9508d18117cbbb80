"""Checks of a running installation: who can reach what, and does Redis keep what it acknowledged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import psutil

from cluster.admin.key_admin import KeyAdmin
from cluster.clock import iso_ms
from cluster.local.redis_binary import RedisBinary
from cluster.records.access import IN_BROWSER
from cluster.runtime import probe
from cluster.runtime.installation_state import InstallationState
from cluster.runtime.memory import REFUSED_FROM, WARNED_FROM, used_memory_share
from cluster.runtime.processes import list_processes
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from deployments.cli.doctor.finding import Finding
from deployments.cli.doctor.machine_checks import check_redis_version
from deployments.cli.installation import Installation

LOOPBACK = ("127.", "::1", "::ffff:127.")
CLOCK_SLACK_MS = 2_000
EXPOSED_FOR_MS = 30 * 24 * 3_600_000
ACTORS = (
    (
        "assigner",
        "AssignerHost",
        "API replicas assign variants themselves, other programs can't request them",
    ),
    ("tracker", "TrackerHost", "readers of history threads are not told of news"),
)
"Part, its class, and what is missing without it."


def check_public_address(state: InstallationState) -> Finding:
    """Check from where the API can be reached."""
    if state.host.startswith(LOOPBACK) or state.host == "localhost":
        return Finding("address", "ok", f"{state.api_url}, reachable from this machine only")
    advice = "put a proxy with TLS in front: keys travel in headers"
    return Finding(
        "address", "warning", f"{state.host}:{state.port} is reachable from outside, without TLS", advice
    )


def check_sign_in(state: InstallationState, settings: Settings) -> Finding:
    """Check that passwords can't be typed in where they travel in the clear."""
    if settings.public_url or state.host.startswith(LOOPBACK) or state.host == "localhost":
        return Finding("sign-in", "ok", "https or this machine only")
    if settings.plain_sign_in:
        advice = (
            "set KIOSK_PUBLIC_URL to the https address of the proxy in front, and KIOSK_PLAIN_SIGN_IN=false"
        )
        return Finding(
            "sign-in", "warning", "KIOSK_PLAIN_SIGN_IN lets passwords travel over plain http", advice
        )
    advice = "set KIOSK_PUBLIC_URL to the https address of a proxy in front"
    return Finding("sign-in", "ok", "refused beyond this machine, as there is no https address", advice)


def check_exposed_keys(installation: Installation, now_ms: int) -> Finding:
    """Check whether a live secret key came where others can read it.

    That is an address (`?api_key=`), which proxies and browsers write down, and a page of another origin, which hands
    the key to everybody who opens it.
    """

    async def read(keeping: KeyAdmin, stores: OpenStores) -> tuple[list[str], list[str]]:
        exposed, book = await stores.access.exposed(), await stores.access.read_all()
        found: tuple[list[str], list[str]] = [], []
        for key in book.keys.values():
            for list_, name in zip(found, (key.key_id, IN_BROWSER + key.key_id), strict=True):
                at_ms = exposed.get(name)
                if at_ms is not None and now_ms - at_ms < EXPOSED_FOR_MS:
                    list_.append(f"{key.key_id} of {key.app_id} on {iso_ms(at_ms)[:16]}")
        return sorted(found[0]), sorted(found[1])

    in_addresses, in_browsers = installation.administer(read)
    words = [f"came as ?api_key=: {', '.join(in_addresses)}"] if in_addresses else []
    advice = ["send it as the header X-API-KEY: proxies write addresses down"] if in_addresses else []
    if in_browsers:
        words.append(f"came from a web page: {', '.join(in_browsers)}")
        advice.append(
            "give pages the publishable key, and refuse this one there: "
            "`kiosk apps switch APP secret_key_in_browser=refuse`"
        )
    if not words:
        return Finding("secret keys", "ok", "none came in an address or from a web page within 30 days")
    return Finding(
        "secret keys", "warning", "; ".join(words), "; ".join([*advice, "then `kiosk keys rotate`"])
    )


def check_client_addresses(state: InstallationState, settings: Settings) -> Finding:
    """Callers can be told apart by their addresses, also behind a proxy."""
    if settings.proxy_networks:
        words = f"X-Forwarded-For is believed from {', '.join(settings.proxy_networks)}"
        return Finding("client addresses", "ok", words)
    if settings.public_url and urlsplit(settings.public_url).port != state.port:
        advice = "name the proxy's address in KIOSK_TRUSTED_PROXIES, as 127.0.0.1 if it runs on this machine"
        words = f"{settings.public_url} is served by a proxy that is not trusted: all callers look like one address"
        return Finding("client addresses", "warning", words, advice)
    return Finding(
        "client addresses", "ok", "the address that connects counts; X-Forwarded-For is not believed"
    )


def check_ports(installation: Installation, state: InstallationState) -> Iterator[Finding]:
    """Check that only the API listens to the network, and processes that require Ray's token."""
    outside = []
    for process in list_processes(installation.places):
        try:
            found = process.net_connections(kind="tcp")
            name = process.name()
        except psutil.Error:
            continue
        for connection in found:
            if connection.status != psutil.CONN_LISTEN or connection.laddr.ip.startswith(LOOPBACK):
                continue
            if connection.laddr.port != state.port:
                outside.append((name, connection.laddr.port))
    strangers = [f"{name} on {port}" for name, port in outside if not name.startswith("ray::ServeReplica")]
    if strangers:
        advice = "`kiosk down && kiosk up`; close these ports in the firewall until then"
        yield Finding("open ports", "bad", f"listening to the network: {', '.join(strangers)}", advice)
    elif outside:
        words = "replicas listen for other nodes, and ask for Ray's token; close them in the firewall"
        yield Finding("open ports", "ok", f"{words} ({', '.join(str(port) for _, port in outside)})")
    else:
        yield Finding("open ports", "ok", "only the API listens to the network")


def check_ray_token(state: InstallationState) -> Iterator[Finding]:
    """Ray's own interface answers nobody without the token."""
    if not state.dashboard_url:
        yield Finding("ray dashboard", "ok", "switched off")
        return
    port = int(state.dashboard_url.rpartition(":")[2])
    try:
        status, _ = probe.send_request("127.0.0.1", port, "GET", "/api/jobs/")
    except OSError:
        yield Finding(
            "ray dashboard",
            "warning",
            "does not answer",
            "it is only for looking; `kiosk status` says how Ray is",
        )
        return
    if status in (401, 403):
        yield Finding("ray dashboard", "ok", f"{state.dashboard_url}, asks for a token")
    else:
        advice = (
            "stop now (`kiosk down`): anybody on this machine can run code; RAY_AUTH_MODE must be `token`"
        )
        yield Finding("ray dashboard", "bad", f"answered {status} without a token", advice)


def check_actors(installation: Installation) -> Iterator[Finding]:
    """Check that the background actors are alive; Ray restarts a dead one."""
    titles = []
    for process in list_processes(installation.places):
        try:
            titles.append(" ".join([process.name(), *process.cmdline()[:1]]))
        except psutil.Error:
            continue
    for part, kind, words in ACTORS:
        if any(kind in title for title in titles):
            yield Finding(part, "ok", "at work")
        else:
            advice = "wait a minute, Ray starts it anew; if it stays away: `kiosk down && kiosk up`"
            yield Finding(part, "warning", f"not running: {words}", advice)


def parse_redis_server(information: Mapping[str, str]) -> RedisBinary | None:
    """Read product and version from the section `server` of INFO; None when they are not there."""
    product = "valkey" if "valkey_version" in information else "redis"
    text = information.get(f"{product}_version", "")
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,3}", text):
        return None
    version = tuple(map(int, text.split(".")))
    return RedisBinary(information.get("executable", ""), "running", version, product)


def check_redis_server(information: Mapping[str, str]) -> Finding:
    """The running server is new enough and has no published faults."""
    server = parse_redis_server(information)
    if server is None:
        return Finding("redis", "warning", "the server names no version", "Redis 6.2 or newer works")
    return check_redis_version(server)


def check_redis_settings(installation: Installation) -> Iterator[Finding]:
    """Redis keeps what it acknowledged, and never throws records away."""
    yield check_redis_server(installation.information("server"))
    persistence = installation.information("persistence")
    if persistence.get("aof_enabled") != "1":
        advice = "`CONFIG SET appendonly yes` and write it into redis.conf: without it a crash loses records"
        yield Finding("redis persistence", "bad", "the append-only file is off", advice)
    elif persistence.get("aof_last_write_status") != "ok":
        yield Finding(
            "redis persistence",
            "bad",
            "its file can't be written",
            "is the disk full? writes go on by themselves",
        )
    else:
        yield Finding("redis persistence", "ok", "append-only file on, last write good")
    memory = installation.information("memory")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        advice = "`CONFIG SET maxmemory-policy noeviction`: records may not vanish"
        yield Finding("redis memory", "bad", f"policy {policy} throws records away", advice)
    else:
        yield _redis_memory(memory)


def _redis_memory(memory: dict[str, str]) -> Finding:
    """Redis has a bound, and room below it."""
    if memory.get("maxmemory", "0") == "0":
        advice = (
            "`CONFIG SET maxmemory` to what it may use: without a bound, writes of strangers end in its death"
        )
        return Finding("redis memory", "warning", "no bound", advice)
    share = used_memory_share(memory)
    words = f"{share:.0%} of {int(memory['maxmemory']) >> 20:,} MiB used, never throws records away"
    if share >= REFUSED_FROM:
        return Finding("redis memory", "bad", f"{words}: writes are refused", "raise KIOSK_REDIS_MEMORY_MB")
    if share >= WARNED_FROM:
        advice = f"raise KIOSK_REDIS_MEMORY_MB: writes are refused from {REFUSED_FROM:.0%} on"
        return Finding("redis memory", "warning", words, advice)
    return Finding("redis memory", "ok", words)


def check_clock(server: dict[str, str], now_ms: int) -> Iterator[Finding]:
    """The clocks of this machine and of Redis agree: offsets and limits are times of Redis."""
    text = server.get("server_time_usec", "")
    if not text.isdigit():
        return
    apart_ms = abs(int(text) // 1000 - now_ms)
    if apart_ms > CLOCK_SLACK_MS:
        advice = "let both machines follow NTP: tokens and trending go by the time"
        yield Finding("clock", "bad", f"Redis' clock is {apart_ms / 1000:.1f} s off", advice)
    else:
        yield Finding("clock", "ok", "agrees with Redis")
