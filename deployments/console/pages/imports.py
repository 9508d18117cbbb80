"""Import of files: upload, map columns, dry run, progress, refused rows; and what was set aside."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from starlette.datastructures import UploadFile
from starlette.responses import Response

from cluster.clock import iso_ms
from cluster.errors import Invalid
from deployments.console.page import NavigationEntry, Page
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
    imports = await request.perform("imports.list", app_id=request.app_id)
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
        app_id=request.app_id,
        noun=request.form.get("noun", ""),
        file_name=file.filename[-255:],
        delimiter=request.form.get("delimiter", ""),
        encoding=request.form.get("encoding", "").strip(),
        content=_pieces(file),
    )
    return request.redirect(_below(request, import_id=view.record.import_id))


async def show_import(request: ConsoleRequest) -> Response:
    """Show an import: its mapping before the start, its progress and its result afterwards."""
    if request.is_htmx:
        return await request.live_fragment("imports/progress.html", partial(_read_progress, request), LIVE_S)
    view = (await _get(request)).to_dict()
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
        rows = await request.perform("imports.refused", **_named(request), limit=_SHOWN_ROWS)
        values["refused"] = rows
    return request.page(
        "imports/import.html", **{"look": None, "refused": None, "next_path": _NEXT[view["noun"]], **values}
    )


async def _read_progress(request: ConsoleRequest) -> dict[str, Any]:
    view = (await _get(request)).to_dict()
    # At the end the page around it changes too: mapping or refused rows.
    headers = {} if view["status"] == "running" else {"hx-refresh": "true"}
    return {"view": view, "address": _address(request, view["import_id"]), "headers": headers}


async def dry_run(request: ConsoleRequest) -> Response:
    """Show what the first rows would become with the mapping of the form."""
    preview = await request.perform(
        "imports.dry_run", **_named(request), mapping=await _mapping(request), encoding=_encoding(request)
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
    await request.perform("imports.start", **_named(request), **arguments)
    return request.redirect(_below(request), request.services.text("imports.started"))


async def cancel(request: ConsoleRequest) -> Response:
    """Stop a running import."""
    await request.perform("imports.cancel", **_named(request))
    return request.redirect(_below(request), request.services.text("imports.stopping"))


async def remove(request: ConsoleRequest) -> Response:
    """Remove an import and its file."""
    await request.perform("imports.remove", **_named(request))
    address = _address(request).removeprefix("/console")
    return request.redirect(address, request.services.text("imports.removed"))


async def download_refused(request: ConsoleRequest) -> Response:
    """Send refused rows as a file."""
    rows = await request.perform("imports.refused", **_named(request), limit=10_000)
    if request.query.get("format") == "csv":
        return file_response(rows.to_csv(), "refused.csv", "text/csv; charset=utf-8")
    return file_response(rows.to_lines(), "refused.jsonl", "application/x-ndjson")


async def show_quarantine(request: ConsoleRequest) -> Response:
    """Show what was set aside."""
    entries = await request.perform("quarantine.list", app_id=request.app_id, limit=200)
    address = path_of(QUARANTINE, app_id=request.app_id)
    return request.page("imports/quarantine.html", entries=entries.to_dict(), address=address)


async def show_entry(request: ConsoleRequest) -> Response:
    """Show one entry whole."""
    entry_id = request.query.get("id", "")
    entry = await request.perform("quarantine.get", app_id=request.app_id, entry_id=entry_id)
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
        app_id=request.app_id,
        entry_ids=[entry_id],
        overwrite=request.form.get("overwrite") == "on",
        damaged=request.form.get("damaged") == "on",
    )
    (result,) = replayed.to_dict()["results"]
    if result["status"] != "replayed":
        raise Invalid(f"{result['status']}: {result['reason']}")
    return _to_quarantine(request, "imports.replayed")


async def drop_entry(request: ConsoleRequest) -> Response:
    """Remove an entry for good."""
    entry_id = request.form.get("entry_id", "")
    await request.perform("quarantine.drop", app_id=request.app_id, entry_ids=[entry_id])
    return _to_quarantine(request, "imports.dropped")


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(_PIECE):
        yield piece


async def _get(request: ConsoleRequest) -> Any:
    return await request.perform("imports.get", **_named(request))


async def _preview(
    request: ConsoleRequest, mapping: list[str] | None, encoding: str | None
) -> dict[str, Any]:
    given: dict[str, Any] = {} if mapping is None else {"mapping": mapping}
    return dict(await request.perform("imports.preview", **_named(request), **given, encoding=encoding))


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
    return build_mapping(columns, (await _get(request)).record.noun, choices)


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


def _named(request: ConsoleRequest) -> dict[str, str]:
    return {"app_id": request.app_id, "import_id": request.path["import_id"]}


def _address(request: ConsoleRequest, import_id: str = "") -> str:
    if import_id:
        return path_of(IMPORT, app_id=request.app_id, import_id=import_id)
    return path_of(IMPORTS, app_id=request.app_id)


def _below(request: ConsoleRequest, import_id: str = "") -> str:
    return _address(request, import_id or request.path["import_id"]).removeprefix("/console")


def _to_quarantine(request: ConsoleRequest, text: str) -> Response:
    address = path_of(QUARANTINE, app_id=request.app_id).removeprefix("/console")
    return request.redirect(address, request.services.text(text))


PAGES = (
    Page(IMPORTS, show_imports, role="editor"),
    Page(IMPORTS, upload, role="editor", methods=("POST",), most_bytes=MOST_UPLOAD_BYTES, example="-"),
    Page(IMPORT, show_import, role="editor", example="-"),
    Page(IMPORT + "/dry-run", dry_run, role="editor", methods=("POST",), shown_on=IMPORT, example="-"),
    Page(IMPORT + "/column", show_column, role="editor", methods=("POST",), shown_on=IMPORT, example="-"),
    Page(IMPORT + "/start", start, role="editor", methods=("POST",), shown_on=IMPORT, example="-"),
    Page(IMPORT + "/cancel", cancel, role="editor", methods=("POST",), shown_on=IMPORT, example="-"),
    Page(IMPORT + "/remove", remove, role="editor", methods=("POST",), shown_on=IMPORT, example="-"),
    Page(IMPORT + "/refused", download_refused, role="editor", example="-"),
    Page(QUARANTINE, show_quarantine, role="analyst"),
    Page(QUARANTINE + "/entry", show_entry, role="analyst", example="-"),
    Page(
        QUARANTINE + "/replay",
        replay_entry,
        role="editor",
        methods=("POST",),
        shown_on=QUARANTINE,
        example="-",
    ),
    Page(
        QUARANTINE + "/drop", drop_entry, role="editor", methods=("POST",), shown_on=QUARANTINE, example="-"
    ),
)
NAVIGATION = (NavigationEntry("imports.nav", IMPORTS, role="editor", icon="import", also=(QUARANTINE,)),)
