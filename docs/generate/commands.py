"""Commands: every command of `kiosk` with its arguments, options and examples."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from deployments.cli.command_line import command_line
from docs.generate.markdown import write_code, write_page, write_table
from tests.benchmarks.command_line import build_bench_app

_INTRO = """
Every command has `--help`. Most commands have `--json`: they then write one JSON object to standard output, and
everything that is meant for people to standard error. `KIOSK_DATA_DIR` says which installation a command is for.

| Exit code | Meaning |
| --- | --- |
| 0 | The command did all of its work. |
| 1 | The command did a part of its work, failed, or a gate refused the result. |
| 2 | The command was used wrongly: an unknown name, option or setting. |
| 3 | Kiosk does not run, or a part of it is away. |
| 130 | The command was interrupted. |
"""
_MARKUP = re.compile(r"\[(?:bold|dim|italic|/(?:bold|dim|italic)?)\]")
_KINDS = {"str": "TEXT", "int": "N", "float": "NUMBER", "Path": "PATH"}


def build_page() -> str:
    """Write the page of all commands."""
    rows, sections = [], []
    for name, command in walk_commands():
        rows.append((_link(name), _first_sentence(command.help)))
        sections.append(_write_section(name, command))
    overview = write_table(("Command", "Purpose"), rows)
    return write_page("Commands", _INTRO, [f"## All commands\n\n{overview}", *sections])


def _link(name: str) -> str:
    return f"[`{name}`](#{name.replace(' ', '-')})"


def walk_commands() -> Iterator[tuple[str, Any]]:
    """List every command that does something, by its full name (`kiosk keys rotate`), in alphabetical order."""
    measuring = typer.main.get_command(build_bench_app(lambda *_: 0))
    commands = dict(_walk("kiosk", typer.main.get_command(command_line())))
    yield from sorted((commands | dict(_walk("kiosk bench", measuring))).items())


def option_names(command: Any) -> list[str]:
    """List the options of a command as a user types them, `--help` left out."""
    return [
        name
        for part in command.params
        if not part.hidden
        for name in (*part.opts, *part.secondary_opts)
        if name.startswith("-")
    ]


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        if not command.hidden:
            yield name, command
        return
    for word, part in below.items():
        yield from _walk(name if word.isupper() else f"{name} {word}", part)


def _write_section(name: str, command: Any) -> str:
    arguments = [part for part in command.params if part.param_type_name == "argument"]
    options = [part for part in command.params if part.param_type_name == "option" and not part.hidden]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *(_usage_of(part) for part in arguments)])
    parts = [f"## {name}", _plain(command.help), write_code(usage)]
    parts.append(
        write_table(
            ("Argument", "Meaning"), ([f"`{_metavar(part)}`", _plain(part.help)] for part in arguments)
        )
    )
    parts.append(write_table(("Option", "Default", "Meaning"), map(_option_row, options)))
    if command.epilog:
        parts.append(_write_epilog(command.epilog))
    return "\n\n".join(part for part in parts if part)


def _usage_of(part: Any) -> str:
    text = _metavar(part) + ("..." if part.nargs == -1 else "")
    return text if part.required else f"[{text}]"


def _option_row(part: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*part.opts, *part.secondary_opts))
    if not part.is_flag:
        names += f" `{_metavar(part)}`"
    if part.required:
        default = "required"
    elif part.is_flag or part.default in (None, "", []) or callable(part.default):
        default = ""
    else:
        default = f"`{part.default}`"
    return names, default, _plain(part.help) + (" May be repeated." if part.multiple else "")


def _metavar(part: Any) -> str:
    if part.metavar:
        return str(part.metavar)
    if part.param_type_name == "argument":
        return str(part.name).upper()
    kind = str(getattr(part.type_descriptor.annotation, "__name__", part.type_descriptor.annotation))
    return _KINDS.get(kind, str(part.name).upper())


def _write_epilog(epilog: str) -> str:
    """Write the text below the help of a command: a heading and lines of examples."""
    heading, _, rest = inspect.cleandoc(epilog).partition("\n")
    return f"**{_plain(heading)}**\n\n{write_code(_MARKUP.sub('', inspect.cleandoc(rest)))}"


def _first_sentence(text: str | None) -> str:
    return re.split(r"(?<=\.)\s", _plain(text))[0].strip()


def _plain(text: str | None) -> str:
    """Remove the markup of the terminal."""
    return _MARKUP.sub("", inspect.cleandoc(text or ""))
