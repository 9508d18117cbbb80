"""What the pages for people share: style, headers, and text with a little markup as HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape

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


def page_headers(style: str = STYLE, script: str = "") -> dict[str, str]:
    """Make the headers of a page that runs `script` and loads nothing else; it holds nobody's data."""
    more = f"script-src '{_hash(script)}'; connect-src 'self'; " if script else ""
    return {
        "content-security-policy": f"default-src 'none'; style-src '{_hash(style)}'; {more}base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "cache-control": "public, max-age=300",
    }


def render_page(title: str, body: str, script: str = "") -> bytes:
    """Put a body into a whole page."""
    run = f"<script>{script}</script>" if script else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{body}{run}</body></html>"
    ).encode()


def render_prose(text: str) -> str:
    """Write text with backquotes and double asterisks as HTML, one paragraph for each block."""
    return "".join(f"<p>{render_inline(block)}</p>" for block in text.split("\n\n") if block.strip())


def render_inline(text: str) -> str:
    """Write one block of such text."""
    return _BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", escape(text, quote=False)))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
