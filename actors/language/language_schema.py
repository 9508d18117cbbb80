"""The sections of a language file; `data/en.toml` explains each key to translators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

AnswerType = Literal[
    "reason",
    "age",
    "share",
    "temperature",
    "speed",
    "money",
    "many",
    "length",
    "long",
    "weight",
    "amount",
    "time",
    "person",
    "place",
    "name",
    "manner",
    "which",
]
Measure = Literal["money", "length", "duration", "share", "temperature", "weight"]

_PLACEHOLDER = re.compile(r"\{(?:writer|before_rules|rules)\}")
"In patterns of the section `injection`."
_MONTHS_OF_A_YEAR = 12


def _split_words(written: Any) -> Any:
    return tuple(written.split()) if isinstance(written, str) else written


def _split_lines(written: Any) -> Any:
    return tuple(written.strip().splitlines()) if isinstance(written, str) else written


def _validate_lower_case(word: str) -> str:
    if word != word.lower():
        raise ValueError(f"{word!r} is not in lower case")
    return word


def _validate_pattern(text: str, groups: int) -> str:
    try:
        pattern = re.compile(_PLACEHOLDER.sub("x", text))
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    if pattern.groups != groups:
        raise ValueError(f"{text!r} has {pattern.groups} capturing groups instead of {groups}; write (?:...)")
    return text


def _validate_fragment(text: str) -> str:
    return _validate_pattern(text, 0)


def _validate_topic(text: str) -> str:
    return _validate_pattern(text, 1)


def _validate_year(months: tuple[str, ...]) -> tuple[str, ...]:
    if len(months) not in (0, _MONTHS_OF_A_YEAR):
        raise ValueError(f"there are {len(months)} months instead of 12")
    return months


Word = Annotated[str, AfterValidator(_validate_lower_case)]
Words = Annotated[tuple[Word, ...], BeforeValidator(_split_words)]
"Words of one text, divided by blanks."
WordSet = Annotated[frozenset[Word], BeforeValidator(_split_words)]
Fragments = tuple[Annotated[str, AfterValidator(_validate_fragment)], ...]
"Pieces of regular expressions without groups that capture."
TopicPatterns = tuple[Annotated[str, AfterValidator(_validate_topic)], ...]
"Regular expressions with one group."
Families = Annotated[tuple[Words, ...], BeforeValidator(_split_lines)]


class LanguageSection(BaseModel):
    """A section of a language file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class QuestionWords(LanguageSection):
    """Words of questions."""

    phrases: Fragments = ()
    auxiliaries: Words = ()
    support_verbs: Words = ()
    head_noun_last: bool = False
    low_content: Words = ()
    generic_nouns: Words = ()
    "Counted nouns that say nothing about which thing is counted: `people`."
    change_verbs: Words = ()
    place_prepositions: Words = ()
    place_articles: Words = ()


class PassiveWords(LanguageSection):
    """Words by which a passive sentence is recognized, and the questions that ask for the actor."""

    verb_last: bool
    "Whether other words may stand between auxiliary and participle."
    active_endings: tuple[str, ...]
    "Verbs that end so are not passive behind an auxiliary either: `is pruning`."
    participle_marks: tuple[str, ...]
    "Unless they contain one of these words: `werden ... gesehen`."
    auxiliaries: WordSet
    agents: WordSet
    "Prepositions in front of the actor: `by`."
    reflexive: WordSet
    "Words that make the verb behind them passive: Spanish `se`."
    person: WordSet
    skip: WordSet
    "Words that may occur between `who` and the verb."
    not_a_deed: WordSet
    "Words in place of the verb that make it another question: `who is`."


class PlainQuestionWords(LanguageSection):
    """Plain questions and the sentences that answer them."""

    nouns_have_capitals: bool
    definite_is_generic: bool
    "Whether a question about a kind of thing may have the definite article."
    indefinite: WordSet
    definite: WordSet
    pronouns: WordSet
    copulas: WordSet
    adverbs: WordSet
    place: WordSet
    "Prepositions that may introduce the context in which a defined word is used."
    prepositions: WordSet
    "A subject with one of these is no plain term."
    not_a_kind: WordSet
    "Behind a copula these do not begin a definition."
    not_a_kind_endings: tuple[str, ...]
    naming: WordSet
    naming_before: WordSet
    passive: PassiveWords
    forms: Mapping[str, tuple[str, ...]]
    cues: Mapping[str, tuple[str, ...]]

    @property
    def articles(self) -> frozenset[str]:
        return self.indefinite | self.definite


