"""Render an answer for the interface: markdown with numbered citations, sources in the order of their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import orjson

from actors.answers.extractive.answer_composer import AnswerSentence, ComposedAnswer
from actors.answers.extractive.markdown import list_cited_products, render_markdown
from actors.archive.messages import ArchiveArticle, Snippet
from cluster.clock import iso_ms
from cluster.records.question import (
    CLAIMS_MARK,
    Answer,
    CitedPassage,
    CitedSentence,
    Format,
    Picture,
    Question,
    mark_access,
)

NO_ANSWER_TEXT = "The available content holds no answer to this question."
WITHDRAWN = "The content this answer was taken from has changed or is gone."
FAILED = "No answer could be made in time. Please ask again."
SNIPPET_CHARS = 320
_EXCERPT_CHARS = 900
_MOST_EXCERPTS = 8

_NOT_IN_SNIPPET = ("fields", "picture")
_WORD = re.compile(r"\w+")
_MOST_MARKS = 40

Span = tuple[int, int]


def render_answer(question: Question, answer: Answer, format: Format | None = None) -> dict[str, Any]:
    """Return the public record of an answer; `format` overrides the format of the question."""
    form = format or question.format
    composed = composed_from_answer(answer)
    snippets = [snippet_from_passage(passage) for passage in answer.passages]
    return {
        "question": answer.question or question.text,
        "question_id": question.open_question_id or question.question_id,
        "parent_question_id": question.parent_id,
        "answer_stage": answer.stage,
        "finished": answer.finished,
        "finish_reason": answer.public_finish_reason,
        "answer": _render_text(answer, composed, snippets, form),
        "sources": _render_sources(answer, composed, snippets),
        "related_resources": [_render_resource(question, passage) for passage in answer.related],
        "followup_questions": list(answer.followups),
        "affiliation_products": [dict(passage) for passage in answer.affiliated]
        if composed.sentences
        else [],
        "revision": answer.revision,
        "datetime": iso_ms(question.asked_at),
        "metadata": dict(question.metadata),
        **({"images": images} if (images := _render_images(answer, composed, snippets)) else {}),
        **({"blocked_reason": answer.blocked_reason} if answer.blocked_reason else {}),
    }


def answer_to_json(question: Question, answer: Answer) -> bytes:
    """Return the public record as JSON."""
    shown = orjson.dumps(render_answer(question, answer))
    if question.is_entitled:
        shown = mark_access(shown, answer.access)
    return shown[:-1] + CLAIMS_MARK if question.claims else shown


def composed_from_answer(answer: Answer) -> ComposedAnswer:
    """Convert an answer's sentences back to a composed answer."""
    sentences = tuple(
        AnswerSentence(sentence.text, sentence.passage, sentence.start, sentence.end, sentence.support)
        for sentence in answer.sentences
    )
    return ComposedAnswer(sentences, refused=not sentences, confidence=1.0 if sentences else 0.0)


def passage_from_snippet(snippet: Snippet, picture: Picture | None = None, /, **fields: Any) -> CitedPassage:
    """Convert a snippet to a passage stored with the answer."""
    return CitedPassage(
        product_id=snippet.product_id,
        position=snippet.position,
        text=snippet.text,
        title=snippet.title,
        child_id=snippet.child_id,
        child_title=snippet.child_title,
        url=snippet.url,
        authors=snippet.authors,
        published=snippet.published,
        licence=snippet.licence,
        start=snippet.start,
        score=snippet.score,
        fields=fields,
        picture=picture,
    )


def snippet_from_passage(passage: CitedPassage) -> Snippet:
    """Convert a stored passage back to a snippet."""
    kept = {
        name: getattr(passage, name) for name in type(passage).model_fields if name not in _NOT_IN_SNIPPET
    }
    return Snippet(**kept)


