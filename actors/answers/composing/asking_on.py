"""From one question to the next: what a follow-up means, and what else could be asked of the passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from actors.answers.archive.messages import Snippet
from actors.answers.composing.appearance import Spot, names_at
from actors.answers.composing.made_of import questions_of
from actors.answers.composing.orders import cleaned, gives_orders
from actors.answers.composing.sentences import sentences
from actors.language.analysis import Analyzers
from actors.language.stopwords import STOP_WORDS
from actors.language.tokens import words as words_of

_PARENTS = 3
_LONGEST = 600
_MOST_RELATED = 8
_LOOKED_AT = 6
_ALIKE = 0.6

_NEXT = re.compile(
    r"^(?:and|but|so|or|ok(?:ay)?|und|aber|y|e|pero|et|mais)?[\s,]*(?:what|how) about\s+(.+?)\??$|"
    r"^(?:and|und|y|et)\s+((?:in|for|at|on|with|without|from|to|by|für|en|para|pour)?\s*[^?]{1,60}?)\??$|"
    r"^(?:was ist mit|und was ist mit|wie steht es mit|¿?y qué (?:hay|pasa) (?:de|con)|¿?qué hay de"
    r"|et (?:pour|qu'en est-il de))\s+(.+?)\??$",
    re.IGNORECASE,
)
_ALONE = re.compile(
    r"^(?:and\s+)?(?:why(?: not)?|when|where|who|how|how (?:many|much|long|often|old|so)|since when"
    r"|until when|by whom|what for|"
    r"for how long|why (?:was|is|did) (?:that|it|this)(?: so| happen)?|warum|wann|wo|wer|wie(?: viele?"
    r"| lange)?|seit wann|por qué|cuándo|dónde|quién|cómo"
    r"|cuántos?|pourquoi|quand|où|"
    r"qui|comment)\s*\??$",
    re.IGNORECASE,
)
_OWNED = re.compile(r"\b(its|his|her(?=\s+[a-z])|their)\b", re.IGNORECASE)
_POINTS = re.compile(
    r"\b(it|he|she|him|her|they|them|this|that|these|those)\b(?!\s+(?:is it|be)\b)(?P<noun>\s+(?:one"
    r"|ones))?",
    re.IGNORECASE,
)
_THERE = re.compile(r"\b(there)(?=\s*(?:\?|$|,))", re.IGNORECASE)
_POINTS_ELSEWHERE = re.compile(
    r"\b(?:er|sie|es|ihn|ihm|ihr|ihre[nmrs]?|sein|seine[nmrs]?|dies\w*|dort|davon|dazu|dafür|él|ella|ellos"
    r"|ellas|eso|esto|su|sus|allí|"
    r"il|elle|ils|elles|cela|ça|son|sa|ses|leur|leurs|là)\b",
    re.IGNORECASE,
)
_DUMMY = re.compile(
    r"\b(?:is|was|does|did|will|has) it (?:true|possible|take|cost|mean|rain|snow|legal|safe|better"
    r"|worth)\b",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:1[0-9]{3}|20[0-9]{2})\b")
_ASKS = re.compile(
    r"^[¿\s]*(?:who|whom|whose|what|which|when|where|why|how(?: (?:many|much|long|old|far|often|tall|high"
    r"|deep|big|large|fast))?|is|are|"
    r"was|were|do|does|did|can|could|will|would|has|have|had|tell me about|explain|describe|wer|was"
    r"|welche[mnrs]?|wann|wo|warum|wie|"
    r"qué|quién(?:es)?|cuál(?:es)?|cuándo|dónde|cómo|cuánt[oa]s?|por qué|qui|que|quel(?:le)?s?|quand|où"
    r"|pourquoi|comment|combien)\b",
    re.IGNORECASE,
)


def follow_up(question: str, parents: Sequence[str]) -> str:
    """Make a follow-up understandable without the questions before it; `parents` oldest first.

    A question that stands for itself stays as it is.
    """
    asked = cleaned(question[:_LONGEST])
    before = ""
    for parent in [cleaned(one[:_LONGEST]) for one in parents[-_PARENTS:]]:
        if parent:
            before = _resolved(parent, before) if before else parent
    return _resolved(asked, before) if asked and before else asked


def _resolved(asked: str, before: str) -> str:
    if match := _NEXT.match(asked):
        return _exchanged(next(group for group in match.groups() if group).strip(), before)
    subject = topic(before)
    if _ALONE.match(asked) or (not subject and len(asked.split()) < _SHORT):
        return f"{asked.rstrip('? ')}: {before}"
    if not subject:
        return asked
    if _PERSON.search(asked) and _WHO_DID.match(before):
        # somebody was asked for: only the question before says who is meant
        return f"{asked.rstrip('? ')} ({before.rstrip('? ')})?"
    if not _DUMMY.search(asked):
        replaced = _pointed(asked, subject)
        if replaced != asked:
            return replaced
    stands_alone = bool(_names(asked)) or len(asked.split()) > 6
    if _POINTS_ELSEWHERE.search(asked) and not _ASKS_ENGLISH.match(asked):
        return f"{asked.rstrip('? ')} ({subject})?"
    return asked if stands_alone else f"{asked.rstrip('? ')} ({subject})?"


_ASKS_ENGLISH = re.compile(
    r"^(?:and |but )?(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|can|will"
    r"|has|have)\b",
    re.IGNORECASE,
)


_SHORT = 5
_PERSON = re.compile(r"\b(?:he|she|they|him|them|his|her|their)\b", re.IGNORECASE)
_WHO_DID = re.compile(
    r"^(?:who|whom|whose)\s+(?!(?:is|was|are|were)\s+(?:the|an?)\b|(?:is|was)\s+[A-Z])", re.IGNORECASE
)


def _pointed(asked: str, subject: str) -> str:
    """Put what is meant where a pronoun points at it: the first one, names beside it are left alone."""
    if match := _OWNED.search(asked):
        owner = f"{subject}'" if subject.endswith("s") else f"{subject}'s"
        return asked[: match.start()] + owner + asked[match.end() :]
    if match := _THERE.search(asked):
        return asked[: match.start()] + f"at {subject}" + asked[match.end() :]
    if match := _POINTS.search(asked):
        follows = asked[match.end() :].split()
        is_whole = (
            match[1].lower() not in ("this", "that", "these", "those")
            or not follows
            or follows[0].lower() in _VERBS
        )
        return (
            asked[: match.start()] + subject + asked[match.end() :]
            if is_whole
            else f"{asked.rstrip('? ')} ({subject})?"
        )
    return asked


_VERBS = frozenset(
    [
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "has",
        "have",
        "had",
        "can",
        "could",
        "will",
        "would",
        "happen",
        "happened",
        "mean",
        "cost",
        "take",
        "work",
        "end",
        "begin",
    ]
)


def _exchanged(wanted: str, before: str) -> str:
    """Ask the question before of something else: a year for a year, a name for a name."""
    bare = re.sub(r"^(?:in|for|at|on|from|to|für|en|para|pour)\s+", "", wanted, flags=re.IGNORECASE)
    if _YEAR.fullmatch(bare) and _YEAR.search(before):
        return _YEAR.sub(bare, before, count=1)
    own = _names(before)
    if own and _names(f"x {bare}"):
        last = own[-1]
        return before[: last[0]] + bare + before[last[1] :]
    if _YEAR.fullmatch(bare):
        return f"{before.rstrip('? ')} in {bare}?"
    return f"{before.rstrip('? ')} ({wanted})?"


_LEAD = re.compile(
    r"\b(?:the|la|el|los|las|der|die|das|le|les)\s(?:(?!the\b)[a-zà-ÿ-]+\s){0,3}(?:(?:of|in|at|for|de"
    r"|von)\s)?(?:the\s)?$"
)
"What belongs to a name and stands before it: *the mayor of* Obermoos."


def topic(question: str) -> str:
    """Say what a question is about: its longest stretch around names, else what follows its verb."""
    rest = _ASKS.sub("", question, count=1).strip(" ?.!¿")
    named = _names(f"x {rest}")
    if named:
        first, last = named[0][0] - 2, named[-1][1] - 2
        before = _LEAD.search(rest[:first])
        start = before.start() if before else first
        if len(named) > 1 and len(rest[first:last].split()) > 8:
            last = named[0][1] - 2
        return rest[start:last].strip() + _behind(rest[last:])
    phrase = re.search(
        r"\b(?:the|an?|der|die|das|ein|eine|la|el|los|las|un|una|le|les|une)\s+((?:[\w’'-]+\s*){1,4})", rest
    )
    return _noun(phrase[0]) if phrase else ""


def _behind(rest: str) -> str:
    """Take the noun that follows a name: the Kaltbach *tunnel*, Dell's *ban*."""
    match = re.match(r"(?:['’]s?)?\s[a-zà-ÿ-]+", rest)
    if match is None:
        return ""
    word = match[0].split()[-1]
    return "" if word in STOP_WORDS["en"] or word in _VERBS or word.endswith("ed") else match[0]


