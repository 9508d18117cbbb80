"""Resolve follow-up questions, and generate further questions from passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType

from actors.answers.extractive.entity_recognition import CharSpan, find_name_spans
from actors.answers.extractive.injection_filter import clean_text, has_instructions
from actors.answers.extractive.question_generation import generate_questions
from actors.answers.extractive.sentence_splitter import split_sentences
from actors.archive.messages import Snippet
from actors.language.analysis import STOP_WORDS, Analyzers
from actors.language.folding import tokenize as words_of
from actors.language.language_data import any_of, collect_words, compile_pattern, load_languages
from actors.language.language_schema import FollowupWords


# The form of a pattern is the same for all languages and stands here; its words stand in `data/*.toml`.
def _any(select: Callable[[FollowupWords], Iterable[str]]) -> str:
    return any_of(collect_words(lambda data: select(data.followups)))


def _set(select: Callable[[FollowupWords], Iterable[str]]) -> frozenset[str]:
    return frozenset(collect_words(lambda data: select(data.followups)))


TOPIC_CHANGE = compile_pattern(
    rf"^{_any(lambda words: words.conjunctions)}?[\s,]*{_any(lambda words: words.what_about)}\s+(.+?)\??$|"
    rf"^{_any(lambda words: words.and_words)}\s+"
    rf"({_any(lambda words: words.topic_prepositions)}?\s*[^?]{{1,60}}?)\??$|"
    rf"^{_any(lambda words: words.what_about_alone)}\s+(.+?)\??$"
)
"*What about X?*, *and X?*: one of three groups holds X."
BARE_QUESTION = compile_pattern(
    rf"^(?:{_any(lambda words: words.bare_question_conjunctions)}\s+)?{_any(lambda words: words.bare_questions)}\s*\??$"
)
MEASURE_QUESTION = compile_pattern(rf"^{_any(lambda words: words.measure_words)}\s+\w+\s*\??$")
"*How deep?* refers to a part of the question before."
LINKED_QUESTION = compile_pattern(
    rf"^(?P<opens>[¿\s]*){_any(lambda words: words.linking_conjunctions)}[\s,]+"
    rf"(?={_any(lambda words: words.linked_openers)}\b)(?P<rest>\S.*)$"
)
"A whole question that begins with *and*."
AGENT_QUESTION = compile_pattern(rf"^{_any(lambda words: words.agent_questions)}")
OPENER = compile_pattern(rf"^[¿\s]*{_any(lambda words: words.openers)}\b")
PRONOUN_LANGUAGE_OPENER = compile_pattern(
    rf"^(?:{_any(lambda words: words.full_conjunctions)} )?{_any(lambda words: words.full_openers)}\b"
)
"The question is in a language whose pronouns `PRONOUN` replaces."

POSSESSIVE = compile_pattern(rf"\b({_any(lambda words: words.possessives)})\b")
PRONOUN = compile_pattern(
    rf"\b({_any(lambda words: words.pronouns)})\b(?!\s+{_any(lambda words: words.pronoun_stops)}\b)"
    rf"(?P<noun>\s+{_any(lambda words: words.pronoun_nouns)})?"
)
DEMONSTRATIVES = _set(lambda words: words.demonstratives)
PREPOSITION_OF = MappingProxyType(
    {
        adverb: preposition
        for data in load_languages().values()
        for adverb, preposition in data.followups.place_adverbs.items()
    }
)
"Adverb of place -> the preposition that replaces it together with the subject."
PLACE_ADVERB = compile_pattern(rf"\b({any_of(PREPOSITION_OF)})(?=\s*(?:\?|$|,))")
DUMMY_SUBJECT = compile_pattern(rf"\b{_any(lambda words: words.dummy_subjects)}\b")
PERSON_PRONOUN = compile_pattern(rf"\b{_any(lambda words: words.person_pronouns)}\b")
REPLACED_PRONOUN = compile_pattern(rf"\b{_any(lambda words: words.replaced_pronouns)}\b", ignore_case=False)
"Pronouns that a noun replaces in place; German `Sie` is a form of address."
REFERENCE = compile_pattern(rf"\b{_any(lambda words: words.references)}\b")
OBJECT_PRONOUN = compile_pattern(_any(lambda words: words.object_pronouns))

PREPOSITION_START = compile_pattern(rf"^{_any(lambda words: words.bare_prepositions)}\s+")
CIRCUMSTANCE = compile_pattern(rf"{_any(lambda words: words.circumstances)}\b")
"Circumstances are added to a question and replace nothing in it."
VERBS = _set(lambda words: words.verbs)
_INNER_ARTICLE = _any(lambda words: words.inner_articles)
NAME_LEAD = compile_pattern(
    rf"\b{_any(lambda words: words.lead_articles)}\s(?:(?!{_INNER_ARTICLE}\b)[a-zà-ÿ-]+\s){{0,3}}"
    rf"(?:{_any(lambda words: words.lead_prepositions)}\s)?(?:{_INNER_ARTICLE}\s)?$",
    ignore_case=False,
)
"Words before a name that belong to it: *the mayor of* Obermoos."
TOPIC = compile_pattern(
    rf"\b{_any(lambda words: words.topic_articles)}\s+((?:[\w’'-]+\s*){{1,4}})", ignore_case=False
)
BARE_TOPIC = compile_pattern(_any(lambda words: words.bare_topics))
"A noun without an article: *do I plant tulips*, *do apple trees survive*, *is mulch*."
PARTICIPLE = compile_pattern(_any(lambda words: words.participles), ignore_case=False)
PARTICIPLE_AFTER_NAME = compile_pattern(_any(lambda words: words.participles_after_name), ignore_case=False)
KEPT_PREPOSITIONS = _set(lambda words: words.kept_prepositions)
NO_NAMES = _set(lambda words: words.no_names)
YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")


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
    cleaned = clean_text(question[:_LONGEST])
    before = ""
    # Each parent is resolved by the one before it: it may be a follow-up itself.
    for parent in [clean_text(parent_text[:_LONGEST]) for parent_text in parents[-_PARENTS:]]:
        if parent:
            before = _resolve_references(parent, before) if before else parent
    return _resolve_references(cleaned, before) if cleaned and before else cleaned


def validate_rewriting(written: str, question: str, parents: Sequence[str]) -> str:
    """Return a model's rewriting of a follow-up if it is one question with words of the questions; else empty."""
    text = clean_text(written.strip().strip('"“”'))
    if not text or len(text) > _LONGEST or "\n" in written.strip() or has_instructions(written):
        return ""
    begins = {word[:_STEM] for source in (question, *parents) for word in words_of(source)}
    # Short words are articles and prepositions, which a rewriting may change.
    long_words = [word for word in words_of(text) if len(word) >= _STEM]
    covered = sum(word[:_STEM] in begins for word in long_words)
    # Else the model has brought in a subject of its own.
    return text if long_words and covered >= _FAITHFUL * len(long_words) else ""


