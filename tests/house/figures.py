"""Figures of the product's structure: `python -m tests.house.figures`.

Counted in the files: product files and lines, the fullest folder, modules that spell an experiment's `traffic`,
comments, `# fmt: skip`, tuple assignments, bindings with banned words. Counted during one warm recommendation over
stores in memory: its files, its calls, and the names that it gives to the request and its parts.
"""

from __future__ import annotations

import ast
import asyncio
import io
import sys
import tokenize
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from tests.benchmarks.hot_path import HotPath, count_calls
from tests.house.bindings import old_bindings
from tests.house.tree import PACKAGES, ROOT, Source, sources, sources_of_tests

REQUEST_TYPES = frozenset({"ApiRequest", "UserToProducts", "UserQuery"})
"Classes of a recommendation's request on its way: HTTP, body, message, query of the engine."


def main() -> None:
    """Print one line for each figure."""
    product = sources()
    lines = sum(source.text.count("\n") for source in product)
    rooms = Counter(source.path.parent.relative_to(ROOT).as_posix() for source in product)
    room, files = rooms.most_common(1)[0]
    calls, names = asyncio.run(_trace())
    figures = {
        "product files": f"{len(product):,}",
        "product lines": f"{lines:,}",
        "test lines": f"{sum(source.text.count(chr(10)) for source in sources_of_tests()):,}",
        "files of the fullest folder": f"{files} ({room})",
        "names for a request and its parts": str(len(names)),
        "files and calls of a recommendation": f"{len(calls)}, {calls.total()}",
        "modules that spell `traffic`": str(sum(map(_spells_traffic, product))),
        "comments, percent of lines": f"{100 * sum(map(_count_comments, product)) / lines:.2f}",
        "`# fmt: skip`": str(sum(source.text.count("# fmt: skip") for source in product)),
        "tuple assignments": str(sum(map(_count_tuple_assignments, product))),
        "bindings with banned words, product": f"{sum(map(len, map(old_bindings, product))):,}",
        "bindings with banned words, tests": f"{sum(map(len, map(old_bindings, sources_of_tests()))):,}",
    }
    width = max(map(len, figures))
    for name, figure in figures.items():
        print(f"{name:{width}}  {figure}")


async def _trace() -> tuple[Counter[str], set[str]]:
    async with AsyncExitStack() as stack:
        path = await HotPath.open(Path(stack.enter_context(TemporaryDirectory())), stack)
        calls = await count_calls(path)
        parts: dict[int, object] = {}
        names: set[str] = set()

        def profile(frame: FrameType, event: str, argument: object) -> None:
            if event != "return" or not _is_product(frame.f_code.co_filename):
                return
            for name, value in frame.f_locals.items():
                if type(value).__name__ in REQUEST_TYPES:
                    parts.update((id(part), part) for part in (value, *_parts_of(value)))
                if id(value) in parts:
                    names.add(name)

        sys.setprofile(profile)
        try:
            await path.answer()
        finally:
            sys.setprofile(None)
    return calls, names - {"self"}


def _is_product(file: str) -> bool:
    path = Path(file)
    return path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES


def _parts_of(request: object) -> list[object]:
    """Return the values of a request's fields, but those that other objects share: None, numbers, empty values."""
    slots = [name for kind in type(request).__mro__ for name in getattr(kind, "__slots__", ())]
    names = {*slots, *getattr(request, "__dict__", {})}
    values = [getattr(request, name, None) for name in names if not name.startswith("__")]
    return [
        value for value in values if not isinstance(value, int | float | None) and (value or value is request)
    ]


def _spells_traffic(source: Source) -> bool:
    for node in ast.walk(source.tree):
        match node:
            case ast.arg(arg="traffic") | ast.keyword(arg="traffic") | ast.Name(id="traffic"):
                return True
            case ast.Attribute(attr="traffic") | ast.Constant(value="traffic"):
                return True
    return False


def _count_comments(source: Source) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return sum(token.type == tokenize.COMMENT and not token.string.startswith("# fmt:") for token in tokens)


def _count_tuple_assignments(source: Source) -> int:
    return sum(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and any(isinstance(target, ast.Tuple) for target in node.targets)
        for node in ast.walk(source.tree)
    )


if __name__ == "__main__":
    main()
