"""Citations against a changing archive: what stands, what changed, what was withdrawn, and how soon it is known."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import orjson
import pytest

from actors.archive import citations
from actors.archive.citations import check_citations
from actors.archive.host import ArchiveHost
from actors.archive.messages import ArchiveQuery, Citation, CitationState
from actors.archive.passage_index import PassageIndex
from actors.archive.passage_snapshot import MappedDocuments, document_from_bytes, document_to_bytes
from actors.archive.passages import canonical_address, document_from_product, find_sentence_spans
from actors.archive.revisions import MOST_REVISIONS, ArticleRevisions
from cluster.clock import SystemClock
from cluster.errors import Invalid
from cluster.meter import SilentMeter
from cluster.records.archive.article_revision import passage_digest
from tests.fakes.corner_shop import upload, withdraw
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

APP = "news"
SENTENCES = ("The mill burned down in 1911.", "Nobody was hurt.", "It was rebuilt within “three” years.")
MILL: dict[str, Any] = {
    "product_id": "mill", "type": "article", "title": "The mill", "url": "https://news.example/mill/?a=1#top",
    "html": f"<h2>Fire</h2><p>{' '.join(SENTENCES)}</p>",
}  # fmt: skip
CORRECTED = {
    **MILL, "html": MILL["html"].replace("1911", "1912"), "corrected_at": "2026-03-01", "correction_note": "The year.",
}  # fmt: skip


def state_of(
    library: PassageIndex, revisions: ArticleRevisions, tiers: frozenset[str] = frozenset(), **citation: str
) -> CitationState:
    cited = Citation(**{"product_id": "", **citation})
    return check_citations(library, revisions.by_product, [cited], tiers)[0]


@pytest.fixture
def library() -> PassageIndex:
    return PassageIndex(None)


def test_quoted_words_stand_until_the_text_of_the_article_is_another(library: PassageIndex) -> None:
    revisions = ArticleRevisions()
    revisions.apply_records(library, [MILL], 1)
    alike = ("  the MILL burned\ndown in 1911 ", 'within "three" years', " ".join(SENTENCES))
    for quoted in (SENTENCES[0], *alike):
        assert state_of(library, revisions, product_id="mill", passage=quoted).status == "stands", quoted
        assert (
            state_of(library, revisions, product_id="mill", digest=passage_digest(SENTENCES[1])).status
            == "stands"
        )
    revisions.apply_records(library, [CORRECTED], 2)
    changed = state_of(library, revisions, product_id="mill", passage=SENTENCES[0])
    assert (changed.status, changed.corrected_at, changed.correction_note) == (
        "changed",
        "2026-03-01",
        "The year.",
    )
    assert "burned down in 1912" in changed.passage
    assert (
        state_of(library, revisions, product_id="mill", digest=passage_digest(SENTENCES[0])).status
        == "changed"
    )
    kept = state_of(library, revisions, product_id="mill", passage=SENTENCES[1])
    assert (kept.status, kept.corrected_at, kept.passage) == ("stands", "2026-03-01", "")
    assert state_of(library, revisions, product_id="mill", passage="Zebras swim.").passage == ""
    assert state_of(library, revisions, product_id="mill", passage="...").status == "stands"


@pytest.mark.parametrize("url", ["http://NEWS.example/mill?a=1", "https://news.example/mill/?a=1#fire"])
def test_an_address_names_an_article_also_after_its_withdrawal(library: PassageIndex, url: str) -> None:
    revisions = ArticleRevisions()
    revisions.apply_records(library, [MILL], 1)
    assert state_of(library, revisions, url=url, passage="Nobody was hurt").status == "stands"
    revisions.remove(library, ["mill", "nothing"], 2)
    withdrawn = state_of(library, revisions, url=url, passage="Nobody was hurt")
    assert withdrawn == CitationState("withdrawn", "mill", "The mill", MILL["url"])
    assert state_of(library, revisions, product_id="nothing").status == "unknown"
    assert state_of(library, revisions, url="https://news.example/other").status == "unknown"
    revisions.apply_records(library, [MILL], 3)
    assert state_of(library, revisions, url=url).status == "stands"
    assert revisions.take_unwritten() == {"mill": None}


@pytest.mark.parametrize("passage", ["The mill burned down in 1911", "The mill burned down in 1912", ""])
def test_a_locked_article_answers_as_one_that_never_was(library: PassageIndex, passage: str) -> None:
    revisions = ArticleRevisions()
    for at_ms, record in enumerate((MILL, {**MILL, "access": "gold"}, {**CORRECTED, "access": "gold"})):
        revisions.apply_records(library, [record], at_ms)
    absent = CitationState("unknown", "mill")
    assert state_of(library, revisions, product_id="mill", passage=passage) == absent
    assert state_of(library, revisions, url=MILL["url"], passage=passage) == CitationState("unknown", "")
    assert (
        state_of(library, revisions, frozenset({"gold"}), product_id="mill", passage=passage).title
        == "The mill"
    )
    revisions.remove(library, ["mill"], 9)
    assert state_of(library, revisions, product_id="mill", passage=passage) == absent
    assert state_of(library, revisions, frozenset({"gold"}), product_id="mill").status == "withdrawn"


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_an_address_of_a_locked_article_hides_no_open_one(library: PassageIndex, is_withdrawn: bool) -> None:
    revisions = ArticleRevisions()
    revisions.apply_records(library, [MILL, {**MILL, "product_id": "secret", "access": "gold"}], 1)
    if is_withdrawn:
        revisions.remove(library, ["secret"], 2)
        revisions.remove(library, ["mill"], 3)
    state = state_of(library, revisions, url=MILL["url"])
    assert (state.status, state.product_id) == ("withdrawn" if is_withdrawn else "stands", "mill")


def test_a_product_of_another_type_answers_as_one_that_never_was(library: PassageIndex) -> None:
    ware = {**MILL, "product_id": "ware", "type": "ware"}
    revisions = ArticleRevisions()
    for at_ms, record in enumerate((MILL, ware)):
        revisions.apply_records(library, [record], at_ms)
    assert state_of(
        library, revisions, product_id="ware", passage="Zebras burned down in 1911"
    ) == CitationState("unknown", "ware")
    assert state_of(library, revisions, url=MILL["url"]).product_id == "mill"
    revisions.apply_records(library, [{**MILL, "type": "ware"}], 3)
    assert state_of(library, revisions, url=MILL["url"]).status == "withdrawn"
    assert state_of(library, revisions, product_id="mill", passage=SENTENCES[0]).passage == ""
    revisions.apply_records(library, [{**MILL, "type": "ware", "title": "A mill"}], 4)
    assert revisions.by_product["mill"].status == "withdrawn"
    revisions.apply_records(library, [MILL], 5)
    assert state_of(library, revisions, url=MILL["url"]).status == "stands"


def words_of_sentences(text: str, count: int) -> set[str]:
    """Return the digests of so many words from the beginning of each sentence, as the guide defines them."""
    passages = [text[start:].split()[:count] for start, _, _ in find_sentence_spans(text, 0, len(text))]
    return {passage_digest(" ".join(words)) for words in passages if len(words) == count}


def test_a_digest_is_that_of_words_from_the_beginning_of_a_sentence(library: PassageIndex) -> None:
    text = '"Rivers  rise," she said. (The mill\nburned!) “Nobody” was hurt: none. It cost 2.5 million. End'
    ArticleRevisions().apply_records(
        library, [{"product_id": "q", "type": "article", "title": "Q", "paragraphs": [text]}], 1
    )
    document = library.find("q")
    assert document is not None
    words = document.text.split()
    for count in range(1, len(words) + 2):
        quoted = words_of_sentences(document.text, count)
        parts = {passage_digest(" ".join(words[start : start + count])) for start in range(len(words))}
        for digest in quoted | {part for part in parts if part.startswith(f"{count}:")}:
            state = state_of(library, ArticleRevisions(), product_id="q", digest=digest)
            assert (state.status == "stands") is (digest in quoted), digest


def test_digests_that_hash_most_of_a_long_article_are_refused(library: PassageIndex) -> None:
    sentences = [f"{' '.join(f'word{number}' for number in range(19))} end{at}." for at in range(2_000)]
    record = {"product_id": "long", "type": "article", "title": "L", "paragraphs": sentences}
    ArticleRevisions().apply_records(library, [record], 1)
    absent = "0" * 64
    assert (
        state_of(library, ArticleRevisions(), product_id="long", digest=f"500:{absent}").status == "changed"
    )
    with pytest.raises(Invalid, match="digests of these citations are too long"):
        state_of(library, ArticleRevisions(), product_id="long", digest=f"9999:{absent}")


@pytest.mark.parametrize("passage", ["Zebras swim in word7.", "o"])
def test_quotations_that_are_compared_with_too_much_text_are_refused(
    library: PassageIndex, passage: str
) -> None:
    sentences = [f"{' '.join(f'word{number}' for number in range(19))} end{at}." for at in range(1_000)]
    record = {"product_id": "long", "type": "article", "title": "L", "paragraphs": sentences}
    ArticleRevisions().apply_records(library, [record], 1)
    quoted = Citation("long", passage=passage)
    assert check_citations(library, {}, [quoted] * 10, frozenset())[9].status == "changed"
    with pytest.raises(Invalid, match="send fewer citations"):
        check_citations(library, {}, [quoted] * 100, frozenset())


def test_addresses_of_withdrawn_articles_are_read_once_for_a_check(
    library: PassageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions = ArticleRevisions()
    for number in range(50):
        records = [{**MILL, "product_id": f"m-{number}", "url": f"https://news.example/{number}"}]
        revisions.apply_records(library, records, number)
        revisions.remove(library, [f"m-{number}"], number)
    calls = []

    def count(url: str) -> str:
        calls.append(url)
        return canonical_address(url)

    monkeypatch.setattr(citations, "canonical_address", count)
    cited = [Citation("", f"https://news.example/{number}") for number in range(100)]
    states = check_citations(library, revisions.by_product, cited, frozenset())
    assert [state.status for state in states] == ["withdrawn"] * 50 + ["unknown"] * 50
    assert len(calls) == 100 + 50


@pytest.mark.parametrize(("passage", "status"), [
    ("1 million barrels", "changed"), ("5 million barrels", "changed"), ("2.5 million barrels", "stands"),
    ("11 million", "stands"), ("barrel", "changed"), ("2.5 million barrels.", "stands"),
    ("The har\u00adbour", "stands"),
])  # fmt: skip
def test_quoted_numbers_and_words_are_whole(library: PassageIndex, passage: str, status: str) -> None:
    text = "The harbour took 2.5 million barrels. Later 11 million came."
    ArticleRevisions().apply_records(
        library, [{"product_id": "h", "type": "article", "title": "H", "html": text}], 1
    )
    assert state_of(library, ArticleRevisions(), product_id="h", passage=passage).status == status


def test_revisions_are_bounded_and_the_newest_stay(library: PassageIndex) -> None:
    revisions = ArticleRevisions()
    records = [{**CORRECTED, "product_id": f"a-{number}"} for number in range(MOST_REVISIONS + 20)]
    for at_ms, record in enumerate(records):
        revisions._record_put(document_from_product(record), at_ms)  # type: ignore[arg-type]
    assert list(revisions.by_product) == [f"a-{number}" for number in range(20, MOST_REVISIONS + 20)]
    stored = {name: kept for name, kept in revisions.take_unwritten().items() if kept is not None}
    assert ArticleRevisions(stored).by_product == revisions.by_product


def test_an_older_change_does_not_replace_a_newer_revision(library: PassageIndex) -> None:
    revisions = ArticleRevisions()
    revisions.apply_records(library, [CORRECTED], 5)
    revisions.apply_records(library, [{**CORRECTED, "correction_note": "An earlier one."}], 4)
    assert revisions.by_product["mill"].note == "The year."


def test_a_corrected_document_survives_its_snapshot_and_others_keep_their_bytes() -> None:
    for record, members in ((MILL, 11), (CORRECTED, 13)):
        document = document_from_product(record)
        assert document is not None
        data = document_to_bytes(document)
        assert document_from_bytes(data) == document
        mapped = MappedDocuments(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64))
        assert mapped.excerpt(0, 0).title == "The mill"
        assert len(orjson.loads(data)) == members


def article(number: int, *, corrected: bool = False) -> dict[str, Any]:
    rng = random.Random(number)
    facts = [
        f"Fact {number}-{place} counts {rng.randrange(10**6)} {'crates' if corrected and place == 2 else 'barrels'} of "
        f"herring in harbour {rng.randrange(10**6)}."
        for place in range(5)
    ]
    more = (
        {"corrected_at": "2026-03-01T10:00:00Z", "correction_note": "Crates, not barrels."}
        if corrected
        else {}
    )
    return {
        "product_id": f"fish-{number}", "type": "article", "title": f"Report {number}", "paragraphs": facts,
        "url": f"https://news.example/fish/{number}", **more,
    }  # fmt: skip


async def test_citations_that_rest_on_500_corrections_are_reported_within_5_s_and_no_other_is() -> None:
    """2,000 articles with 5 citations each, by id and by address, half of them by digest; 500 are corrected."""
    stores = memory_stores(SystemClock())
    await upload(stores, [article(number) for number in range(2_000)], app_id=APP)
    client = ArchiveHost(stores, None, None, SystemClock(), SilentMeter())
    citations, resting = [], set()
    chosen = set(random.Random(24).sample(range(2_000), 500))
    for number in range(2_000):
        record = article(number)
        for place, words in enumerate(record["paragraphs"]):
            by = (
                {"product_id": record["product_id"]}
                if place % 2
                else {"product_id": "", "url": record["url"]}
            )
            what = {"digest": passage_digest(words)} if number % 2 else {"passage": words}
            if number in chosen and place == 2:
                resting.add(len(citations))
            citations.append(Citation(**{**by, **what}))
    try:
        assert len(citations) == 10_000
        assert {state.status for state in await client.check(APP, citations)} == {"stands"}
        await client.ask(ArchiveQuery(APP, "herring"))
        begun_s = time.perf_counter()
        await upload(stores, [article(number, corrected=True) for number in sorted(chosen)], app_id=APP)

        async def are_applied() -> bool:
            return len(await client.get_article_revisions(APP)) == 500

        await until(are_applied, 60)
        states = await client.check(APP, citations)
        assert time.perf_counter() - begun_s < 5
        assert {at for at, state in enumerate(states) if state.status != "stands"} == resting
        assert {states[at].status for at in resting} == {"changed"}
        named = [states[at] for at in resting if citations[at].passage]
        assert all("crates" in state.passage and state.correction_note for state in named)
    finally:
        await client.close()


async def test_a_new_replica_knows_the_revisions_of_earlier_ones() -> None:
    stores = memory_stores(SystemClock())
    await upload(stores, [MILL], app_id=APP)
    first = ArchiveHost(stores, None, None, SystemClock(), SilentMeter())
    assert (await first.check(APP, [Citation("mill")]))[0].status == "stands"
    await withdraw(stores, ["mill"], app_id=APP)

    async def is_stored() -> bool:
        return bool(await stores.article_revisions.all(APP))

    await until(is_stored, 5)
    await first.close()
    second = ArchiveHost(stores, None, None, SystemClock(), SilentMeter())
    try:
        assert (await second.check(APP, [Citation("mill")]))[0].status == "withdrawn"
    finally:
        await second.close()
