"""Shared parts of the HTML pages: style, headers, and text with light markup as HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

STYLE = """
:root{color-scheme:light dark;--line:#d6d6d6;--soft:#f5f5f3;--link:#0b57a4;--dim:#5a5a5a}
@media(prefers-color-scheme:dark){:root{--line:#3b3b3b;--soft:#222;--link:#8ab8ee;--dim:#aaa}}
body{font:16px/1.5 system-ui,sans-serif;margin:1.5rem auto 4rem;max-width:58rem;padding:0 1rem}
a{color:var(--link)}h1{margin:0 0 .5rem}h2{margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem}code,pre,textarea{font:13px/1.45 ui-monospace,monospace}
code{background:var(--soft);overflow-wrap:anywhere}
pre{background:var(--soft);padding:.7rem;overflow:auto;max-height:24rem;margin:.3rem 0}
details{border-bottom:1px solid var(--line)}details details{border:0;margin:.5rem 0}
summary{cursor:pointer;padding:.45rem 0;overflow-wrap:anywhere}summary code{background:none}
details[open]>summary{font-weight:600}.m{display:inline-block;width:4.4rem;font-weight:700;font-size:.85rem}
td:nth-child(2):not(:last-child),small{color:var(--dim)}nav a{margin-right:.9rem;white-space:nowrap}
table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .7rem .25rem 0;text-align:left;vertical-align:top;border-top:1px solid var(--line)}
td:first-child{white-space:nowrap}label{display:block;margin:.7rem 0 .1rem;font-weight:600}
input,select,textarea{box-sizing:border-box;width:100%;padding:.4rem;font-size:1rem}
textarea{min-height:13rem;font-size:13px}button{margin:.8rem 0;padding:.5rem 1.4rem;font-size:1rem}
@media(max-width:600px){td{display:block;border:0;padding:.1rem 0}td:first-child{border-top:1px solid var(--line);
padding-top:.4rem;white-space:normal}th{display:none}.m{width:auto;margin-right:.5rem}}
"""

_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")


def page_headers(style: str = STYLE, script: str = "", *, connects: bool = True) -> dict[str, str]:
    """Return the headers of a page that runs `script` and loads nothing else; the page holds no user data.

    `connects` lets the script call this installation.
    """
    reach = "connect-src 'self'; " if connects else ""
    # Hashes instead of `unsafe-inline`: no other script or style runs, whatever text gets into the page.
    more = f"script-src '{_hash(script)}'; {reach}" if script else ""
    return {
        "content-security-policy": f"default-src 'none'; style-src '{_hash(style)}'; {more}base-uri 'none'; "
        # `default-src` covers neither the base address nor forms nor frames.
        "form-action 'none'; frame-ancestors 'none'",
        # For browsers that do not know `frame-ancestors`.
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "public, max-age=300",
    }


def render_page(title: str, body: str, script: str = "", style: str = STYLE, *, root: str = "") -> bytes:
    """Return a whole page around a body; `root` is the relative address of `/`, for a script that needs it."""
    place = f' data-root="{root}"' if root else ""
    run = f"<script>{script}</script>" if script else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body{place}>{body}{run}</body></html>"
    ).encode()


def render_prose(text: str) -> str:
    """Return text with backquotes and double asterisks as HTML, one paragraph for each block."""
    return "".join(f"<p>{render_inline(block)}</p>" for block in text.split("\n\n") if block.strip())


def render_inline(text: str) -> str:
    """Return one block of such text as HTML."""
    # Escaped before the marks are replaced, so that the only tags are ours.
    return _BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", escape(text, quote=False)))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_PAGES = {
    "console": ("console", "The console: administration, catalog, models, experiments."),
    "demo": ("demo", "Two demonstrations: a shop and a newspaper that change while you look."),
}
"Pages for people, which an installation may leave out."
_PLACES = {
    "docs": ("docs", "The reference: every operation with an example to paste."),
    "try": ("docs/try", "Send requests from the browser."),
    "openapi": ("openapi.json", "The same for tools: OpenAPI 3.1."),
    "health": ("-/healthz", "Whether this installation is ready."),
    "mcp": ("mcp", "The news archive for AI agents (Model Context Protocol)."),
    "agents": ("llms.txt", "How an agent connects to the archive."),
}


def render_start_json(name: str, version: str, *, pages: bool = False) -> dict[str, Any]:
    """Return the JSON start page with the main addresses; `pages` adds the console and the demonstrations."""
    places = {key: f"/{path}" for key, (path, _) in {**(_PAGES if pages else {}), **_PLACES}.items()}
    more = {"api": "/v1", "script": "/kiosk.js"} if pages else {}
    return {"name": name, "version": version, **places, **more}


def render_start_page(name: str, version: str, *, pages: bool = False) -> bytes:
    """Return the HTML start page with the main addresses; `pages` puts the console and the demonstrations first."""
    places = {**(_PAGES if pages else {}), **_PLACES}
    rows = "".join(
        f"<tr><td>{_link(path) if key != 'mcp' else f'<code>/{path}</code>'}<td>{render_inline(text)}"
        for key, (path, text) in places.items()
    )
    more = (
        "Keys of this installation: `kiosk keys list --reveal`. How to begin stands in the file `README.md`, "
        "and `docs/api.md` is the guide for web developers."
    )
    return render_page(name, f"<h1>{name} {version}</h1><table>{rows}</table><p>{render_inline(more)}</p>")


def _link(path: str) -> str:
    return f'<a href="{path}">/{path}</a>'


_BODY = """
<nav><a href="../docs">Documentation</a><a href="../openapi.json">openapi.json</a></nav>
<h1>Try it</h1>
<noscript><p>This page needs JavaScript. The examples in the documentation are commands for a shell.</p></noscript>
<label for="key">Key</label>
<input id="key" type="password" autocomplete="off" placeholder="ksk_... or kpk_...">
<small>The page keeps the key in memory and sends it to this installation only. Do not use the secret key of
production here: it may change and delete everything.</small>
<label for="token">Reader token (optional)</label>
<input id="token" type="password" autocomplete="off">
<label for="operation">Operation</label>
<select id="operation"></select>
<p id="about"></p>
<div id="given"></div>
<div id="body-part"><label for="body">Body</label><textarea id="body" spellcheck="false"></textarea></div>
<button id="send" type="button">Send</button>
<div id="result" hidden><h2>Answer: <span id="status" role="status"></span></h2><pre id="answer"></pre></div>
<h2>The same as code</h2><pre id="curl"></pre><pre id="fetch"></pre>
"""


@cache
def render_try_page() -> tuple[bytes, dict[str, str]]:
    """Return the try page and its headers."""
    script = Path(__file__).with_name("try_out.js").read_text("utf-8")
    return render_page("Kiosk: try it", _BODY, script), page_headers(script=script)