class CalendarWords(LanguageSection):
    """Months, days and words of time."""

    months: Annotated[Words, AfterValidator(_validate_year)] = ()
    small_months: Words = ()
    ambiguous_months: Words = ()
    weekdays: Words = ()
    other_dates: Words = ()
    periods: Words = ()
    eras: tuple[str, ...] = ()
    "Behind the number of a year, as written."
    since: Words = ()
    recent: Fragments = ()
    day_endings: Words = ()
    before_month: Words = ()
    before_year: Words = ()


class NumberWords(LanguageSection):
    """Numbers written in words."""

    from_zero: Words = ()
    tens: Mapping[Word, int] = {}
    multipliers: Mapping[Word, int] = {}
    ones: Words = ()
    never_alone: Words = ()


class EntityWords(LanguageSection):
    """Words that show numbers, reasons, places, roles and names."""

    number_words: Words = ()
    number_joins: Words = ()
    shares: Words = ()
    strong_reasons: Words = ()
    weak_reasons: Words = ()
    manners: Words = ()
    places: Words = ()
    no_place: Words = ()
    "A preposition behind one of these introduces no place: `according to`."
    plain_places: Words = ()
    plain_articles: Words = ()
    role_endings: Words = ()
    people: Words = ()
    name_links: Words = ()
    name_articles: Words = ()
    ages: Words = ()
    per: Words = ()
    clock: Words = ()
    speeds: Words = ()


class SentenceWords(LanguageSection):
    """Words that decide where a sentence ends and what it refers to."""

    abbreviations: Words = ()
    references: Fragments = ()
    after_ordinals: Words = ()
    "Words behind a number with a full stop that ends no sentence: `am 18. Mai`."


class SupportWords(LanguageSection):
    """Negations and opposites, by which a sentence is checked against its passage."""

    negations: Fragments = ()
    negation_endings: Fragments = ()
    clause_words: Words = ()
    opposites: tuple[tuple[Words, Words], ...] = ()
    passive_words: Words = ()
    same_names: Mapping[Word, Word] = {}


class FollowupWords(LanguageSection):
    """How a follow-up question refers to the question before it."""

    conjunctions: Fragments = ()
    what_about: Fragments = ()
    what_about_alone: Fragments = ()
    and_words: Words = ()
    topic_prepositions: Words = ()
    bare_prepositions: Words = ()
    circumstances: Words = ()
    bare_question_conjunctions: Words = ()
    bare_questions: Fragments = ()
    possessives: Fragments = ()
    pronouns: Words = ()
    pronoun_stops: Fragments = ()
    pronoun_nouns: Words = ()
    demonstratives: Words = ()
    place_adverbs: Mapping[Word, Word] = {}
    references: Fragments = ()
    dummy_subjects: Fragments = ()
    openers: Fragments = ()
    full_openers: Fragments = ()
    full_conjunctions: Words = ()
    linking_conjunctions: Words = ()
    linked_openers: Fragments = ()
    replaced_pronouns: Words = ()
    object_pronouns: Fragments = ()
    measure_words: Words = ()
    person_pronouns: Words = ()
    agent_questions: Fragments = ()
    verbs: Words = ()
    lead_articles: Words = ()
    lead_prepositions: Words = ()
    inner_articles: Words = ()
    topic_articles: Fragments = ()
    bare_topics: TopicPatterns = ()
    participles: Fragments = ()
    participles_after_name: Fragments = ()
    kept_prepositions: Words = ()
    no_names: tuple[str, ...] = ()


class InjectionPatterns(LanguageSection):
    """Text that gives orders to a language model."""

    writers: Fragments = ()
    before_rules: Fragments = ()
    rules: Fragments = ()
    at_words: Fragments = ()
    anywhere: Fragments = ()


class LanguageData(LanguageSection):
    """All words and patterns of one language."""

    synonyms: Families = ()
    irregular: Mapping[Word, Word] = {}
    "Form of a word -> the word whose stem it has, where a stemmer takes it for another word."
    answer_types: Mapping[AnswerType, Annotated[str, AfterValidator(_validate_fragment)]] = {}
    "Type -> pattern, in the order they are tried."
    plain_questions: PlainQuestionWords | None = None
    question: QuestionWords = QuestionWords()
    calendar: CalendarWords = CalendarWords()
    numbers: NumberWords = NumberWords()
    units: Mapping[str, Words] = {}
    "Unit -> words for it."
    measures: Mapping[Measure, Words] = {}
    entities: EntityWords = EntityWords()
    sentences: SentenceWords = SentenceWords()
    support: SupportWords = SupportWords()
    followups: FollowupWords = FollowupWords()
    injection: InjectionPatterns = InjectionPatterns()
