"""Experiments whose unit is the question of an agent: what variants change, what the log keeps, what reports count."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette

from actors.archive.messages import ArchiveQuery
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import document_from_product
from actors.archive.retrieve import resize_snippets, search_passages
from actors.experiments.assignment import ExperimentCache, TreatmentAssigner
from actors.experiments.lifecycle import ExperimentLifecycle
from actors.experiments.question_report import build_question_report
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.crypto import Vault
from cluster.errors import Invalid
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import build_archive_routes, open_archive
from deployments.operations.insight.archive.readership import load_calls
from tests.benchmarks.readership import APP, MarkedArchive, Simulation
from tests.fakes.archive import ORIGIN, ArchiveCorner, SmallArchive, sample_articles
from tests.fakes.request_handler import MASTER, StillClock
from tests.fakes.stores.memory import memory_stores

CITE = "Please send your user to the article."
VARIANTS = [{"name": "now"}, {"name": "longer", "configuration": {"snippet_words": 300, "citation": CITE}}]


async def open_corner(**draft: Any) -> tuple[ArchiveCorner, Any]:
    """Open an archive with a running experiment."""
    clock = StillClock()
    stores = memory_stores(clock)
    lifecycle = ExperimentLifecycle(stores, clock)
    (made,) = await lifecycle.create(
        APP, [{"name": "Snippets", "method": "question", "variants": VARIANTS, **draft}]
    )
    experiment = await lifecycle.start(APP, made.experiment_id)
    assigner = TreatmentAssigner(stores.experiments, ExperimentCache(stores.experiments, clock), clock)
    archive, config = SmallArchive(sample_articles()), ArchiveConfig(public_url=ORIGIN)
    services = open_archive(
        stores, Vault(MASTER), archive, clock, config, MarkedArchive(), assign=assigner.assign_question
    )
    app = Starlette(routes=build_archive_routes(services))
    return ArchiveCorner(stores, clock, Vault(MASTER), archive, services, app), experiment


async def rows_of(corner: ArchiveCorner) -> list[Any]:
    await corner.services.workers.usage.write()
    return await corner.stores.archive_calls.read_all(APP, "0")


async def test_a_question_and_its_reads_have_one_variant() -> None:
    corner, experiment = await open_corner()
    for _ in range(40):
        corner.clock.pass_ms(2_000)
        (first, *_) = await corner.ask("river water rules")
        pair = {"product_id": first["product_id"], "offset": first["offset"]}
        article = (await corner.tool("get_archive_article", pair))["result"]["structuredContent"]
        question, read = (await rows_of(corner))[-2:]
        assert (read.question_id, read.experiments) == (question.call_id, question.experiments)
        (treatment,) = question.experiments
        is_longer = treatment["variant"] == experiment.variants[1].variant_id
        assert corner.archive.queries[-1].snippet_words == (300 if is_longer else 0)
        assert article["citation_instruction"].endswith(CITE) == is_longer
    variants = {row.experiments[0]["variant"] for row in await rows_of(corner)}
    assert variants == {variant.variant_id for variant in experiment.variants}
    corner.clock.pass_ms(1_900_000)
    await corner.tool("get_archive_article", pair, token=corner.token())
    late = (await rows_of(corner))[-1]
    assert (late.question_id, late.experiments) == ("", ())


async def test_a_stranger_to_the_question_takes_no_part() -> None:
    corner, _ = await open_corner()
    (first, *_) = await corner.ask("river water rules")
    fetched = await corner.tool(
        "get_archive_article", {"product_id": "na-1002", "offset": first["offset"]}, token=corner.token("bob")
    )
    assert "error" in fetched
    again = await corner.tool(
        "get_archive_article",
        {"product_id": "na-1002", "offset": first["offset"]},
        token=corner.token(client="client-2"),
    )
    assert "result" in again
    assert (await rows_of(corner))[-1].experiments == ()


async def test_questions_outside_the_traffic_and_of_a_paused_experiment_are_plain() -> None:
    corner, experiment = await open_corner(traffic=0.5)
    for _ in range(60):
        corner.clock.pass_ms(2_000)
        await corner.ask("river")
    shares = [len(row.experiments) for row in await rows_of(corner)]
    assert 15 <= sum(shares) <= 45
    await ExperimentLifecycle(corner.stores, corner.clock).pause(APP, experiment.experiment_id)
    corner.clock.pass_ms(2_000)
    await corner.ask("river")
    assert (await rows_of(corner))[-1].experiments == ()


async def test_the_report_counts_visits_for_each_question(tmp_path: Path) -> None:
    corner, experiment = await open_corner()
    simulation = Simulation(corner, None, None, random.Random(5), None)  # type: ignore[arg-type]
    rng = random.Random(2)
    truth: dict[str, list[int]] = {variant.slug: [] for variant in experiment.variants}
    for at in range(300):
        corner.clock.pass_ms(3_000)
        if at % 900 == 0:
            token = corner.token()
        (first, *_) = await corner.ask("river water rules", token=token)
        pair = {"product_id": first["product_id"], "offset": first["offset"]}
        reply = await corner.tool("get_archive_article", pair, token=token)
        article = reply["result"]["structuredContent"]
        is_longer = article["citation_instruction"].endswith(CITE)
        visits = int(rng.random() < (0.6 if is_longer else 0.2))
        if visits:
            for url in rng.choice(([first["url"]], [article["url"]], [first["url"], article["url"]])):
                await simulation.follow(url)
        truth["longer" if is_longer else "now"].append(visits)
    await corner.services.workers.usage.write()
    services: Any = SimpleNamespace(stores=corner.stores, artifacts=ArtifactStore.open(tmp_path))
    _, rows = await load_calls(services, APP, 0)
    report = build_question_report(experiment, rows)
    counted = {line.variant.slug: (line.sample.users, round(line.sample.total)) for line in report.variants}
    assert counted == {slug: (len(visits), sum(visits)) for slug, visits in truth.items()}
    assert report.better == "longer"
    assert report.to_dict()["variants"][0]["effect"] is None


@pytest.mark.parametrize(
    "configuration",
    [{"snippet_words": 5_000}, {"snippet_words": -1}, {"citation": "x" * 501}, {"free": 5}, [], "text"],
)
async def test_a_variant_with_another_configuration_is_refused(configuration: Any) -> None:
    variants = [{"name": "now"}, {"name": "other", "configuration": configuration}]
    with pytest.raises(Invalid, match="snippet_words"):
        await open_corner(variants=variants)


async def test_a_variant_with_an_engine_is_refused() -> None:
    with pytest.raises(Invalid, match="snippet_words and citation alone"):
        await open_corner(variants=[{"name": "now"}, {"name": "blue", "engine_id": "blue"}])


def test_snippets_have_the_words_that_follow_their_passage() -> None:
    words = [f"word{at}" for at in range(900)]
    record = {"product_id": "a", "type": "article", "title": "River", "paragraphs": [" ".join(words)]}
    library = PassageIndex(None)
    document = document_from_product(record)
    assert document is not None
    library.put([document])
    result = search_passages(library, ArchiveQuery(APP, "word300 word301"), 0)
    short, long = (resize_snippets(library, result, count) for count in (20, 10_000))
    first = result.snippets[0]
    assert short.snippets[0].text.split() == first.text.split()[:20]
    assert long.snippets[0].text.split() == words[words.index(first.text.split()[0]) :]
    assert long.snippets[0].position == first.position
