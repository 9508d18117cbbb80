"""Plain forms of operations: inputs and values from the model of the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from cluster.records.administration import AppRole
from deployments.console.page import FormPage, Page
from deployments.console.request import ConsoleRequest
from deployments.operations.framework.argument_fields import ArgumentField, list_fields, parse_number
from deployments.operations.framework.operation import Arguments

SHOWN = "-shown"
"Ends the name of a hidden input: a form that has it has the check box, which an unchecked box does not tell."
_TYPES = {
    "integer": "number",
    "number": "number",
    "share": "number",
    "moment": "datetime-local",
    "flag": "checkbox",
}


@dataclass(frozen=True, slots=True)
class FormInput:
    """One input of a form."""

    name: str
    type: str
    label: str
    hint: str
    value: Any
    "What holds now: shown as the placeholder, or as the state of a check box."
    is_required: bool = False
    minimum: float | str = ""
    maximum: float | str = ""
    max_length: int | str = ""


def list_inputs(
    arguments: type[Arguments],
    now: object = None,
    *,
    exclude: frozenset[str] = frozenset(),
    keys: Mapping[str, Mapping[str, tuple[str, float]]] | None = None,
) -> list[FormInput]:
    """Return the inputs of a form, without arguments of the address.

    Args:
        now: the object whose values hold now
        exclude: arguments without an input
        keys: argument that holds numbers by name -> name -> its label and the number now
    """
    inputs = []
    for field in list_fields(arguments):
        if field.name in exclude:
            continue
        if field.kind == "weights":
            for key, (label, value) in (keys or {}).get(field.name, {}).items():
                title = f"{field.title} of {label}"
                inputs.append(FormInput(f"{field.name}-{key}", "number", title, "", f"{value:g}", minimum=0))
            continue
        inputs.append(_build_input(field, getattr(now, field.name, None)))
    return inputs


def arguments_from_form(
    arguments: type[Arguments], form: Mapping[str, str], *, exclude: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the arguments of a form; empty inputs are absent.

    Errors:
        Invalid: a number or a time can't be read
    """
    given: dict[str, Any] = {}
    for field in list_fields(arguments):
        text = form.get(field.name, "").strip()
        if field.name in exclude:
            continue
        if field.kind == "flag":
            # Browsers send nothing for an unchecked box.
            if field.name + SHOWN in form:
                given[field.name] = field.name in form
        elif field.kind == "weights":
            start = field.name + "-"
            weights = {
                name.removeprefix(start): parse_number(value.strip(), field.title)
                for name, value in form.items()
                if name.startswith(start) and value.strip()
            }
            if weights:
                given[field.name] = weights
        elif text:
            value = field.parse([text], field.title)
            given[field.name] = value / 100 if field.kind == "share" else value
    return given


def operation_page(
    path: str, operation: str, back: str, text: str, *, role: AppRole | None, shown_on: str = ""
) -> Page:
    """Return the page that takes a form with the arguments of one operation; it leads to `back` with a notice."""

    async def handle(request: ConsoleRequest) -> Response:
        arguments = request.services.administration.operations[operation].arguments
        given = arguments_from_form(arguments, request.form, exclude=frozenset(request.path))
        await request.perform(operation, **given)
        return request.redirect(back, text, **given)

    return FormPage(path, handle, role=role, shown_on=shown_on or back)


def _build_input(field: ArgumentField, value: Any) -> FormInput:
    is_share = field.kind == "share"
    if value is not None and field.kind in ("number", "share"):
        value = f"{value * (100 if is_share else 1):g}"
    elif isinstance(value, tuple):
        value = ", ".join(map(str, value))
    return FormInput(
        name=field.name,
        type=_TYPES.get(field.kind, "text"),
        label=f"{field.title}, in percent" if is_share else field.title,
        hint="" if is_share or field.kind == "moment" else field.description,
        value=value,
        is_required=field.is_required,
        minimum=0 if is_share else "" if field.minimum is None or field.kind == "moment" else field.minimum,
        maximum=100 if is_share else "" if field.maximum is None or field.kind == "moment" else field.maximum,
        max_length=field.max_length or "",
    )
