"""What an operation of the administration is: one use case that the command line, HTTP and the console share."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

from cluster.records.administration import AppRole

S = TypeVar("S")
A = TypeVar("A", bound="Arguments")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Scope = Literal["app", "installation", "person"]
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class Arguments(BaseModel):
    """Arguments of an operation; unknown names are refused. Fields in the path of the operation come from there."""

    # Models are built at their first use: a command needs few of them, and starts sooner.
    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=100_000, defer_build=True)


class OfApp(Arguments):
    """Arguments of an operation of one app."""

    app_id: str


class OfEngine(OfApp):
    """Arguments of an operation of one engine."""

    engine_id: str


@dataclass(frozen=True, slots=True)
class Operation(Generic[S, A]):
    """One use case: its name, its right, its place in HTTP, and the call.

    `call` gets the services it works on and its arguments. It returns a value for JSON, a dataclass, or an
    object with `to_dict()`. Errors of it are `KioskError`s.
    """

    name: str
    "Area and verb: `keys.rotate`."
    summary: str
    "One imperative sentence for the reference."
    role: AppRole
    "The least role in the app, or in the installation if the arguments name no app."
    method: Method
    path: str
    "Below `/v1/admin`: `/apps/{app_id}/keys/rotate`; placeholders are fields of the arguments."
    arguments: type[A]
    call: Callable[[S, A], Awaitable[Any]]
    scope: Scope = "app"
    """Where the role is needed.

    app           in the app of the arguments; in the installation if they name none
    installation  in the installation, although the arguments name an app
    person        nowhere: the call itself keeps to what the principal of the services may see and change
    """
    secret_fields: frozenset[str] = frozenset()
    "Arguments that never reach the audit log."
    secret_results: frozenset[str] = frozenset()
    "Names in the result that never reach the audit log."
    read_before: Callable[[S, A], Awaitable[Any]] | None = None
    "Reads what the change replaces, for the audit log."
    media_type: str = "application/json"
    "Type of the reply over HTTP; with another one than JSON, the result is a `Download`."
    is_query: bool = False
    "A POST that changes nothing: its arguments do not fit into an address. The audit log gets no row."
    recorded: bool = False
    "A read of personal data or of the log itself: the audit log gets a row, without the result."
    check: Callable[[A], object] | None = None
    "Checks arguments against each other; a command calls it before it opens the stores."
    stream_field: str = ""
    """The argument that is the body of the request as it arrives (an asynchronous iterator of bytes). The other
    arguments then come from the query string."""

    @property
    def changes(self) -> bool:
        """Return whether the operation changes something, so that the audit log gets a row."""
        return self.method != "GET" and not self.is_query

    def app_of(self, arguments: Arguments) -> str:
        """Return the app in which the role is needed; empty: in the installation."""
        return "" if self.scope == "installation" else getattr(arguments, "app_id", "")

    @property
    def path_fields(self) -> tuple[str, ...]:
        """Return the arguments that stand in the path."""
        return tuple(_PLACEHOLDER.findall(self.path))


def operation(
    name: str,
    method: Method,
    path: str,
    role: AppRole = "viewer",
    *,
    secret_fields: Iterable[str] = (),
    secret_results: Iterable[str] = (),
    **more: Any,
) -> Callable[[F], F]:
    """Make a function an operation; its docstring is the summary, its second parameter names the arguments.

    `examples.json` has its example. The other arguments are further fields of `Operation`.

    Source: `list_operations` returns the operations of a module.
    """

    def declare(call: F) -> F:
        call.__dict__["operation"] = Operation(
            name=name,
            summary=summarize(call),
            role=role,
            method=method,
            path=path,
            # Annotations are texts, as nothing evaluates them; the second one names the model of the
            # arguments.
            arguments=call.__globals__[list(call.__annotations__.values())[1]],
            call=call,
            secret_fields=frozenset(secret_fields),
            secret_results=frozenset(secret_results),
            **more,
        )
        return call

    return declare


def summarize(call: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join((inspect.getdoc(call) or "").partition("\n\n")[0].split())


def list_operations(*modules: ModuleType) -> Iterator[Operation[Any, Any]]:
    """Return the operations of modules, in the order of the files."""
    for module in modules:
        for member in vars(module).values():
            is_local = inspect.isfunction(member) and member.__module__ == module.__name__
            if is_local and "operation" in member.__dict__:
                yield member.__dict__["operation"]


@dataclass(frozen=True, slots=True)
class Download:
    """A result of any size that is sent as it is read, not as JSON."""

    chunks: AsyncIterator[bytes]
    filename: str
    media_type: str = "application/x-ndjson"

    def to_dict(self) -> dict[str, Any]:
        """Return what the audit log keeps of it."""
        return {"filename": self.filename}


def result_to_json(result: Any) -> Any:
    """Return the result of an operation as a value for JSON."""
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    if hasattr(result, "to_dict"):
        return result.to_dict()
    if is_dataclass(result):
        return {part.name: result_to_json(getattr(result, part.name)) for part in fields(result)}
    if isinstance(result, Mapping):
        return {str(name): result_to_json(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [result_to_json(entry) for entry in result]
    return result
