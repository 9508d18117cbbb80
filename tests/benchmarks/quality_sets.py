"""The public development sets as arrays, with what their items are like. Nothing of them is part of this repository."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from actors.language.hashing_embedder import HashingEmbedder
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame


def data_folder() -> Path:
    """Find the folder of the sets: `KIOSK_TEST_DATA`, else `../shared/data` beside the checkout."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("KIOSK_TEST_DATA", beside))


def has(name: str) -> bool:
    """Is a set there?"""
    return (data_folder() / name).is_dir()


def amazon_toys() -> Interactions:
    """Sequences without a clock; items described by category and brand numbers."""
    users, items = [], []
    with gzip.open(data_folder() / "amazon-toys" / "sequences.txt.gz", "rt") as lines:
        for line in lines:
            user, *taken = line.split()
            users += [user] * len(taken)
            items += taken
    data = interactions_from_frame(pl.DataFrame({"reader": users, "item": items}), FrameColumns(at=None))
    with gzip.open(data_folder() / "amazon-toys" / "item2attributes.json.gz") as stream:
        return data.with_content(tfidf(data, json.load(stream)))


def online_retail(*, guests: bool = False) -> Interactions:
    """One year of a gift shop; returns and cancelled invoices left out, a guest's invoice is a user of its own."""
    path = data_folder() / "online-retail-y1" / "transactions.parquet"
    lines = pl.read_parquet(path).filter(~pl.col("invoice").str.starts_with("C") & (pl.col("quantity") > 0))
    titles = (
        lines.filter(pl.col("description").is_not_null())
        .group_by("stock_code")
        .agg(pl.col("description").last())
    )
    named = pl.col("customer_id").cast(pl.String)
    lines = lines.with_columns(reader=named.fill_null("guest-" + pl.col("invoice")) if guests else named)
    data = interactions_from_frame(
        lines.filter(pl.col("reader").is_not_null()),
        FrameColumns(item="stock_code", at="ts", basket="invoice"),
    )
    return data.with_content(embedded(data, dict(titles.iter_rows())))


def titles() -> dict[str, str]:
    """Titles of the gift shop's products."""
    path = data_folder() / "online-retail-y1" / "transactions.parquet"
    lines = pl.read_parquet(path, columns=["stock_code", "description"]).drop_nulls()
    return dict(lines.group_by("stock_code").agg(pl.col("description").last()).iter_rows())


def prices() -> dict[str, float]:
    """Median price of the gift shop's products."""
    path = data_folder() / "online-retail-y1" / "transactions.parquet"
    lines = pl.read_parquet(path, columns=["stock_code", "price"]).filter(pl.col("price") > 0)
    return dict(lines.group_by("stock_code").agg(pl.col("price").median()).iter_rows())


def films() -> dict[str, str]:
    """Titles and genres of the films as one text."""
    rows = _csv(data_folder() / "ml-latest-small" / "movies.csv.gz").iter_rows()
    return {str(film): f"{title} " + genres.replace("|", " ") for film, title, genres in rows}


def film_titles() -> dict[str, str]:
    """Titles of the films, with their years."""
    rows = _csv(data_folder() / "ml-latest-small" / "movies.csv.gz").iter_rows()
    return {str(film): title for film, title, _ in rows}


def genres() -> dict[str, list[str]]:
    """Genres of the films."""
    rows = _csv(data_folder() / "ml-latest-small" / "movies.csv.gz").iter_rows()
    return {str(film): named.split("|") for film, _, named in rows}


def countries() -> dict[str, str]:
    """Country of every customer of the gift shop."""
    path = data_folder() / "online-retail-y1" / "transactions.parquet"
    lines = pl.read_parquet(path, columns=["customer_id", "country"]).drop_nulls()
    return dict(
        lines.group_by(pl.col("customer_id").cast(pl.String)).agg(pl.col("country").last()).iter_rows()
    )


def movielens_small() -> Interactions:
    """Ratings of films with a clock, every rating counts as taken; items described by title and genres."""
    folder = data_folder() / "ml-latest-small"
    ratings = _csv(folder / "ratings.csv.gz")
    data = interactions_from_frame(ratings, FrameColumns(reader="userId", item="movieId", at="timestamp"))
    texts = {
        str(film): f"{title} " + " ".join(f"genre_{genre}" for genre in genres.split("|")) * 2
        for film, title, genres in _csv(folder / "movies.csv.gz").iter_rows()
    }
    return data.with_content(embedded(data, texts))


def yoochoose() -> tuple[Interactions, float]:
    """Click sessions, and the instant at which the test day begins."""
    folder = data_folder() / "yoochoose-100k"
    train, test = (_csv(folder / f"clicks_{part}.tsv.gz", "\t") for part in ("train_full", "test"))
    named = [
        clicks.with_columns(reader=pl.format(f"{part}{{}}", pl.col("SessionId")))
        for part, clicks in (("a", train), ("b", test))
    ]
    data = interactions_from_frame(pl.concat(named), FrameColumns(item="ItemId", at="Time"))
    begins: Any = test["Time"].min()
    return data, float(begins) - 1.0


def taobao() -> Interactions:
    """Carts, then purchases with the last one of every user at the end; there are no times."""
    rows = [(user, item, 0.7, "add_to_cart") for user, item in _taobao_pairs("cart.txt.gz")]
    for name in ("buy.train.txt.gz", "buy.test.txt.gz"):
        rows += [(reader, item, 1.0, "checkout") for reader, item in _taobao_pairs(name)]
    frame = pl.DataFrame(rows, ["reader", "item", "weight", "kind"], orient="row")
    return interactions_from_frame(frame, FrameColumns(at=None, weight="weight", kind="kind"))


def embedded(data: Interactions, texts: Mapping[str, str]) -> Any:
    """Describe items by the platform's own embedder.

    Shapes:
        returns: float32 [n, d]
    """
    return HashingEmbedder().embed([texts.get(name, "") for name in data.items.names.to_pylist()])


def tfidf(data: Interactions, attributes: Mapping[str, list[int]]) -> Any:
    """Describe items by their attributes, rare ones weighing more.

    Shapes:
        returns: CSR float32 [n, attributes], rows of length 1
    """
    codes = data.items.codes(list(attributes))
    rows = np.repeat(codes, [len(numbers) for numbers in attributes.values()])
    columns = np.array([number for numbers in attributes.values() for number in numbers])
    is_listed = rows >= 0
    shape = (data.n_items, int(columns.max()) + 1)
    marks = sp.csr_matrix(
        (np.ones(int(is_listed.sum()), np.float32), (rows[is_listed], columns[is_listed])), shape=shape
    )
    frequency = np.maximum(np.asarray(marks.sum(axis=0)).ravel(), 1)
    weighed = marks @ sp.diags_array(np.log(data.n_items / frequency))
    lengths = np.sqrt(np.asarray(weighed.multiply(weighed).sum(axis=1)).ravel())
    return (sp.diags_array(1 / np.maximum(lengths, 1e-9)) @ weighed).tocsr().astype(np.float32)


def _taobao_pairs(name: str) -> list[tuple[str, str]]:
    pairs: list[Any] = []
    with gzip.open(data_folder() / "taobao-ghcf" / name, "rt") as lines:
        for line in lines:
            user, *items = line.split()
            pairs += [(user, item) for item in items]
    return pairs


def _csv(path: Path, separator: str = ",") -> pl.DataFrame:
    with gzip.open(path) as stream:
        return pl.read_csv(io.BytesIO(stream.read()), separator=separator)
