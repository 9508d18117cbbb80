"""People: accounts of the installation, their locks, passwords, second factors and roles."""

from __future__ import annotations

from starlette.responses import Response

from deployments.console.argument_form import operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.pages.access.invitations import list_open
from deployments.console.request import ConsoleRequest

PERSON = "/people/{username}"
CHANGES = ("lock", "unlock", "reset_second_factor")


async def show_people(request: ConsoleRequest) -> Response:
    """List accounts."""
    users = (await request.perform("people.list")).to_dict()["users"]
    return request.page("access/people.html", users=users, **await list_open(request))


async def create_person(request: ConsoleRequest) -> Response:
    """Create an account; a generated password is shown once."""
    form = request.form
    made = await request.perform(
        "people.create", username=form.get("username", "").strip(), role=form.get("role", "reader")
    )
    facts = made.to_dict()
    return request.page("access/password_shown.html", username=facts["username"], password=facts["password"])


async def show_person(request: ConsoleRequest) -> Response:
    """Show one account."""
    name = request.path["username"]
    person_facts = (await request.perform("people.get", username=name)).to_dict()
    clients = (await request.perform("people.list_connections", username=name)).to_dict()["clients"]
    return request.page("access/person.html", one=person_facts, clients=clients)


async def change_person(request: ConsoleRequest) -> Response:
    """Lock, unlock, or remove the second factor."""
    change = request.form.get("change", "")
    name = request.path["username"]
    if change in CHANGES:
        await request.perform(f"people.{change}", username=name)
    return request.redirect(PERSON, "people.changed")


async def set_password(request: ConsoleRequest) -> Response:
    """Set a generated password, shown once."""
    name = request.path["username"]
    made = (await request.perform("people.set_password", username=name)).to_dict()
    return request.page("access/password_shown.html", username=name, password=made["password"])


PAGES = (
    Page("/people", show_people, role="owner"),
    FormPage("/people", create_person, role="owner"),
    Page(PERSON, show_person, role="owner", example="username=ada"),
    FormPage(PERSON, change_person, role="owner"),
    FormPage(PERSON + "/password", set_password, role="owner", shown_on=PERSON),
    operation_page(PERSON + "/disconnect", "people.disconnect", PERSON, "people.changed", role="owner"),
    operation_page(
        PERSON + "/delete", "people.delete", "/people", "people.deleted", role="owner", shown_on=PERSON
    ),
)
NAVIGATION = (NavigationEntry("people.nav", "/people", role="owner", icon="people"),)
