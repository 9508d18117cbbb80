"""A new operation needs its function and the name of its command: HTTP, role, audit log and reference follow."""

from __future__ import annotations

from pathlib import Path

from tests.house.scratch_tree import copy_with_lines, run_program

OPERATION = '''@dataclass(frozen=True, slots=True)
class PausedRules:
    """How many rules were switched off."""

    app_id: str
    count: int

    def to_dict(self) -> dict[str, Any]:
        """Return the number as JSON."""
        return {"app_id": self.app_id, "paused": self.count}

    def to_lines(self) -> ResultLines:
        """Return the number."""
        return (f"{self.count} rules of {self.app_id} are off.",)


@operation("rules.pause", "POST", _RULES + "/pause", "editor")
async def pause_rules(services: AdminServices, given: OfApp) -> PausedRules:
    """Switch off all rules of an app.

    Errors:
        NotFound: no such app
    """
    await require_app(services.stores, given.app_id)
    rules = await services.stores.boost_rules.all(given.app_id)
    paused = [rule.model_copy(update={"enabled": False}) for rule in rules]
    await store_rules(services, given.app_id, paused, "put")
    return PausedRules(given.app_id, len(paused))


'''
COMMAND = '    OperationCommand("pause", "rules.pause"),\n'
ADDED = {
    "deployments/operations/content/rules.py": {'@operation("rules.list", "GET", _RULES)\n': OPERATION},
    "deployments/cli/content/rules.py": {'    OperationCommand("list", "rules.list", options=': COMMAND},
}
PROBE = """
import asyncio, json, tempfile
from pathlib import Path

from typer.testing import CliRunner

from cluster.errors import Forbidden
from deployments.admin.openapi import describe_administration
from deployments.cli.framework import operation_commands
from deployments.cli.command_line import command_line
from deployments.operations.all_operations import OPERATIONS
from docs.generate.commands import build_page
from tests.fakes.admin_shop import open_admin_shop
from tests.fakes.corner_shop import APP


async def probe(folder):
    shown = {}
    async with open_admin_shop(folder) as shop:
        await shop.perform("rules.put", rules=[{"name": "knives first", "boost_fq": "brand:Birk"}])
        loop = asyncio.get_running_loop()

        class ShopInstallation:
            def perform(self, name, operations, /, **arguments):
                work = shop.perform(name, **{**arguments, "app_id": APP})
                return asyncio.run_coroutine_threadsafe(work, loop).result()

        operation_commands.Installation = ShopInstallation
        run = CliRunner().invoke
        text = await asyncio.to_thread(run, command_line("rules"), ["rules", "pause", APP])
        shown["command"] = text.stdout.strip()
        answer = await asyncio.to_thread(run, command_line("rules"), ["rules", "pause", APP, "--json"])
        shown["json"] = json.loads(answer.stdout)["paused"]
        rules = (await shop.perform("rules.list")).to_dict()["rules"]
        shown["enabled"] = [rule["enabled"] for rule in rules]
        shown["audit"] = sum(row.operation == "rules.pause" for row in shop.audit.rows)
        try:
            await shop.perform("rules.pause", role="viewer")
        except Forbidden:
            shown["viewer"] = "refused"
    paths = describe_administration(OPERATIONS.values())["paths"]
    shown["http"] = [path["post"]["summary"] for name, path in paths.items() if name.endswith("/rules/pause")]
    shown["reference"] = "Switch off all rules of an app." in build_page()
    return shown


with tempfile.TemporaryDirectory() as folder:
    print(json.dumps(asyncio.run(probe(Path(folder)))))
"""


def test_a_pause_of_rules_needs_a_function_and_the_name_of_its_command(
    tmp_path: Path, allow_world: None
) -> None:
    copy_with_lines(tmp_path, ADDED)
    assert run_program(tmp_path, PROBE) == {
        "command": "1 rules of shop are off.",
        "json": 1,
        "enabled": [False],
        "audit": 2,
        "viewer": "refused",
        "http": ["Switch off all rules of an app."],
        "reference": True,
    }
