"""What every learner promises (`jobs.refresh.learners.conformance`), as tests. Hold your own to it:

    class TestMine(LearnerSuite):
        @pytest.fixture
        def learner(self) -> Learner:
            return Mine(window=3)

Without pytest: `python -m jobs.refresh conform package.module:Mine`.
"""

from __future__ import annotations

import pytest

from jobs.refresh.learners.conformance import PROMISES
from jobs.refresh.learners.protocol import Learner


class LearnerSuite:
    @pytest.fixture
    def learner(self) -> Learner:
        raise NotImplementedError

    @pytest.mark.parametrize("promise", PROMISES)
    def test_a_promise_is_kept(self, learner: Learner, promise: str) -> None:
        PROMISES[promise](learner)
