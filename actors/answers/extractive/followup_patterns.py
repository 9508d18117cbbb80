"""Patterns of follow-up questions, made of the sections `followups` of all language files.

The form of a pattern is the same for all languages and stands here; its words stand in `data/*.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import MappingProxyType

from actors.answers.extractive.language_data import any_of, collect, compile_pattern, load_languages
from actors.answers.extractive.language_schema import FollowupWords


def _any(select: Callable[[FollowupWords], Iterable[str]]) -> str:
    return any_of(collect(lambda data: select(data.followups)))


def _set(select: Callable[[FollowupWords], Iterable[str]]) -> frozenset[str]:
    return frozenset(collect(lambda data: select(data.followups)))


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
"*How deep?* asks for a part of the question before."
LINKED_QUESTION = compile_pattern(
    rf"^(?P<opens>[¿\s]*){_any(lambda words: words.linking_conjunctions)}[\s,]+"
    rf"(?={_any(lambda words: words.linked_openers)}\b)(?P<rest>\S.*)$"
)
"A whole question that begins with *and*."
AGENT_QUESTION = compile_pattern(rf"^{_any(lambda words: words.agent_questions)}")
OPENER = compile_pattern(rf"^[¿\s]*{_any(lambda words: words.openers)}\b")
OWN_OPENER = compile_pattern(
    rf"^(?:{_any(lambda words: words.own_conjunctions)} )?{_any(lambda words: words.own_openers)}\b"
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
"Pronouns that a noun replaces where they stand; German `Sie` is how somebody is addressed."
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
"What belongs to a name and stands before it: *the mayor of* Obermoos."
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
