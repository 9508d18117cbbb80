"""Which threads could some content concern? Subjects of threads, found by the words of their questions.

One article is looked up by its terms in an inverted index of questions, so the work grows with the threads that share
words with it and not with the number of threads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from actors.history.significance import Cut, Subject
from actors.history.threads import standing
from actors.language.analysis import Analyzers
from cluster.records.thread import ReaderThreads, Thread

Name = tuple[str, str]
"User and thread."
MOST_CANDIDATES = 2_000
"Threads judged for one article; those that share most words with it."
_MOST_WORDS = 24


class Watchlist:
    """The watched threads of one app."""

    def __init__(self, analyzers: Analyzers, languages: tuple[str, ...] = ("en",)) -> None:
        self._analyzers = analyzers
        self._languages = languages
        self._subjects: dict[Name, Subject] = {}
        self._waiting: dict[Name, Thread] = {}
        self._by_user: dict[str, set[Name]] = defaultdict(set)
        self._by_term: dict[int, set[Name]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._subjects)

    @property
    def subjects(self) -> Iterable[Subject]:
        """All subjects."""
        return self._subjects.values()

    def subject(self, name: Name) -> Subject | None:
        """Find one."""
        return self._subjects.get(name)

    def waiting(self) -> list[tuple[Name, Thread]]:
        """List threads for which something was found that their readers were not told of yet, the most significant
        first."""
        return sorted(self._waiting.items(), key=_urgency)

    def put(self, user_id: str, known: ReaderThreads) -> None:
        """Replace what a reader watches."""
        for name in self._by_user.pop(user_id, ()):
            self._forget(name)
        for thread in known.watched:
            name = (user_id, thread.thread_id)
            words = self._words(thread.subject)
            if not words:
                continue
            sketches = [one.sketch for one in (thread.news, thread.later) if one is not None and one.sketch]
            self._subjects[name] = Subject(
                user_id, thread.thread_id, thread.subject, words, standing(thread), thread.time_ms,
                (*thread.sketches, *sketches),
            )  # fmt: skip
            self._by_user[user_id].add(name)
            for word in words:
                for term in word:
                    self._by_term[term].add(name)
            if thread.waits:
                self._waiting[name] = thread

    def keep_only(self, user_ids: set[str]) -> None:
        """Forget readers who watch nothing any more."""
        for user_id in set(self._by_user) - user_ids:
            self.put(user_id, ReaderThreads())

    def candidates(self, article: Cut) -> list[Subject]:
        """Find the threads whose questions share most words with an article; at least half of them, roughly."""
        shared: Counter[Name] = Counter()
        for term in article.terms:
            found = self._by_term.get(term)
            if found:
                shared.update(found)
        likely = [
            (count, name) for name, count in shared.items() if 3 * count >= len(self._subjects[name].words)
        ]
        if len(likely) > MOST_CANDIDATES:
            likely = sorted(likely, key=lambda one: (-one[0], one[1]))[:MOST_CANDIDATES]
        return [self._subjects[name] for _, name in likely]

    def _words(self, text: str) -> tuple[tuple[int, ...], ...]:
        languages = dict.fromkeys((self._analyzers.guess(text), *self._languages))
        return tuple(dict.fromkeys(self._analyzers.question(text, tuple(languages))))[:_MOST_WORDS]

    def _forget(self, name: Name) -> None:
        subject = self._subjects.pop(name)
        self._waiting.pop(name, None)
        for word in subject.words:
            for term in word:
                holders = self._by_term.get(term)
                if holders is not None:
                    holders.discard(name)
                    if not holders:
                        del self._by_term[term]


def _urgency(entry: tuple[Name, Thread]) -> tuple[float, int, Name]:
    name, thread = entry
    news = thread.news
    return (0.0, 0, name) if news is None else (-news.score, news.found_ms, name)
