"""The one way into the administration: authorizes, validates, performs and records an operation."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import ValidationError

from cluster.clock import Clock
from cluster.errors import Forbidden, KioskError, NotFound, TooMany, Unavailable, Unprocessable
from cluster.log import redact, redact_keys
from cluster.records.administration import AuditRow
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets
from deployments.operations.framework.operation import Arguments, OfApp, Operation, result_to_json
from deployments.operations.framework.principal import Principal

S = TypeVar("S")

LARGEST_PART = 20_000
"Characters that a value before or after a change may take in the audit log, as JSON."
LARGEST_FORBIDDEN = 1_000
"The same for arguments of an operation that the principal may not perform."
REFUSED = BucketRate(2.0, 200)
"Rows about what one person was refused; anybody with an account can ask for everything."
UNKNOWN_END = "its end was not written; the change may have been made"
MADE_UNLOGGED = (
    "{} was done, but the store went away before the audit log had its row; there it will stand as begun"
)
_LARGEST_INTEGER = 2**63 - 1
_STRUCK = "***"


class AuditWriter(Protocol):
    """Where rows of the audit log go."""

    async def begin(self, row: AuditRow) -> str: ...

    async def append(self, row: AuditRow, *, begun_id: str = "") -> AuditRow: ...


class Administration(Generic[S]):
    """All operations of an installation over one set of services."""

    def __init__(
        self,
        services: S,
        operations: Mapping[str, Operation[S, Any]],
        audit: AuditWriter,
        clock: Clock,
        bind: Callable[[S, Principal], S] | None = None,
    ) -> None:
        self.services = services
        self.operations = operations
        self._audit = audit
        self._clock = clock
        self._bind = bind
        self._refused = TokenBuckets(clock)
        self._paused_s: dict[str, float] = {}
        self._running: set[asyncio.Task[Any]] = set()

    async def perform(self, principal: Principal, name: str, given: Mapping[str, Any]) -> Any:
        """Perform an operation and return its result, as `Operation.call` returned it.

        A change is noted as begun before it is performed, so that none is lost if the process or the store goes away.
        It goes on when the caller is cancelled, as a server does when its client disconnects.

        Errors:
            NotFound: no such operation
            Unprocessable: the arguments are invalid; `detail` lists what is
            Forbidden: the principal may not; the audit log gets a row
            TooMany: the principal was refused too often
            KioskError: the operation refused; the audit log gets a row for a change
            Unavailable: the store is away. If the change was made, the message tells it
        """
        operation = self.operations.get(name)
        if operation is None:
            raise NotFound(f"there is no operation {name}")
        # First: somebody without the role learns nothing about arguments, and costs nothing.
        await self.authorize(principal, operation, given)
        work = self._perform(principal, operation, parse_arguments(operation, given))
        if not operation.changes:
            return await work
        task = asyncio.ensure_future(work)
        # The event loop refers to tasks only weakly, so one that nobody keeps can vanish.
        self._running.add(task)
        task.add_done_callback(self._end)
        return await asyncio.shield(task)

    async def authorize(
        self, principal: Principal, operation: Operation[S, Any], given: Mapping[str, Any]
    ) -> None:
        """Refuse somebody who may not perform an operation, whatever the other arguments are.

        Errors:
            Forbidden: the role is not enough; the audit log gets a row
            TooMany: the principal was refused too often
        """
        self._refuse_paused(principal)
        if operation.scope == "person":
            return
        app_id = given.get("app_id") if operation.scope == "app" else ""
        app_id = app_id if isinstance(app_id, str) else ""
        try:
            principal.require(operation.role, app_id)
        except Forbidden as error:
            try:
                arguments: Arguments = parse_arguments(operation, given)
            except Unprocessable:
                # Invalid arguments may have any size and form, so the row names the app alone.
                arguments = OfApp(app_id=app_id[:LARGEST_FORBIDDEN]) if app_id else Arguments()
            await self._add_refused(principal, operation, arguments, error, LARGEST_FORBIDDEN)
            raise

    async def _perform(self, principal: Principal, operation: Operation[S, Any], arguments: Arguments) -> Any:
        services = self.services if self._bind is None else self._bind(self.services, principal)
        before = None
        begun_id = ""
        try:
            if operation.changes:
                # What the change replaces can't be read afterwards.
                before = await _read_before(operation, services, arguments)
                begun = self._build_row(principal, operation, arguments, "begun", UNKNOWN_END, before)
                begun_id = await self._audit.begin(begun)
            result = await operation.call(services, arguments)
        except KioskError as error:
            if operation.changes or isinstance(error, Forbidden):
                most = LARGEST_FORBIDDEN if isinstance(error, Forbidden) else LARGEST_PART
                await self._add_refused(principal, operation, arguments, error, most, begun_id)
            raise
        except Exception as error:
            # It may have changed something before it failed; the message may hold a secret.
            if operation.changes:
                reason = f"internal error: {type(error).__name__}"
                row = self._build_row(principal, operation, arguments, "refused", reason)
                await self._audit.append(row, begun_id=begun_id)
            raise
        if operation.changes:
            row = self._build_row(
                principal, operation, arguments, "done", before=before, after=result_to_json(result)
            )
            try:
                await self._audit.append(row, begun_id=begun_id)
            except Unavailable as error:
                raise Unavailable(MADE_UNLOGGED.format(operation.name), told=True) from error
        elif operation.recorded:
            # Before the result leaves: what can't be recorded is not shown.
            await self._audit.append(self._build_row(principal, operation, arguments, "done"))
        return result

    async def _add_refused(
        self,
        principal: Principal,
        operation: Operation[S, Any],
        arguments: Arguments,
        error: KioskError,
        most: int,
        begun_id: str = "",
    ) -> None:
        reason = error.facts.get("audit_reason") or error.message or error.code
        row = self._build_row(principal, operation, arguments, "refused", reason, most=most)
        await self._audit.append(row, begun_id=begun_id)
        self._count_refused(principal)

    def _refuse_paused(self, principal: Principal) -> None:
        """Refuse somebody who was refused too often, without a row.

        Errors:
            TooMany: they have to wait
        """
        wait_s = self._paused_s.get(principal.user_id, 0.0) - self._clock.monotonic_s()
        if wait_s > 0:
            raise TooMany("too many requests of this account were refused", retry_after_s=math.ceil(wait_s))

    def _count_refused(self, principal: Principal) -> None:
        # The command line has no user id; it is never paused.
        wait_s = self._refused.wait_s("refused", principal.user_id, REFUSED) if principal.user_id else 0
        if wait_s:
            self._paused_s[principal.user_id] = self._clock.monotonic_s() + wait_s

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # Nobody may wait for it any more.

    def _build_row(
        self,
        principal: Principal,
        operation: Operation[S, Any],
        arguments: Arguments,
        outcome: Literal["done", "refused", "begun"],
        reason: str = "",
        before: Any = None,
        after: Any = None,
        most: int = LARGEST_PART,
    ) -> AuditRow:
        secret = operation.secret_fields | operation.secret_results
        return AuditRow(
            at=self._clock.now_ms(),
            user_id=principal.user_id,
            username=principal.username,
            way=principal.way,
            address=principal.address,
            operation=operation.name,
            app_id=getattr(arguments, "app_id", ""),
            outcome=outcome,
            reason=redact(reason[:500]),
            arguments=truncate_json(
                redact_secrets(arguments.model_dump(mode="json", exclude_unset=True), secret), most
            ),
            before=truncate_json(redact_secrets(before, secret)),
            after=truncate_json(redact_secrets(after, secret)),
        )


def parse_arguments(operation: Operation[Any, Any], given: Mapping[str, Any]) -> Any:
    """Return the arguments of an operation from untrusted values.

    Errors:
        Unprocessable: they are invalid; `detail` lists what is
    """
    try:
        return operation.arguments.model_validate(dict(given))
    except ValidationError as error:
        # Without the input, which may be a password.
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        faults = [
            {"loc": ["body", *fault["loc"]], "msg": fault["msg"], "type": fault["type"]} for fault in errors
        ]
        where = ".".join(str(part) for part in errors[0]["loc"]) or "arguments"
        raise Unprocessable(f"{where}: {errors[0]['msg'].lower()}", detail=faults) from None


def redact_secrets(value: Any, secret: frozenset[str]) -> Any:
    """Return a value that every JSON parser accepts, without the values of secret names and without keys in its texts.

    Long texts are cut.
    """
    if isinstance(value, dict):
        return {
            redact_secrets(str(name), frozenset()): _STRUCK
            if name in secret and part
            else redact_secrets(part, secret)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_secrets(part, secret) for part in value[:1000]]
    if isinstance(value, str):
        text = redact_keys(value[:LARGEST_PART]).encode("utf-8", "replace").decode()
        return text + "…" if len(value) > LARGEST_PART else text
    # JSON parsers refuse or round larger integers.
    if isinstance(value, int) and not -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
        # Writing a number as text takes time that grows with the square of its digits.
        return str(value)[:100] if abs(value) < 10**100 else "a number of more than 100 digits"
    return value


def truncate_json(value: Any, most: int = LARGEST_PART) -> Any:
    """Return a value for JSON, or the begin of its text if that is longer than `most` characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= most + 100:
        return value
    return {"cut": text[:most] + "…"}


async def _read_before(operation: Operation[S, Any], services: S, arguments: Arguments) -> Any:
    if operation.read_before is None:
        return None
    return result_to_json(await operation.read_before(services, arguments))
