"""What `kiosk ingest` understands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cluster.errors import Invalid
from jobs.ingest.delimited_files import DelimitedFormat
from jobs.ingest.pipeline import IngestOrder

_MOST = 100_000
_ABOUT = """\
Ingest users, products or interactions from files of any size: JSON Lines, CSV, TSV or Parquet, packed or not.

Started again after an interruption it goes on where it was. Rows that are refused are set aside with their reasons
and do not stop it, unless none of the first 1,000 is accepted. Look first: --dry-run writes nothing.

exit codes: 0 every row is in, 1 some rows were refused, 2 wrong use, 3 Kiosk does not run
"""

_RULES = """\
mapping: what a file calls a field (without a mapping every column is the field of its name)
  product_id=sku                           a column under another name
  custom_attributes.weight=grams:number    a field inside, and what the value becomes:
                                           number, integer, text, bool, time, list, numbers, paths
  categories=cat|>                         split: `|` between paths, `>` inside a path
  type:=book                               the same value for every row
  price=Preis:number(,)                    a number with a decimal comma
  timestamp=Date:time(%m/%d/%Y %H:%M)      a time in a form of its own (UTC unless it names an offset)
  user_id=CustomerID:integer               whole numbers that a table wrote as 17850.0
  availability=Stock{ja:IN_STOCK,nein:OUT_OF_STOCK}
                                           one value for another
`kiosk ingest fields user|product|interaction` lists the fields, what each takes and which are required.

examples
  kiosk ingest orders.csv --noun interaction --app bookshop --dry-run --limit 100
  kiosk ingest people.csv --noun user --app bookshop --map user_id=nr --map created_at=since
  kiosk ingest catalog.parquet --noun product --app bookshop --map-file catalog.map
  kiosk ingest s3://bucket/events --noun interaction --app bookshop --at-once 8
"""


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="kiosk ingest",
        allow_abbrev=False,
        description=_ABOUT,
        epilog=_RULES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "address", help="a file, a directory (all files below it), or an s3:// or gs:// URI of either"
    )
    parser.add_argument(
        "--noun", choices=("user", "product", "interaction"), required=True, help="what every row is"
    )
    parser.add_argument("--app", required=True, help="the app's id, for example development")
    parser.add_argument(
        "--map", action="append", default=[], metavar="FIELD=COLUMN", help="a rule; as many as needed"
    )
    parser.add_argument(
        "--map-file", type=Path, metavar="FILE", help="rules, one a line; lines that begin with # are remarks"
    )
    parser.add_argument(
        "--format", choices=("jsonl", "csv", "tsv", "parquet"), help="when the name does not tell"
    )
    _add_format_options(parser)
    parser.add_argument(
        "--chunk",
        type=parse_count,
        metavar="N",
        help="rows written together; 2,000 interactions or 500 records when not said",
    )
    parser.add_argument(
        "--at-once",
        type=parse_count,
        default=1,
        metavar="N",
        help="so many files at once, each as a task on Ray",
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help="where progress and refused rows are kept; `ingest` in the data directory when not said",
    )
    parser.add_argument("--restart", action="store_true", help="forget an earlier run; take every row again")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output at the end")
    return parser.parse_args(words)


def _add_format_options(parser: argparse.ArgumentParser) -> None:
    """Add what says how files are written and how much of them is read."""
    parser.add_argument(
        "--delimiter",
        default="",
        metavar="SIGN",
        help="what parts the cells; found in the header when not said",
    )
    parser.add_argument(
        "--encoding",
        default="",
        metavar="NAME",
        help="of CSV and TSV, for example cp1252; UTF-8 when not said",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="read, map and check the first 1,000 rows, show what they become, and write nothing",
    )
    parser.add_argument("--limit", type=parse_count, default=0, metavar="N", help="read so many rows at most")
    parser.add_argument(
        "--keep-going", action="store_true", help="read on although none of the first 1,000 rows was accepted"
    )


def read_mapping_rules(arguments: argparse.Namespace) -> tuple[str, ...]:
    """List the rules of the mapping, those of the file first.

    Errors:
        Invalid: the file can't be read
    """
    if arguments.map_file is None:
        return tuple(arguments.map)
    try:
        lines = arguments.map_file.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"mapping {arguments.map_file} can't be read: {error}") from error
    rules = [line.strip() for line in lines]
    return (*(rule for rule in rules if rule and not rule.startswith("#")), *arguments.map)


def order_from_arguments(arguments: argparse.Namespace) -> IngestOrder:
    """Make the order of a command line.

    Errors:
        Invalid: the file of rules can't be read, or the layout makes no sense
    """
    return IngestOrder(
        address=arguments.address,
        noun=arguments.noun,
        app_id=arguments.app,
        mapping=read_mapping_rules(arguments),
        format=arguments.format,
        chunk=arguments.chunk or (2_000 if arguments.noun == "interaction" else 500),
        layout=DelimitedFormat(arguments.delimiter.replace("\\t", "\t"), arguments.encoding),
        limit=arguments.limit,
        keep_going=arguments.keep_going,
    )


def parse_count(text: str) -> int:
    """Read a number of rows, files or tasks.

    Errors:
        ArgumentTypeError: it is not between 1 and 100,000
    """
    number = int(text)
    if not 1 <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"{number:,} is not between 1 and {_MOST:,}")
    return number
