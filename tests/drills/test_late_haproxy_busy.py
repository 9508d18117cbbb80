"""A HAProxy that starts late on a machine on which others compute: the change over refuses no connection either.

`HOUSE_BURNERS` is the number of processes that compute.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cluster.test_late_haproxy import change_over
from tests.suites.busy_machine import busy_machine

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(1_800)]
BURNERS = int(os.environ.get("HOUSE_BURNERS", "10"))


def test_a_late_haproxy_on_a_busy_machine_closes_no_port(tmp_path: Path) -> None:
    with busy_machine(BURNERS):
        change_over(tmp_path, within_s=600)
        print(f"load of the machine: {os.getloadavg()[0]:.0f}")
