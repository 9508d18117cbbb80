from __future__ import annotations

import pyarrow as pa

from actors.vectors.vocabulary import Vocabulary


def test_names_are_sorted_and_codes_are_their_places() -> None:
    names = Vocabulary.from_names(["pear", "apple", None, "pear"])
    assert names.names.to_pylist() == ["apple", "pear"]
    assert names.codes(["pear", "plum", "apple", None]).tolist() == [1, -1, 0, -1]
    assert names.name(1) == "pear"


def test_chunks_and_numbers_are_read_as_texts() -> None:
    assert Vocabulary.from_names(pa.chunked_array([[2, 10], [1]])).names.to_pylist() == ["1", "10", "2"]


def test_equal_names_are_equal() -> None:
    assert Vocabulary.from_names(["a", "b"]) == Vocabulary.from_names(["b", "a"])
    assert Vocabulary.from_names(["a"]) != Vocabulary.from_names(["b"])
    assert len(Vocabulary.from_names([])) == 0


def test_one_name_has_the_same_code_alone_and_among_many() -> None:
    names = ["b", "a", "ä", "z", "\U0001f33f", "zz", ""]
    vocabulary = Vocabulary.from_names(names)
    assert vocabulary.is_ordered
    for name in [*names, "c", "zzz", "~"]:
        assert vocabulary.code(name) == vocabulary.codes([name])[0]
    assert Vocabulary.from_names([]).code("a") == -1
    assert Vocabulary.from_names([]).is_ordered
    assert not Vocabulary(pa.array(["b", "a"])).is_ordered
    assert not Vocabulary(pa.array(["a", "a"])).is_ordered
