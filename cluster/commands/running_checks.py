"""Checks of a running installation: who can reach what, and does Redis keep what it acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from cluster.commands.finding import Finding
from cluster.commands.installation import Installation
from cluster.runtime import probe
from cluster.runtime.memory import REFUSED_FROM, WARNED_FROM, used_memory_share
from cluster.runtime.processes import belonging_to
from cluster.runtime.redis_server import OLDEST
from cluster.runtime.state import State

LOOPBACK = ("127.", "::1", "::ffff:127.")
CLOCK_SLACK_MS = 2_000
ACTORS = (
    ("assigner", "AssignerHost", "doors give variants themselves, other programs can't ask for them"),
    ("tracker", "TrackerHost", "readers of history threads are not told of news"),
)
"Part, its class, and what is missing without it."


def public_address(state: State) -> Finding:
    """Who can reach the doors."""
    if state.host.startswith(LOOPBACK) or state.host == "localhost":
        return Finding("doors", "ok", f"{state.api_url}, reachable from this machine only")
    advice = "put a proxy with TLS in front: keys travel in headers"
    return Finding(
        "doors", "warning", f"{state.host}:{state.port} is reachable from outside, without TLS", advice
    )


def ports(installation: Installation, state: State) -> Iterator[Finding]:
    """Nothing but the doors listens to the network, save what asks for Ray's token."""
    outside = []
    for process in belonging_to(installation.places):
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
        words = "replicas listen for other nodes, and ask for Ray's token"
        yield Finding("open ports", "ok", f"{words} ({', '.join(str(port) for _, port in outside)})")
    else:
        yield Finding("open ports", "ok", "nothing but the doors listens to the network")


def ray_asks_for_token(state: State) -> Iterator[Finding]:
    """Ray's own interface answers nobody without the token."""
    if not state.dashboard_url:
        yield Finding("ray dashboard", "ok", "switched off")
        return
    port = int(state.dashboard_url.rpartition(":")[2])
    try:
        status, _ = probe.ask("127.0.0.1", port, "GET", "/api/jobs/")
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


def actors(installation: Installation) -> Iterator[Finding]:
    """The actors that nothing at a door waits for are there; Ray starts one anew that died."""
    titles = []
    for process in belonging_to(installation.places):
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


def redis_settings(installation: Installation) -> Iterator[Finding]:
    """Redis keeps what it acknowledged, and never throws records away."""
    server = installation.information("server")
    version = server.get("redis_version", "?")
    known = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if known < OLDEST:
        yield Finding("redis", "bad", f"version {version}", "6.2 is the oldest that works")
    else:
        yield Finding("redis", "ok", f"version {version}")
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


def clock(server: dict[str, str], now_ms: int) -> Iterator[Finding]:
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
