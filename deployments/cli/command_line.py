"""The commands of `kiosk`, put together."""

from __future__ import annotations

import logging

import typer

from cluster.log import set_up_logging
from deployments.cli import (
    apps,
    artifacts,
    audit,
    backup,
    clients,
    cluster_commands,
    down,
    engines,
    evaluate,
    experiments,
    export,
    forget,
    keys,
    learners,
    node_commands,
    promote,
    quarantine,
    recommend,
    report,
    rules,
    runs,
    sbom,
    schedules,
    status,
    subprocess_commands,
    support,
    tokens,
    train,
    up,
    upgrade,
    users,
)
from deployments.cli.doctor import doctor


def command_line() -> typer.Typer:
    """Put the commands together."""
    line = typer.Typer(
        name="kiosk",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    line.callback()(_set_up)
    line.command("up", epilog=up.EPILOG)(up.up)
    line.command("down")(down.down)
    line.command("status", epilog=status.EPILOG)(status.status)
    line.command("doctor", epilog=doctor.EPILOG)(doctor.doctor)
    line.add_typer(backup.app, name="backup")
    line.command("restore", epilog=backup.RESTORE_EPILOG)(backup.restore)
    line.command("upgrade", epilog=upgrade.EPILOG)(upgrade.upgrade)
    line.command("sbom", epilog=sbom.EPILOG)(sbom.sbom)
    groups = (
        apps, keys, users, tokens, audit, rules, engines, clients, report, quarantine, runs, schedules, experiments,
        learners, artifacts, support,
    )  # fmt: skip
    for group in groups:
        line.add_typer(group.app, name=group.__name__.rpartition(".")[2])
    line.add_typer(cluster_commands.app, name="cluster")
    line.add_typer(node_commands.app, name="node")
    line.command("train", epilog=train.EPILOG)(train.train)
    line.command("evaluate", epilog=evaluate.EPILOG)(evaluate.evaluate)
    for part in (promote, forget):
        part.register_commands(line)
    line.command("export", epilog=export.EPILOG)(export.export)
    line.command("recommend", epilog=recommend.EPILOG)(recommend.recommend)
    line.add_typer(subprocess_commands.build_ingest_commands(), name="ingest")
    line.add_typer(subprocess_commands.build_models_commands(), name="models")
    line.add_typer(subprocess_commands.build_bench_commands(), name="bench")
    return line


def _set_up() -> None:
    """Personalization, search and question answering on your own machines."""
    set_up_logging(level=logging.WARNING, people=True)
