"""Resolve follow-up questions, and generate further questions from passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from actors.answers.archive.messages import Snippet
from actors.answers.extractive import followup_patterns as patterns
from actors.answers.extractive.entity_patterns import CharSpan, find_name_spans
from actors.answers.extractive.injection_filter import clean_text, has_instructions
from actors.answers.extractive.question_generation import generate_questions
from actors.answers.extractive.sentences import split_sentences
from actors.language.analysis import Analyzers
from actors.language.stopwords import STOP_WORDS
from actors.language.tokens import tokenize as words_of

_PARENTS = 3
_LONGEST = 600
_MOST_RELATED = 8
_MAX_PASSAGES = 6
_DUPLICATE_SHARE = 0.6
_STEM = 4
"Number of first letters by which words of two questions are compared: endings differ."
_FAITHFUL = 0.7
"Minimal share of the words of a rewritten question that occur in the questions."


def resolve_followup(question: str, parents: Sequence[str]) -> str:
    """Return a follow-up as a question that is clear without the questions before it; `parents` oldest first.

    A question that is clear stays as it is. English, Spanish and German pronouns and omitted subjects are resolved. A
    subject that fits nowhere in the sentence is added in parentheses.
    """
    asked = clean_text(question[:_LONGEST])
    before = ""
    for parent in [clean_text(one[:_LONGEST]) for one in parents[-_PARENTS:]]:
        if parent:
            before = _resolve_references(parent, before) if before else parent
    return _resolve_references(asked, before) if asked and before else asked


def validate_rewriting(written: str, question: str, parents: Sequence[str]) -> str:
    """Return a model's rewriting of a follow-up if it is one question with words of the questions; else empty."""
    text = clean_text(written.strip().strip('"“”'))
    if not text or len(text) > _LONGEST or "\n" in written.strip() or has_instructions(written):
        return ""
    begins = {word[:_STEM] for one in (question, *parents) for word in words_of(one)}
    own = [word for word in words_of(text) if len(word) >= _STEM]
    known = sum(word[:_STEM] in begins for word in own)
    return text if own and known >= _FAITHFUL * len(own) else ""


def _resolve_references(asked: str, before: str) -> str:
    if (linked := patterns.LINKED_QUESTION.match(asked)) and not patterns.BARE_QUESTION.match(
        asked.lstrip("¿ ")
    ):
        # "and how do I prune them?" asks about the same subject
        asked = linked["opens"] + linked["rest"][0].upper() + linked["rest"][1:]
    elif match := patterns.TOPIC_CHANGE.match(asked.lstrip("¿¡ ")):
        return _replace_topic(next(group for group in match.groups() if group).strip(), before)
    subject = extract_topic(before)
    is_measure = patterns.MEASURE_QUESTION.match(asked) and not _find_names(before)
    if patterns.BARE_QUESTION.match(asked) or is_measure or (not subject and len(asked.split()) < _SHORT):
        return f"{asked.rstrip('? ')}: {before}"
    if not subject:
        return asked
    if patterns.PERSON_PRONOUN.search(asked) and patterns.AGENT_QUESTION.match(before):
        # a question for a person: only the question before identifies the subject
        return f"{asked.rstrip('? ')} ({before.rstrip('? ')})?"
    if not patterns.DUMMY_SUBJECT.search(asked):
        replaced = _replace_pronoun(asked, subject)
        if replaced != asked:
            return replaced
    stands_alone = bool(_find_names(asked)) or len(asked.split()) > 6
    if patterns.REPLACED_PRONOUN.search(asked) and not patterns.OWN_OPENER.match(asked):
        return patterns.REPLACED_PRONOUN.sub(lambda _: subject, asked, count=1)
    points = patterns.REFERENCE.search(asked) or patterns.OBJECT_PRONOUN.search(asked)
    if points and not patterns.OWN_OPENER.match(asked):
        return f"{asked.rstrip('? ')} ({subject})?"
    return asked if stands_alone else f"{asked.rstrip('? ')} ({subject})?"


_SHORT = 5
"Words of a question without a topic."


def _replace_pronoun(asked: str, subject: str) -> str:
    """Replace the first pronoun by the topic; names beside it stay."""
    if match := patterns.POSSESSIVE.search(asked):
        owner = f"{subject}'" if subject.endswith("s") else f"{subject}'s"
        return asked[: match.start()] + owner + asked[match.end() :]
    if match := patterns.PLACE_ADVERB.search(asked):
        place = f"{patterns.PREPOSITION_OF[match[1].lower()]} {subject}"
        return asked[: match.start()] + place + asked[match.end() :]
    if match := patterns.PRONOUN.search(asked):
        follows = asked[match.end() :].split()
        is_noun_behind = bool(follows) and follows[0].lower() not in patterns.VERBS
        is_whole = match[1].lower() not in patterns.DEMONSTRATIVES or not is_noun_behind
        return (
            asked[: match.start()] + subject + asked[match.end() :]
            if is_whole
            else f"{asked.rstrip('? ')} ({subject})?"
        )
    return asked


