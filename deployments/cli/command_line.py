"""The commands of `kiosk`, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Annotated

import typer

from cluster.build_info import build_digest, installed_version
from cluster.log import set_up_logging


def command_line(word: str = "") -> typer.Typer:
    """Put the commands together; with the first word of a command, only that command.

    Cost:
        0.5 to 0.9 s to import one command, 1.1 s for all
    """
    line = typer.Typer(
        name="kiosk",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    line.callback()(_set_up)
    for part in [part for part in _PARTS if word in part.words] or _PARTS:
        part.add(line, *(import_module(f"deployments.cli.{name}") for name in part.modules))
    return line


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"kiosk {installed_version()} (build {build_digest()})")
        raise typer.Exit


def _set_up(
    _: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version and the build, and exit.",
        ),
    ] = False,
) -> None:
    """Personalization, search and question answering on your own machines."""
    set_up_logging(level=logging.WARNING, people=True)


@dataclass(frozen=True, slots=True)
class _Part:
    """Commands that are imported together."""

    words: tuple[str, ...]
    modules: tuple[str, ...]
    add: Callable[..., None]


def _command(word: str, room: str, module: str = "") -> _Part:
    """A command whose function has its name, in the module of its name."""

    def add(line: typer.Typer, commands: ModuleType) -> None:
        line.command(word, epilog=getattr(commands, "EPILOG", None))(getattr(commands, word))

    return _Part((word,), (f"{room}.{module or word}",), add)


def _group(word: str, *modules: str) -> _Part:
    """A group of commands; further modules add commands to it."""

    def add(line: typer.Typer, commands: ModuleType, *_: ModuleType) -> None:
        line.add_typer(commands.app, name=word)

    return _Part((word,), modules, add)


def _registered(module: str, *words: str) -> _Part:
    """Commands that their module registers."""

    def add(line: typer.Typer, commands: ModuleType) -> None:
        commands.register_commands(line)

    return _Part(words, (module,), add)


def _subprocess(word: str) -> _Part:
    def add(line: typer.Typer, commands: ModuleType) -> None:
        line.add_typer(getattr(commands, f"build_{word}_commands")(), name=word)

    return _Part((word,), ("subprocess_commands",), add)


def _add_restore(line: typer.Typer, backup: ModuleType) -> None:
    line.command("restore", epilog=backup.RESTORE_EPILOG)(backup.restore)


_PARTS = (
    *(_command(word, "installation") for word in ("up", "down", "status", "logs")),
    _command("doctor", "doctor"),
    _group("backup", "installation.backup"),
    _Part(("restore",), ("installation.backup",), _add_restore),
    *(_command(word, "installation") for word in ("upgrade", "sbom")),
    *(_group(word, f"access.{word}") for word in ("apps", "keys", "users", "tokens")),
    _group("audit", "insight.audit"),
    *(_group(word, f"content.{word}") for word in ("rules", "products", "feeds")),
    _group("master-key", "installation.master_key"),
    _group("engines", "training.engines", "training.promote"),
    _group("clients", "access.clients"),
    _group("archive", "access.archive"),
    _group("report", "insight.report"),
    _group("quarantine", "content.quarantine"),
    *(_group(word, f"training.{word}") for word in ("runs", "schedules", "trials")),
    _group("experiments", "insight.experiments"),
    _group("learners", "training.learners"),
    *(_group(word, f"installation.{word}") for word in ("artifacts", "support")),
    _group("cluster", "installation.cluster_commands"),
    _group("node", "installation.node_env"),
    *(_command(word, "training") for word in ("train", "evaluate")),
    _registered("training.promote", "promote", "rollback"),
    _registered("content.personal_data", "forget", "export-user"),
    *(_command(word, "content") for word in ("export", "recommend")),
    _command("replay", "insight"),
    *(_subprocess(word) for word in ("ingest", "models")),
    _registered("subprocess_commands", "bench"),
)
