"""The Redis keys of history threads; what stands in `keys` holds for them."""

from __future__ import annotations


def threads(app: str) -> str:
    """Hash user_id -> sealed JSON `ReaderThreads`. Owner: doors and the tracker. For ever, until erased."""
    return f"{{{app}}}:thread"


def thread_revision(app: str) -> str:
    """Hash user_id -> integer: which version of the app's threads wrote it; whoever writes must name it."""
    return f"{{{app}}}:thread-revision"


def thread_new(app: str) -> str:
    """Set of user ids whose account's indicator is on. As `threads`."""
    return f"{{{app}}}:thread-new"


def thread_watch(app: str) -> str:
    """Sorted set user_id -> version of the app's threads when what they watch last changed. As `threads`."""
    return f"{{{app}}}:thread-watch"


def thread_version(app: str) -> str:
    """String, integer. Incremented by every write of anybody's threads, never set back. For ever."""
    return f"{{{app}}}:thread-version"


def thread_judged(app: str) -> str:
    """String: offset of the product change up to which the app's threads were judged. Owner: the tracker."""
    return f"{{{app}}}:thread-judged"
