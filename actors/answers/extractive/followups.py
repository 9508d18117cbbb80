"""From one question to the next: what a follow-up means, and what else could be asked of the passages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from actors.answers.archive.messages import Snippet
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
"Letters by which words of two questions are compared: endings differ."
_FAITHFUL = 0.7
"Share of the words of a rewritten question that the questions must hold."

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


def resolve_followup(question: str, parents: Sequence[str]) -> str:
    """Make a follow-up understandable without the questions before it; `parents` oldest first.

    A question that stands for itself stays as it is. English, Spanish and German pronouns and omitted subjects are
    resolved; a subject that fits nowhere in the sentence stands behind it in parentheses.
    """
    asked = clean_text(question[:_LONGEST])
    before = ""
    for parent in [clean_text(one[:_LONGEST]) for one in parents[-_PARENTS:]]:
        if parent:
            before = _resolve_references(parent, before) if before else parent
    return _resolve_references(asked, before) if asked and before else asked


def validate_rewriting(written: str, question: str, parents: Sequence[str]) -> str:
    """Return a model's rewriting of a follow-up when it is one question in the words of the questions; else empty."""
    text = clean_text(written.strip().strip('"“”'))
    if not text or len(text) > _LONGEST or "\n" in written.strip() or has_instructions(written):
        return ""
    begins = {word[:_STEM] for one in (question, *parents) for word in words_of(one)}
    own = [word for word in words_of(text) if len(word) >= _STEM]
    known = sum(word[:_STEM] in begins for word in own)
    return text if own and known >= _FAITHFUL * len(own) else ""


def _resolve_references(asked: str, before: str) -> str:
    if (linked := _LINKED.match(asked)) and not _ALONE.match(asked.lstrip("¿ ")):
        # "and how do I prune them?" asks something else of the same subject: it is no other subject
        asked = linked["opens"] + linked["rest"][0].upper() + linked["rest"][1:]
    elif match := _NEXT.match(asked.lstrip("¿¡ ")):
        return _replace_topic(next(group for group in match.groups() if group).strip(), before)
    subject = extract_topic(before)
    is_measure = _MEASURE.match(asked) and not _find_names(before)
    if _ALONE.match(asked) or is_measure or (not subject and len(asked.split()) < _SHORT):
        return f"{asked.rstrip('? ')}: {before}"
    if not subject:
        return asked
    if _PERSON.search(asked) and _AGENT_QUESTION.match(before):
        # somebody was asked for: only the question before says who is meant
        return f"{asked.rstrip('? ')} ({before.rstrip('? ')})?"
    if not _DUMMY.search(asked):
        replaced = _replace_pronoun(asked, subject)
        if replaced != asked:
            return replaced
    stands_alone = bool(_find_names(asked)) or len(asked.split()) > 6
    if _POINTS_GERMAN.search(asked) and not _ASKS_ENGLISH.match(asked):
        return _POINTS_GERMAN.sub(lambda _: subject, asked, count=1)
    points = _POINTS_ELSEWHERE.search(asked) or _POINTS_SPANISH.search(asked)
    if points and not _ASKS_ENGLISH.match(asked):
        return f"{asked.rstrip('? ')} ({subject})?"
    return asked if stands_alone else f"{asked.rstrip('? ')} ({subject})?"


_ASKS_ENGLISH = re.compile(
    r"^(?:and |but )?(?:who|whom|whose|what|which|when|where|why|how|is|are"
    r"|was(?!\s+(?:ist|sind|war|waren|wird|kostet|macht|tut|bedeutet)\b)"
    r"|were|do|does|did|can|will|has|have)\b",
    re.IGNORECASE,
)


_LINKED = re.compile(
    r"^(?P<opens>[¿\s]*)(?:and|but|so|und|aber|y|e|pero)[\s,]+(?=(?:who|whom|whose|what(?! about)|which|when|where"
    r"|why|how(?! about)|is|are|was(?!\s+ist\s+mit)|were|do|does|did|can|could|should|will|wer|wen|wem"
    r"|welche[mnrs]?|wann|wo|warum|wie(?!\s+steht)|womit|wodurch|qué(?!\s+(?:hay|pasa))|quién(?:es)?|cuál(?:es)?"
    r"|cuándo|dónde|cómo|cuánt[oa]s?|por qué|con qué|para qué)\b)(?P<rest>\S.*)$",
    re.IGNORECASE,
)
"A whole question that begins with *and*."
_POINTS_GERMAN = re.compile(r"\b(?:er|ihn|ihm|sie|ihnen)\b")
"Pronouns that a noun replaces where they stand; `Sie` is how somebody is addressed."
_POINTS_SPANISH = re.compile(
    r"\blo\s+(?!que\b)\w+|(?:\b(?:cómo|cuándo|dónde|quién(?:es)?|qué|no|yo)|\by)\s+(?:la|los|las|les?)\s+\w+\s*\??$",
    re.IGNORECASE,
)
"Object pronouns before the verb; an article stands before a noun."
_MEASURE = re.compile(r"^(?:how|wie)\s+\w+\s*\??$", re.IGNORECASE)
"*How deep?* asks for a part of the question before."
_SHORT = 5
_PERSON = re.compile(r"\b(?:he|she|they|him|them|his|her|their)\b", re.IGNORECASE)
_AGENT_QUESTION = re.compile(
    r"^(?:who|whom|whose)\s+(?!(?:is|was|are|were)\s+(?:the|an?)\b|(?:is|was)\s+[A-Z])", re.IGNORECASE
)


def _replace_pronoun(asked: str, subject: str) -> str:
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


