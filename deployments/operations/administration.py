"""The one way into the administration: authorizes, validates, performs and records an operation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from cluster.clock import Clock
from cluster.errors import Forbidden, HouseError, NotFound, TooMany, Unprocessable
from cluster.log import redact, redact_keys
from cluster.records.administration import AuditRow
from deployments.edge.signin_limits import AddressLimits, BucketRate
from deployments.operations.operation import Arguments, Operation, result_to_json
from deployments.operations.principal import Principal

S = TypeVar("S")

LARGEST_PART = 20_000
"Characters that a value before or after a change may take in the audit log, as JSON."
LARGEST_FORBIDDEN = 1_000
"The same for arguments of an operation that the principal may not perform."
FORBIDDEN = BucketRate(1.0, 100)
"Rows about what one person may not do; anybody with an account can ask for everything."
_STRUCK = "***"


class AuditWriter(Protocol):
    """Where rows of the audit log go."""

    async def append(self, row: AuditRow) -> AuditRow: ...


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
        self._limits = AddressLimits(clock)
        self._running: set[asyncio.Task[Any]] = set()

    async def perform(self, principal: Principal, name: str, given: Mapping[str, Any]) -> Any:
        """Perform an operation and return its result, as `Operation.call` returned it.

        A change goes on when the caller is cancelled, as a server does when its client disconnects: the row in the
        audit log must follow it.

        Errors:
            NotFound: no such operation
            Unprocessable: the arguments are invalid; `detail` lists what is
            Forbidden: the principal may not; the audit log gets a row
            TooMany: the principal may not, and tried it too often
            HouseError: the operation refused; the audit log gets a row for a change
        """
        operation = self.operations.get(name)
        if operation is None:
            raise NotFound(f"there is no operation {name}")
        work = self._perform(principal, operation, parse_arguments(operation, given))
        if not operation.changes:
            return await work
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._end)
        return await asyncio.shield(task)

    async def _perform(self, principal: Principal, operation: Operation[S, Any], arguments: Arguments) -> Any:
        services = self.services if self._bind is None else self._bind(self.services, principal)
        try:
            if operation.scope != "person":
                principal.require(operation.role, operation.app_of(arguments))
            before = await _read_before(operation, services, arguments)
            result = await operation.call(services, arguments)
        except HouseError as error:
            is_forbidden = isinstance(error, Forbidden)
            wait_s = self._limits.wait_s("forbidden", principal.user_id, FORBIDDEN) if is_forbidden else 0
            if wait_s:
                raise TooMany("too many requests that you may not send", retry_after_s=wait_s) from error
            if operation.changes or is_forbidden:
                reason = error.facts.get("audit_reason") or error.message or error.code
                most = LARGEST_FORBIDDEN if is_forbidden else LARGEST_PART
                await self._record(principal, operation, arguments, reason=reason, most=most)
            raise
        except Exception as error:
            # It may have changed something before it failed; the message may hold a secret.
            if operation.changes:
                await self._record(
                    principal, operation, arguments, reason=f"internal error: {type(error).__name__}"
                )
            raise
        if operation.changes:
            after = result_to_json(result)
            await self._record(principal, operation, arguments, before=before, after=after)
        return result

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # Nobody may wait for it any more.

    async def _record(
        self,
        principal: Principal,
        operation: Operation[S, Any],
        arguments: Arguments,
        *,
        reason: str = "",
        before: Any = None,
        after: Any = None,
        most: int = LARGEST_PART,
    ) -> None:
        secret = operation.secret_fields | operation.secret_results
        await self._audit.append(
            AuditRow(
                at=self._clock.now_ms(),
                user_id=principal.user_id,
                username=principal.username,
                way=principal.way,
                address=principal.address,
                operation=operation.name,
                app_id=getattr(arguments, "app_id", ""),
                outcome="refused" if reason else "done",
                reason=redact(reason[:500]),
                arguments=bounded(
                    strike_out(arguments.model_dump(mode="json", exclude_unset=True), secret), most
                ),
                before=bounded(strike_out(before, secret)),
                after=bounded(strike_out(after, secret)),
            )
        )


def parse_arguments(operation: Operation[Any, Any], given: Mapping[str, Any]) -> Any:
    """Return the arguments of an operation from untrusted values.

    Errors:
        Unprocessable: they are invalid; `detail` lists what is
    """
    try:
        return operation.arguments.model_validate(dict(given))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        faults = [{"loc": ["body", *one["loc"]], "msg": one["msg"], "type": one["type"]} for one in found]
        where = ".".join(str(part) for part in found[0]["loc"]) or "arguments"
        raise Unprocessable(f"{where}: {found[0]['msg'].lower()}", detail=faults) from None


def strike_out(value: Any, secret: frozenset[str]) -> Any:
    """Return a value for JSON without the values of secret names, and without keys in its texts; long ones are cut."""
    if isinstance(value, dict):
        return {
            name: _STRUCK if name in secret and part else strike_out(part, secret)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [strike_out(part, secret) for part in value[:1000]]
    if isinstance(value, str):
        text = redact_keys(value[:LARGEST_PART])
        return text + "…" if len(value) > LARGEST_PART else text
    return value


def bounded(value: Any, most: int = LARGEST_PART) -> Any:
    """Return a value for JSON, or the begin of its text if that is longer than `most` characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= most + 100:
        return value
    return {"cut": text[:most] + "…"}


async def _read_before(operation: Operation[S, Any], services: S, arguments: Arguments) -> Any:
    if operation.read_before is None:
        return None
    return result_to_json(await operation.read_before(services, arguments))
