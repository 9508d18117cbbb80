"""Parse the text of a language model while it arrives, and keep only sentences that their cited passage supports.

    text in pieces -> whole sentences -> citations [1] [2] -> supported by one of them? -> kept

A sentence is dropped when it has no citation, cites an unknown passage, or the passage does not support it. This also
drops the results of instructions that an article hides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from actors.answers.extractive.answer_composer import AnswerSentence
from actors.answers.extractive.injection_filter import clean_text, has_instructions
from actors.answers.extractive.sentence_splitter import split_sentences
from actors.answers.extractive.support_scorer import MIN_SUPPORT, score_support
from actors.archive.messages import Snippet

NO_ANSWER = "NO_ANSWER"

"The reply that the prompt requests when the passages do not contain the answer."

MOST_CHARS = 6_000

"Maximal characters of a draft."

MOST_SENTENCES = 12

_CITATION = re.compile(r"\s{0,3}\[(\d{1,3}(?: ?, ?\d{1,3}){0,8})\]")

_END = re.compile(r"[.!?…]['\"”’)]{0,3}(?:\s{0,3}\[[\d, ]{1,40}\]){0,4}(?=\s{1,4}[^\s\[])|\n")

"The next sentence must have begun: a citation may follow the full stop."

_WRITER_NOTES = re.compile(
    r"^(?:please,? )?(?:assistant|language model|chatbot|ai)[,:]|\b(?:assistant|language model|chatbot),"
    r"|\b(?:do not|instead of|stop) (?:answer|summari[sz])\w{0,6}\b|\bfrom now on,? you\b"
    r"|\byour task (?:has changed|is)\b|\bwhen you answer\b|\bsystem prompt\b"
    r"|\b(?:my|your) (?:prompt|instructions|rules|api key)\b",
    re.IGNORECASE,
)

"Phrases of an article that addresses a model, or of a model's reply to them."

_CLOSED = re.compile(r"[.!?…]['\"”’)]{0,3}(?:\s{0,3}\[[\d, ]{1,40}\]){0,4}$|\]$")

_BULLET = re.compile(r"^\s*(?:[-*•#>]+|\d+[.)])\s+")


class Draft:
    """A growing draft."""

    def __init__(self, snippets: Sequence[Snippet]) -> None:
        self._snippets = snippets
        self._rest = ""
        self._read = 0
        self._seen: set[str] = set()
        self.kept: list[AnswerSentence] = []
        self.dropped = 0
        self.refused = False
        "The model replied that the passages do not contain the answer."

    @property
    def chars(self) -> int:
        """Return the number of characters read."""
        return self._read

    @property
    def is_full(self) -> bool:
        """Return whether further text would be ignored."""
        return self._read >= MOST_CHARS or len(self.kept) >= MOST_SENTENCES or self.refused

    def feed(self, piece: str) -> bool:
        """Add text; return True when there is a new sentence."""
        before = len(self.kept)
        # A model that never stops must not fill the memory.
        piece = piece[: MOST_CHARS - self._read]
        self._read += len(piece)
        self._rest += piece
        at = 0
        for end in _END.finditer(self._rest):
            if _ends_sentence(self._rest[at : end.end()]):
                self._take_sentences(self._rest[at : end.end()])
                at = end.end()
        self._rest = self._rest[at:]
        return len(self.kept) > before

    def close(self) -> bool:
        """Process the rest at the end; an incomplete sentence is dropped."""
        before = len(self.kept)
        rest = self._rest.strip()
        self._rest = ""
        if rest and (_CLOSED.search(rest) or NO_ANSWER in rest):
            self._take_sentences(rest)
        return len(self.kept) > before

    def _take_sentences(self, text: str) -> None:
        if NO_ANSWER in text:
            # After kept sentences the mark is only noise.
            self.refused = not self.kept
            return
        numbers = [int(number) for group in _CITATION.findall(text) for number in re.findall(r"\d+", group)]
        bare = _CITATION.sub("", text)
        plain = clean_text(_BULLET.sub("", " ".join(bare.split())))
        if not plain or len(self.kept) >= MOST_SENTENCES:
            return
        if has_instructions(bare) or _WRITER_NOTES.search(plain):
            # a passage may well contain it; it still is no answer
            self.dropped += 1
            return
        best = self._find_best_passage(plain, numbers)
        if best is None or plain in self._seen:
            self.dropped += 1
            return
        self._seen.add(plain)
        self.kept.append(best)

    def _find_best_passage(self, plain: str, numbers: Sequence[int]) -> AnswerSentence | None:
        best: AnswerSentence | None = None
        for number in dict.fromkeys(numbers):
            # A number that no passage has is an invention of the model.
            if not 1 <= number <= len(self._snippets):
                continue
            passage = self._snippets[number - 1].text
            support = score_support(plain, passage)
            if support >= MIN_SUPPORT and (best is None or support > best.support):
                start, end = _find_nearest_sentence(plain, passage)
                best = AnswerSentence(plain, number - 1, start, end, support)
        return best


def _ends_sentence(text: str) -> bool:
    """Return whether a sentence ends at this place: at a line's end or a citation, but not at an
    abbreviation.
    """
    return (
        text.endswith("\n")
        or bool(_CITATION.search(text))
        or len(split_sentences(text.strip() + " Next")) > 1
    )


def _find_nearest_sentence(plain: str, passage: str) -> tuple[int, int]:
    """Return the sentence of a passage that shares most words with another, for highlighting."""
    words = set(plain.lower().split())
    best = 0
    place = (0, min(len(passage), 200))
    for sentence in split_sentences(passage):
        text = passage[sentence.start : sentence.end]
        shared = len(words & set(text.lower().split()))
        if shared > best:
            best = shared
            place = (sentence.start, sentence.end)
    return place
