"""A call of the API as text to copy: curl, Python and JavaScript. The key is a placeholder."""

from __future__ import annotations

import json
import pprint
import shlex
from collections.abc import Mapping
from typing import Any

ADDRESS = "http://localhost:8080"
KEY = "YOUR_SECRET_KEY"


def render_snippets(
    method: str, path: str, body: Mapping[str, Any] | None, *, address: str = ADDRESS, edge: str = ""
) -> dict[str, str]:
    """Return language -> program that sends the call. Any text of the body stays data in all three.

    `edge` is the address for browsers; empty: `address`.
    """
    url = address.rstrip("/") + path
    return {
        "curl": _render_curl(method, url, body),
        "python": _render_python(method, url, body),
        "javascript": _render_javascript(method, (edge or address).rstrip("/") + path, body),
    }


def _render_curl(method: str, url: str, body: Mapping[str, Any] | None) -> str:
    lines = [f"curl -X {method} {shlex.quote(url)}", f"-H {shlex.quote('X-API-KEY: ' + KEY)}"]
    if body is not None:
        text = json.dumps(body, ensure_ascii=False, indent=2)
        lines += [f"-H {shlex.quote('Content-Type: application/json')}", f"-d {shlex.quote(text)}"]
    return " \\\n  ".join(lines)


def _render_python(method: str, url: str, body: Mapping[str, Any] | None) -> str:
    more = (
        ""
        if body is None
        else f",\n    json={_indent(pprint.pformat(dict(body), width=76, sort_dicts=False))}"
    )
    return (
        "import httpx\n\n"
        f"answer = httpx.request(\n    {method!r},\n    {url!r},\n"
        f"    headers={{'X-API-KEY': {KEY!r}}}{more},\n)\nprint(answer.json())"
    )


def _indent(text: str) -> str:
    return text.replace("\n", "\n    ")


def _render_javascript(method: str, url: str, body: Mapping[str, Any] | None) -> str:
    # `</` would end a script element if somebody put the program into a page.
    text = "" if body is None else json.dumps(body, ensure_ascii=False, indent=2).replace("</", "<\\/")
    more = "" if body is None else f",\n  body: JSON.stringify({text.replace(chr(10), chr(10) + '  ')})"
    return (
        f"const answer = await fetch({json.dumps(url)}, {{\n  method: {json.dumps(method)},\n"
        f'  headers: {{"X-API-KEY": {json.dumps(KEY)}, "Content-Type": "application/json"}}{more},\n'
        "});\nconsole.log(await answer.json());"
    )
