from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from actors.archive.messages import ArchiveQuery
from actors.archive.passage_snapshot import PassageSnapshot, document_from_bytes, document_to_bytes
from actors.archive.passages import document_from_product
from actors.archive.retrieve import search_passages
from actors.archive.snapshot_store import MAX_SNAPSHOTS, PassageSnapshotStore
from actors.archive.snapshot_writer import WeightedEmbedder
from actors.language import latent_embedder
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.signing import sign_manifests
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.crypto import Signer
from cluster.errors import Fault, Invalid
from tests.fakes.small_archive import ARTICLES

APP = "news"
DOCUMENTS = [document for record in ARTICLES if (document := document_from_product(record)) is not None]


def write(root: Path, meaning: WeightedEmbedder | None = None) -> Manifest:
    return PassageSnapshotStore(ArtifactStore.open(root)).write(
        APP, iter(DOCUMENTS), offset="7-0", written_at_ms=1, meaning=meaning
    )


def folders(root: Path) -> list[Path]:
    names = PassageSnapshotStore(ArtifactStore.open(root)).list_sequences(APP)
    return [root / APP / "passages" / name for name in names]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One written snapshot for tests that only read or copy it."""
    root = tmp_path_factory.mktemp("passages")
    write(root)
    return folders(root)[0]


def test_a_document_is_read_as_it_was_written() -> None:
    assert [document_from_bytes(document_to_bytes(document)) for document in DOCUMENTS] == DOCUMENTS


def test_a_snapshot_reports_its_content_and_answers_from_disk(kept: Path) -> None:
    opened = PassageSnapshotStore(ArtifactStore.open(kept.parents[2])).open(APP)
    assert opened is not None
    library, offset = opened
    assert offset == "7-0"
    assert library.documents == len(ARTICLES)
    assert library.vector_share == latent_embedder.SHARE
    facts = PassageSnapshot.open(kept).facts
    assert facts["languages"] == {"en": 12, "de": 1}
    assert facts["kinds"] == ["article"]
    first = search_passages(library, ArchiveQuery(APP, "Who saved two penalties?"), 0).snippets[0]
    assert first.product_id == "cup-final"
    assert first.text.startswith("Goalkeeper Tamsin Orr")


def test_the_same_articles_make_the_same_snapshot(kept: Path, tmp_path: Path) -> None:
    again = write(tmp_path)
    assert again.facts["version"] == PassageSnapshot.open(kept).facts["version"]


def test_every_flipped_bit_and_every_cut_is_refused(kept: Path, tmp_path: Path) -> None:
    dice = random.Random(5)
    for at in range(150):
        folder = tmp_path / str(at)
        shutil.copytree(kept, folder)
        path = dice.choice(sorted(folder.iterdir()))
        data = bytearray(path.read_bytes())
        if at % 3 == 0:
            del data[dice.randrange(len(data)) :]
        else:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        path.write_bytes(data)
        with pytest.raises(Fault):
            PassageSnapshot.open(folder)
        shutil.rmtree(folder)


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path)
    snapshots = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    newest = folders(tmp_path)[-1]
    (newest / "papers.bin").write_bytes(b"")
    opened = snapshots.open(APP)
    assert opened is not None
    assert opened[0].documents == len(ARTICLES)
    shutil.rmtree(folders(tmp_path)[0])
    assert snapshots.open(APP) is None


def test_old_snapshots_go(tmp_path: Path) -> None:
    for _ in range(4):
        write(tmp_path, WeightedEmbedder(HashingEmbedder(), 0.1))
    assert [folder.name for folder in folders(tmp_path)] == ["000000003", "000000004"]
    assert MAX_SNAPSHOTS == 2


def test_without_its_embedder_a_snapshot_is_searched_by_words(tmp_path: Path) -> None:
    write(tmp_path, WeightedEmbedder(HashingEmbedder(), 0.5))
    opened = PassageSnapshotStore(ArtifactStore.open(tmp_path)).open(APP)
    assert opened is not None
    assert opened[0].vector_share == 0
    assert (
        search_passages(opened[0], ArchiveQuery(APP, "hermit beetle"), 0).snippets[0].product_id
        == "beetle-count"
    )
    opened = PassageSnapshotStore(ArtifactStore.open(tmp_path), lambda version: HashingEmbedder()).open(APP)
    assert opened is not None
    assert opened[0].vector_share == 0.5


def test_nothing_is_left_of_a_snapshot_that_could_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        PassageSnapshotStore(ArtifactStore.open(tmp_path)).write(APP, iter(()), offset="0", written_at_ms=1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_mapped_snapshot_takes_changes_beside_it(kept: Path) -> None:
    opened = PassageSnapshotStore(ArtifactStore.open(kept.parents[2])).open(APP)
    assert opened is not None
    library = opened[0]
    library.remove(["cup-final"])
    library.put(
        [
            document_from_bytes(
                document_to_bytes(DOCUMENTS[0]).replace(b"signed a treaty", b"sealed an accord")
            )
        ]
    )
    assert library.documents == len(ARTICLES) - 1
    assert "cup-final" not in {
        s.product_id for s in search_passages(library, ArchiveQuery(APP, "cup penalties"), 0).snippets
    }
    assert "accord" in search_passages(library, ArchiveQuery(APP, "sealed accord"), 0).snippets[0].text
    assert np.count_nonzero(~library.segments[0].alive) == 3


def test_a_snapshot_is_opened_when_this_installation_signed_it_for_its_app(tmp_path: Path) -> None:
    before = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    ours = PassageSnapshotStore(ArtifactStore.open(tmp_path, signer=Signer(b"ours")))
    ours.write(APP, iter(DOCUMENTS), offset="0", written_at_ms=1)
    assert ours.open(APP) is not None
    shutil.copytree(tmp_path / APP, tmp_path / "other")
    assert ours.open("other") is None
    assert before.open("other") is not None
    before.write("third", iter(DOCUMENTS), offset="0", written_at_ms=1)
    assert ours.open("third") is None
    sign_manifests(ArtifactStore.open(tmp_path, signer=Signer(b"ours")), foreign=False)
    assert ours.open("third") is not None
