"""Docstrings of public functions name the shapes of arrays and the errors that the function raises itself.

Docstrings of packages list modules that exist.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.house.tree import Source, sources

Function = ast.FunctionDef | ast.AsyncFunctionDef

SECTIONS = ("Shapes", "Units", "Errors", "Cost", "Source")

LISTED = re.compile(r"^ *([a-z0-9_/]+(?:, [a-z0-9_/]+)*) {2,}[^ =]", re.MULTILINE)
"The modules of a line of a package's list, as in `cohorts, content   models for cold-start users and items`."


def test_functions_with_arrays_have_a_shapes_section() -> None:
    assert _without_shapes() == ()


def test_functions_name_the_errors_that_they_raise() -> None:
    assert _without_errors() == ()


def test_the_modules_that_packages_list_exist() -> None:
    listed = [
        (source.path.parent, name)
        for source in sources()
        if source.path.name == "__init__.py"
        for names in LISTED.findall(ast.get_docstring(source.tree) or "")
        for name in names.split(", ")
    ]
    assert len(listed) > 300
    assert [
        f"{folder}: {name}"
        for folder, name in listed
        if not (folder / f"{name}.py").exists() and not (folder / name).is_dir()
    ] == []


@cache
def _without_shapes() -> tuple[str, ...]:
    return tuple(
        f"{source.module}.{name}"
        for source in sources()
        for name, function in _public_functions(source)
        if _has_arrays(source, function) and "Shapes" not in _sections(function)
    )


@cache
def _without_errors() -> tuple[str, ...]:
    return tuple(
        f"{source.module}.{name}"
        for source in sources()
        for name, function in _public_functions(source)
        if not _is_command(function)
        and not _raised(source, function) <= _words_of_section(function, "Errors")
    )


def _is_command(function: Function) -> bool:
    """Recognize commands: their docstring is the help page, which names exit codes in place of error classes."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    notes = [argument.annotation for argument in arguments if argument.annotation is not None]
    is_registered = any(".command(" in ast.unparse(mark) for mark in function.decorator_list)
    return is_registered or any("typer." in ast.unparse(note) for note in notes)


def _public_functions(source: Source) -> Iterator[tuple[str, Function]]:
    """Functions of the module, and methods of its public classes; implementations of overloads once."""
    for node in source.tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, Function) and not inner.name.startswith("_") and _has_docstring(inner):
                    yield f"{node.name}.{inner.name}", inner


def _has_docstring(function: Function) -> bool:
    return ast.get_docstring(function) is not None


def _sections(function: Function) -> set[str]:
    text = ast.get_docstring(function) or ""
    return {name for name in SECTIONS if re.search(rf"^{name}:$", text, re.MULTILINE)}


def _words_of_section(function: Function, section: str) -> set[str]:
    """Return the words in front of the colons of a section: the names it explains."""
    text = ast.get_docstring(function) or ""
    match = re.search(rf"^{section}:\n((?:[ \t]+.*\n?|\n)+)", text, re.MULTILINE)
    return set(re.findall(r"\w+", match[1])) if match else set()


@cache
def _array_types() -> frozenset[str]:
    """Return full names of the types that stand for arrays: every alias of a `NDArray`."""
    names = set()
    for source in sources():
        for node in source.tree.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and value is not None and "NDArray" in ast.unparse(value):
                names.add(f"{source.module}.{target.id}")
    return frozenset(names)


def _has_arrays(source: Source, function: Function) -> bool:
    local = {name.rpartition(".")[2] for name in _array_types() if name.rpartition(".")[0] == source.module}
    local |= {name.rpartition(".")[2] for _, name in source.imports if name in _array_types()}
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    annotations = [argument.annotation for argument in arguments] + [function.returns]
    words = {
        word for note in annotations if note is not None for word in re.findall(r"\w+", ast.unparse(note))
    }
    return bool(words & (local | {"NDArray"}))


@cache
def _error_names() -> frozenset[str]:
    (errors,) = (source for source in sources() if source.name == "cluster/errors.py")
    return frozenset(
        f"cluster.errors.{node.name}" for node in errors.tree.body if isinstance(node, ast.ClassDef)
    )


def _raised(source: Source, function: Function) -> set[str]:
    """Return the errors of ours whose `raise` stands in the function, outside functions within it."""
    ours = {name.rpartition(".")[2] for _, name in source.imports if name in _error_names()}
    return {
        node.exc.func.id
        for node in _direct_nodes(function)
        if isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id in ours
    }


def _direct_nodes(function: Function) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
