"""Code that goes along with one run: what leaves its folder, who may name it, and that it never serves."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import pytest

from cluster.errors import Fault, Invalid
from jobs.refresh.runs import shipped_code
from jobs.refresh.runs.shipped_code import (
    check_package,
    code_path,
    import_from_package,
    pack_and_store,
    pack_folder,
    read_package,
    store_package,
)

RECIPE = {"parts": {"mine": {"learner": "mymodel_of_a_test:Counts"}, "rules": {"learner": "rules"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "pkg").mkdir(parents=True)
    (made / "mymodel_of_a_test.py").write_text("class Counts:\n    answer = 42\n")
    (made / "pkg" / "__init__.py").write_text("")
    (made / "tokenizer.py").write_text("")
    (made / "words.txt").write_text("a b c")
    return made


def names_of(package: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(package)).namelist()


def test_python_and_plain_data_go_and_nothing_else(folder: Path) -> None:
    (folder / "model.bin").write_bytes(b"x")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.py").write_text("")
    assert names_of(pack_folder(folder)) == [
        "mymodel_of_a_test.py",
        "pkg/__init__.py",
        "tokenizer.py",
        "words.txt",
    ]


@pytest.mark.parametrize(
    "name",
    [".env", "secrets.toml", "aws_credentials.json", "api-key.txt", "service.token.json", "id_rsa.txt"],
)
def test_secrets_stay_at_home(folder: Path, name: str) -> None:
    (folder / name).write_text("canary")
    assert b"canary" not in b"".join(
        zipfile.ZipFile(io.BytesIO(pack_folder(folder))).read(packed_name)
        for packed_name in names_of(pack_folder(folder))
    )


def test_links_out_of_the_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("canary")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    assert "link.txt" not in names_of(pack_folder(folder))


def test_ignore_files_are_obeyed(folder: Path) -> None:
    (folder / ".gitignore").write_text("# built\n*.csv\n/data/\n!keep.csv\npkg/notes.txt\n")
    (folder / ".rayignore").write_text("words.txt\n")
    (folder / "data").mkdir()
    for name in ("big.csv", "keep.csv", "data/rows.txt", "pkg/notes.txt", "pkg/rows.csv"):
        (folder / name).write_text("x")
    assert names_of(pack_folder(folder)) == ["mymodel_of_a_test.py", "pkg/__init__.py", "tokenizer.py"]


def test_a_folder_that_is_too_large_or_empty_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped_code, "MOST_BYTES", 10)
    with pytest.raises(Invalid, match="holds more than"):
        pack_folder(folder)
    (folder.parent / "empty").mkdir()
    with pytest.raises(Invalid, match="holds no Python file"):
        pack_folder(folder.parent / "empty")
    with pytest.raises(Invalid, match="is no folder"):
        pack_folder(folder / "nowhere")


def test_equal_files_are_one_package_and_old_ones_go(folder: Path, tmp_path: Path) -> None:
    assert pack_folder(folder) == pack_folder(folder)
    code_dir = code_path(tmp_path)
    digests = []
    for number in range(13):
        (folder / "words.txt").write_text(str(number))
        digests.append(store_package(code_dir, pack_folder(folder)))
    assert len(list(code_dir.glob("*.zip"))) == 10
    assert (code_dir / f"{digests[-1]}.zip").stat().st_mode & 0o077 == 0


def test_a_process_imports_from_it_while_it_trains_only(folder: Path, tmp_path: Path) -> None:
    digest = store_package(code_path(tmp_path), pack_folder(folder))
    with import_from_package(code_path(tmp_path), digest):
        import mymodel_of_a_test  # type: ignore[import-not-found]

        assert mymodel_of_a_test.Counts.answer == 42
    assert "mymodel_of_a_test" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        import mymodel_of_a_test
    with import_from_package(code_path(tmp_path), ""):
        pass


def test_a_run_can_name_only_what_was_put_there(folder: Path, tmp_path: Path) -> None:
    """Runs come from Redis: who writes there must not choose the code."""
    code_dir = code_path(tmp_path)
    digest = store_package(code_dir, pack_folder(folder))
    with pytest.raises(Fault, match="no digest"):
        read_package(code_dir, "../../etc/passwd")
    with pytest.raises(Invalid, match="not on this machine"):
        read_package(code_dir, "0" * 64)
    (code_dir / f"{digest}.zip").write_bytes(b"another")
    with pytest.raises(Fault, match="was changed"):
        read_package(code_dir, digest)


def test_what_can_not_work_is_refused_before_anything_is_trained(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="leave out --promote"):
        pack_and_store(folder, RECIPE, tmp_path, promote=True)
    with pytest.raises(Invalid, match="there is no module elsewhere_of_a_test"):
        pack_and_store(folder, {"parts": {"a": {"learner": "elsewhere_of_a_test:Model"}}}, tmp_path)
    with pytest.raises(Invalid, match="names no learner class of yours"):
        pack_and_store(folder, {"parts": {"a": {"learner": "rules"}}}, tmp_path)
    check_package(pack_folder(folder), RECIPE)
    assert not code_path(tmp_path).exists()
    assert len(pack_and_store(folder, RECIPE, tmp_path)) == 64
