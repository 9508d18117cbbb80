"""Define one row of the served log: the products of an answer, in order, and how each came to its place.

docs/guides/served-log.md describes the columns for readers of the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cluster.records.json_row import JsonRow

SCHEMA: Final = 1
"Version of the row. Fields may be added within a version."

RANKED: Final = 0
RULE: Final = 1
COLD_START: Final = 2
EXPLORED: Final = 3
REPEATED: Final = 4
DITHERED: Final = 5
ORIGINS: Final = ("ranked", "rule", "cold start", "explored", "repeated", "dithered")
"Name of each code in `origins`."

BOTH_SIDES: Final = 0
FIRST_SIDE: Final = 1
SECOND_SIDE: Final = 2
"Codes in `sides`: both sides would have placed the product there, or the named one did."

LIST_ENDPOINTS: Final = (
    "user_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "product_to_products",
    "search",
)
"Endpoints whose answers are lists of products; reports of outcomes count these answers."

Device = Literal["phone", "desktop", "tablet", "other"]


@dataclass(slots=True)  # not frozen: that takes twice the time, for each answer
class ServedAnswer(JsonRow):
    """One answer and its products, without ids of users."""

    service_id: str
    "Id that the client got with the answer, and sends back with clicks."
    at: int
    "Milliseconds since 1970."
    endpoint: str
    engine_id: str
    schema: int = SCHEMA
    snapshot: str = ""
    "Version of the model snapshot that ranked; empty for live components alone."
    recipe: str = ""
    level: str = ""
    "Fallback level of the list (`served_by`)."
    rules: tuple[str, ...] = ()
    "Names of the stored rules that applied."
    experiments: tuple[Mapping[str, str], ...] = ()
    "`experiment` and `variant` by id, for each experiment of the user."
    typist: str = ""
    "Who types, for completions alone: the compaction keeps the last one of a typing burst, without this field."
    user: str = ""
    "Pseudonym; empty without a user, and in the mode `anonymous`."
    session: str = ""
    "Requests of a user without a pause of 30 minutes; set by the intake."
    device: Device = "other"
    request_digest: str = ""
    "Digest of filter, boosts and query text; empty without any."
    start: int = 0
    rows: int = 0
    "Requested number of products."
    took_ms: float = 0.0
    products: tuple[str, ...] = ()
    "Product ids in the order shown."
    scores: tuple[float, ...] = ()
    "Score by which each product was ranked; empty if the engine did not report it."
    origins: tuple[int, ...] = ()
    "How each product came to its place: positions in `ORIGINS`."
    propensities: tuple[float | None, ...] = ()
    "Probability of each product at its place under the policy that served; None without a closed form."
    sides: tuple[int, ...] = ()
    "Side of the interleaving experiment that placed each product; empty for a list that is not interleaved."
    state: str = ""
    "Offsets of the change log of the state that ranked; empty if no engine ranked."
    request: str = ""
    """What the request set beside user, engine, first place and number, as JSON; a word in its place says why it is
    not kept."""
