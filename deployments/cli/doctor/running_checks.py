"""Checks of a running installation: who can reach what, and does Redis keep what it acknowledged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import psutil

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.local.redis_binary import RedisBinary
from cluster.process import probe
from cluster.process.installation_processes import list_processes, title_of
from cluster.process.installation_state import InstallationState
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from deployments.cli.doctor.machine_checks import check_redis_version
from deployments.cli.framework.installation import Installation
from deployments.operations.insight import installation_checks
from deployments.operations.insight.installation_checks import Finding

LOOPBACK = ("127.", "::1", "::ffff:127.")
CLOCK_SLACK_MS = 2_000
ACTORS = (
    (
        "assigner",
        "AssignerHost",
        "API replicas assign variants themselves, other programs can't request them",
    ),
    ("tracker", "TrackerHost", "users of history threads are not notified of news"),
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
    """Check whether a live secret key came where others can read it."""

    async def read(_: AppKeyAdmin, stores: OpenStores) -> Finding:
        return await installation_checks.check_exposed_keys(stores.access, now_ms)

    return installation.administer(read)


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
            connections = process.net_connections(kind="tcp")
            name = process.name()
        except psutil.Error:
            # It ended after the list was made, or belongs to another user.
            continue
        for connection in connections:
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
    titles = [title_of(process) for process in list_processes(installation.places)]
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
    yield installation_checks.check_redis_persistence(installation.information("persistence"))
    yield installation_checks.check_redis_memory(installation.information("memory"))


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
