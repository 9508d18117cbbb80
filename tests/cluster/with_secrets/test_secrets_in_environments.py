"""Finding 16: no secret stands in the environment of a process of a running installation, trainers included.

The installation of the folder was started with a master key, a provider's key and a Redis in its environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.installed import ROOT, House

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(500)]

RECIPE = """
name = "spied"
completions = {{ fields = ["title"] }}
[parts.rules]
learner = "rules"
[parts.spy]
learner = "spying_learner:Spy"
config = {{ to = "{to}" }}
[blend]
weights = {{ rules = 1.0, spy = 0.1 }}
weights_new = {{}}
"""


def state_of(house: House) -> Any:
    return json.loads(house.places.state.read_text())


def leaking(canaries: list[bytes]) -> dict[str, str]:
    """Find the processes of this user whose environment holds a canary; commands of this test itself are none."""
    leaks = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            environment = (folder / "environ").read_bytes()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        typed = " -m deployments.cli " in command and "cluster.runtime" not in command
        if not typed and any(canary in environment for canary in canaries):
            leaks[folder.name] = command[:120]
    return leaks


def test_no_process_of_a_running_installation_has_a_secret_in_its_environment(house: House, up: Any) -> None:
    assert up["ready"] is True
    assert leaking(house.canaries) == {}
    # it works with them all the same
    keys = json.loads(house.kiosk("keys", "list", "--reveal", "--json").stdout)["keys"]
    assert all(key["key"] for key in keys)
    assert not house.places.master_key.exists()
    assert leaking(house.canaries) == {}


def test_secrets_lie_in_files_for_their_owner_only(house: House, up: Any) -> None:
    secrets = {path.name: path for path in house.places.secrets_dir.iterdir()}
    assert set(secrets) == {"master.key", "llm.key", "redis.url", "manifest.key"}
    assert {path.stat().st_mode & 0o777 for path in secrets.values()} == {0o600}
    for path in house.places.data_dir.rglob("*"):
        if path.is_file() and path != house.places.redis_url:
            assert not any(canary in path.read_bytes() for canary in house.canaries), path


def test_a_model_class_that_nobody_allowed_is_not_imported(house: House, up: Any, tmp_path: Path) -> None:
    recipe = tmp_path / "spied.toml"
    recipe.write_text(RECIPE.format(to=tmp_path / "seen.json"))
    done = house.kiosk("train", "playground", "--recipe", str(recipe), check=False)
    assert done.returncode == 2
    assert "kiosk learners allow spying_learner:Spy" in " ".join(done.stderr.split())
    assert not (tmp_path / "seen.json").exists()


def test_trainers_work_without_master_key_and_providers_key(house: House, up: Any, tmp_path: Path) -> None:
    recipe, seen_at = tmp_path / "spied.toml", tmp_path / "seen.json"
    recipe.write_text(RECIPE.format(to=seen_at))
    house.kiosk("learners", "allow", "spying_learner:Spy")
    over = threading.Event()
    leaks: dict[str, str] = {}

    def watch() -> None:
        while not over.wait(0.1):
            leaks.update(leaking(house.canaries))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run = json.loads(house.kiosk("train", "playground", "--recipe", str(recipe), "--json").stdout)
    finally:
        over.set()
        watcher.join()
    assert run["status"] == "finished", run
    assert leaks == {}
    seen = json.loads(seen_at.read_text())
    assert seen["llm"]["key"] == ""
    assert seen["master"] == "None"
    text = json.dumps(seen)
    assert house.master not in text
    assert house.provider not in text
    assert not {"KIOSK_MASTER_KEY_FILE", "KIOSK_LLM_KEY_FILE"} & set(seen["environment"])
    # published under the derived key, believed by whoever promotes and serves
    assert json.loads(
        house.kiosk("promote", "playground", run["version"], "--force", "a test", "--json").stdout
    )
    checks = {
        finding["check"]: finding
        for finding in json.loads(house.kiosk("doctor", "--json", check=False).stdout)["findings"]
    }
    assert checks["artifacts"]["level"] == "ok", checks["artifacts"]
    assert "spying_learner:Spy" in checks["learners"]["words"]
    assert checks["secrets"]["level"] == "warning"  # of the shell this command was typed in, and nothing else


def test_a_foreground_start_hides_what_it_was_started_with(house: House, up: Any) -> None:
    house.kiosk("down")
    assert not house.places.run_dir.exists()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))}
    environment = {
        **clean,
        "KIOSK_DATA_DIR": str(house.places.data_dir),
        "KIOSK_MASTER_KEY": house.master,
        "KIOSK_LLM_KEY": house.provider,
        "KIOSK_REDIS_URL": house.redis,
        "PYTHONPATH": f"{ROOT}:{house.modules}",
    }
    command = [
        sys.executable,
        "-m",
        "deployments.cli",
        "up",
        "--foreground",
        "--port",
        str(house.port),
        "--json",
    ]
    with subprocess.Popen(command, env=environment, cwd="/", stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:  # one object over several lines
                if line == "}\n":
                    break
            assert state_of(house)["phase"] == "ready"
            seen = Path(f"/proc/{process.pid}/environ").read_bytes()
            assert not [canary for canary in house.canaries if canary in seen]
            assert leaking(house.canaries) == {}
        finally:
            process.terminate()
            process.wait(60)
