"""Structured fields of HTTP: dictionaries of items and inner lists, with parameters, read and written.

Only what signatures need: strings, integers, tokens, byte sequences and booleans.

Source: RFC 8941 sections 3 and 4
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass

MOST_MEMBERS = 32
"Members of a dictionary or of an inner list, and parameters of each."

_KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
_STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
# At most 15 digits (RFC 8941, 3.3.1), and no decimal.
_INTEGER = re.compile(r"-?[0-9]{1,15}(?![0-9.])")
_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9:/!#$%&'*+.^_`|~-]*")
_BYTES = re.compile(r":([A-Za-z0-9+/=]*):")
_BOOLEAN = re.compile(r"\?([01])")
_BLANKS = re.compile(r"[ \t]*")


class Token(str):
    """A word without quotation marks."""

    __slots__ = ()


BareItem = str | int | bool | bytes
Parameters = Mapping[str, BareItem]


@dataclass(frozen=True, slots=True)
class Item:
    """A value with parameters."""

    value: BareItem
    parameters: Parameters

    def serialize(self) -> str:
        """Return the item as the field has it."""
        return _serialize_bare(self.value) + _serialize_parameters(self.parameters)


@dataclass(frozen=True, slots=True)
class InnerList:
    """Items in parentheses, with parameters of the list."""

    items: tuple[Item, ...]
    parameters: Parameters

    def serialize(self) -> str:
        """Return the list as the field has it."""
        items = " ".join(item.serialize() for item in self.items)
        return f"({items}){_serialize_parameters(self.parameters)}"


def parse_dictionary(text: str) -> dict[str, Item | InnerList]:
    """Return the members of a dictionary.

    Errors:
        ValueError: the text is no dictionary, or has too many members
    """
    scanner = _Scanner(text.strip(" \t"))
    members: dict[str, Item | InnerList] = {}
    while not scanner.is_at_end:
        key = scanner.take(_KEY)[0]
        if scanner.skip("="):
            members[key] = scanner.read_member()
        else:
            members[key] = Item(True, scanner.read_parameters())
        if len(members) > MOST_MEMBERS:
            raise ValueError("too many members")
        scanner.take(_BLANKS)
        if scanner.is_at_end:
            break
        if not scanner.skip(","):
            raise ValueError("a comma is missing")
        scanner.take(_BLANKS)
        # RFC 8941, 4.2.2: a comma at the end is a fault.
        if scanner.is_at_end:
            raise ValueError("a member is missing")
    return members


def parse_item(text: str) -> Item:
    """Return the only item of a field.

    Errors:
        ValueError: the text is no item
    """
    scanner = _Scanner(text.strip(" "))
    item = scanner.read_item()
    if not scanner.is_at_end:
        raise ValueError("something follows the item")
    return item


class _Scanner:
    """Reads a text from the left."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._text)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError("the field has a wrong form")
        self._at = match.end()
        return match

    def skip(self, mark: str) -> bool:
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def read_member(self) -> Item | InnerList:
        if not self.skip("("):
            return self.read_item()
        items: list[Item] = []
        while True:
            self.take(_BLANKS)
            if self.skip(")"):
                return InnerList(tuple(items), self.read_parameters())
            # RFC 8941, 4.2.1.2: items of an inner list need a space between them.
            if items and self._text[self._at - 1] not in " \t":
                raise ValueError("a blank is missing")
            items.append(self.read_item())
            if len(items) > MOST_MEMBERS:
                raise ValueError("too many items")

    def read_item(self) -> Item:
        return Item(self._read_bare(), self.read_parameters())

    def read_parameters(self) -> Parameters:
        parameters: dict[str, BareItem] = {}
        while self.skip(";"):
            self.take(_BLANKS)
            key = self.take(_KEY)[0]
            # Only the last of several parameters with the same name counts (RFC 8941, 3.1.2).
            parameters.pop(key, None)
            parameters[key] = self._read_bare() if self.skip("=") else True
            if len(parameters) > MOST_MEMBERS:
                raise ValueError("too many parameters")
        return parameters

    def _read_bare(self) -> BareItem:
        first = self._text[self._at : self._at + 1]
        if first == '"':
            return re.sub(r"\\(.)", r"\1", self.take(_STRING)[1])
        if first == ":":
            try:
                return base64.b64decode(self.take(_BYTES)[1], validate=True)
            except binascii.Error as error:
                raise ValueError("a byte sequence is no base64") from error
        if first == "?":
            return self.take(_BOOLEAN)[1] == "1"
        if first == "-" or first.isdecimal():
            return int(self.take(_INTEGER)[0])
        return Token(self.take(_TOKEN)[0])


def _serialize_parameters(parameters: Parameters) -> str:
    return "".join(
        # A parameter that is true is written without its value.
        f";{key}" if value is True else f";{key}={_serialize_bare(value)}"
        for key, value in parameters.items()
    )


def _serialize_bare(value: BareItem) -> str:
    # A bool is an int in Python, so it goes first.
    if isinstance(value, bool):
        return "?1" if value else "?0"
    if isinstance(value, bytes):
        return f":{base64.b64encode(value).decode()}:"
    if isinstance(value, int | Token):
        return str(value)
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
