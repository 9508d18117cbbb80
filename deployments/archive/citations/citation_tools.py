"""The tool `check_citations`, the corrections in answers of all tools, and the statements that the publisher signs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.archive.client import ArchiveClient
from actors.archive.messages import Citation, CitationState
from cluster.admin.citation_signing_keys import CitationSigningKeys
from cluster.clock import Clock
from cluster.errors import Invalid
from cluster.records.archive.article_revision import ArticleRevision, passage_digest
from deployments.archive.admission import ArchiveCaller
from deployments.archive.archive_tools import MOST_TITLE, ToolResult
from deployments.archive.call_context import PLAIN, CallContext
from deployments.archive.citation_rules import sanitize_url
from deployments.archive.citations.article_reads import ArticleReads
from deployments.archive.citations.citation_marks import remove_mark
from deployments.archive.text_fence import fence_line
from deployments.archive.tools import MOST_CITATIONS, MOST_NAME, MOST_QUESTION

_MOST_URL = 2_000
_FIELDS = {
    "product_id": MOST_NAME,
    "url": _MOST_URL,
    "passage": MOST_QUESTION,
    "digest": 80,
    "text": MOST_QUESTION,
}
"Members of a citation, with their largest lengths in characters."
_DIGEST = re.compile(r"[1-9][0-9]{0,3}:[0-9a-f]{64}")
_LINK = re.compile(r"\[[^\[\]]*\]\((?P<marked>https?://[^\s()]+)\)|(?P<plain>https?://[^\s<>\"()\[\]]+)")
_MARK = re.compile(r"</?(?:quoted|article-text) [0-9a-f]{12}>")
_EDGES = " \t\n.,;:()[]<>"
_FENCED = ("title", "passage", "correction_note")


def read_citations(given: Any) -> list[Citation]:
    """Return citations from JSON.

    Errors:
        Invalid: names the first wrong one by its number from 0
    """
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_CITATIONS:
        raise Invalid(f"citations must be an array of 1 to {MOST_CITATIONS} members")
    return [_read_citation(f"citations[{number}]", member) for number, member in enumerate(given)]


def _read_citation(name: str, given: Any) -> Citation:
    if not isinstance(given, dict):
        raise Invalid(f"{name} must be an object")
    values = dict.fromkeys(_FIELDS, "")
    for field, longest in _FIELDS.items():
        value = given.get(field)
        if value is None:
            continue
        if not isinstance(value, str):
            raise Invalid(f"{name}.{field} must be a string")
        if len(value) > longest:
            raise Invalid(f"{name}.{field} is longer than {longest} characters")
        values[field] = value
    # Agents copy passages with the marks of quoted texts, which are no part of the article.
    passage = _MARK.sub(" ", values["passage"])
    url = values["url"]
    if values["text"]:
        linked, sentence = _split_text(values["text"])
        url = url or linked
        passage = passage or sentence
    # The field may hold a whole link in Markdown.
    linked_url, _ = _split_text(url)
    linked_url, product_id = remove_mark(linked_url)
    product_id = values["product_id"] or product_id
    if not product_id and not linked_url:
        raise Invalid(f"{name} must have a product_id, a url, or a text with a link")
    if values["digest"] and not _DIGEST.fullmatch(values["digest"]):
        raise Invalid(f"{name}.digest must be the number of words, a colon and a SHA-256 in hexadecimal")
    return Citation(product_id, linked_url, passage.strip(), values["digest"])


def _split_text(text: str) -> tuple[str, str]:
    """Return the first address of a text, and the text without its links."""
    match = _LINK.search(text)
    address = "" if match is None else (match["marked"] or match["plain"])
    return address, _LINK.sub(" ", _MARK.sub(" ", text)).strip(_EDGES)


def state_to_dict(state: CitationState) -> dict[str, str]:
    """Return the state of a citation without empty members."""
    fields = {
        "status": state.status,
        "product_id": state.product_id,
        "title": state.title[:MOST_TITLE],
        "url": sanitize_url(state.url),
        "passage": state.passage,
        "corrected_at": state.corrected_at,
        "correction_note": state.correction_note,
    }
    return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class CitationTools:
    """Answers what became of citations of one archive."""

    find_app: Callable[[], str]
    archive: ArchiveClient
    keys: CitationSigningKeys
    reads: ArticleReads
    fence_key: bytes
    issuer: str
    "Address of the archive in statements."
    clock: Clock

    async def check(
        self, person: ArchiveCaller, arguments: dict[str, Any], context: CallContext = PLAIN
    ) -> ToolResult:
        """Return the result of `check_citations`."""
        document, states = await self.check_for(arguments["citations"], person.tiers)
        document["results"] = [self._fence(result) for result in document["results"]]
        return ToolResult(document, tuple(state.product_id for state in states if state.product_id))

    async def check_for(
        self, given: Any, tiers: frozenset[str]
    ) -> tuple[dict[str, Any], Sequence[CitationState]]:
        """Return the states of citations with a signed statement, as users with some tiers may know them.

        Errors:
            Invalid: a citation has a wrong form
        """
        app_id = self.find_app()
        citations = read_citations(given)
        states = await self.archive.check(app_id, citations, tiers)
        results = [state_to_dict(state) for state in states]
        signed = [
            {"citation": _name_citation(citation), **result}
            for citation, result in zip(citations, results, strict=True)
        ]
        return {"results": results, "statement": await self.sign(app_id, {"citations": signed})}, states

    async def sign(self, app_id: str, claims: Mapping[str, Any]) -> str:
        """Return a signed statement of the archive at this moment."""
        return await self.keys.sign(
            app_id, {"iss": self.issuer, "iat": self.clock.now_ms() // 1000, **claims}
        )

    async def list_corrections(self, person: ArchiveCaller) -> list[dict[str, str]]:
        """Return what was corrected or withdrawn since an agent read it; each is returned once."""
        if not self.reads.has_read(person):
            return []
        revisions = await self.archive.get_article_revisions(self.find_app())
        news = self.reads.list_corrections(person, revisions)
        for product_id, revision in news:
            self.reads.record(person, product_id, revision.revision)
        return [self._fence(_revision_to_dict(product_id, revision)) for product_id, revision in news]

    async def find_revision(self, product_id: str) -> str:
        """Return the present revision of an article; empty if it was never corrected."""
        revision = (await self.archive.get_article_revisions(self.find_app())).get(product_id)
        return "" if revision is None else revision.revision

    def record_read(self, person: ArchiveCaller, product_id: str, revision: str) -> None:
        """Remember that an agent read an article; its revision was read before its text."""
        self.reads.record(person, product_id, revision)

    def _fence(self, result: Mapping[str, str]) -> dict[str, str]:
        return {
            name: fence_line(value, self.fence_key) if name in _FENCED else value
            for name, value in result.items()
        }


def _name_citation(citation: Citation) -> dict[str, str]:
    """Return what a statement is about; words by their digest."""
    digest = passage_digest(citation.passage) if citation.passage else citation.digest
    named = {"product_id": citation.product_id, "url": citation.url, "digest": digest}
    return {name: value for name, value in named.items() if value}


def _revision_to_dict(product_id: str, revision: ArticleRevision) -> dict[str, str]:
    fields = {
        "status": revision.status,
        "product_id": product_id,
        "title": revision.title[:MOST_TITLE],
        "url": sanitize_url(revision.url),
        "corrected_at": revision.corrected_at,
        "correction_note": revision.note,
    }
    return {name: value for name, value in fields.items() if value}
