"""Mapping of the columns of a file to the fields of a record.

    product_id=sku                           a column with another name
    custom_attributes.weight=grams:number    a nested field (the column may be a path too) and a target type
    categories=cat|>                         split: `|` between paths or list items, `>` inside a path
    type:=book                               the same value for every record
    price=Preis:number(,)                    a number with a decimal comma
    timestamp=Date:time(%m/%d/%Y %H:%M)      a time in another format, in UTC unless it has an offset
    availability=Stock{ja:IN_STOCK,nein:OUT_OF_STOCK}    values that are replaced; others stay unchanged
    timestamp=Datum:time(day-first)          dates such as 09.12.2010 19:23; also time(month-first)
    price="Preis: EUR":number                a column whose name has signs of rules, in quotes as in JSON
    =Notes                                   leave the column out

Two rules of interactions are not about one field:

    order_id=Invoice                         join the rows of one order (`jobs.ingest.mappings.row_baskets`)
    order_id:=same user and time             the same for files without order numbers
    returns:=refund                          a purchase with a negative quantity is a refund

Every column with the name of a field is that field, unless a rule takes the column or the field, or leaves the column
out. Without any rule, a column with another name is a field as well, which the validation then refuses; a dotted name
is a nested field. The schema determines the conversion of each field, so CSV works as well: `price` is a number,
`tags` is a list, and times may be seconds or milliseconds since 1970. Without a mapping, JSON Lines are not changed,
except numbers in fields of times. A value that can't be converted is not changed, so that the validation reports it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from cluster.errors import Invalid
from jobs.ingest.mappings.mapping_rules import (
    KINDS,
    TIME_FIELDS,
    MappingRule,
    join_names,
    parse_path,
    parse_rule,
    parse_time,
    read_value,
    rule_from_name,
    set_value,
    split_quoted,
    squeeze_name,
    target_kind,
)
from jobs.ingest.mappings.record_fields import read_fields

_FLOAT_ID = re.compile(r"\d+\.0")
_NUMERIC = (int, float)
ORDER_ID = "order_id"
"Target of the rule that joins rows; no field of an interaction."
RETURNS = "returns"
SAME_USER_AND_TIME = "same user and time"
REFUND = "refund"

RowMapper = Callable[[Mapping[str, Any]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class UnusedColumns:
    """Columns of a file that a mapping does not use."""

    fields: tuple[str, ...] = ()
    "Those that have the name of a field."
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldMap:
    """All rules of an ingest; without rules, columns are fields."""

    rules: tuple[MappingRule, ...] = ()
    noun: str = ""
    "Columns with the names of its fields stay; empty: only columns of rules."
    excluded: frozenset[str] = frozenset()
    "Columns that are left out on purpose."
    order_rule: MappingRule | None = None
    "How rows of one order are joined; None: every row is an interaction."
    has_refunds: bool = False
    "A purchase with a negative quantity is a refund."

    @classmethod
    def parse(cls, texts: Sequence[str], noun: str = "") -> FieldMap:
        """Return the rules of texts in the form above; with a noun, fields and types are checked.

        Errors:
            Invalid: a rule is invalid, or names a field or type that does not exist
        """
        rules: list[MappingRule] = []
        excluded: set[str] = set()
        order_rule: MappingRule | None = None
        has_refunds = False
        for text in texts:
            if text.startswith("=") and len(text) > 1:
                quoted, column = split_quoted(text[1:])
                excluded.add(column if quoted is None else quoted)
                continue
            rule = parse_rule(text)
            target = rule.target[0]
            if noun == "interaction" and target == ORDER_ID:
                order_rule = _check_order_rule(rule, text)
            elif noun == "interaction" and target == RETURNS:
                if rule.constant != REFUND:
                    raise Invalid(f"mapping {text!r}: returns are taken with {RETURNS}:={REFUND}")
                has_refunds = True
            else:
                _check_target(rule, noun)
                rules.append(rule)
        return cls(tuple(rules), noun, frozenset(excluded), order_rule, has_refunds)

    @property
    def is_empty(self) -> bool:
        return not (self.rules or self.excluded or self.order_rule or self.has_refunds)

    def with_order_column(self, columns: Collection[str]) -> FieldMap:
        """Return the mapping with the rule `order_id=order_id` if interactions have this column and no other rule."""
        is_new = self.order_rule is None and ORDER_ID not in self.excluded and ORDER_ID in columns
        if self.noun != "interaction" or not is_new:
            return self
        return replace(self, order_rule=MappingRule((ORDER_ID,), ORDER_ID, kind="text"))

    def build_row_mapper(self, format: str) -> RowMapper:
        """Return the function that makes a record from a row of a file format."""
        if not self.is_empty:
            return self._build_rule_mapper()
        if format == "jsonl":
            return _read_times
        by_name: dict[str, MappingRule] = {}
        as_it_is: dict[str, bool] = {}
        "Column -> true if its texts are copied without conversion."

        def read_by_name(row: Mapping[str, Any]) -> dict[str, Any]:
            record: dict[str, Any] = {}
            for name, value in row.items():
                # Most cells of most files are plain texts; this skips the rule and the conversion for them.
                if value.__class__ is str and value and as_it_is.get(name, False):
                    record[name] = value
                    continue
                rule = by_name.get(name)
                if rule is None:
                    rule = by_name[name] = rule_from_name(name)
                    as_it_is[name] = len(rule.target) == 1 and rule.kind in ("", "text")
                set_value(record, rule, value)
            return record

        return read_by_name

    def kept_rule(self, column: str) -> MappingRule | None:
        """Return the rule of a column that stays because it has the name of a field; None for other columns."""
        if not self.noun or column in self.excluded:
            return None
        path = parse_path(column)
        if path[0] not in read_fields(self.noun).names:
            return None
        if any(
            (rule.column == column and rule.constant is None) or rule.target == path
            for rule in self._all_rules
        ):
            return None
        return rule_from_name(column)

    def find_unused(self, columns: Sequence[str]) -> UnusedColumns:
        """Return the columns of a file that are not used and not excluded; none without a mapping."""
        if self.is_empty or not self.noun:
            return UnusedColumns()
        fields = read_fields(self.noun)
        taken = fields.fields_of(self._constant_type())
        sources = {rule.column for rule in self._all_rules if rule.constant is None}
        paths = {column.partition(".")[0] for column in sources if column not in columns}
        unused = [
            column
            for column in columns
            if column not in self.excluded | sources | paths
            and (
                self.kept_rule(column) is None
                or (taken is not None and column.partition(".")[0] not in taken)
            )
        ]
        squeezed = {squeeze_name(name) for name in fields.names}
        loud = [column for column in unused if squeeze_name(column.partition(".")[0]) in squeezed]
        return UnusedColumns(tuple(loud), tuple(column for column in unused if column not in loud))

    def compute_chunk_limits(self, rows: int, size: int) -> tuple[int, int]:
        """Return the rows and bytes of a chunk for which the mapped records have about `size` bytes.

        Rules may copy one column many times, and add the same texts to each record.
        """
        columns = (rule.column.partition(".")[0] for rule in self.rules if rule.constant is None)
        copies = max(Counter(columns).values(), default=1)
        added = sum(max(map(len, (rule.constant or "", *rule.table.values()))) for rule in self.rules)
        # At least 1 of each: a very long text of a rule must not lead to empty chunks.
        return max(1, min(rows, size // max(added, 1))), max(1, size // copies)

    def map_columns(self, table: Any) -> Any | None:
        """Return a table with mapped columns, equal to the mapped rows; None if the mapping depends on values."""
        if self.is_empty:
            return table
        if self.has_refunds or self.order_rule:
            return None
        names = frozenset(table.schema.names)
        columns = dict[str, Any]()
        for rule in self.rules:
            name = rule.target[0]
            plainly = rule.target == (name,) and rule.kind == target_kind(name) and name not in columns
            # Anything that needs a look at each value is left to the rows, whose results are the same but
            # slower.
            plainly = plainly and not rule.option and not rule.table
            if plainly and rule.constant is None and "." not in rule.column and rule.column in names:
                columns[name] = table[rule.column]
            elif plainly and rule.constant and rule.kind in ("", "text"):
                columns[name] = pa.repeat(rule.constant, table.num_rows)
            else:
                return None
        if not self.noun:
            return pa.table(columns)
        fields = read_fields(self.noun)
        allowed = fields.fields_of(self._constant_type())
        for column in table.schema.names:
            if self.kept_rule(column) is None:
                continue
            # Which columns belong to an event depends on its type; with several types in one table, rows
            # must decide.
            if "." in column or (allowed is None and fields.by_type and column not in fields.shared):
                return None
            if allowed is None or column in allowed:
                columns[column] = table[column]
        return pa.table(columns)

    def check_columns(self, names: Sequence[str]) -> None:
        """Check that a file has the columns that the rules name.

        Errors:
            Invalid: a column is missing; the message lists the existing ones
        """
        for rule in self._all_rules:
            column = rule.column
            if rule.constant is None and column not in names and column.partition(".")[0] not in names:
                _, colon, kind = column.rpartition(":")
                hint = f"; kinds after a colon are {', '.join(KINDS)}" if colon and kind.isalpha() else ""
                raise Invalid(f"there is no column {column!r}; there are {join_names(names)}{hint}")
        for column in sorted(self.excluded.difference(names)):
            raise Invalid(f"there is no column {column!r} to leave out; there are {join_names(names)}")

    @property
    def _all_rules(self) -> tuple[MappingRule, ...]:
        return self.rules if self.order_rule is None else (*self.rules, self.order_rule)

    def _constant_type(self) -> str:
        return next((rule.constant for rule in self.rules if rule.target == ("type",) and rule.constant), "")

    def find_float_ids(self, records: Sequence[Mapping[str, Any]]) -> str:
        """Return an id field whose values all end in `.0`, as some tables write whole numbers; empty if
        there is none.
        """
        # Such ids match no other file of the same shop, and nothing else would report it.
        for name in ("user_id", "anonymous_id", "product_id"):
            values = [record[name] for record in records if name in record]
            if values and all(isinstance(value, str) and _FLOAT_ID.fullmatch(value) for value in values):
                return name
        return ""

    def _build_rule_mapper(self) -> RowMapper:
        """Return the function that makes a record with the rules, and with the columns that stay."""
        kept: dict[str, MappingRule | None] = {}
        fields = read_fields(self.noun) if self.noun else None
        shared = fields.shared if fields is not None and fields.by_type else None

        def map_row(row: Mapping[str, Any]) -> dict[str, Any]:
            record: dict[str, Any] = {}
            for name, value in row.items() if fields is not None else ():
                if name not in kept:
                    kept[name] = self.kept_rule(name)
                rule = kept[name]
                if rule is not None:
                    set_value(record, rule, value)
            # Only columns that stay by their name are removed again below; a rule is a wish of the person
            # who wrote it.
            stays = list(record) if shared is not None else []
            for rule in self._all_rules:
                set_value(
                    record, rule, read_value(row, rule.column) if rule.constant is None else rule.constant
                )
            if shared is not None and fields is not None:
                allowed = fields.fields_of(record.get("type"))
                # a column that happens to have a name of a field must not cost an event of another type
                for name in [] if allowed is None else [name for name in stays if name not in allowed]:
                    del record[name]
            return _refund_of(record) if self.has_refunds and is_return(record) else record

        return map_row


def is_return(record: Mapping[str, Any]) -> bool:
    """Return true for a purchase whose quantities are all below 0, as shops write returned products."""
    if record.get("type") != "checkout":
        return False
    quantities = record.get("quantities")
    numbers = quantities if isinstance(quantities, list) else [quantities]
    return bool(numbers) and all(
        isinstance(number, _NUMERIC) and number.__class__ is not bool and number < 0 for number in numbers
    )


def _refund_of(record: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in record.items() if name not in ("quantities", "revenue")}
    return {**rest, "type": "refund"}


def _read_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of JSON Lines as a record: numbers in fields of times are seconds or milliseconds."""
    # A copy only where something changes, so that rows of JSON pass through untouched.
    record: dict[str, Any] = row if row.__class__ is dict else dict(row)
    for name in TIME_FIELDS:
        # By class: for `isinstance`, True is an int, and no time.
        if name in record and record[name].__class__ in _NUMERIC:
            record = {**record, name: parse_time(record[name])}
    return record


def _check_target(rule: MappingRule, noun: str) -> None:
    """Check the field of a rule, and the type that a rule gives to all rows."""
    if not noun:
        return
    fields = read_fields(noun)
    fields.check_field(rule.target[0])
    if rule.target == ("type",) and rule.constant is not None:
        fields.check_type(rule.constant)


def _check_order_rule(rule: MappingRule, text: str) -> MappingRule:
    """Return the rule that joins rows.

    Errors:
        Invalid: it is a constant of another text
    """
    if rule.constant not in (None, SAME_USER_AND_TIME):
        raise Invalid(
            f"mapping {text!r}: rows are joined by a column or with {ORDER_ID}:={SAME_USER_AND_TIME}"
        )
    return replace(rule, kind="text")
