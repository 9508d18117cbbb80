"""What each product of a purchase was worth: its share of the revenue.

By quantities and prices where all products of the purchase have a price, else evenly. Outcomes and experiments share
these rules, so that a refund subtracts the same in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import orjson
import polars as pl

from cluster.store.stores import Stores

MOST_QUANTITY: Final = 1e9
"Larger numbers of clients count as this: sums must stay finite."
_GROUP: Final = "group:"


def quantities_of(text: pl.Expr) -> pl.Expr:
    """Return the quantities of an interaction in JSON as a list of texts; null without any."""
    return text.str.json_path_match("$.quantities").str.strip_chars("[]").str.split(",")


def split_products(events: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each product of interactions, without groups; a product of an interaction once.

    Shapes:
        events: event, product (list), quantity (list of texts or null), and columns that are repeated
        result: `product` and `quantity` are single values; a quantity that is missing is 1
    """
    events = events.filter(pl.col("product").list.len() > 0)
    at = pl.int_ranges(pl.col("product").list.len())
    many = pl.col("quantity").list.len() == pl.col("product").list.len()
    events = events.with_columns(at.alias("_at"), many.alias("_many")).explode("product", "_at")
    index = pl.when(pl.col("_many")).then(pl.col("_at")).otherwise(0)
    quantity = (
        pl.col("quantity")
        .list.get(index, null_on_oob=True)
        .cast(pl.Float64, strict=False)
        .clip(0, MOST_QUANTITY)
    )
    return (
        events.with_columns(quantity.fill_null(1.0).alias("quantity"))
        .drop("_at", "_many")
        .filter(~pl.col("product").str.starts_with(_GROUP))
        .unique(["event", "product"], keep="first", maintain_order=True)
    )


def list_baskets(events: pl.DataFrame) -> list[str]:
    """Return the products of purchases with several products: their prices split the revenue.

    Shapes:
        events: as of `split_products`, with `revenue`
    """
    bought = events.filter(pl.col("revenue").is_not_null() & (pl.len().over("event") > 1))
    return bought["product"].unique(maintain_order=True).to_list()


def value_events(events: pl.DataFrame, prices: Mapping[str, float]) -> pl.DataFrame:
    """Add `value`: the revenue of each product, by quantity and price where all prices of a basket are known.

    Shapes:
        events: as of `split_products`, with `revenue`
    """
    listed = pl.DataFrame(
        {"product": list(prices), "price": list(prices.values())},
        schema={"product": pl.String, "price": pl.Float64},
    )
    events = events.join(listed, on="product", how="left", maintain_order="left")
    worth = pl.col("quantity") * pl.col("price")
    total = worth.sum().over("event")
    is_priced = (pl.col("price").is_not_null().all().over("event")) & (total > 0)
    # Equal shares where a price is unknown: the values of a basket always add up to its revenue.
    share = pl.when(is_priced).then(worth / total).otherwise(1.0 / pl.len().over("event"))
    return events.with_columns((pl.col("revenue") * share).fill_null(0.0).alias("value")).drop("price")


async def read_prices(stores: Stores, app_id: str, product_ids: Sequence[str]) -> dict[str, float]:
    """Return the price of each product that has one: its sale price, or else its price."""
    prices: dict[str, float] = {}
    bodies = await stores.records.get_many(app_id, "product", product_ids)
    for product_id, body in zip(product_ids, bodies, strict=True):
        product = {} if body is None else orjson.loads(body)
        price = product.get("sale_price", product.get("price"))
        if isinstance(price, int | float) and price >= 0:
            prices[product_id] = float(price)
    return prices
