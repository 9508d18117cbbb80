"""Text of articles is data: what in it talks to a machine instead of a reader is left out, what is hidden comes off.

A sentence that gives orders to whoever writes the answer is never shown, whatever is asked: losing a quotation of
such an order costs little, passing one on costs trust.
"""

from __future__ import annotations

import re
import unicodedata

_WRITER = (
    r"(?:assistant|chat ?bot|\bAI\b|\bLLM\b|language model|the model|\bGPT\b|asistente|asistent|KI"
    r"|Sprachmodell|modèle de langage)"
)
_BEFORE = (
    r"(?:(?:all|any|every|of|the|your|my|these|those|previous|prior|above|earlier|preceding|foregoing"
    r"|former|other|existing|"
    r"original|initial|system|safety|hidden|said|at)\s{1,3}){0,6}"
)
_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directives?|commands?|constraints?|context"
    r"|messages?|guardrails?|restrictions?)"
)
_AT_WORDS = (
    r"\b(?:begin|end|start)(?: of)? (?:the )?(?:system )?prompt\b",
    rf"\b(?:ignor\w{{0,12}}|disregard\w{{0,12}}|forget|overrid\w{{1,20}}|bypass|skip"
    rf"|do not (?:follow|obey)|stop following"
    rf"|discard|erase)\s{{1,3}}{_BEFORE}{_RULES}\b",
    r"\b(?:ignore|disregard|forget) (?:everything|anything|all|what(?:ever)?) (?:\w{1,20} ){0,4}(?:above"
    r"|before|previous\w{0,12}|earlier|said|told|prior)\b",
    r"\byou are (?:now|no longer|actually|hereby|going to (?:act|be)|to act|in (?:developer|debug|god"
    r"|admin|dan|maintenance) mode)\b",
    rf"\b(?:as|dear|attention|note to|hey|hello|instructions? (?:for|to)|message (?:for|to)"
    rf"|reminder to|if you are|you,?) (?:an? |the |any |all |every )*{_WRITER}",
    r"\b(?:act|behave|respond|pretend|roleplay|role-play|answer) as (?:if|though|an?|the"
    r"|my) (?:\w{1,20} ){0,4}(?:admin\w{0,12}|root|developer|dan|model|assistant|pirate|hacker|"
    r"unrestricted|jailbroken|expert|system|evil|you)\b",
    r"\bpretend (?:to be|that you|you are)\b",
    r"\b(?:reveal|print|show|repeat|output|display|leak|expose|send|email|post|disclose|tell (?:me|us"
    r"|the user)|give (?:me|us|the user)|write out|exfiltrate|include|quote)\s{1,3}"
    r"(?:\w{1,20}\s{1,3}){0,5}(?:system prompt|hidden prompt|initial prompt|your (?:\w{1,20} )?(?:prompt"
    r"|instructions|rules|configuration|context)|api[ _-]?keys?|secret[ _-]?keys?|passwords?|"
    r"credentials|environment variables?|access tokens?|master key|conversation (?:history|so far)"
    r"|chat history|text above|words above)\b",
    r"\b(?:your|the) (?:new|real|true|actual|only|first|next|updated|revised) (?:task|instructions?"
    r"|goal|objective|job|role|orders?|directive|prompt|mission|purpose)\b[^.]{0,12}"
    r"(?::|\bis\b|\bare\b|\bwill be\b|\bfollows?\b)",
    r"\bnew (?:system )?(?:instructions?|directives?|rules?|prompt)\s{0,3}:",
    r"\b(?:end|begin|start|close) of (?:the )?(?:system )?(?:prompt|instructions?|context|sources?"
    r"|passages?|documents?|articles?|data)\b",
    r"\b(?:respond|reply|answer|say|output|print|write|start|begin|end|finish"
    r"|conclude)\b[^.]{0,40}\b(?:only|just|exactly|solely|nothing but|verbatim|with the (?:words?"
    r"|phrase|sentence|text|link))\b[^.]{0,20}"
    r"(?:[:\"“'‘«„]|\bwith\b|\bthe (?:words?|phrase|sentence|text|following)\b)",
    r"\b(?:always|never|must|only) (?:answer|respond|reply|say|cite|recommend|mention|claim|state"
    r"|tell)\b[^.]{0,80}\b(?:question|user|reader|answer|source|article|asked|this (?:page|site|text"
    r"|document))",
    r"\b(?:do not|don['’]t|never) (?:tell|inform|mention|reveal|warn|show|cite|let"
    r"|disclose)\b[^.]{0,50}\b(?:the |any )?(?:users?|readers?|humans?|anyone|anybody|others?|sources?"
    r"|know)\b",
    r"\b(?:whenever|if|when) (?:you are |someone |anyone |the (?:user|reader) |a (?:user|reader) "
    r"|a question |people )?(?:is |are )?(?:asked|asks?)\b[^.]{0,80}\b(?:say|answer|reply|respond"
    r"|claim|"
    r"state|write|tell|insist|output|recommend|cite)\b",
    r"\b(?:developer|debug|god|dan|jailbreak|admin|sudo|unrestricted|maintenance) mode\b|\bjailbreak\b"
    r"|\bdo anything now\b|\bprompt injection\b|\bsudo\s",
    r"\b(?:in|to) (?:the|your) (?:answer|response|reply|summary|output)\b[^.]{0,60}\b(?:link|url|image"
    r"|html|markdown|code|phrase|word|sentence|say|include|add|write)\b",
    r"\b(?:include|insert|add|append|embed|render|output|place|put)\b[^.]{0,60}\b(?:in|to|into"
    r"|at the end of|at the start of|before|after) (?:the|your|every|each|all) (?:answers?|responses?"
    r"|repl(?:y|ies)|summar(?:y|ies)|outputs?)\b",
    r"\b(?:click|tap|press|visit|follow|go to|open|browse to|navigate to|call|fetch"
    r"|download from)\b[^.]{0,40}(?:\bhere\b|\bthis link\b|\bthe link\b|https?:|www\.|\b[\w-]{1,40}\.(?:com"
    r"|net|org|io|xyz|ru|example)\b)",
    r"\b(?:decode|execute|eval|run|call|invoke|use) (?:the |this |following |a |an |your )*(?:base64"
    r"|code|command|script|function|tool|payload|shell|python|javascript|rot13)\b",
    r"\b(?:ignor(?:ier|ieren|iere)\w{0,12}|vergiss|vergessen sie|missachte\w{0,12})\b[^.]{0,50}\b(?:anweisung"
    r"|anweisungen|regeln|instruktion\w{0,12}|vorgaben|befehle|oben)\b",
    r"\b(?:ignor[ae]\w{0,12}|olvid[ae]\w{0,12}|descart[ae]\w{0,12})\b[^.]{0,50}\b(?:instruccion\w{0,12}|reglas|órdenes"
    r"|indicaciones|anterior\w{0,12})\b",
    r"\b(?:ignor(?:e|ez|er)|oublie[zr]?|oublier)\b[^.]{0,50}\b(?:instructions?|consignes?|règles"
    r"|précédent\w{0,12})\b",
    r"\b(?:ignora|dimentica|ignore|esqueça|negeer|vergeet)\b[^.]{0,50}\b(?:istruzioni|instruções"
    r"|instructies|opdrachten|precedenti|anteriores)\b",
    r"\bdu bist (?:jetzt|nun|ab sofort)\b|\b(?:ahora eres|a partir de ahora eres)\b"
    r"|\btu es (?:maintenant|désormais)\b|\bvous êtes (?:maintenant|désormais)\b",
    r"\b[A-Za-z0-9+/]{48,200}",
)
_ANYWHERE = (
    r"(?:^|[:;]\s)(?:please )?(?:say|reply|respond|output|print|repeat|answer)\s",
    r"(?:^|\s|[\[<{(#*|])(?:system|assistant|developer|user|human|ai)\s{0,3}(?:prompt|message|override"
    r"|instructions?)?\s{0,3}[\])>}|*]{0,4}\s{0,3}:(?!\d|//)",
    r"<\|?\s{0,3}/?\s{0,3}(?:im_start|im_end|system|assistant|user|endoftext|eot_id|start_header_id|inst"
    r"|sys)\b|\[/?(?:INST|SYS)\]|<<SYS>>",
    r"#{2,6}\s{0,3}(?:instruction|system|response|prompt|end of)",
    rf"{_WRITER}s?\b[^.]{{0,60}}\b(?:must|should|shall|has to|have to|needs? to|is (?:required"
    rf"|instructed|ordered|told) to)\b[^.]{{0,60}}\b(?:answer|say|reply|"
    rf"respond|write|output|print|tell|recommend|cite|include|ignore|reveal|repeat|summari[sz]e|state"
    rf"|add|append|mention|refuse|quote|link)\b",
    r"忽略|无视|無視|無視して|指示を|игнорир\w{0,12}|забудь\w{0,12}|تجاهل|무시하",
    r"</?(?:script|iframe|img|svg|a|object|embed|form|style|link|meta|base|video|audio|input|button"
    r"|div|span|body|html)\b[^>]{0,200}>?|\bjavascript:|\bdata:text/|\bon(?:error|load|click)\s{0,3}=",
)
_INSTRUCTIONS = re.compile(r"\b(?:" + "|".join(_AT_WORDS) + r")|" + "|".join(_ANYWHERE), re.IGNORECASE)