def _resolve_references(question: str, before: str) -> str:
    if (linked := LINKED_QUESTION.match(question)) and not BARE_QUESTION.match(question.lstrip("¿ ")):
        # "and how do I prune them?" has the same subject
        question = linked["opens"] + linked["rest"][0].upper() + linked["rest"][1:]
    elif match := TOPIC_CHANGE.match(question.lstrip("¿¡ ")):
        return _replace_topic(next(group for group in match.groups() if group).strip(), before)
    subject = extract_topic(before)
    is_measure = MEASURE_QUESTION.match(question) and not _find_names(before)
    if BARE_QUESTION.match(question) or is_measure or (not subject and len(question.split()) < _SHORT):
        return f"{question.rstrip('? ')}: {before}"
    if not subject:
        return question
    if PERSON_PRONOUN.search(question) and AGENT_QUESTION.match(before):
        # a question for a person: only the question before identifies the subject
        return f"{question.rstrip('? ')} ({before.rstrip('? ')})?"
    if not DUMMY_SUBJECT.search(question):
        replaced = _replace_pronoun(question, subject)
        if replaced != question:
            return replaced
    stands_alone = bool(_find_names(question)) or len(question.split()) > 6
    if REPLACED_PRONOUN.search(question) and not PRONOUN_LANGUAGE_OPENER.match(question):
        return REPLACED_PRONOUN.sub(lambda _: subject, question, count=1)
    points = REFERENCE.search(question) or OBJECT_PRONOUN.search(question)
    if points and not PRONOUN_LANGUAGE_OPENER.match(question):
        return f"{question.rstrip('? ')} ({subject})?"
    return question if stands_alone else f"{question.rstrip('? ')} ({subject})?"


_SHORT = 5
"Words of a question without a topic."


