"""`kiosk products`: show, change or add one product."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cluster.errors import Invalid
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.content import catalog
from deployments.operations.content.catalog import build_field_value_table

app = typer.Typer(help="Single products: show, change or add one.", no_args_is_help=True)

SET_EPILOG = """
[bold]Examples[/]

  kiosk products set bookshop b-1 price=24.5 availability=OUT_OF_STOCK
  kiosk products set bookshop b-1 sale_price=                        remove the field
  kiosk products set bookshop b-9 title="Oak board" price=22 type=tool --new
  kiosk products set bookshop b-1 tags='wood|kitchen' custom_attributes.width_cm:=40

FIELD=VALUE takes the text as `kiosk ingest` reads a cell of a CSV file: numbers, dates, lists with |, paths with >.
FIELD:=JSON takes a JSON value. All other fields of the product stay. Products by the thousand: `kiosk ingest`.
"""

App = Annotated[str, typer.Argument(metavar="APP", help="The app.")]
ProductId = Annotated[str, typer.Argument(metavar="ID", help="The product id.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("set", epilog=SET_EPILOG)
def set_product(
    name: App,
    product_id: ProductId,
    changes: Annotated[list[str], typer.Argument(help="FIELD=VALUE or FIELD:=JSON, can be repeated.")],
    new: Annotated[bool, typer.Option("--new", help="Add the product; it must not exist.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change fields of a stored product, or add a product; needs the running API."""
    check_changes(changes)
    installation = Installation()
    record: dict[str, Any] = {}
    if not new:
        record = installation.perform("catalog.get", app_id=name, product_id=product_id).product
    changed: dict[str, Any] = installation.perform(
        "catalog.edit", app_id=name, product_id=product_id, fields=read_changes(changes, record), is_new=new
    )
    if as_json:
        screen.print_json(changed)
        return
    screen.out().print(f"Product {product_id} of {name} is {'added' if new else 'changed'}.")
    screen.print_result((build_field_value_table(changed["product"]),))


def check_changes(changes: Sequence[str]) -> None:
    """Check the form of changes and the names of their fields.

    Errors:
        Invalid: a change has no sign, names no field of products, or the product id
    """
    from jobs.ingest.mappings.record_fields import read_fields

    for change in changes:
        field = change.partition("=")[0].removesuffix(":")
        if "=" not in change or not field:
            raise Invalid(f"{change!r} is no FIELD=VALUE; for example price=24.5")
        if field == "product_id":
            raise Invalid("the id of a product can't be changed; add another product with --new")
        read_fields("product").check_field(field.partition(".")[0])


def read_changes(changes: Sequence[str], record: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that change; None removes one. An object of the record keeps its other members.

    Errors:
        Invalid: a value is no JSON, or a path leads through a value that is no object
    """
    from jobs.ingest.mappings.mapping_rules import rule_from_name, set_value

    fields: dict[str, Any] = {}
    for change in changes:
        field, _, text = change.partition("=")
        rule = rule_from_name(field.removesuffix(":"))
        top, *inner = rule.target
        if inner and top not in fields:
            fields[top] = copy.deepcopy(record.get(top))
        _open_objects(fields, rule.target, change)
        if field.endswith(":"):
            _put(fields, rule.target, _parse_json(text, change))
        elif text:
            set_value(fields, rule, text)
        else:
            _put(fields, rule.target, None)
    return fields


def _open_objects(fields: dict[str, Any], path: Sequence[str], change: str) -> None:
    """Put objects where a path needs them."""
    for step, member in itertools.pairwise(path):
        if fields.get(step) is None:
            fields[step] = {}
        fields = fields[step]
        if not isinstance(fields, dict):
            raise Invalid(f"{change!r}: {step} is no object, so it has no member {member}")


def _put(fields: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set a value; in an object, None removes the member."""
    *steps, last = path
    for step in steps:
        fields = fields[step]
    if steps and value is None:
        fields.pop(last, None)
    else:
        fields[last] = value


def _parse_json(text: str, change: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"{change!r}: {text!r} is no JSON; texts need FIELD=VALUE") from error


add_commands(
    app, (OperationCommand("show", "catalog.get", options={"product_id": "ID"}),), catalog, names_app=False
)