_MARKED_LINK = re.compile(
    r"!?\[([^\[\]]{0,300})\]\((?:[^()\s]|\([^()\s]{0,80}\)){0,600}(?:\s{1,3}[\"'][^\"']{0,200}[\"'])?\)"
)
_REFERENCE = re.compile(r"!?\[([^\[\]]{1,300})\]\[[^\[\]]{0,100}\]")
_NOTE = re.compile(r"\s?\[(?:\d{1,3}(?:\s?[,–-]\s?\d{1,3})*|[a-z]|note \d+|citation needed|edit)\]")
_ADDRESS = re.compile(
    r"<?\b(?:[a-z][a-z0-9+.-]{1,12}://|www\.|mailto:|javascript:|data:|tel:)[^\s<>\"'“”]*>?", re.IGNORECASE
)
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}")
_TAG = re.compile(r"<[/!?a-zA-Z][^<>]{0,500}>")
_LEFT_OUT = "…"


def has_instructions(text: str) -> bool:
    """Does a sentence talk to whoever writes an answer, or smuggle in something that is not text?

    Cost:
        20 us for a sentence
    """
    plain = strip_invisible(text)
    if _INSTRUCTIONS.search(plain) or ("](" in plain and _INSTRUCTIONS.search(clean_text(plain))):
        return True
    return has_hidden_characters(text) and _INSTRUCTIONS.search(_decode_tags(text)) is not None


