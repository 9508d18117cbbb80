"""The whole playground as plain records, and the edition they belong to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jobs.playground.archive import product_records_from_articles
from jobs.playground.data_files import list_data_files
from jobs.playground.sessions import build_interactions
from jobs.playground.shop import build_products
from jobs.playground.users import build_users

_FORMAT_VERSION = "1"
"Counted up when the same data come to other records."


@dataclass(frozen=True, slots=True)
class SampleData:
    """Everything to be uploaded, in the upload format."""

    products: list[dict[str, Any]]
    "Shop and newspaper."
    users: list[dict[str, Any]]
    interactions: list[dict[str, Any]]
    "Oldest first, all before `now_ms`."


def build_sample(now_ms: int) -> SampleData:
    """Return the sample data as of a time; the same time gives the same bytes.

    Cost:
        0.6 s
    """
    return SampleData(
        products=build_products(now_ms) + product_records_from_articles(),
        users=[reader.record for reader in build_users(now_ms)],
        interactions=build_interactions(now_ms),
    )


def compute_edition() -> str:
    """Return a digest of the data files, by which an installation detects whether it has loaded them."""
    digest = hashlib.sha256()
    for name in list_data_files():
        digest.update(files("jobs.playground").joinpath("data", *name.split("/")).read_bytes())
    return f"{_FORMAT_VERSION}-{digest.hexdigest()[:12]}"
