"""`kiosk bench answers [quality | speed]`: composed answers beside what they must reach; both unless one is named.

quality      the playground's own questions, and public questions with their paragraphs; in process
speed        questions to an installation of its own: first useful revision, finished, polls, answers a second
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.benchmarks.answers import quality, speed


def main(arguments: Sequence[str]) -> int:
    """Run what is named; 1 when a bound is missed, 2 when something could not be measured."""
    if "--help" in arguments and arguments[:1] not in (["quality"], ["speed"]):
        print(__doc__)
        return 0
    named = arguments[0] if arguments[:1] in (["quality"], ["speed"]) else ""
    rest = list(arguments[1:] if named else arguments)
    if named == "quality":
        return quality.main(rest)
    if named == "speed":
        return speed.main(rest)
    codes = (quality.main([]), speed.main(rest))
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