def has_hidden_characters(text: str) -> bool:
    """Does it hold characters that nobody sees: tags, directions, blanks of no width?"""
    return not text.isascii() and any(_is_hidden(character) for character in text)


def strip_invisible(text: str) -> str:
    """Take everything off that nobody sees, and make one line of it."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", "".join(c for c in text if not _is_hidden(c)))
    return " ".join(text.replace("\x00", " ").split())


def clean_text(text: str) -> str:
    """Make plain text of a sentence: no markup, links, addresses, footnote marks or hidden characters."""
    text = strip_invisible(text)
    text = _TAG.sub("", _strip_comments(text)) if "<" in text else text
    text = _REFERENCE.sub(r"\1", _MARKED_LINK.sub(r"\1", text)) if "[" in text else text
    text = _NOTE.sub("", text) if "[" in text else text
    text = _ADDRESS.sub(_LEFT_OUT, text) if ":" in text or "www." in text.lower() else text
    text = _MAIL.sub(_LEFT_OUT, text) if "@" in text else text
    return " ".join(text.split())


def _strip_comments(text: str) -> str:
    first, *others = text.split("<!--")
    return first + "".join(other.partition("-->")[2] for other in others)


def _is_hidden(character: str) -> bool:
    if character in "\t\n\r\u200c\u200d":  # joiners are spelling in some scripts
        return False
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Co", "Cn", "Cs")
        or 0xFE00 <= ord(character) <= 0xFE0F
    )


def _decode_tags(text: str) -> str:
    """Read what is written in tag characters, which look like nothing and spell ASCII."""
    return "".join(chr(ord(c) - 0xE0000) if 0xE0020 <= ord(c) <= 0xE007E else c for c in text)
