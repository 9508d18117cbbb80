"""Names, sizes, docstrings and state: what a machine checks well about the form of our files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.house.tree import folders, sources

FORBIDDEN = {
    "utils", "util", "helpers", "helper", "common", "misc", "core", "base", "lib", "manager", "service",
    "processor", "handler",
}  # fmt: skip
LONGEST_FILE = 500
LONGEST_FUNCTION = 60
EXEMPT_FILES = {"cluster/store/keys.py"}
"One function each key: its length is the number of keys."
LONGEST_HOST = 120
COMPOSITION_ROOTS = frozenset({"__serve_build_asgi_app__", "open_archive"})
"Functions that only open and connect parts, one assignment a line."
BANNER = re.compile(r"\s*#.*([-=#*~_─])\1{3}")
"A comment with a rule, as `# ---- reading ----`."
MUTABLE_CALLS = {"list", "dict", "set", "defaultdict", "deque", "Counter", "OrderedDict", "Lock", "Queue"}
MUTATIONS = {
    "append", "extend", "insert", "remove", "add", "discard", "update", "setdefault", "pop", "popitem",
    "clear", "sort", "reverse", "appendleft", "popleft",
}  # fmt: skip


def test_no_file_or_folder_has_an_empty_name() -> None:
    named = [*(source.path.with_suffix("") for source in sources()), *folders()]
    assert [str(path) for path in named if path.name in FORBIDDEN] == []
    types = [source.name for source in sources() if source.path.name == "types.py"]
    assert set(types) <= {"actors/vectors/types.py"}


def test_no_file_is_longer_than_one_subject() -> None:
    long = {source.name: len(source.text.splitlines()) for source in sources()}
    assert {n: lines for n, lines in long.items() if lines > LONGEST_FILE and n not in EXEMPT_FILES} == {}


def test_no_comment_is_a_banner() -> None:
    """What needs a headline in a file needs a file or a class of its own."""
    banners = [
        f"{source.name}:{number}"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), 1)
        if BANNER.match(line)
    ]
    assert banners == []


def test_hosts_and_gateways_stay_thin() -> None:
    thick = {}
    for source in sources():
        if source.path.name in ("host.py", "gateway.py"):
            functions = _functions(source.tree)
            lines = sum(_lines(node) for node in functions if node.name not in COMPOSITION_ROOTS)
            if lines > LONGEST_HOST:
                thick[source.name] = lines
    assert thick == {}


def test_no_function_needs_scrolling() -> None:
    long = {
        f"{source.name}:{node.lineno} {node.name}": _lines(node)
        for source in sources()
        for node in _functions(source.tree)
        if _lines(node) > LONGEST_FUNCTION and node.name not in COMPOSITION_ROOTS
    }
    assert long == {}


def test_everything_public_has_a_docstring() -> None:
    silent = [source.name for source in sources() if ast.get_docstring(source.tree) is None]
    for source in sources():
        drawn = ast.get_docstring(source.tree) or ""
        for node in _public(source.tree):
            in_the_error_tree = source.path.name == "errors.py" and f" {node.name} " in drawn
            if ast.get_docstring(node) is None and not in_the_error_tree:
                silent.append(f"{source.name}:{node.lineno} {node.name}")
    assert silent == []


def test_every_package_has_a_docstring() -> None:
    for folder in folders():
        init = folder / "__init__.py"
        assert init.exists(), folder
        assert ast.get_docstring(ast.parse(init.read_text("utf-8"))), folder


def test_modules_hold_no_state() -> None:
    strays = []
    for source in sources():
        mutable = dict(_module_containers(source.tree))
        strays += [f"{source.name}:{line} {name}" for name, line in mutable.items() if not _is_constant(name)]
        for line, what in _changes(source.tree, set(mutable)):
            strays.append(f"{source.name}:{line} {what}")
    assert strays == []


# --- looking at trees --------------------------------------------------------------------------------------------


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    if not body:
        return 0
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def _public(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Classes and functions of a module; of an overloaded one only the one that does it."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            overload = any(
                isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list
            )
            if not node.name.startswith("_") and not overload:
                yield node


def _module_containers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names bound at module level to something that can change."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if _is_mutable(value):
            yield from ((target.id, node.lineno) for target in targets if isinstance(target, ast.Name))


def _is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp):
        return True
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in MUTABLE_CALLS


def _is_constant(name: str) -> bool:
    return name == name.upper() or name.startswith("__")


def _changes(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Functions that change what belongs to the module."""
    for function in _functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield node.lineno, f"global {', '.join(node.names)}"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and owner.id in names and node.func.attr in MUTATIONS:
                    yield node.lineno, f"{owner.id}.{node.func.attr}()"
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                name = node.value.id if isinstance(node.value, ast.Name) else ""
                if name in names:
                    yield node.lineno, f"{name}[...] = ..."
