"""Terms of an archive that machines read: what its articles may be used for, by whom, where and for what price.

A publisher says them once. The licence file, the usage preferences and the lines for robots.txt are made of this
record, so they never contradict each other. Articles with a licence of their own may have other terms.

Source: Really Simple Licensing (RSL) 1.0, sections 3.3 to 3.13; draft-ietf-aipref-vocab-07
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Usage = Literal["all", "ai-all", "ai-train", "ai-input", "ai-index", "search"]
Operator = Literal["commercial", "non-commercial", "education", "government", "personal"]
Payment = Literal[
    "", "free", "attribution", "contribution", "purchase", "subscription", "training", "crawl", "use"
]
Warranty = Literal["ownership", "authority", "no-infringement", "privacy-consent", "no-malware"]
Disclaimer = Literal["as-is", "no-warranty", "no-liability", "no-indemnity"]

WITHOUT_PRICE = frozenset({"", "free", "attribution"})
"Payments that cost nothing."
MOST_TERMS = 50
"Licences of one archive that have terms of their own."
PREFERENCES: Mapping[str, frozenset[str]] = {
    "train-ai": frozenset({"ai-train", "ai-all", "all"}),
    "search": frozenset({"search", "all"}),
}
"Category of the IETF -> uses that contain it."

_ADDRESS = r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/(%[0-9A-Fa-f]{2}|[A-Za-z0-9._~:/?@!$&'()*+,;=-])*)?$"
_MAIL = r"mailto:[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+"
_PATH = r"^/[!-\"$-~]*$"
"A path of robots.txt, with `*` and `$`."
_LINE = r"^[^\x00-\x1f\x7f\ufffe\uffff]*$"
"What XML can contain, in one line."
_LONGEST = 500
_NOT_WORDS = re.compile(r"[\W_]+")
_LONGEST_NAME = 64

Address = Annotated[str, Field(max_length=_LONGEST, pattern=f"{_ADDRESS}|^$")]


class ArchiveTerms(BaseModel):
    """Terms of the articles of an archive, or of those with one licence."""

    model_config = ConfigDict(frozen=True)

    permits: tuple[Usage, ...] = Field((), max_length=len(get_args(Usage)))
    "Uses that are allowed, and no other; empty: nothing is said."
    prohibits: tuple[Usage, ...] = Field((), max_length=len(get_args(Usage)))
    "Uses that are forbidden; they win over allowed ones."
    users: tuple[Operator, ...] = Field((), max_length=len(get_args(Operator)))
    "Operators of machines that the terms allow, and no other; empty: all."
    not_users: tuple[Operator, ...] = Field((), max_length=len(get_args(Operator)))
    "Operators that the terms exclude."
    countries: tuple[Annotated[str, Field(pattern="^[A-Z]{2}$")], ...] = Field((), max_length=260)
    "Countries of use by ISO 3166, and no other; empty: all."
    not_countries: tuple[Annotated[str, Field(pattern="^[A-Z]{2}$")], ...] = Field((), max_length=260)
    "Countries that the terms exclude."
    payment: Payment = ""
    "What an allowed use costs; empty: nothing is said, which RSL reads as free."
    amount: str = Field("", pattern=r"^([0-9]{1,9}(\.[0-9]{1,6})?)?$")
    "Price of a payment."
    currency: str = Field("", pattern="^([A-Z]{3})?$")
    "ISO 4217 code of the price."
    standard: Address = ""
    "Address of a common licence, as one of Creative Commons or of a collecting society."
    custom: Address = ""
    "Address where a licence of this publisher can be got."
    server: Address = ""
    "Address of a licence server; with one, machines must get a licence there before any use, also a free one."
    contact: str = Field("", max_length=_LONGEST, pattern=f"{_ADDRESS}|^{_MAIL}$|^$")
    "Whom to ask: a web address, or `mailto:` and an address."
    warranties: tuple[Warranty, ...] = Field((), max_length=len(get_args(Warranty)))
    disclaimers: tuple[Disclaimer, ...] = Field((), max_length=len(get_args(Disclaimer)))
    attested: bool = False
    "Whether the publisher declares to have the rights."
    holder: str = Field("", max_length=200, pattern=_LINE)
    "Who has the rights."
    holder_type: Literal["organization", "person"] = "organization"
    terms_url: Address = ""
    "Address of the terms for people."
    paths: tuple[Annotated[str, Field(max_length=_LONGEST, pattern=_PATH)], ...] = Field(
        ("/",), min_length=1, max_length=50
    )
    "Paths of the articles on the publisher's site, as in robots.txt."
    valid_days: int = Field(30, ge=1, le=3_650)
    "Days for which machines may keep the licence file."


def find_fault(terms: ArchiveTerms) -> str:
    """Return why terms contradict themselves; empty if they don't."""
    pairs: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
        ("use", terms.permits, terms.prohibits),
        ("user", terms.users, terms.not_users),
        ("country", terms.countries, terms.not_countries),
    )
    for kind, allowed, excluded in pairs:
        both = sorted(set(allowed) & set(excluded))
        if both:
            return f"the {kind} {both[0]} is allowed and excluded"
    if not (terms.permits or terms.prohibits or terms.payment):
        return "the terms say nothing; name permits, prohibits or payment"
    if bool(terms.amount) != bool(terms.currency):
        return "a price needs an amount and a currency"
    if terms.amount and terms.payment in WITHOUT_PRICE:
        return f"the payment {terms.payment or 'free'} has no price"
    return ""


def name_terms(licence: str) -> str:
    """Return the name of the terms of a licence, as `cc-by-4-0` for `CC BY 4.0`; empty for no licence."""
    return _NOT_WORDS.sub("-", licence.casefold()).strip("-")[:_LONGEST_NAME].rstrip("-")


def find_terms(terms: Mapping[str, ArchiveTerms], licence: str) -> tuple[str, ArchiveTerms] | None:
    """Return name and terms of an article with a licence: those of its licence, else those of the archive.

    The archive's terms have an empty name.
    """
    name = name_terms(licence)
    if name not in terms:
        name = ""
    return (name, terms[name]) if name in terms else None


def express_preferences(terms: ArchiveTerms) -> str:
    """Return the usage preferences of terms, as `train-ai=n, search=y`; empty if they express none.

    A use that costs something, or that only some may make, is `n`: who has no licence may not make it. A use that the
    terms do not mention is absent.
    """
    is_open = (
        terms.payment in WITHOUT_PRICE
        and not terms.server
        and not (terms.users or terms.not_users or terms.countries or terms.not_countries)
    )
    preferences = []
    for category, containing in PREFERENCES.items():
        if containing & set(terms.prohibits):
            preferences.append(f"{category}=n")
        elif terms.permits:
            is_allowed = is_open and containing & set(terms.permits)
            preferences.append(f"{category}={'y' if is_allowed else 'n'}")
    return ", ".join(preferences)
