"""Generate questions from English sentences: who, when, how much, how many, how long, and a person's
expectations.

Only forms whose words can stay in order are converted, so that a question is always good English.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cluster.word_lists import words_from_text

_WHO = re.compile(
    r"(?<!\w)[A-ZÀ-Þ][\w’'-]{1,30}(?:\s[A-ZÀ-Þ][\w’'-]{1,30}){1,4}, who "
    r"(?P<deed>(?:(?!who\b)[^,.;:“”\"()?!]){8,70}?)(?=[,.;]"
    r"|$)"
)
_ROLE = re.compile(
    r"\b[Tt]he (?P<role>(?:[a-z]+ ){0,2}(?:mayor|president|minister|director|captain|coach|leader|founder"
    r"|chair|chief executive|governor|head|"
    r"commander|editor|owner|principal|author|architect|conductor|goalkeeper|project leader)(?: (?:of"
    r"|in) (?:the )?[A-Zà-ÿ\w]+(?: [A-Z]\w+)*)?), "
    r"(?P<name>[A-ZÀ-Þ][\w’'-]+(?: [A-ZÀ-Þ][\w’'-]+)+)[,.]"
)
_WHEN = re.compile(
    r"^(?P<subject>(?:The|An?) (?:[a-z-]+ ){1,4}"
    r"|(?:The )?[A-ZÀ-Þ][\w’'-]+(?: [A-ZÀ-Þ&][\w’'-]*){0,3} )(?:was|were) "
    r"(?P<verb>[a-z]+(?:ed|lt|nt|ought|aught|ung|old|uilt|ound|own|ead))\b[^.;?]{0,60}?\b(?:in|on"
    r"|since) (?:\d{1,2} )?(?:[A-Z][a-z]+ )?(?:1\d{3}|20\d\d)\b"
)
_COST = re.compile(
    r"^(?P<subject>(?:The|An?) (?:[a-z-]+ ){1,3}"
    r"|[A-ZÀ-Þ][\w’'-]+(?: [A-ZÀ-Þ][\w’'-]+){0,2} )(?P<costs>costs?) (?:about |around )?[\d$€£]"
)
_SUBJECT_AT = 2
"Place of the first word behind *When was* and *How much does*."
_ENOUGH_WORDS = 7
_MOST_WORDS = 18
_NUMBER = r"(?:\d[\d,.]*|[Tt]wo|Three|Four|Five|Six|Seven|Eight|Nine|Ten|Eleven|Twelve)"
_COUNT = re.compile(
    rf"^(?:About |Some |Nearly |Around |Almost |At least |More than )?{_NUMBER}"
    r" (?P<rest>(?!of |per |percent |and |or |to )[a-z][a-z-]*[a-z]"
    r"(?: (?!and |but |or |when |because |after |while )[\w’'-]+){1,14}?)"
    r"(?= and | but | or | when | because | after | while |[,;.])"
)
_DOES_SOMETHING = re.compile(
    r" (?:were|are|have|had|will|can|may|must|remain|came|took|went|left|live|work|fell|lost|won|\w{3,}ed)\b"
)
_NO_THINGS = frozenset(
    words_from_text(
        "who which that thirds quarters percent kilometres metres miles minutes hours days weeks months "
        "years nights times"
    )
)
_PLURALS = frozenset(("people", "children", "women", "men", "sheep", "police", "fish"))
_REPORTING = frozenset(("said", "says", "told", "expects", "thinks", "believes"))
_PLAIN: Mapping[str, str] = {
    "closed": "close", "opened": "open", "ended": "end", "started": "start", "returned": "return",
    "arrived": "arrive", "signed": "sign", "declared": "declare", "moved": "move", "erupted": "erupt",
    "announced": "announce", "approved": "approve", "left": "leave", "began": "begin", "died": "die",
    "won": "win", "fell": "fall", "resigned": "resign", "launched": "launch", "landed": "land",
    "reopened": "reopen", "handed": "hand", "shook": "shake", "struck": "strike", "rejected": "reject",
}  # fmt: skip
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_PAST_TENSE = re.compile(
    r"^(?P<subject>(?:The |An? |[A-ZÀ-Þ][\w’'-]+ )(?:(?!who |which |that |where |whose |when |had |has )[\w’'-]+ )"
    r"{0,8}?)(?P<verb>" + "|".join(_PLAIN) + r")(?P<tail>(?: (?!on \d|in \d)[\w’'.-]+){0,12}?)"
    r" (?:on \d{1,2} (?:" + _MONTHS + r") \d{4}|in (?:(?:" + _MONTHS + r") )?(?:1\d{3}|20\d\d))\b"
)
_TIME_OF_DAY = re.compile(r" at (?:noon|midnight|dawn|dusk|\d[\d.]*(?: in the \w+)?)$")
_EXPECTS = re.compile(
    r"^The (?P<who>[a-z]+(?: [a-z]+)? [A-ZÀ-Þ][\w’'-]+ [A-ZÀ-Þ][\w’'-]+)(?: of (?:the )?[^,.;]{3,40}?)? "
    r"(?P<verb>expects|wants|plans|recommends|hopes|warns)\b"
)
_LASTS = re.compile(
    r"^(?P<subject>(?:The |An? |[A-ZÀ-Þ][\w’'-]+ )(?:(?!who |which |that )[\w’'-]+ ){0,7}?)"
    r"(?P<verb>lasts|lasted|takes|took) (?:about |around |nearly |only |just )?(?:[\w-]+ ){1,3}"
    r"(?:minutes|hours|days|weeks|months|years)\b"
)

_POINTING = frozenset(
    ["her", "his", "him", "she", "he", "it", "its", "they", "their", "them", "this", "that"]
)
"Words that only their article explains."


def generate_questions(sentence: str) -> Iterator[str]:
    """Return the questions that an English sentence answers."""
    for question in _generate_all(sentence):
        # A pronoun as subject is clear only in its article.
        if question.split()[_SUBJECT_AT : _SUBJECT_AT + 1] not in (["It"], ["They"], ["This"], ["That"]):
            yield question


def _generate_all(sentence: str) -> Iterator[str]:
    match = _WHO.search(sentence)
    if match and not match["deed"][-1:].isdigit() and not set(match["deed"].split()) & _POINTING:
        yield f"Who {match['deed'].strip()}?"
    if match := _ROLE.search(sentence):
        yield f"Who is the {match['role']}?"
    if match := _WHEN.search(sentence):
        yield f"When was {_lower_first(match['subject'])} {match['verb']}?"
    if match := _COST.search(sentence):
        does = "does" if match["costs"] == "costs" else "did"
        yield f"How much {does} {_lower_first(match['subject'])} cost?"
    for question in (
        _count_questions(sentence),
        _date_questions(sentence),
        _expectation_questions(sentence),
        _duration_questions(sentence),
    ):
        if question and _is_self_contained(question):
            yield question


def _count_questions(sentence: str) -> str:
    match = _COUNT.match(sentence)
    if match is None or not _DOES_SOMETHING.search(match["rest"]):
        return ""
    nouns = match["rest"].split()[:2]
    if nouns[0] in _NO_THINGS or not any(noun.endswith("s") or noun in _PLURALS for noun in nouns):
        return ""
    return f"How many {match['rest'].strip()}?"


def _date_questions(sentence: str) -> str:
    match = _PAST_TENSE.match(sentence)
    if match is None or not _is_subject(match["subject"]):
        return ""
    tail = _TIME_OF_DAY.sub("", match["tail"])
    return f"When did {_lower_first(match['subject'])} {_PLAIN[match['verb']]}{tail.rstrip()}?"


def _expectation_questions(sentence: str) -> str:
    match = _EXPECTS.match(sentence)
    return f"What does the {match['who']} {match['verb'][:-1]}?" if match else ""


def _duration_questions(sentence: str) -> str:
    match = _LASTS.match(sentence)
    if match is None or not _is_subject(match["subject"]):
        return ""
    verb = match["verb"]
    does = "does" if verb.endswith("s") else "did"
    return (
        f"How long {does} {_lower_first(match['subject'])} {'last' if verb.startswith('last') else 'take'}?"
    )


def _is_subject(text: str) -> bool:
    """Return whether words are a noun with an article or a name, without a verb."""
    words = text.split()
    named = words[0] in ("The", "A", "An") or sum(word[0].isupper() for word in words) > 1
    return named and not {word.lower() for word in words} & (_POINTING | _REPORTING)


def _is_self_contained(question: str) -> bool:
    """Return whether a question is clear without the article."""
    words = question.rstrip("?").split()
    named = any(word[0].isupper() for word in words[1:])
    return (
        len(words) <= _MOST_WORDS
        and not {word.lower() for word in words} & _POINTING
        and (named or len(words) >= _ENOUGH_WORDS)
    )


def _lower_first(subject: str) -> str:
    subject = subject.strip()
    return subject[:1].lower() + subject[1:] if subject.startswith(("The ", "A ", "An ")) else subject
