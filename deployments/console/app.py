"""The routes of the console, and what happens around each page: session, rights, form check, errors."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cluster.errors import Forbidden, KioskError, TooMany
from deployments.console import csrf
from deployments.console.assets import Assets
from deployments.console.forms import find_bounds, read_form, split_form
from deployments.console.navigation import build_layout
from deployments.console.page import Page
from deployments.console.pages.access.account import HOME
from deployments.console.pages.all_pages import NAVIGATION, PAGES
from deployments.console.renderer import PAGE_HEADERS, Renderer
from deployments.console.request import ConsoleRequest
from deployments.console.services import ConsoleServices
from deployments.console.texts.console_texts import ConsoleTexts
from deployments.edge.http.errors import build_error_headers, status_from_error
from deployments.edge.http.request_log import ClientDisconnected, ResponseEndpoint
from deployments.edge.limits.token_buckets import BucketRate
from deployments.operations.framework.principal import Principal, principal_of
from deployments.sign_in.password_checks import is_same_origin_form
from deployments.sign_in.sessions import PATH, BrowserSessions, Session

ANYBODY = Principal("", "", "console")
"Somebody who is not signed in."


def may_enter(principal: Principal) -> bool:
    """Return whether somebody may enter: administrators, and whoever has a role in an app."""
    return principal.is_administrator or bool(principal.roles)


SIGN_IN = "/sign-in"
STATIC = PATH + "/static"
PASSWORD_PAGES = (HOME, HOME + "/password")
"Pages that are open before a temporary password was replaced."
REQUESTS = BucketRate(20.0, 200)
"Requests of one person."

_log = structlog.get_logger()


def build_console_routes(services: ConsoleServices, *, pages: Sequence[Page] = PAGES) -> list[BaseRoute]:
    """Return the routes of the console; they answer every method themselves."""
    assets = Assets(STATIC)
    texts = services.text
    console = _Console(
        services,
        Renderer(assets, texts, services.title, services.version),
        services.sign_in.sessions,
        texts,
        pages,
    )
    # Starlette takes the first route that fits, so fixed paths stand before those with values.
    paths = sorted(
        dict.fromkeys(page.path for page in pages), key=lambda path: ("{" in path, path.count("{"))
    )
    return [
        Route(STATIC + "/{version}/{name}", assets.answer, methods=["GET"]),
        Route(PATH, _to_overview, methods=["GET"]),
        *(
            Route(PATH + path, endpoint=ResponseEndpoint(partial(console.answer, path=path)))
            for path in paths
        ),
        Route(PATH + "/{rest:path}", endpoint=ResponseEndpoint(partial(console.answer, path=""))),
    ]


async def _to_overview(_: Request) -> Response:
    return Response(status_code=307, headers={**PAGE_HEADERS, "location": PATH + "/"})


@dataclass(frozen=True)
class _Console:
    services: ConsoleServices
    renderer: Renderer
    sessions: BrowserSessions
    texts: ConsoleTexts
    pages: Sequence[Page]

    async def answer(self, request: Request, path: str) -> Response:
        """Answer a request; every exception becomes a page."""
        secure = self.services.is_secure(request)
        session: Session | None = None
        console_request = self._open(request, None)
        try:
            if not self.services.addresses.may_sign_in(request.headers.get("host", "")):
                raise Forbidden(self.texts("error.needs_https"))
            session = await self.sessions.find(request, secure=secure)
            console_request = self._open(request, session)
            self._count(session)
            response = await self._answer(console_request, path)
        except ClientDisconnected:
            raise
        except KioskError as error:
            status = status_from_error(error)
            response = self._show_error(console_request, status, error.message)
            response.raw_headers += build_error_headers(error, status)
        except Exception as error:  # noqa: BLE001 - the last layer: everything becomes a page
            request_id = secrets.token_hex(6)
            _log.error("console_failed", page=path, request_id=request_id, exc_info=error)
            message = self.texts("error.unexpected", request_id=request_id)
            response = self._show_error(console_request, 500, message, request_id)
        # An error page may be of an app that does not exist, or that the person may not see.
        if session is not None and response.status_code == 200:
            self.sessions.remember_app(request, response, console_request.app_id, secure=secure)
        # A handler that began or ended a session has decided; renewing would undo it.
        if console_request.session is not None and not _sets_session(response):
            self.sessions.renew(response, console_request.session, secure=secure)
        return response

    def _count(self, session: Session | None) -> None:
        """Count a request of somebody who is signed in.

        Errors:
            TooMany: they send more than a person with open pages does
        """
        who = "" if session is None else session.account.user_id
        wait_s = self.services.limits.wait_s("requests", who, REQUESTS) if who else 0
        if wait_s:
            raise TooMany(self.texts("error.too_many"), retry_after_s=wait_s)

    async def _answer(self, console_request: ConsoleRequest, path: str) -> Response:
        method = "GET" if console_request.method == "HEAD" else console_request.method
        fitting = [page for page in self.pages if page.path == path]
        page = _find(fitting, method)
        if page is None and fitting:
            allowed = sorted({verb for page in fitting for verb in page.methods})
            response = self._show_error(console_request, 405, self.texts("error.method"))
            response.headers["allow"] = ", ".join(allowed)
            return response
        # Unknown paths too: without a session, nobody learns which pages exist.
        if page is None or not page.is_public:
            refused = self._check_person(console_request, page)
            if refused is not None:
                return refused
        if page is None:
            return self._show_error(console_request, 404, self.texts("error.not_found"))
        if method == "GET":
            return await self._show(console_request, page)
        try:
            await self._read_form(console_request, page)
            if not await self._is_still_in(console_request):
                return console_request.redirect(SIGN_IN)
            return await self._submit(console_request, page)
        finally:
            # Starlette keeps large files on disk until they are closed.
            for file in console_request.files.values():
                await file.close()

    def _check_person(self, console_request: ConsoleRequest, page: Page | None) -> Response | None:
        """Return the answer to somebody who may not open a page."""
        if console_request.session is None:
            goal = console_request.raw.url.path + (
                f"?{console_request.raw.url.query}" if console_request.raw.url.query else ""
            )
            goal = (
                goal
                # A posted form and a part of a page are no places to come back to.
                if console_request.method in ("GET", "HEAD") and not console_request.is_htmx
                else PATH + "/"
            )
            return console_request.redirect(f"{SIGN_IN}?next={quote(goal, safe='')}")
        if not may_enter(console_request.principal):
            return console_request.page("session/no_entry.html", status=403)
        if console_request.session.account.has_temporary_password and (
            page is None or page.path not in PASSWORD_PAGES
        ):
            return console_request.redirect(HOME, "account.choose_new", "warn")
        if page is not None and page.role is not None:
            console_request.principal.require(page.role, console_request.app_id)
        return None

    async def _show(self, console_request: ConsoleRequest, page: Page) -> Response:
        console_request.notice = console_request.notice or self.sessions.take_notice(
            console_request.raw, secure=console_request.secure
        )
        response = await page.handler(console_request)
        # Redirects and parts of pages show no notices, so it waits for the next whole page.
        if console_request.notice is not None and not console_request.is_htmx and response.status_code < 300:
            self.sessions.forget_notice(response, secure=console_request.secure)
        return response

    async def _read_form(self, console_request: ConsoleRequest, page: Page) -> None:
        """Read the form after the check where it comes from.

        Errors:
            Forbidden: another site sent it, or its token is missing
        """
        if not is_same_origin_form(console_request.raw, self.services.origin(console_request.raw)):
            raise Forbidden(self.texts("error.other_site"))
        # The bound on uploads holds while the body arrives, because a slow upload keeps its file on disk that
        # long.
        uploads = self.services.uploads
        with uploads.take(console_request.principal.user_id) if page.takes_file else nullcontext():
            data = await read_form(console_request.raw, find_bounds(page))
        console_request.form, console_request.form_lists, console_request.files = split_form(data)
        token = console_request.form.pop(csrf.FIELD, "") or console_request.raw.headers.get(csrf.HEADER, "")
        if not csrf.is_genuine(self.services.signing, self._bound_to(console_request), token):
            raise Forbidden(self.texts("error.form_expired"))

    async def _is_still_in(self, console_request: ConsoleRequest) -> bool:
        """Return whether the session outlived the reading of its form, and take the rights that it has now.

        A form can take minutes to arrive; meanwhile somebody may have signed out or changed the password.
        """
        if console_request.session is None:
            return True
        session = await self.sessions.find(console_request.raw, secure=console_request.secure)
        if session is None:
            return False
        console_request.session = session
        console_request.principal = principal_of(
            session.account, "console", address=console_request.principal.address
        )
        return True

    async def _submit(self, console_request: ConsoleRequest, page: Page) -> Response:
        """Handle a form; if an operation refuses, show the form again with the message."""
        try:
            return await page.handler(console_request)
        except KioskError as error:
            if isinstance(error, ClientDisconnected):
                raise
            console_request.status = status_from_error(error)
            console_request.notice = {"text": error.message, "kind": "bad"}
            if console_request.is_htmx:
                # Otherwise htmx would put the message where the page expects the part that it asked for.
                response = console_request.fragment("notice_fragment.html", notice=console_request.notice)
                response.headers["hx-retarget"] = "#notices"
                response.headers["hx-reswap"] = "innerHTML"
                return response
            fitting = [other for other in self.pages if other.path == (page.shown_on or page.path)]
            form_page = _find(fitting, "GET")
            if form_page is None:
                raise
            console_request.method = "GET"
            return await form_page.handler(console_request)

    def _open(self, request: Request, session: Session | None) -> ConsoleRequest:
        address = self.services.client_address(request)
        principal = ANYBODY if session is None else principal_of(session.account, "console", address=address)
        app_id = request.path_params.get("app_id", "")
        path = request.url.path
        layout = build_layout(
            NAVIGATION,
            principal,
            self.services.app_ids(),
            path,
            app_id,
            self.sessions.last_app(request, secure=self.services.is_secure(request)),
        )
        console_request = ConsoleRequest(
            request,
            self.services,
            self.sessions,
            self.renderer,
            principal=principal,
            session=session,
            layout={**layout, "signed_in": session is not None},
        )
        bound_to = self._bound_to(console_request)
        console_request.csrf = self.services.signing.form_proof(bound_to) if bound_to else ""
        return console_request

    def _bound_to(self, console_request: ConsoleRequest) -> str:
        """Return what tokens of forms are bound to: the session, or before the sign-in the browser."""
        if console_request.session is not None:
            return console_request.session.session_id
        return self.sessions.browser_name(console_request.raw, secure=console_request.secure)

    def _show_error(
        self, console_request: ConsoleRequest, status: int, message: str, request_id: str = ""
    ) -> Response:
        message = message[:1].upper() + message[1:]
        if console_request.is_htmx:
            notice = {"text": message, "kind": "bad"}
            response = console_request.fragment("notice_fragment.html", status=status, notice=notice)
            response.headers["hx-retarget"] = "#notices"
            response.headers["hx-reswap"] = "innerHTML"
            return response
        title = "error.no_access" if status == 403 else "error.title"
        return console_request.page(
            "error.html", status=status, code=status, message=message, title=title, request_id=request_id
        )


def _find(pages: Iterable[Page], method: str) -> Page | None:
    return next((page for page in pages if method in page.methods), None)


def _sets_session(response: Response) -> bool:
    return any(name == b"set-cookie" and b"_session=" in value for name, value in response.raw_headers)
