from __future__ import annotations

import pytest

from actors.language.analysis import ALGORITHMS, Analyzer, Analyzers
from actors.language.folding import fold


@pytest.mark.parametrize(
    ("language", "text", "stems"),
    [
        ("en", "The dog's high-speed running isn't", ["dog", "high", "speed", "run"]),
        ("en", "O’Rourke and O'Rourke met U.S. envoys", ["o", "rourk", "o", "rourk", "met", "us", "envoy"]),
        ("en", "Crème brûlée, brulee; re\u0301sume\u0301s", ["creme", "brule", "brule", "resum"]),
        ("de", "Die Häuser der Königin", ["haus", "konigin"]),
        ("fr", "la crème brûlée", ["crem", "brul"]),
        ("de", "Die Ha\u0308user der Ko\u0308nigin", ["haus", "konigin"]),
        ("xx", "İstanbul d'e\u0301te\u0301", ["istanbul", "ete"]),
        ("fr", "l'eau des rivières", ["eau", "rivi"]),
        ("es", "¿Cuándo llegaron los ríos?", ["lleg", "rios"]),
        ("ja", "東京都庁", ["東京", "京都", "都庁"]),
        ("xx", "Plain Words", ["plain", "words"]),
        ("en", "", []),
    ],
)
def test_a_text_is_cut_into_stems_of_its_language(language: str, text: str, stems: list[str]) -> None:
    assert Analyzer(language).stems(text) == stems
    assert len(Analyzer(language).terms(text)) == len(stems)


def test_inflected_words_share_a_term() -> None:
    analyzer = Analyzer("en")
    assert analyzer.terms("treaties") == analyzer.terms("Treaty")
    assert Analyzer("de").terms("Flüsse") == Analyzer("de").terms("flüssen")


def test_a_question_is_analyzed_in_every_language_of_the_corpus_but_its_stop_words_in_one() -> None:
    analyzers = Analyzers()
    words = analyzers.query_terms("the running of the bulls", ["de", "en"])
    assert len(words) == 2
    running = words[0]
    assert set(running) == {*analyzers.get("en").terms("running"), *analyzers.get("de").terms("running")}


def test_a_language_is_guessed_by_small_words() -> None:
    analyzers = Analyzers()
    assert (
        analyzers.detect_language(
            "Der Fluss ist in der Nacht über die Ufer getreten und hat das Dorf erreicht"
        )
        == "de"
    )
    assert analyzers.detect_language("El río creció en la noche y llegó a las casas del pueblo") == "es"
    assert analyzers.detect_language("zzz") == "en"


def test_every_named_stemmer_exists() -> None:
    for language in ALGORITHMS:
        assert Analyzer(language).stems("word")


def test_accents_split_no_english_word_from_its_plain_form() -> None:
    for accented in ("brûlée", "résumés", "cafés", "naïvely", "Brontës", "façades", "jalapeños", "fiancée's"):
        assert Analyzer("en").stems(accented) == Analyzer("en").stems(fold(accented)), accented


def test_a_question_has_the_terms_of_former_snapshots_for_english_words_with_accents() -> None:
    analyzers = Analyzers()
    present, former = (Analyzer("en", folds_first=first).terms("brûlée") for first in (True, False))
    assert present != former
    assert analyzers.query_terms("brûlée", ["en"]) == [(*present, *former)]
    assert analyzers.query_terms("brulee", ["en"]) == [tuple(present)]
    assert analyzers.query_terms("brûlée", ["fr"]) == [tuple(Analyzer("fr").terms("brûlée"))]
