"""A request to a page of the console, as handlers see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from deployments.console.renderer import PAGE_HEADERS, Renderer
from deployments.console.services import ConsoleServices
from deployments.operations.framework.principal import Principal
from deployments.sign_in.sessions import PATH, BrowserSessions, Session

MOST_QUERY_FIELDS = 100
LONGEST_QUERY_VALUE = 10_000


class ConsoleRequest:
    """One request: who sends it, its values, and the ways to answer."""

    def __init__(
        self,
        request: Request,
        services: ConsoleServices,
        sessions: BrowserSessions,
        renderer: Renderer,
        *,
        principal: Principal,
        session: Session | None,
        layout: Mapping[str, Any],
    ) -> None:
        self.raw = request
        self.services = services
        self.sessions = sessions
        self.principal = principal
        self.session = session
        self.method = request.method
        self.path: dict[str, str] = dict(request.path_params)
        self.query = {
            name: value[:LONGEST_QUERY_VALUE]
            for name, value in request.query_params.multi_items()[:MOST_QUERY_FIELDS]
        }
        self.form: dict[str, str] = {}
        "Posted fields, after the check of their token; the last of a repeated one."
        self.form_lists: dict[str, list[str]] = {}
        "All values of each posted field, for check boxes."
        self.files: dict[str, UploadFile] = {}
        self.notice: dict[str, Any] | None = None
        self.status = 200
        self.csrf = ""
        self._renderer = renderer
        self._layout = layout

    @property
    def app_id(self) -> str:
        """The app of the page; empty for pages of the installation."""
        return self.path.get("app_id", "")

    def use_session(self, session: Session) -> None:
        """Bind the page's forms to a session that replaces the one of the request."""
        self.session = session
        self.csrf = self.services.signing.form_proof(session.session_id)

    @property
    def is_htmx(self) -> bool:
        """Whether a part of a page asks, not a whole page."""
        return self.raw.headers.get("hx-request") == "true"

    @property
    def secure(self) -> bool:
        """Whether browsers reach this installation over https."""
        return self.services.is_secure(self.raw)

    async def perform(self, name: str, /, **arguments: Any) -> Any:
        """Perform an operation of the administration as this person, and return its result.

        Arguments that stand in the address of the page come from there.

        Errors:
            KioskError: the operation refuses; the framework shows the message on the page of the form
        """
        administration = self.services.administration
        fields = administration.operations[name].arguments.model_fields
        placed = {part: value for part, value in self.path.items() if part in fields}
        return await administration.perform(self.principal, name, {**placed, **arguments})

    def may(self, role: Any, app_id: str | None = None) -> bool:
        """Return whether the person has at least a role in the app of the page, or in another."""
        return self.principal.may(role, self.app_id if app_id is None else app_id)

    def page(self, template: str, /, status: int = 0, **values: Any) -> Response:
        """Return a whole page."""
        values = {**self._shared(), **self._layout, "notice": self.notice, **values}
        return self._renderer.render(template, values, status=status or self.status)

    def fragment(self, template: str, /, status: int = 0, **values: Any) -> Response:
        """Return a part of a page, for htmx."""
        return self._renderer.render(template, {**self._shared(), **values}, status=status or self.status)

    async def live_fragment(
        self, template: str, read: Callable[[], Awaitable[dict[str, Any]]], keep_s: float
    ) -> Response:
        """Return a part of a live page that is read and rendered once for all people with the same rights.

        What differs between people may only be the token of forms. `read` returns the values of the template; a value
        `headers` holds headers of the response.
        """
        principal = self.principal
        app_id = self.app_id
        rights = (principal.role_in(app_id) if app_id else principal.app_ids, principal.may("viewer", ""))
        services = self.services

        async def render() -> Response:
            values = await read()
            headers = values.pop("headers", {})
            response = self.fragment(template, **values, csrf=services.live_token)
            response.headers.update(headers)
            return response

        key = (template, self.raw.url.path, self.raw.url.query, rights)
        shared: Response = await services.live.get(key, render, keep_s=keep_s)
        body = bytes(shared.body).replace(services.live_token.encode(), self.csrf.encode())
        headers = {name: value for name, value in shared.headers.items() if name != "content-length"}
        return Response(body, headers=headers)

    def redirect(
        self, pattern: str, text: str = "", kind: str = "good", /, *, external: str = "", **values: Any
    ) -> Response:
        """Lead the browser to another page of the console, where a notice appears.

        `pattern` is below `/console`, and `text` is the key of the notice; `values` fill both, beside those of the
        address of this page. `external` is a whole address elsewhere, which no client chose.
        """
        values = {**self.path, **values}
        location = external or path_of(pattern, **values)
        headers = dict(PAGE_HEADERS)
        if self.is_htmx:
            # A browser follows a 303 inside of htmx's request, and the whole page would appear in the part.
            response = Response(status_code=200, headers={**headers, "hx-redirect": location})
        else:
            response = Response(status_code=303, headers={**headers, "location": location})
        if text:
            self.sessions.leave_notice(response, self.services.text(text, **values), kind, secure=self.secure)
        return response

    def _shared(self) -> dict[str, Any]:
        return {
            "csrf": self.csrf,
            "entered": self.form if self.status >= 400 else {},
            "app_id": self.app_id,
            "query": self.query,
            "may": self.may,
            "path_of": path_of,
            "app_title": self.services.display_name_of,
        }


def path_of(pattern: str, /, **values: Any) -> str:
    """Return the address of a page with values in its path, below `/console`; values are escaped."""
    return PATH + pattern.format_map({name: quote(str(value), safe="") for name, value in values.items()})
