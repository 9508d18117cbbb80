"""What a page of the console is, and its place in the navigation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response

from cluster.records.administration import AppRole

if TYPE_CHECKING:
    from deployments.console.request import ConsoleRequest

Handler = Callable[["ConsoleRequest"], Awaitable[Response]]
MOST_FORM_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One address below `/console` and who may open it.

    A form that an operation refuses is shown again: the page of `shown_on`, or of the same path, renders with the
    message as a notice and with the entered values.
    """

    path: str
    "For example `/apps/{app_id}/rules/{rule_id}`; `{name:path}` also matches slashes."
    handler: Handler
    role: AppRole | None = "viewer"
    """The least role: in the app if the path has `{app_id}`, else in the installation. None: everybody who is signed
    in."""
    methods: tuple[str, ...] = ("GET",)
    shown_on: str = ""
    most_bytes: int = MOST_FORM_BYTES
    "Maximum bytes of a posted form; more for uploads."
    is_public: bool = False
    "Whether it needs no session: the pages of sign-in."
    example: str = ""
    """Values of placeholders for the tests that walk all pages, as `rule_id=r1&engine_id=shop`; `app_id` is known.
    `-`: the page can't be opened by itself."""

    @property
    def takes_file(self) -> bool:
        """Return whether its form uploads a file."""
        return self.most_bytes > MOST_FORM_BYTES


Page = ConsolePage
"The short name, for the tables of pages."
FormPage = partial(ConsolePage, methods=("POST",))
"A page that only takes a form."


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """A line of the navigation; it is shown to whoever may open the page."""

    text: str
    "Key of the text, for example `rules.nav`."
    path: str
    role: AppRole | None = "viewer"
    icon: str = "dot"
    "Name of a symbol in `templates/icons.html`."
    also: tuple[str, ...] = ()
    "Further paths whose pages belong to this line."

    @property
    def is_of_app(self) -> bool:
        return "{app_id}" in self.path
