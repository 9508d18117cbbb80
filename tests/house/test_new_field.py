"""A new field of an experiment needs one file: HTTP, commands, console, audit log and reference follow the model."""

from __future__ import annotations

from pathlib import Path

from tests.house.scratch_tree import copy_with_lines, run_program

RECORD = "cluster/records/experiment.py"
FIELDS = {
    "    reports_exposure: bool = False\n": '    note: str = ""\n',
    "    reports_exposure: bool | None = Field(\n": (
        '    note: str | None = Field(None, title="Note", description="Why the experiment is made.")\n'
    ),
}
"Line of the record -> the line that a programmer adds above it."
PROBE = """
import asyncio, json, sys, tempfile
from pathlib import Path

from typer.testing import CliRunner

from deployments.admin.openapi import describe_administration
from deployments.cli.framework import operation_commands
from deployments.cli.command_line import command_line
from deployments.operations.all_operations import OPERATIONS
from docs.generate.commands import build_page
from tests.fakes.admin_shop import open_admin_shop
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.fakes.corner_shop import APP

VARIANTS = [{"name": "now"}, {"name": "blue"}]


async def probe(folder):
    shown = {}
    async with open_admin_shop(folder) as shop:
        draft = {"name": "Blue", "note": "first", "variants": VARIANTS}
        await shop.perform("experiments.create", experiments=[draft])
        shown["draft"] = (await shop.perform("experiments.get", experiment="blue")).to_dict()["note"]
        loop = asyncio.get_running_loop()

        class ShopInstallation:
            def perform(self, name, operations, /, **arguments):
                work = shop.perform(name, **{**arguments, "app_id": APP})
                return asyncio.run_coroutine_threadsafe(work, loop).result()

        operation_commands.Installation = ShopInstallation
        words = ["experiments", "edit", APP, "blue", "--note", "second", "--json"]
        result = await asyncio.to_thread(CliRunner().invoke, command_line("experiments"), words)
        shown["command"] = json.loads(result.stdout)["note"]
        await shop.services.stores.accounts.add(an_account("ada").model_copy(update={"roles": {APP: "owner"}}))
        services = open_console_services(
            shop.corner.stores, shop.corner.clock, services=shop.services, audit=shop.audit
        )
        visitor = Visitor(console_app(services))
        await visitor.sign_in("ada")
        page = await visitor.get(f"/apps/{APP}/experiments/blue")
        shown["label"] = ">Note <" in page.text
        shown["placeholder"] = 'placeholder="second"' in page.text
        await visitor.post(f"/apps/{APP}/experiments/blue", step="edit", note="third")
        row = [row for row in shop.audit.rows if row.operation == "experiments.edit"][-1]
        shown["audit"] = [row.arguments["note"], row.before["note"], row.after["note"]]
    body = describe_administration(OPERATIONS.values())["schemas"]["ExperimentsEdit"]
    shown["http"] = body["properties"]["note"]["description"]
    shown["reference"] = "| `--note` `TEXT` |  | Why the experiment is made. |" in build_page()
    return shown


with tempfile.TemporaryDirectory() as folder:
    print(json.dumps(asyncio.run(probe(Path(folder)))))
"""


def test_a_note_of_experiments_needs_two_lines_of_one_file(tmp_path: Path, allow_world: None) -> None:
    copy_with_lines(tmp_path, {RECORD: FIELDS})
    assert run_program(tmp_path, PROBE) == {
        "draft": "first",
        "command": "second",
        "label": True,
        "placeholder": True,
        "audit": ["third", "second", "third"],
        "http": "Why the experiment is made.",
        "reference": True,
    }
