"""Order erasures of people and read their receipts, for the command line, the HTTP interface and programs.

Example:
    erasures = Erasures(stores, SystemClock())
    receipt = await erasures.wait(await erasures.order("shop", user_id="u1", request_id=new_request_id(), by="command"))
"""

from __future__ import annotations

import asyncio

from cluster.clock import Clock
from cluster.errors import Invalid, NotFound, Unavailable
from cluster.ids import new_task_id
from cluster.records.erasure import Erasure
from cluster.store.stores import Stores

WAIT_S = 180.0
_POLL_S = 0.2


class Erasures:
    """Orders the erasure of people and reads the receipts."""

    def __init__(self, stores: Stores, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock

    async def order(
        self,
        app_id: str,
        *,
        user_id: str = "",
        anonymous_id: str = "",
        request_id: str,
        by: str,
        later: bool = False,
    ) -> Erasure:
        """Order the erasure of a person; the order is durable when the call returns, and the intake executes it.

        Errors:
            Invalid: both ids or none are given
            Conflict: the visitor is linked to a user
        """
        if bool(user_id) == bool(anonymous_id):
            raise Invalid("name either a user or a visitor")
        person = await self._stores.erasures.person(app_id, user_id, anonymous_id)
        erasure = Erasure(
            erasure_id=new_task_id(),
            app_id=app_id,
            subject=await self._stores.erasures.subject(person),
            subjects=await self._stores.erasures.subjects(person),
            request_id=request_id,
            by=by,
            created_at=self._clock.now_ms(),
            later=later,
        )
        # The ids of the person stand only in this order, and leave it when the data is gone.
        await self._stores.erasures.order(erasure, person)
        return erasure

    async def receipt(self, app_id: str, erasure_id: str) -> Erasure:
        """Return the receipt of an order, complete or not.

        Errors:
            NotFound: there is no such order in this app
        """
        erasure = await self._stores.erasures.read(app_id, erasure_id)
        if erasure is None:
            raise NotFound("there is no such erasure")
        return erasure

    async def receipts(self, app_id: str) -> list[Erasure]:
        """Return the newest receipts, newest first."""
        return await self._stores.erasures.newest(app_id)

    async def wait(self, erasure: Erasure, within_s: float = WAIT_S) -> Erasure:
        """Wait until an order is executed and return its receipt.

        Errors:
            Unavailable: it was not executed in time; the intake executes it nevertheless
        """
        for _ in range(round(within_s / _POLL_S)):
            receipt = await self.receipt(erasure.app_id, erasure.erasure_id)
            if receipt.status == "finished":
                return receipt
            await asyncio.sleep(_POLL_S)
        raise Unavailable(
            f"the erasure is not done after {within_s:.0f} s and goes on; read its receipt later: "
            f"`kiosk forget {erasure.app_id} --receipt {erasure.erasure_id}`"
        )
