"""Parse JSON with limits: all bodies pass this module, so that no document can harm later code.

`Malformed` (400) covers what a JSON parser may refuse under RFC 8259: syntax, encoding, range of numbers,
depth of nesting, repeated names, size. Other modules validate the content of the JSON.

    refused                                    by
    no JSON, NaN, 1e999, BOM, bad UTF-8,       the parser itself (linear, no recursion of ours)
    lone surrogates, more than 1,024 levels
    more than 100,000 containers, or one of    counted on the bytes, before anything is built
    24 bytes up to 200,000
    more than 1,000,000 commas                 likewise
    more than 64 levels, an object of more     counted on the parsed tree, level by level
    than 2,000 names
    a name twice in one object (on request)    names in the bytes against names in the tree

Integers beyond 64 bits are read as the nearest double, as in every browser. Integers beyond the range of
doubles (some 310 digits) are refused with the parser's other range errors.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import orjson

from cluster.errors import Malformed, messages

MAX_DEPTH = 64
"Levels of nesting; the outermost container is the first."
MAX_CONTAINERS = 100_000
"Objects and arrays in a body of up to 2.4 MB."
MAX_CONTAINERS_OF_LARGE_BODY = 200_000
"Objects and arrays in a larger body: 10,000 interactions with a rich context, 13 each, and room."
# Interactions with a rich context have 53 bytes for each container, empty brackets 3. So a larger bound is for
# bodies whose other bytes cost as much: at 4.8 MB the worst body takes 1.2 times as long as plain interactions.
BYTES_OF_CONTAINER = 24
"A body of more than 2.4 MB may have one object or array for so many bytes."
MAX_NAMES = 2_000
"Names in one object."
MAX_COMMAS = 1_000_000
"Separators in one body: a bound on how many values it holds."

_SPACED_COLONS = (b" :", b"\n:", b"\t:", b"\r:")


def load_json(body: bytes, *, refuse_duplicates: bool) -> Any:
    """Parse a body, or refuse it.

    Errors:
        Malformed: with a message that names the limit, and `detail` for endpoints that answer in that shape
    Cost:
        linear; 0.2 ms for 100 user records (23 kB), at most 40 ms for any hostile body of 1 MB
    Source:
        RFC 8259, sections 4 (names), 6 (numbers) and 9 (limits)
    """
    # A container has at least one byte, so shorter bodies need no count.
    if len(body) > MAX_CONTAINERS:
        _refuse_large_documents(body)
    try:
        tree = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # the parser's message; it contains a position and nothing of the body
        where = f"{error.msg}: line {error.lineno} column {error.colno}"
        raise malformed_error(f"the body is not valid JSON: {where}", messages.MALFORMED) from None
    if refuse_duplicates:
        names = _names_within_depth(tree)
        # A quick look that is exact for nearly all bodies: `":"` may stand in a text, or a blank before a
        # colon.
        if names != body.count(b'":') or any(mark in body for mark in _SPACED_COLONS):
            _refuse_duplicates(body, names)
    # A shorter body with fewer brackets can pass neither bound.
    elif len(body) > MAX_NAMES or body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _names_within_depth(tree)
    return tree


def check_tree(tree: Any) -> None:
    """Check a tree that another parser produced against the limits of depth and of names.

    Errors:
        Malformed: names the limit
    """
    _names_within_depth(tree)


def malformed_error(reason: str, message: str = "") -> Malformed:
    """Make the error for a body that is refused before its meaning is looked at."""
    detail = [{"loc": ["body"], "msg": reason, "type": "value_error.jsondecode"}]
    return Malformed(message or f"{messages.MALFORMED} The body was refused: {reason}.", detail=detail)


def _container_limit(body_bytes: int) -> int:
    """Return how many objects and arrays a body of a size may have."""
    return min(MAX_CONTAINERS_OF_LARGE_BODY, max(MAX_CONTAINERS, body_bytes // BYTES_OF_CONTAINER))


def _refuse_large_documents(body: bytes) -> None:
    """Refuse bodies with very many values; brackets and commas within texts do not count."""
    # Fast counts first, too high by the signs within texts; exact ones only for bodies beyond a bound.
    containers = body.count(b"{") + body.count(b"[")
    commas = body.count(b",") if len(body) > MAX_COMMAS else 0
    limit = _container_limit(len(body))
    if containers <= limit and commas <= MAX_COMMAS:
        return
    if _count_outside_strings(body, b"{[") > limit:
        raise malformed_error(f"more than {limit} objects and arrays")
    if _count_outside_strings(body, b",") > MAX_COMMAS:
        raise malformed_error(f"more than {MAX_COMMAS} values")


def _names_within_depth(tree: Any) -> int:
    """Count the names in all objects of a parsed tree and refuse it when it is too deep or too wide."""
    names = 0
    level = [tree] if type(tree) is dict or type(tree) is list else []
    # Level by level and without recursion: a hostile body must not use up the stack.
    for _ in range(MAX_DEPTH):
        if not level:
            return names
        objects = [item for item in level if type(item) is dict]
        arrays = level if not objects else [item for item in level if type(item) is list]
        widths = list(map(len, objects))
        names += sum(widths)
        if max(widths, default=0) > MAX_NAMES:
            raise malformed_error(f"an object of more than {MAX_NAMES} names")
        values = chain(chain.from_iterable(map(dict.values, objects)), chain.from_iterable(arrays))
        level = [value for value in values if type(value) is dict or type(value) is list]
    if level:
        raise malformed_error(f"nested deeper than {MAX_DEPTH} levels")
    return names


def _refuse_duplicates(body: bytes, names: int) -> None:
    """Decide exactly: outside strings, a colon can only follow a name."""
    if _count_outside_strings(body, b":") != names:
        raise malformed_error("a name is repeated within one object")


def _count_outside_strings(body: bytes, counted: bytes) -> int:
    """Count how often any of some bytes occurs outside JSON strings.

    Without escapes every quote opens or closes a string. So the parity of the number of quotes before a byte
    decides whether it is inside one. Sums modulo 256 keep the parity, so the arrays need one byte for each
    element.
    """
    if b"\\" in body:
        # Escaped backslashes first, or the quote behind `\\` would be taken for an escaped one.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    text = np.frombuffer(body, dtype=np.uint8)
    # An even number of quotes before a byte: it is outside of texts.
    outside = np.cumsum(text == ord('"'), dtype=np.uint8) & 1 == 0
    return sum(int(np.count_nonzero((text == byte) & outside)) for byte in counted)
