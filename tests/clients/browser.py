"""A browser made of form posts: signs in, allows the client, and goes where it is sent.

    python browser.py URL            goes on to the client's own address, as a browser does
    python browser.py --stop URL     prints that address instead

KIOSK_USER and KIOSK_PASSWORD sign in. Only the standard library, because every client's room runs it.
"""

from __future__ import annotations

import http.cookiejar
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from typing import Any


class _Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by hand, so that the way out of the site is seen."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.choices: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = given.get("action", "")
        elif tag == "input":
            self.fields[given.get("name", "")] = given.get("value", "")
        elif tag == "button":
            self.choices.append(given.get("value", ""))


class Browser:
    """Keeps cookies between pages."""

    def __init__(self) -> None:
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(_Stay, jar)

    def fetch(self, url: str, form: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Ask once: status, where it sends us, the page."""
        data = None if form is None else urllib.parse.urlencode(form).encode()
        headers = {"Accept": "text/html", "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Form/1.0"}
        if form is not None:
            parts = urllib.parse.urlsplit(url)
            headers["Origin"] = f"{parts.scheme}://{parts.netloc}"
        request = urllib.request.Request(url, data, headers)
        try:
            with self._opener.open(request, timeout=20) as reply:
                return reply.status, "", reply.read().decode()
        except urllib.error.HTTPError as error:
            page = error.read().decode("utf-8", "replace")
            return error.code, error.headers.get("location") or "", page

    def allow(self, url: str) -> str:
        """Walk from the authorization address to the client's redirect address; returns that."""
        site = urllib.parse.urlsplit(url)[:2]
        status, location, page = self.fetch(url)
        for _ in range(8):
            if location:
                target = urllib.parse.urljoin(url, location)
                if urllib.parse.urlsplit(target)[:2] != site or "code=" in target or "error=" in target:
                    return target
                url = target
                status, location, page = self.fetch(url)
                continue
            if status != 200:
                raise SystemExit(f"the page answered {status}: {page[:500]}")
            forms = _Forms()
            forms.feed(page)
            form = dict(forms.fields)
            if "password" in form:
                form["username"] = os.environ["KIOSK_USER"]
                form["password"] = os.environ["KIOSK_PASSWORD"]
                form["decision"] = "sign-in"
            else:
                assert "allow" in forms.choices, page
                form["decision"] = "allow"
            url = urllib.parse.urljoin(url, forms.action)
            status, location, page = self.fetch(url, form)
        raise SystemExit("the pages go round in circles")


def open_callback(browser: Browser, target: str) -> tuple[int, str]:
    """Open the address of a client, which may begin to listen a moment after it names the address."""
    for _ in range(60):
        try:
            status, _, page = browser.fetch(target)
        except urllib.error.URLError:
            time.sleep(0.5)
            continue
        return status, page
    raise SystemExit("the client does not listen")


def main() -> None:
    """Open an address."""
    stop = sys.argv[1] == "--stop"
    browser = Browser()
    target = browser.allow(sys.argv[-1])
    if stop:
        print(target)
        return
    status, page = open_callback(browser, target)
    print(f"the client's page answered {status}: {page[:200]}", file=sys.stderr)


if __name__ == "__main__":
    main()
