"""The texts are real: distinct sentences of sensible length, whole in the HTML, and able to answer questions."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations

from selectolax.lexbor import LexborHTMLParser

from jobs.playground import data_files
from jobs.playground.data_files import NewsArticle
from jobs.playground.products import product_records_from_articles

SENTENCE = re.compile(r"(?<=[.!?])[”]?\s+(?=[“A-ZÉ0-9])")


def text_of(article: NewsArticle) -> str:
    return " ".join(text for part in article.parts for text in part.paragraphs)


def sentences(text: str) -> list[str]:
    return [sentence.strip() for sentence in SENTENCE.split(text) if sentence.strip()]


def test_an_article_has_150_to_400_words_under_headings() -> None:
    for article in data_files.read_articles():
        assert 150 <= len(text_of(article).split()) <= 400, article.id
        assert len(article.parts) >= 2, article.id
        assert all(part.paragraphs for part in article.parts), article.id


def test_no_sentence_is_used_twice() -> None:
    written = [sentence for article in data_files.read_articles() for sentence in sentences(text_of(article))]
    written += [line.description for line in data_files.read_product_lines()]
    assert len(written) > 900
    assert [sentence for sentence, count in Counter(written).items() if count > 1] == []


def test_sentences_are_sentences() -> None:
    for article in data_files.read_articles():
        for part in article.parts:
            for text in part.paragraphs:
                assert text[0].isupper() or text[0] in "“0123456789", (article.id, text[:30])
                assert text.rstrip("”")[-1] in ".!?", (article.id, text[-30:])
                lengths = [len(sentence.split()) for sentence in sentences(text)]
                assert max(lengths) <= 45, (article.id, max(lengths))
                assert text == " ".join(text.split()), article.id


def test_articles_do_not_copy_each_other() -> None:
    runs = {}
    for article in data_files.read_articles():
        words = re.findall(r"\w+", text_of(article).lower())
        runs[article.id] = {tuple(words[at : at + 6]) for at in range(len(words) - 5)}
    for name, other in combinations(runs, 2):
        assert len(runs[name] & runs[other]) <= 5, (name, other)


def test_articles_are_full_of_facts() -> None:
    for article in data_files.read_articles():
        text = text_of(article)
        assert len(re.findall(r"\d+", text)) >= 5, article.id
        names = re.findall(r"(?<![.!?”] )(?<!^)\b[A-Z][a-zéø]+", text)
        assert len(set(names)) >= 5, article.id
        words = [word.lower() for word in re.findall(r"[A-Za-z]+", text)]
        assert len(set(words)) > 0.5 * len(words), article.id


def test_html_headers_and_children_hold_the_whole_article() -> None:
    for article, record in zip(data_files.read_articles(), product_records_from_articles(), strict=True):
        tree = LexborHTMLParser(record["html"])
        assert [node.text() for node in tree.css("section p")] == record["paragraphs"]
        assert [node.text() for node in tree.css("h2")] == record["headers"]
        assert record["paragraphs"] == [text for part in article.parts for text in part.paragraphs]
        in_children = [
            node.text() for child in record["children"] for node in LexborHTMLParser(child["html"]).css("p")
        ]
        assert in_children == record["paragraphs"]
        assert len({child["id"] for child in record["children"]}) == len(record["children"])


def test_every_answer_stands_in_its_article() -> None:
    texts = {article.id: text_of(article) for article in data_files.read_articles()}
    questions = [question for question in data_files.read_questions() if question.article is not None]
    assert {question.article for question in questions} == set(texts)
    for question in questions:
        assert question.article is not None
        assert question.answer is not None
        assert question.answer in texts[question.article], question.question


def test_some_questions_have_no_answer_in_the_newspaper() -> None:
    archive = set(
        re.findall(r"\w+", " ".join(text_of(article) for article in data_files.read_articles()).lower())
    )
    unanswered = [question.question for question in data_files.read_questions() if question.article is None]
    assert len(unanswered) >= 5
    for question, word in zip(
        unanswered, ("brazil", "lighthouse", "opera", "hockey", "elephants"), strict=True
    ):
        assert word in question.lower()
        assert word not in archive


def test_every_variant_named_by_words_has_them_in_three_languages() -> None:
    translated = data_files.read_translations()
    left_as_they_are = set(data_files.read_people().shops)
    values = {
        value for line in data_files.read_product_lines() if line.variants for value in line.variants.values
    }
    in_words = {
        value for value in values if len(value) > 3 and value.replace(" ", "").replace("-", "").isalpha()
    }
    assert len(in_words) > 30
    assert in_words - left_as_they_are - set(translated) == set()
    for word, other in translated.items():
        assert set(other) == {"de", "fr", "es"}, word
