"""Find the threads that an article may concern, by the words of their questions.

An inverted index of questions maps the terms of an article to threads. The work grows with the threads that share
words with the article, not with the number of threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from heapq import nlargest

from actors.history.article_relevance import THRESHOLD, ArticleTerms, TermFrequencies, ThreadSubject
from actors.history.threads import judged_offset
from actors.language.analysis import Analyzers
from cluster.records.thread import Thread, UserThreads

ThreadKey = tuple[str, str]
"User and thread."
MOST_CANDIDATES = 2_000
"Maximal number of threads scored for one article; those whose questions it contains most of."
_SLACK = 0.9
"Factor on the weight of a whole question, because that weight may be stale."
_MOST_WORDS = 24


class WatchedThreadIndex:
    """The watched threads of one app."""

    def __init__(self, analyzers: Analyzers, languages: tuple[str, ...] = ("en",)) -> None:
        self._analyzers = analyzers
        self._languages = languages
        self._subjects: dict[ThreadKey, ThreadSubject] = {}
        self._waiting: dict[ThreadKey, Thread] = {}
        self._by_user: dict[str, set[ThreadKey]] = defaultdict(set)
        self._by_term: dict[int, set[ThreadKey]] = defaultdict(set)
        self._wholes: dict[ThreadKey, float] = {}
        self._epoch = -1

    def __len__(self) -> int:
        return len(self._subjects)

    @property
    def subjects(self) -> Iterable[ThreadSubject]:
        return self._subjects.values()

    def get_subject(self, name: ThreadKey) -> ThreadSubject | None:
        return self._subjects.get(name)

    def list_waiting(self) -> list[tuple[ThreadKey, Thread]]:
        """List threads with news of which their users were not notified yet, the most significant first."""
        return sorted(self._waiting.items(), key=_urgency)

    def put(self, user_id: str, user_threads: UserThreads) -> None:
        """Replace the watched threads of a user."""
        # Removed wholly and added anew: what changed in between need not be known.
        for name in self._by_user.pop(user_id, ()):
            self._delete(name)
        for thread in user_threads.watched:
            name = (user_id, thread.thread_id)
            words = self._question_words(thread.subject)
            if not words:
                continue
            sketches = [
                piece.sketch for piece in (thread.news, thread.later) if piece is not None and piece.sketch
            ]
            self._subjects[name] = ThreadSubject(
                user_id,
                thread.thread_id,
                thread.subject,
                words,
                judged_offset(thread),
                thread.time_ms,
                (*thread.sketches, *sketches),
            )
            self._by_user[user_id].add(name)
            for word in words:
                for term in word:
                    self._by_term[term].add(name)
            if thread.waits:
                self._waiting[name] = thread

    def keep_only(self, user_ids: set[str]) -> None:
        """Remove users without watched threads."""
        for user_id in set(self._by_user) - user_ids:
            self.put(user_id, UserThreads())

    def find_candidates(
        self, article: ArticleTerms, frequencies: TermFrequencies, threshold: float = THRESHOLD
    ) -> list[ThreadSubject]:
        """Return the threads for which an article could be significant: it contains enough of their questions.

        Cost:
            0.1 us for each thread and word it shares with the article
        """
        shared: dict[ThreadKey, float] = defaultdict(float)
        # A word may have terms in several languages, so this sum may be too high, never too low.
        for term in article.places:
            names = self._by_term.get(term)
            if names:
                weight = frequencies.weight((term,))
                for name in names:
                    shared[name] += weight
        least = _SLACK * threshold
        likely = [
            (weight, name)
            for name, weight in shared.items()
            if weight >= least * self._question_weight(name, frequencies)
        ]
        if len(likely) > MOST_CANDIDATES:
            likely = nlargest(MOST_CANDIDATES, likely)
        return [self._subjects[name] for _, name in likely]

    def _question_weight(self, name: ThreadKey, frequencies: TermFrequencies) -> float:
        """Return the weight of a whole question, which is slightly stale: it is not computed for every article."""
        if frequencies.epoch != self._epoch:
            self._epoch = frequencies.epoch
            self._wholes.clear()
        whole = self._wholes.get(name)
        if whole is None:
            whole = self._wholes[name] = sum(map(frequencies.weight, self._subjects[name].words))
        return whole

    def _question_words(self, text: str) -> tuple[tuple[int, ...], ...]:
        languages = dict.fromkeys((self._analyzers.detect_language(text), *self._languages))
        return tuple(dict.fromkeys(self._analyzers.query_terms(text, tuple(languages))))[:_MOST_WORDS]

    def _delete(self, name: ThreadKey) -> None:
        subject = self._subjects.pop(name)
        self._waiting.pop(name, None)
        self._wholes.pop(name, None)
        for word in subject.words:
            for term in word:
                holders = self._by_term.get(term)
                if holders is not None:
                    holders.discard(name)
                    if not holders:
                        del self._by_term[term]


def _urgency(entry: tuple[ThreadKey, Thread]) -> tuple[float, int, ThreadKey]:
    name, thread = entry
    news = thread.news
    return (0.0, 0, name) if news is None else (-news.score, news.found_ms, name)