_DONE = re.compile(
    r"\w{3,}ed|built|made|found|won|held|sold|bought|written|taken|given|begun|known|led|set|paid"
)


def _noun(phrase: str) -> str:
    """Cut a stretch of words at the first that cannot belong to its noun."""
    kept = phrase.split()[:1]
    for word in phrase.split()[1:]:
        small = word.lower()
        if (small in STOP_WORDS["en"] and small != "of") or small in _VERBS or _DONE.fullmatch(small):
            break
        kept.append(word)
    return " ".join(kept).rstrip(" of")


def _names(text: str) -> list[Spot]:
    return [
        (start, end) for start, end in names_at(text) if start > 0 and text[start:end] not in ("I", "I'm")
    ]


# --- what else could be asked ---------------------------------------------------------------------------------------


def related(question: str, snippets: Sequence[Snippet], looked_at: int = _LOOKED_AT) -> tuple[str, ...]:
    """Say what else could be asked that these passages answer; best passages first, none asks the same twice."""
    asked = [set(words_of(question))]
    found: list[str] = []
    is_english = Analyzers().guess(" ".join(snippet.text[:400] for snippet in snippets[:3])) == "en"
    for one in _questions(snippets[:looked_at], is_english):
        said = set(words_of(one))
        if len(said) > 2 and all(len(said & other) < _ALIKE * min(len(said), len(other)) for other in asked):
            asked.append(said)
            found.append(one)
            if len(found) >= _MOST_RELATED:
                break
    return tuple(found)


def _questions(snippets: Sequence[Snippet], is_english: bool) -> Iterator[str]:
    for snippet in snippets:
        for heading in (snippet.child_title, snippet.title):
            plain = cleaned(heading)
            if plain.endswith("?") and len(plain.split()) > 2 and not gives_orders(plain):
                yield plain
        if not is_english:
            continue
        for sentence in sentences(snippet.text):
            plain = cleaned(sentence.text)
            if not gives_orders(sentence.text):
                yield from questions_of(plain)
