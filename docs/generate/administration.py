"""Administration over HTTP: every operation with its role, one example request and reply."""

from __future__ import annotations

from deployments.admin.openapi import describe_administration
from deployments.operations.all_operations import OPERATIONS
from docs.generate.markdown import write_page
from docs.generate.rest import write_operations

_INTRO = """
Every operation of the administration over HTTP. [The guide](../guides/administration.md) says how to get a token and
what the roles mean. The running installation describes them in `/openapi.json` and `/docs`, too. In the commands
`$TOKEN` is a personal token, and the address is that of an installation on your machine.
"""


def build_page() -> str:
    """Write the page of all operations."""
    return write_page(
        "Administration", _INTRO, write_operations(describe_administration(OPERATIONS.values()))
    )
