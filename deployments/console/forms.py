"""Reads posted forms: bounded in bytes, fields and time, with an uploaded file on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from cluster.errors import Invalid, TooLarge
from deployments.console.page import ConsolePage
from deployments.edge.http.body_pace import FILE, FORM, SMALL_BODY, BodyPace
from deployments.edge.http.request import DeadlineExceeded
from deployments.edge.http.request_log import ClientDisconnected

CHARSETS = (b"utf-8", b"utf8")
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True, slots=True)
class FormBounds:
    """How large and how slow a form may be; without the file, its fields take at most `fields * field_bytes`."""

    pace: BodyPace
    most_bytes: int
    fields: int = 500
    field_bytes: int = 1 << 20


def find_bounds(page: ConsolePage) -> FormBounds:
    """Return the bounds of the form that a page takes."""
    if page.is_public:
        return FormBounds(SMALL_BODY, 20_000)
    if page.takes_file:
        return FormBounds(FILE, page.most_bytes, 20, 64 << 10)
    return FormBounds(FORM, page.most_bytes)


async def read_form(request: Request, bounds: FormBounds) -> FormData:
    """Return the fields and the file of a form.

    Errors:
        TooLarge: more bytes than allowed
        Invalid: not a form, too many fields, or too slow
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind.decode("latin-1").strip().lower() not in FORMS:
        raise Invalid("the request holds no form")
    # Some codecs of Python take time that grows with the square of a text; browsers name UTF-8 or nothing.
    if options.get(b"charset", b"utf-8").strip().lower() not in CHARSETS:
        raise Invalid("the form is not in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Invalid("the form is compressed")
    # In a multipart form, `&` separates nothing: it is only a character of a value or of the file.
    most_fields = None if kind.lower().startswith(b"multipart/") else bounds.fields
    receive = _bounded(bounds.pace.bound(request.receive), bounds.most_bytes, most_fields)
    bounded = Request(request.scope, receive)
    try:
        return await bounded.form(max_files=1, max_fields=bounds.fields, max_part_size=bounds.field_bytes)
    except DeadlineExceeded:
        raise Invalid("the form did not arrive in time") from None
    except HTTPException as error:
        raise Invalid(f"the form can't be read: {error.detail}") from None
    except (ValueError, KeyError, UnicodeError):
        raise Invalid("the form can't be read") from None


def split_form(data: FormData) -> tuple[dict[str, str], dict[str, list[str]], dict[str, UploadFile]]:
    """Return fields, all values of each field, and files."""
    fields: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    files: dict[str, UploadFile] = {}
    for name, value in data.multi_items():
        if isinstance(value, UploadFile):
            files[name] = value
        else:
            fields[name] = value
            lists.setdefault(name, []).append(value)
    return fields, lists, files


def _bounded(receive: Any, most_bytes: int, most_fields: int | None) -> Any:
    """Return a `receive` that refuses too many bytes, and too many signs between the fields of a form.

    The parser takes a microsecond for each of them, also between empty fields, which it does not count.
    """
    taken = fields = 0

    async def receive_bounded() -> Any:
        nonlocal taken, fields
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        taken += len(message.get("body", b""))
        if taken > most_bytes:
            raise TooLarge(f"the form is larger than {most_bytes:,} bytes")
        if most_fields is not None:
            fields += message.get("body", b"").count(b"&")
            if fields > most_fields:
                raise Invalid(f"the form has more than {most_fields} fields")
        return message

    return receive_bounded