def highlight(text: str, spans: Iterable[Span], *, most_chars: int = SNIPPET_CHARS) -> str:
    """Return an excerpt of a passage around the spans: HTML-escaped, with `<mark>`."""
    inside = ((max(start, 0), min(end, len(text))) for start, end in spans)
    marks = sorted((start, end) for start, end in inside if start < end)
    # A quarter of the excerpt before the first mark, so that its sentence can be read from some way ahead.
    begin = max(0, (marks[0][0] if marks else 0) - most_chars // 4)
    if begin:
        blank = text.find(" ", begin)
        begin = blank + 1 if 0 <= blank < begin + 40 else begin
    end = min(len(text), begin + most_chars)
    if end < len(text):
        blank = text.rfind(" ", begin, end)
        end = blank if blank > begin else end
    parts = []
    at = begin
    for start, stop in marks:
        # Marks may overlap: the next one begins where the last one ended.
        start = max(start, at)
        stop = min(stop, end)
        if start < stop:
            parts += [escape(text[at:start]), "<mark>", escape(text[start:stop]), "</mark>"]
            at = stop
    parts.append(escape(text[at:end]))
    return ("… " if begin else "") + "".join(parts).strip() + (" …" if end < len(text) else "")


def find_question_words(text: str, question: str) -> list[Span]:
    """Return the places of a question's words in a text, without short ones."""
    words = {word.lower() for word in _WORD.findall(question) if len(word) > 3}
    spans = [match.span() for match in _WORD.finditer(text) if match.group().lower() in words]
    return spans[:_MOST_MARKS]


def drop_uncited(
    composed: ComposedAnswer, snippets: Sequence[Snippet]
) -> tuple[ComposedAnswer, list[Snippet]]:
    """Drop the passages that no sentence cites."""
    used = sorted({sentence.snippet for sentence in composed.sentences})
    # Old number of a passage -> its number among the cited ones.
    places = {before: after for after, before in enumerate(used)}
    sentences = tuple(
        AnswerSentence(
            sentence.text, places[sentence.snippet], sentence.start, sentence.end, sentence.support
        )
        for sentence in composed.sentences
    )
    return ComposedAnswer(sentences, composed.refused, composed.confidence), [snippets[at] for at in used]


def sentences_from_composed(composed: ComposedAnswer) -> tuple[CitedSentence, ...]:
    """Convert composed sentences to sentences stored with the answer."""
    return tuple(
        CitedSentence(
            text=sentence.text,
            passage=sentence.snippet,
            start=sentence.start,
            end=sentence.end,
            support=sentence.support,
        )
        for sentence in composed.sentences
    )


def _render_text(answer: Answer, composed: ComposedAnswer, snippets: Sequence[Snippet], form: Format) -> str:
    if answer.finish_reason == "forbidden":
        return ""
    if composed.sentences:
        return render_markdown(
            composed,
            snippets,
            cite_start=form.cite_start,
            cite_end=form.cite_end,
            cite_link=form.cite_link,
            term_link=form.wiki_link_template,
        )
    if not answer.finished:
        return answer.stage + " ..."
    if answer.finish_reason == "error":
        return FAILED
    return WITHDRAWN if answer.composer == "withdrawn" else NO_ANSWER_TEXT


def _render_sources(
    answer: Answer, composed: ComposedAnswer, snippets: Sequence[Snippet]
) -> list[dict[str, Any]]:
    results = []
    for product_id in list_cited_products(composed, snippets):
        at = next(at for at, entry in enumerate(snippets) if entry.product_id == product_id)
        passage = answer.passages[at]
        spans = [(entry.start, entry.end) for entry in composed.sentences if entry.snippet == at]
        source: dict[str, Any] = {**passage.fields, "product_id": product_id, "title": passage.title}
        if passage.child_id:
            source["child_id"] = passage.child_id
        if passage.child_title:
            source["child_title"] = passage.child_title
        source["snippet"] = highlight(passage.text, spans)
        results.append(source)
    return results


def _render_images(
    answer: Answer, composed: ComposedAnswer, snippets: Sequence[Snippet]
) -> list[dict[str, Any]]:
    """Return the pictures of cited products, in the order of their numbers."""
    results = []
    for product_id in list_cited_products(composed, snippets):
        passage = next(
            passage_of_product
            for passage_of_product in answer.passages
            if passage_of_product.product_id == product_id
        )
        if passage.picture is None:
            continue
        more = {"url": passage.url, "published_at": passage.published}
        results.append(
            {
                "product_id": product_id,
                "image_src": passage.picture.src,
                "image_alt": passage.picture.alt or passage.title,
                "title": passage.title,
                **{name: value for name, value in more.items() if value},
            }
        )
    return results


def _render_resource(question: Question, passage: CitedPassage) -> dict[str, Any]:
    return {
        **passage.fields,
        "product_id": passage.product_id,
        "title": passage.title,
        "snippet": highlight(passage.text, find_question_words(passage.text, question.text)),
    }


def excerpts_from_article(article: ArchiveArticle) -> list[Snippet]:
    """Split the beginning of an article into passages."""
    texts = [
        article.content[at : at + _EXCERPT_CHARS] for at in range(0, len(article.content), _EXCERPT_CHARS)
    ]
    about: dict[str, Any] = {
        "title": article.title,
        "child_title": article.child_title,
        "authors": article.authors,
        "published": article.published,
        "url": article.url,
        "licence": article.licence,
    }
    return [
        Snippet(product_id=article.product_id, position=at, text=text, score=1.0, **about)
        for at, text in enumerate(texts[:_MOST_EXCERPTS])
    ]


_WEB = re.compile(r"https?://[^\s/?#]+\S*\Z", re.IGNORECASE)
_ADDRESSES = ("image_src", "src", "url")
_WORDS = ("image_alt", "alt", "title")


def find_picture(product: Mapping[str, Any]) -> Picture | None:
    """Return a product's picture; only pictures with a web address count."""
    images = product.get("images")
    for image in (product.get("cover_image"), *(images if isinstance(images, list) else ())):
        written = image if isinstance(image, Mapping) else {"src": image}
        address = _first_valid(written, _ADDRESSES)
        if _WEB.match(address):
            return Picture(src=address, alt=_first_valid(written, _WORDS))
    return None


def _first_valid(written: Mapping[str, Any], names: tuple[str, ...]) -> str:
    texts = (written.get(name) for name in names)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")