def _replace_topic(wanted: str, before: str) -> str:
    """Ask the question before of something else: a year for a year, a name for a name."""
    bare = re.sub(r"^(?:in|for|at|on|from|to|für|en|para|pour)\s+", "", wanted, flags=re.IGNORECASE)
    subject = extract_topic(before)
    if _YEAR.fullmatch(bare) and _YEAR.search(before):
        return _YEAR.sub(bare, before, count=1)
    own = _find_names(before)
    if own and _find_names(f"x {bare}"):
        last = own[-1]
        return before[: last[0]] + bare + before[last[1] :]
    if _YEAR.fullmatch(bare):
        return f"{before.rstrip('? ')} in {bare}?"
    if subject and not own and not _PLACED.match(wanted):
        return before.replace(subject, wanted, 1)
    return f"{before.rstrip('? ')} ({wanted})?"


_PLACED = re.compile(
    r"(?:in|for|at|on|with|without|from|to|by|für|mit|ohne|bei|auf|im|am|en|para|con|sin|pour|if|when|wenn|si|cuando)\b",
    re.IGNORECASE,
)
"Circumstances: they are added to a question and replace nothing in it."

_LEAD = re.compile(
    r"\b(?:the|la|el|los|las|der|die|das|den|dem|le|les)\s(?:(?!the\b)[a-zà-ÿ-]+\s){0,3}(?:(?:of|in|at|for|de"
    r"|von)\s)?(?:the\s)?$"
)
"What belongs to a name and stands before it: *the mayor of* Obermoos."


def extract_topic(question: str) -> str:
    """Say what a question is about: its longest stretch around names, else what follows its verb."""
    rest = _ASKS.sub("", question, count=1).strip(" ?.!¿")
    named = _find_names(f"x {rest}")
    if named:
        first, last = named[0][0] - 2, named[-1][1] - 2
        before = _LEAD.search(rest[:first])
        start = before.start() if before else first
        if len(named) > 1 and len(rest[first:last].split()) > 8:
            last = named[0][1] - 2
        return rest[start:last].strip() + _noun_after(rest[last:])
    phrase = re.search(
        r"\b(?:the|an?|der|die|das|ein|eine|la|el|los|las|un|una|le|les|une)\s+((?:[\w’'-]+\s*){1,4})", rest
    )
    if phrase:
        return _leading_noun(phrase[0])
    bare = _BARE.match(rest) or _BARE_SPANISH.match(rest)
    return _leading_noun(next(group for group in bare.groups() if group)) if bare else ""


_BARE = re.compile(
    r"(?:do|does|did|can|could|should|must|will|would)\s+(?:i|you|we|one|people)\s+(?:best\s+)?\w+\s+((?:[a-z-]+\s*){1,3})"
    r"|(?:do|did|can|will)\s+((?:[a-z-]+\s){0,2}?[a-z-]+s)\s"
    r"|(?:is|are|was|were|does|did|can|will)\s+([a-z-]+)",
    re.IGNORECASE,
)
"A noun without an article: *do I plant tulips*, *do apple trees survive*, *is mulch*."
_BARE_SPANISH = re.compile(
    r"(?:se\s+)?[a-zà-ÿ]+(?:o|a|an|en|amos|emos)\s+([a-zà-ÿ]+(?:\s+de\s+[a-zà-ÿ]+)?)\s*$", re.IGNORECASE
)


def _noun_after(rest: str) -> str:
    """Take the noun that follows a name: the Kaltbach *tunnel*, Dell's *ban*."""
    match = re.match(r"(?:['’]s?)?\s[a-zà-ÿ-]+", rest)
    if match is None:
        return ""
    word = match[0].split()[-1]
    is_done = word.endswith("ed") or _DONE_GERMAN.fullmatch(word)
    return "" if word in STOP_WORDS["en"] or word in _VERBS or is_done else match[0]


_DONE_GERMAN = re.compile(r"ge\w{2,}t|\w+(?:en|ern|eln)")
"Participles and infinitives: German nouns are written like names."


_DONE = re.compile(
    r"\w{3,}ed|built|made|found|won|held|sold|bought|written|taken|given|begun|known|led|set|paid"
)


def _leading_noun(phrase: str) -> str:
    """Cut a stretch of words at the first that cannot belong to its noun."""
    kept = phrase.split()[:1]
    for word in phrase.split()[1:]:
        small = word.lower()
        if (small in STOP_WORDS["en"] and small != "of") or small in _VERBS or _DONE.fullmatch(small):
            break
        kept.append(word)
    return " ".join(kept).removesuffix(" of")


def _find_names(text: str) -> list[CharSpan]:
    return [
        (start, end)
        for start, end in find_name_spans(text)
        if text[:start].strip("¿¡ ") and text[start:end] not in ("I", "I'm")
    ]


# --- what else could be asked ---------------------------------------------------------------------------------------


def generate_related_questions(
    question: str, snippets: Sequence[Snippet], looked_at: int = _MAX_PASSAGES
) -> tuple[str, ...]:
    """Say what else could be asked that these passages answer; best passages first, none asks the same twice."""
    asked = [set(words_of(question))]
    found: list[str] = []
    is_english = Analyzers().detect_language(" ".join(snippet.text[:400] for snippet in snippets[:3])) == "en"
    for one in _generate_candidates(snippets[:looked_at], is_english):
        said = set(words_of(one))
        if len(said) > 2 and all(
            len(said & other) < _DUPLICATE_SHARE * min(len(said), len(other)) for other in asked
        ):
            asked.append(said)
            found.append(one)
            if len(found) >= _MOST_RELATED:
                break
    return tuple(found)


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
