"""The product's files as the rules of the house see them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "cluster", "deployments", "jobs")


@dataclass(frozen=True)
class Source:
    """One Python file of the product."""

    path: Path

    @property
    def name(self) -> str:
        """The path as people write it: `cluster/store/keys.py`."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """The name it is imported by."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def text(self) -> str:
        """What stands in it."""
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """What stands in it, parsed."""
        return ast.parse(self.text)

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and full dotted name of everything that is imported, wherever the import stands."""
        imports = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                imports += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imports += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
        return imports


@cache
def sources() -> tuple[Source, ...]:
    """All files of the product, sorted; each is read and parsed once."""
    return tuple(Source(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


@cache
def sources_of_tests() -> tuple[Source, ...]:
    """All files of the tests, sorted; each is read and parsed once."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    return tuple(Source(path) for path in paths if "node_modules" not in path.parts)


def folders() -> list[Path]:
    """All folders of the product that hold Python files."""
    return sorted({source.path.parent for source in sources()})


def may_know_ray(name: str) -> bool:
    """Is this one of the files that may import Ray?"""
    return (
        name.rsplit("/", 1)[-1] in {"host.py", "driver.py", "app.py", "gateway.py"}
        or name.startswith(("cluster/runtime/", "cluster/local/", "deployments/cli/"))
        or name in {"deployments/api/hot.py", "deployments/api/http/hot.py"}
    )
