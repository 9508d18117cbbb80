"""The page at /docs/try: choose an operation, change its example, send it with a key of one's own installation.

The script reads `openapi.json` and calls this installation only (`connect-src 'self'`). A key stays in the memory of
the page. Answers are shown as text and never as HTML.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from deployments.api.http.html_pages import page_headers, render_page

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
    """Write the page and its headers."""
    script = Path(__file__).with_name("try_out.js").read_text("utf-8")
    return render_page("Kiosk: try it", _BODY, script), page_headers(script=script)
