"""The navigation beside each page: what the person may open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deployments.console.page import NavigationEntry
from deployments.console.request import path_of
from deployments.operations.framework.principal import Principal

MOST_APPS = 500


def build_layout(
    entries: Iterable[NavigationEntry],
    principal: Principal,
    app_ids: Iterable[str],
    path: str,
    app_id: str,
    last_app: str = "",
) -> dict[str, Any]:
    """Return the values of the layout: apps to choose from, and lines of the navigation with the open one marked."""
    apps = sorted(name for name in app_ids if principal.role_in(name) is not None)[:MOST_APPS]
    chosen = app_id or (last_app if last_app in apps else apps[0] if apps else "")
    of_app: list[dict[str, Any]] = []
    of_installation: list[dict[str, Any]] = []
    for entry in entries:
        if entry.is_of_app:
            if chosen and _may(principal, entry, chosen):
                of_app.append(_line(entry, chosen))
        elif _may(principal, entry, ""):
            of_installation.append(_line(entry, ""))
    _mark_open(of_app if app_id else of_installation, path)
    return {
        "apps": apps,
        "chosen_app": chosen,
        "app_lines": of_app,
        "lines": of_installation,
        "person": principal,
    }


def _may(principal: Principal, entry: NavigationEntry, app_id: str) -> bool:
    return entry.role is None or principal.may(entry.role, app_id)


def _line(entry: NavigationEntry, app_id: str) -> dict[str, Any]:
    named = {"app_id": app_id} if app_id else {}
    address, *also = (path_of(path, **named) for path in (entry.path, *entry.also))
    return {"text": entry.text, "address": address, "also": also, "icon": entry.icon, "is_open": False}


def _mark_open(lines: list[dict[str, Any]], path: str) -> None:
    """Mark the line that has the longest address with which the path begins."""
    fitting = [
        (len(address), line)
        for line in lines
        for address in (line["address"], *line["also"])
        if _is_below(path, address)
    ]
    if fitting:
        max(fitting, key=lambda pair: pair[0])[1]["is_open"] = True


def _is_below(path: str, address: str) -> bool:
    if address.endswith("/"):
        return path == address
    return path == address or path.startswith(address + "/")
