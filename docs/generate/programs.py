"""Commands that pass their words on to another program: their options, read from the program's own parser.

A program is started up to the point where it would read its command line; its parser is kept and nothing runs.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Iterator
from unittest import mock

from docs.generate.markdown import write_code, write_table

PROGRAMS = {
    "kiosk ingest": "jobs.ingest",
    "kiosk ingest archive": "jobs.archive",
    "kiosk models": "jobs.models",
    "kiosk bench": "tests.benchmarks",
}


class _ParserReached(BaseException):
    """Ends a program at its command line."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def load_parsers(command: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """List the parsers behind a command, those of words below it too."""
    for name, module in PROGRAMS.items():
        if name == command or name.startswith(f"{command} "):
            yield from _with_words(name, _load_parser(module))


def write_section(name: str, parser: argparse.ArgumentParser) -> str:
    """Write the section of a program: what it does, its arguments, options and examples."""
    arguments, options = [], []
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        if action.option_strings:
            names = ", ".join(f"`{option}`" for option in action.option_strings)
            shown = "" if action.nargs == 0 else f" `{_metavar(action)}`"
            options.append((names + shown, _describe_default(action), _describe(action)))
        else:
            arguments.append((f"`{_metavar(action)}`", _describe(action)))
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *(row[0].strip("`") for row in arguments)])
    about, _, more = (parser.description or "").strip().partition("\n\n")
    parts = [f"## {name}", about, write_code(more) if more else "", write_code(usage)]
    parts.append(write_table(("Argument", "Meaning"), arguments))
    parts.append(write_table(("Option", "Default", "Meaning"), options))
    if parser.epilog:
        parts.append(write_code(parser.epilog.strip()))
    return "\n\n".join(part for part in parts if part)


def _load_parser(module: str) -> argparse.ArgumentParser:
    def stop(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise _ParserReached(parser)

    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", stop),
        mock.patch.object(sys, "argv", [module]),
    ):
        try:
            runpy.run_module(module, run_name="__main__")
        except _ParserReached as found:
            return found.parser
    raise LookupError(f"{module} reads no command line")


def _with_words(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name, parser
    for action in below:
        for word, part in action.choices.items():
            yield from _with_words(f"{name} {word}", part)


def _metavar(action: argparse.Action) -> str:
    if action.choices:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _describe(action: argparse.Action) -> str:
    text = (action.help or "").replace("%%", "%")
    text = f"{text[:1].upper()}{text[1:]}"
    return text + ("" if not text or text.endswith(".") else ".")


def _describe_default(action: argparse.Action) -> str:
    if action.option_strings and action.required:
        return "required"
    if action.nargs == 0 or action.default in (None, "", 0, [], argparse.SUPPRESS):
        return ""
    return f"`{action.default}`"
