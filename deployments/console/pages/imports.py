"""Import of files: upload, map columns, dry run, progress, refused rows; and what was set aside."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.datastructures import UploadFile
from starlette.responses import Response

from cluster.clock import iso_ms
from cluster.errors import Invalid
from deployments.console.argument_form import operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.renderer import file_response, format_value
from deployments.console.request import ConsoleRequest, path_of
from deployments.operations.content.import_mapping import MappingChoices, build_mapping

IMPORTS = "/apps/{app_id}/import"
IMPORT = IMPORTS + "/{import_id}"
QUARANTINE = "/apps/{app_id}/quarantine"
MOST_UPLOAD_BYTES = 201 << 20
"One megabyte more than the largest file: the fields beside it."
NOUNS = ("product", "user", "interaction")
ROW_TYPES = (
    "checkout",
    "product_detail_page_view",
    "click",
    "add_to_cart",
    "remove_from_cart",
    "rate",
    "like",
    "bookmark",
    "watch",
    "read",
    "listen",
    "refund",
)
"Types that the form offers for all rows."
_NEXT = {
    "product": "/apps/{app_id}/catalog",
    "user": "/apps/{app_id}/readers",
    "interaction": "/apps/{app_id}/models/trainings/new",
}
"Noun -> the page where somebody goes on after an import."
LIVE_S = 1.5
"Seconds for which all consoles get the same live part; they ask every two."
_PIECE = 1 << 20
_SHOWN_ROWS = 50


async def show_imports(request: ConsoleRequest) -> Response:
    """Show the form of an upload, and the imports of the app."""
    imports = await request.perform("imports.list")
    return request.page(
        "imports/imports.html", imports=imports["imports"], nouns=NOUNS, address=_address(request)
    )


async def upload(request: ConsoleRequest) -> Response:
    """Receive a file and lead to its mapping.

    Errors:
        Invalid: no file was chosen
    """
    file = request.files.get("file")
    if file is None or not file.filename:
        raise Invalid("choose a file first")
    view = await request.perform(
        "imports.upload",
        noun=request.form.get("noun", ""),
        file_name=file.filename[-255:],
        delimiter=request.form.get("delimiter", ""),
        encoding=request.form.get("encoding", "").strip(),
        content=_pieces(file),
    )
    return request.redirect(IMPORT, import_id=view.record.import_id)


async def show_import(request: ConsoleRequest) -> Response:
    """Show an import: its mapping before the start, its progress and its result afterwards."""
    if request.is_htmx:
        return await request.live_fragment("imports/progress.html", partial(_read_progress, request), LIVE_S)
    view = (await request.perform("imports.get")).to_dict()
    values: dict[str, Any] = {"view": view, "address": _address(request, view["import_id"])}
    if view["status"] in ("uploaded", "failed", "cancelled", "interrupted") and not view["is_removed"]:
        mapping = list(view["mapping"]) or None
        look = await _preview(request, mapping, request.query.get("encoding"))
        values |= {"look": look, "dry_run": format_preview(look["preview"]), "at": ""}
        text = request.services.text
        values["row_types"] = [
            (name, text(f"imports.row_types.{name or 'column'}")) for name in ("", *ROW_TYPES)
        ]
    if view["refused"] or view["failed"]:
        rows = await request.perform("imports.refused", limit=_SHOWN_ROWS)
        values["refused"] = rows
    return request.page(
        "imports/import.html", **{"look": None, "refused": None, "next_path": _NEXT[view["noun"]], **values}
    )


async def _read_progress(request: ConsoleRequest) -> dict[str, Any]:
    view = (await request.perform("imports.get")).to_dict()
    # At the end the page around it changes too: mapping or refused rows.
    headers = {} if view["status"] == "running" else {"hx-refresh": "true"}
    return {"view": view, "address": _address(request, view["import_id"]), "headers": headers}


async def dry_run(request: ConsoleRequest) -> Response:
    """Show what the first rows would become with the mapping of the form."""
    preview = await request.perform(
        "imports.dry_run", mapping=await _mapping(request), encoding=_encoding(request)
    )
    at = iso_ms(request.services.clock.now_ms())[11:19]
    return request.fragment("imports/dry_run.html", dry_run=format_preview(preview), at=at)


async def show_column(request: ConsoleRequest) -> Response:
    """Show how the values of a column are read, for the field that the form has for it.

    Errors:
        Invalid: there is no such column
    """
    look = await _preview(request, None, _encoding(request))
    text = request.query.get("at", "")
    at = int(text) if text.isdecimal() and len(text) < 5 else len(look["columns"])
    if at >= len(look["columns"]):
        raise Invalid("there is no such column")
    picked = request.form.get(f"column-{at}", "")
    return request.fragment(
        "imports/column.html", look=look, column=look["columns"][at], at=at, picked=picked
    )


async def start(request: ConsoleRequest) -> Response:
    """Start the import with the mapping of the form, or let it go on."""
    arguments: dict[str, Any] = {"keep_going": request.form.get("keep_going") == "on"}
    if "more" in request.form:
        arguments["mapping"] = await _mapping(request)
        arguments["encoding"] = _encoding(request)
        arguments["restart"] = request.form.get("restart") == "on"
    await request.perform("imports.start", **arguments)
    return request.redirect(IMPORT, "imports.started")


async def download_refused(request: ConsoleRequest) -> Response:
    """Send refused rows as a file."""
    rows = await request.perform("imports.refused", limit=10_000)
    if request.query.get("format") == "csv":
        return file_response(rows.to_csv(), "refused.csv", "text/csv; charset=utf-8")
    return file_response(rows.to_lines(), "refused.jsonl", "application/x-ndjson")


async def show_quarantine(request: ConsoleRequest) -> Response:
    """Show what was set aside."""
    entries = await request.perform("quarantine.list", limit=200)
    address = path_of(QUARANTINE, app_id=request.app_id)
    return request.page("imports/quarantine.html", entries=entries.to_dict(), address=address)


async def show_entry(request: ConsoleRequest) -> Response:
    """Show one entry whole."""
    entry_id = request.query.get("id", "")
    entry = await request.perform("quarantine.get", entry_id=entry_id)
    address = path_of(QUARANTINE, app_id=request.app_id)
    return request.page("imports/entry.html", entry=entry.to_dict(), address=address)


async def replay_entry(request: ConsoleRequest) -> Response:
    """Give an entry to the intake again.

    Errors:
        Invalid: it was not applied
    """
    entry_id = request.form.get("entry_id", "")
    replayed = await request.perform(
        "quarantine.replay",
        entry_ids=[entry_id],
        overwrite=request.form.get("overwrite") == "on",
        damaged=request.form.get("damaged") == "on",
    )
    (result,) = replayed.to_dict()["results"]
    if result["status"] != "replayed":
        raise Invalid(f"{result['status']}: {result['reason']}")
    return request.redirect(QUARANTINE, "imports.replayed")


async def drop_entry(request: ConsoleRequest) -> Response:
    """Remove an entry for good."""
    entry_id = request.form.get("entry_id", "")
    await request.perform("quarantine.drop", entry_ids=[entry_id])
    return request.redirect(QUARANTINE, "imports.dropped")


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(_PIECE):
        yield piece


async def _preview(
    request: ConsoleRequest, mapping: list[str] | None, encoding: str | None
) -> dict[str, Any]:
    given: dict[str, Any] = {} if mapping is None else {"mapping": mapping}
    return dict(await request.perform("imports.preview", **given, encoding=encoding))


def _encoding(request: ConsoleRequest) -> str | None:
    """Return the encoding of the form; None: that of the upload."""
    return request.form.get("encoding")


async def _mapping(request: ConsoleRequest) -> tuple[str, ...]:
    look = await _preview(request, None, _encoding(request))
    columns = look["columns"]
    form = request.form
    places = range(len(columns))
    tables = {
        at: {
            value: meaning
            for number, value in enumerate(columns[at]["values"])
            if (meaning := form.get(f"value-{at}-{number}", ""))
        }
        for at in places
    }
    choices = MappingChoices(
        chosen={at: name for at in places if (name := form.get(f"column-{at}", ""))},
        readings={at: name for at in places if (name := form.get(f"reading-{at}", ""))},
        tables=tables,
        row_type=form.get("row_type", ""),
        joins_rows=form.get("joins_rows") == "on",
        has_refunds=form.get("has_refunds") == "on",
        more=form.get("more", ""),
    )
    return build_mapping(columns, (await request.perform("imports.get")).record.noun, choices)


def format_preview(preview: dict[str, Any]) -> dict[str, Any]:
    """Return a dry run whose records are pairs of a field and a text that people read."""
    samples = [
        [(name, format_field(value)) for name, value in sample.items()] for sample in preview["samples"]
    ]
    return {**preview, "samples": samples}


def format_field(value: Any) -> str:
    """Return the value of a field as people write it; paths of categories are `Home > Kitchen`."""
    if isinstance(value, list) and value and all(isinstance(part, list) for part in value):
        return ", ".join(" > ".join(map(str, part)) for part in value)
    return str(format_value(value))


def _address(request: ConsoleRequest, import_id: str = "") -> str:
    if import_id:
        return path_of(IMPORT, app_id=request.app_id, import_id=import_id)
    return path_of(IMPORTS, app_id=request.app_id)


PAGES = (
    Page(IMPORTS, show_imports, role="editor"),
    FormPage(IMPORTS, upload, role="editor", most_bytes=MOST_UPLOAD_BYTES),
    Page(IMPORT, show_import, role="editor", example="-"),
    FormPage(IMPORT + "/dry-run", dry_run, role="editor", shown_on=IMPORT),
    FormPage(IMPORT + "/column", show_column, role="editor", shown_on=IMPORT),
    FormPage(IMPORT + "/start", start, role="editor", shown_on=IMPORT),
    operation_page(IMPORT + "/cancel", "imports.cancel", IMPORT, "imports.stopping", role="editor"),
    operation_page(
        IMPORT + "/remove", "imports.remove", IMPORTS, "imports.removed", role="editor", shown_on=IMPORT
    ),
    Page(IMPORT + "/refused", download_refused, role="editor", example="-"),
    Page(QUARANTINE, show_quarantine, role="analyst"),
    Page(QUARANTINE + "/entry", show_entry, role="analyst", example="-"),
    FormPage(QUARANTINE + "/replay", replay_entry, role="editor", shown_on=QUARANTINE),
    FormPage(QUARANTINE + "/drop", drop_entry, role="editor", shown_on=QUARANTINE),
)
NAVIGATION = (NavigationEntry("imports.nav", IMPORTS, role="editor", icon="import", also=(QUARANTINE,)),)