def _replace_topic(wanted: str, before: str) -> str:
    """Replace the topic of the question before: a year by a year, a name by a name."""
    bare = patterns.PREPOSITION_START.sub("", wanted)
    subject = extract_topic(before)
    if patterns.YEAR.fullmatch(bare) and patterns.YEAR.search(before):
        return patterns.YEAR.sub(bare, before, count=1)
    own = _find_names(before)
    if own and _find_names(f"x {bare}"):
        last = own[-1]
        return before[: last[0]] + bare + before[last[1] :]
    if patterns.YEAR.fullmatch(bare):
        return f"{before.rstrip('? ')} in {bare}?"
    if subject and not own and not patterns.CIRCUMSTANCE.match(wanted):
        return before.replace(subject, wanted, 1)
    return f"{before.rstrip('? ')} ({wanted})?"


def extract_topic(question: str) -> str:
    """Return the topic of a question: its longest phrase around names, else the words behind its verb."""
    rest = patterns.OPENER.sub("", question, count=1).strip(" ?.!¿")
    named = _find_names(f"x {rest}")
    if named:
        first, last = named[0][0] - 2, named[-1][1] - 2
        before = patterns.NAME_LEAD.search(rest[:first])
        start = before.start() if before else first
        if len(named) > 1 and len(rest[first:last].split()) > 8:
            last = named[0][1] - 2
        return rest[start:last].strip() + _noun_after(rest[last:])
    phrase = patterns.TOPIC.search(rest)
    if phrase:
        return _leading_noun(phrase[0])
    bare = patterns.BARE_TOPIC.match(rest)
    return _leading_noun(next(group for group in bare.groups() if group)) if bare else ""


def _noun_after(rest: str) -> str:
    """Return the noun that follows a name: the Kaltbach *tunnel*, Dell's *ban*."""
    match = re.match(r"(?:['’]s?)?\s[a-zà-ÿ-]+", rest)
    if match is None:
        return ""
    word = match[0].split()[-1]
    is_done = patterns.PARTICIPLE_AFTER_NAME.fullmatch(word)
    return "" if word in STOP_WORDS["en"] or word in patterns.VERBS or is_done else match[0]


def _leading_noun(phrase: str) -> str:
    """Cut a phrase at the first word that cannot belong to its noun."""
    kept = phrase.split()[:1]
    for word in phrase.split()[1:]:
        small = word.lower()
        if (
            (small in STOP_WORDS["en"] and small not in patterns.KEPT_PREPOSITIONS)
            or small in patterns.VERBS
            or patterns.PARTICIPLE.fullmatch(small)
        ):
            break
        kept.append(word)
    if len(kept) > 1 and kept[-1] in patterns.KEPT_PREPOSITIONS:
        kept.pop()
    return " ".join(kept)


def _find_names(text: str) -> list[CharSpan]:
    return [
        (start, end)
        for start, end in find_name_spans(text)
        if text[:start].strip("¿¡ ") and text[start:end] not in patterns.NO_NAMES
    ]


# --- further questions ----------------------------------------------------------------------------------------------


def generate_related_questions(
    question: str, snippets: Sequence[Snippet], looked_at: int = _MAX_PASSAGES
) -> tuple[str, ...]:
    """Return different questions that these passages answer, those of the best passages first."""
    asked = [set(words_of(question))]
    results: list[str] = []
    is_english = Analyzers().detect_language(" ".join(snippet.text[:400] for snippet in snippets[:3])) == "en"
    for one in _generate_candidates(snippets[:looked_at], is_english):
        said = set(words_of(one))
        if len(said) > 2 and all(
            len(said & other) < _DUPLICATE_SHARE * min(len(said), len(other)) for other in asked
        ):
            asked.append(said)
            results.append(one)
            if len(results) >= _MOST_RELATED:
                break
    return tuple(results)


def _generate_candidates(snippets: Sequence[Snippet], is_english: bool) -> Iterator[str]:
    for snippet in snippets:
        for heading in (snippet.child_title, snippet.title):
            plain = clean_text(heading)
            if plain.endswith("?") and len(plain.split()) > 2 and not has_instructions(plain):
                yield plain
        if not is_english:
            continue
        for sentence in split_sentences(snippet.text):
            plain = clean_text(sentence.text)
            if not has_instructions(sentence.text):
                yield from generate_questions(plain)
