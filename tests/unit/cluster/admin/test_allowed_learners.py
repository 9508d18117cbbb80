"""The list of learner classes an installation allows: a setting, and a file that a command manages."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.admin.allowed_learners import allow_learner, allowed_learners, remove_learner
from cluster.errors import Invalid, NotFound
from cluster.settings import Settings

MINE = "shop.markov:Markov"


def test_nothing_is_allowed_before_a_grant(tmp_path: Path) -> None:
    assert allowed_learners(Settings(data_dir=tmp_path / "none")) == frozenset()


def test_the_setting_and_the_file_add_up(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, learners=f"{MINE}, other.module:Thing,,nonsense")
    assert allow_learner(settings, "third:Class")
    assert not allow_learner(settings, MINE)
    assert allowed_learners(settings) == {MINE, "other.module:Thing", "third:Class"}
    remove_learner(settings, "third:Class")
    assert allowed_learners(settings) == {MINE, "other.module:Thing"}
    with pytest.raises(Invalid, match="KIOSK_LEARNERS"):
        remove_learner(settings, MINE)
    with pytest.raises(NotFound):
        remove_learner(settings, "third:Class")


@pytest.mark.parametrize(
    "learner", ["", "no_class", "a:b:c", "a b:C", "a:B\nc:D", "../x:Y", "a:" + "B" * 200]
)
def test_what_names_no_class_is_not_written_down(tmp_path: Path, learner: str) -> None:
    with pytest.raises(Invalid, match=r"package\.module:Class"):
        allow_learner(Settings(data_dir=tmp_path), learner)
    assert not (tmp_path / "learners").exists()
