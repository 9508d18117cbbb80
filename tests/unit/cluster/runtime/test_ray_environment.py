from __future__ import annotations

import os
import sys
from pathlib import Path

from cluster.paths import InstallationPaths
from cluster.runtime.ray_environment import serving_environment, shared_environment


def test_memory_of_other_programs_ends_no_replica() -> None:
    places = InstallationPaths.from_data_dir(Path("/somewhere"))
    assert serving_environment(places, Path("/wrapper"))["RAY_memory_monitor_refresh_ms"] == 0


def test_python_in_a_job_is_ours_whatever_stands_on_the_path() -> None:
    bin_dir = os.path.dirname(sys.executable)
    places = InstallationPaths.from_data_dir(Path("/somewhere"))
    for path in ("/usr/bin:/bin", f"/usr/bin:{bin_dir}", f"{bin_dir}:/usr/bin"):
        folders = shared_environment(places, {"PATH": path}, Path("/here"))["PATH"].split(":")
        assert folders[0] == bin_dir
        assert set(path.split(":")) <= set(folders)
