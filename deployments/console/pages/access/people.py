"""People: accounts of the installation, their locks, passwords, second factors and roles."""

from __future__ import annotations

from starlette.responses import Response

from deployments.console.page import NavigationEntry, Page
from deployments.console.pages.access.invitations import list_open
from deployments.console.request import ConsoleRequest, path_of

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
    path = path_of(PERSON, username=name).removeprefix("/console")
    return request.redirect(path, request.services.text("people.changed"))


async def set_password(request: ConsoleRequest) -> Response:
    """Set a generated password, shown once."""
    name = request.path["username"]
    made = (await request.perform("people.set_password", username=name)).to_dict()
    return request.page("access/password_shown.html", username=name, password=made["password"])


async def disconnect(request: ConsoleRequest) -> Response:
    """End a connection of an agent."""
    name = request.path["username"]
    await request.perform("people.disconnect", username=name, connection=request.form.get("connection", ""))
    path = path_of(PERSON, username=name).removeprefix("/console")
    return request.redirect(path, request.services.text("people.changed"))


async def delete_person(request: ConsoleRequest) -> Response:
    """Delete an account."""
    await request.perform("people.delete", username=request.path["username"])
    return request.redirect("/people", request.services.text("people.deleted"))


PAGES = (
    Page("/people", show_people, role="owner"),
    Page("/people", create_person, role="owner", methods=("POST",)),
    Page(PERSON, show_person, role="owner", example="username=ada"),
    Page(PERSON, change_person, role="owner", methods=("POST",)),
    Page(PERSON + "/password", set_password, role="owner", methods=("POST",), shown_on=PERSON),
    Page(PERSON + "/disconnect", disconnect, role="owner", methods=("POST",), shown_on=PERSON),
    Page(PERSON + "/delete", delete_person, role="owner", methods=("POST",), shown_on=PERSON),
)
NAVIGATION = (NavigationEntry("people.nav", "/people", role="owner", icon="people"),)
