"""What changes the answer of one call: marks of its links, and the variants of its question.

The unit of an experiment is the question of an agent: its call id decides the variant. A read belongs to the question
in whose results the same agent got the article from the same replica within half an hour. Other reads take part in no
experiment.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from actors.experiments.messages import ExperimentTreatment
from cluster.clock import Clock
from cluster.records.apps import AppSettings
from cluster.records.experiment import QuestionVariant
from deployments.archive.admission import ArchiveCaller
from deployments.archive.citations.citation_marks import MarkedLinks, MarkSigner

MOST_RESULTS = 50_000
"Results of questions that one archive of a replica remembers; the oldest go first."
BELONGS_S = 1_800.0
"Seconds after a question in which a read of one of its results belongs to it."

AssignQuestion = Callable[[str, str], Awaitable[Sequence[ExperimentTreatment]]]
"(app, question id) -> the variants of the question."


@dataclass(frozen=True, slots=True)
class CallContext:
    """The marks and variants of one call."""

    links: MarkedLinks | None = None
    "None: links stand as they are stored."
    question_id: str = ""
    "Call id of the question that the call asks, or belongs to."
    snippet_words: int = 0
    "Length of snippets in words; 0: a passage."
    citation: str | None = None
    "The publisher's sentence in instructions to cite; None: that of the archive."
    experiments: tuple[Mapping[str, str], ...] = ()
    "`experiment` and `variant` by id."


PLAIN = CallContext()
"Of archives without marks and experiments."


class ToolCall(Protocol):
    """A call in progress."""

    @property
    def call_id(self) -> str: ...

    @property
    def person(self) -> ArchiveCaller: ...


async def assign_nothing(app_id: str, question_id: str) -> Sequence[ExperimentTreatment]:
    """Return no variants: for archives without experiments."""
    return ()


def link_address(context: CallContext, product_id: str, url: str) -> str:
    """Return the address of an article as an answer shows it."""
    return url if context.links is None else context.links.mark(product_id, url)


class CallContexts:
    """Opens the contexts of the calls of one archive."""

    def __init__(
        self,
        find_app: Callable[[], str],
        archive_id: str,
        find_settings: Callable[[str], AppSettings],
        signer: MarkSigner,
        origin: str,
        clock: Clock,
        assign: AssignQuestion = assign_nothing,
    ) -> None:
        """`origin` is that of Kiosk, to which links may lead first."""
        self._find_app = find_app
        self._archive_id = archive_id
        self._find_settings = find_settings
        self._signer = signer
        self._origin = origin
        self._clock = clock
        self._assign = assign
        self._results: OrderedDict[tuple[str, str, str], tuple[float, CallContext]] = OrderedDict()

    async def open(self, call: ToolCall, product_id: str = "") -> CallContext:
        """Return the context of a question, or of the read of an article. Cost: 1 microsecond where nothing is on."""
        app_id = self._find_app()
        marks = self._find_settings(app_id).citation_marks
        links = None
        if marks != "off":
            redirect = self._origin if marks == "redirect" else ""
            links = MarkedLinks(
                self._signer, app_id, self._archive_id, call.call_id, self._clock.now_ms(), redirect
            )
        if product_id:
            question = self._find_question(call.person, product_id)
            return PLAIN if links is None and question is PLAIN else replace(question, links=links)
        treatments = await self._assign(app_id, call.call_id)
        if links is None and not treatments:
            return PLAIN
        variant = QuestionVariant()
        for treatment in treatments:
            variant = variant.with_configuration(treatment.variant.configuration)
        return CallContext(
            links,
            call.call_id,
            variant.snippet_words,
            variant.citation,
            tuple(
                {"experiment": treatment.experiment_id, "variant": treatment.variant.variant_id}
                for treatment in treatments
            ),
        )

    def open_included(self, call: ToolCall, article: str) -> CallContext:
        """Return the context of the read of an included article, by its name in results; its link has no mark."""
        return replace(self._find_question(call.person, article), links=None)

    def remember(self, call: ToolCall, context: CallContext, articles: Iterable[str]) -> None:
        """Remember the results of a question with marks or variants, for the reads that follow."""
        now_s = self._clock.monotonic_s()
        person = call.person
        for product_id in articles:
            key = person.user_id, person.client_id, product_id
            self._results[key] = now_s, context
            # A dictionary keeps the place of a replaced key, and the loop below would drop this result too
            # early.
            self._results.move_to_end(key)
        while len(self._results) > MOST_RESULTS:
            self._results.popitem(last=False)

    def _find_question(self, person: ArchiveCaller, product_id: str) -> CallContext:
        """Return the context of the newest question whose results had an article; `PLAIN` if none is known."""
        at_s, context = self._results.get((person.user_id, person.client_id, product_id), (0.0, PLAIN))
        return context if context is not PLAIN and self._clock.monotonic_s() - at_s <= BELONGS_S else PLAIN