def _replace_pronoun(question: str, subject: str) -> str:
    """Replace the first pronoun by the topic; names beside it stay."""
    if match := POSSESSIVE.search(question):
        owner = f"{subject}'" if subject.endswith("s") else f"{subject}'s"
        return question[: match.start()] + owner + question[match.end() :]
    if match := PLACE_ADVERB.search(question):
        place = f"{PREPOSITION_OF[match[1].lower()]} {subject}"
        return question[: match.start()] + place + question[match.end() :]
    if match := PRONOUN.search(question):
        follows = question[match.end() :].split()
        is_noun_behind = bool(follows) and follows[0].lower() not in VERBS
        is_whole = match[1].lower() not in DEMONSTRATIVES or not is_noun_behind
        return (
            question[: match.start()] + subject + question[match.end() :]
            if is_whole
            else f"{question.rstrip('? ')} ({subject})?"
        )
    return question


def _replace_topic(topic: str, before: str) -> str:
    """Replace the topic of the question before: a year by a year, a name by a name."""
    bare = PREPOSITION_START.sub("", topic)
    subject = extract_topic(before)
    # A year replaces a year before anything else: `and in 2019?`.
    if YEAR.fullmatch(bare) and YEAR.search(before):
        return YEAR.sub(bare, before, count=1)
    names = _find_names(before)
    if names and _find_names(f"x {bare}"):
        last = names[-1]
        return before[: last[0]] + bare + before[last[1] :]
    if YEAR.fullmatch(bare):
        return f"{before.rstrip('? ')} in {bare}?"
    if subject and not names and not CIRCUMSTANCE.match(topic):
        return before.replace(subject, topic, 1)
    return f"{before.rstrip('? ')} ({topic})?"


def extract_topic(question: str) -> str:
    """Return the topic of a question: its longest phrase around names, else the words behind its verb."""
    rest = OPENER.sub("", question, count=1).strip(" ?.!¿")
    # "x " in front: a name at the very beginning would not be told from a sentence's capital.
    named = _find_names(f"x {rest}")
    if named:
        first = named[0][0] - 2
        last = named[-1][1] - 2
        before = NAME_LEAD.search(rest[:first])
        start = before.start() if before else first
        # A phrase this long spans two things; the first name stands for the topic.
        if len(named) > 1 and len(rest[first:last].split()) > 8:
            last = named[0][1] - 2
        return rest[start:last].strip() + _noun_after(rest[last:])
    phrase = TOPIC.search(rest)
    if phrase:
        return _leading_noun(phrase[0])
    bare = BARE_TOPIC.match(rest)
    return _leading_noun(next(group for group in bare.groups() if group)) if bare else ""


def _noun_after(rest: str) -> str:
    """Return the noun that follows a name: the Kaltbach *tunnel*, Dell's *ban*."""
    match = re.match(r"(?:['’]s?)?\s[a-zà-ÿ-]+", rest)
    if match is None:
        return ""
    word = match[0].split()[-1]
    is_done = PARTICIPLE_AFTER_NAME.fullmatch(word)
    return "" if word in STOP_WORDS["en"] or word in VERBS or is_done else match[0]


def _leading_noun(phrase: str) -> str:
    """Cut a phrase at the first word that cannot belong to its noun."""
    kept = phrase.split()[:1]
    for word in phrase.split()[1:]:
        small = word.lower()
        if (
            (small in STOP_WORDS["en"] and small not in KEPT_PREPOSITIONS)
            or small in VERBS
            or PARTICIPLE.fullmatch(small)
        ):
            break
        kept.append(word)
    if len(kept) > 1 and kept[-1] in KEPT_PREPOSITIONS:
        kept.pop()
    return " ".join(kept)


def _find_names(text: str) -> list[CharSpan]:
    return [
        (start, end)
        for start, end in find_name_spans(text)
        if text[:start].strip("¿¡ ") and text[start:end] not in NO_NAMES
    ]


def generate_related_questions(
    question: str, snippets: Sequence[Snippet], looked_at: int = _MAX_PASSAGES
) -> tuple[str, ...]:
    """Return different questions that these passages answer, those of the best passages first."""
    word_sets = [set(words_of(question))]
    results: list[str] = []
    is_english = Analyzers().detect_language(" ".join(snippet.text[:400] for snippet in snippets[:3])) == "en"
    for candidate in _generate_candidates(snippets[:looked_at], is_english):
        words = set(words_of(candidate))
        # Nearly the same words ask the same thing twice.
        if len(words) > 2 and all(
            len(words & other) < _DUPLICATE_SHARE * min(len(words), len(other)) for other in word_sets
        ):
            word_sets.append(words)
            results.append(candidate)
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
