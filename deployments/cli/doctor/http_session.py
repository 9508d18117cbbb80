"""HTTP requests of one visitor, who carries cookies like a browser."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from cluster.errors import Unavailable


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What came back."""

    status: int
    headers: dict[str, str]
    "Names in lower case."
    body: bytes

    def parse_json(self) -> Any:
        """Parse the body; None when it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass
class HttpSession:
    """One visitor: asks, and carries cookies like a browser."""

    within_s: float = 15.0
    cookies: dict[str, str] = field(default_factory=dict)

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        form: dict[str, str] | None = None,
        message: Any = None,
    ) -> HttpResponse:
        """Send one request: raw bytes, a form or JSON.

        Errors:
            Unavailable: nobody answers
        """
        parts = urlsplit(url)
        sent = {"User-Agent": "kiosk-doctor", "Connection": "close", **(headers or {})}
        if form is not None:
            body = urlencode(form).encode()
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        elif message is not None:
            body = json.dumps(message).encode()
            sent["Content-Type"] = "application/json"
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        line = self._connect(parts.scheme, parts.netloc)
        try:
            line.request(method, target, body=body, headers=sent)
            reply = line.getresponse()
            reply_headers = {name.lower(): value for name, value in reply.getheaders()}
            for cookie in reply.headers.get_all("set-cookie") or ():
                name, _, value = cookie.partition(";")[0].partition("=")
                self.cookies[name.strip()] = value
            return HttpResponse(reply.status, reply_headers, reply.read())
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{parts.netloc} does not answer ({type(error).__name__})") from error
        finally:
            line.close()

    def _connect(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        if scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(netloc, timeout=self.within_s, context=context)
        return http.client.HTTPConnection(netloc, timeout=self.within_s)
