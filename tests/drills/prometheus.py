"""A Prometheus that scrapes an installation and evaluates the shipped alerts, with their times shortened."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.process.free_ports import free_ports
from tests.benchmarks.stack import ROOT

ALERTS = ROOT / "cluster" / "prometheus" / "alerts.yaml"
WINDOW_S = 30
"In place of the windows of the rules, which are 2 minutes to an hour."
FOR_S = 4
START_S = 30.0
_CONFIG = """
global: {{scrape_interval: 2s, evaluation_interval: 2s}}
rule_files: [{folder}/alerts.yaml]
scrape_configs:
  - job_name: kiosk
    file_sd_configs: [{{files: [{folder}/targets.json], refresh_interval: 1s}}]
"""


@dataclass
class Prometheus:
    """A running server."""

    folder: Path
    port: int

    def scrape(self, *targets: str) -> None:
        """Scrape these addresses from now on."""
        (self.folder / "targets.new").write_text(json.dumps([{"targets": list(targets)}]))
        (self.folder / "targets.new").rename(self.folder / "targets.json")

    def is_ready(self) -> bool:
        """Return whether it scrapes and answers queries."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/alerts", timeout=60) as reply:
            alerts = json.load(reply)["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def wait_for(self, names: set[str], *, firing: bool, within_s: float) -> dict[str, float]:
        """Wait until alerts fire or have ceased; return the seconds each took. The others are absent."""
        began_s, seen = time.monotonic(), dict[str, float]()
        while seen.keys() != names and time.monotonic() - began_s < within_s:
            now = self.firing()
            for name in names - seen.keys():
                if (name in now) == firing:
                    seen[name] = round(time.monotonic() - began_s, 1)
            time.sleep(0.5)
        return seen


@contextmanager
def running_prometheus(folder: Path) -> Iterator[Prometheus]:
    """Start a server with the shipped alerts."""
    rules = ALERTS.read_text("utf-8")
    rules = re.sub(r"\[\d+[mh]\]", f"[{WINDOW_S}s]", rules)
    rules = re.sub(r"offset \d+[mh]", f"offset {WINDOW_S}s", rules)
    (folder / "alerts.yaml").write_text(re.sub(r"for: \d+[smh]", f"for: {FOR_S}s", rules), "utf-8")
    (folder / "prometheus.yaml").write_text(_CONFIG.format(folder=folder), "utf-8")
    server = Prometheus(folder, free_ports(1)[0])
    server.scrape()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{server.port}",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            until_s = time.monotonic() + START_S
            while not server.is_ready():
                assert time.monotonic() < until_s, "Prometheus did not start"
                time.sleep(0.1)
            yield server
        finally:
            process.terminate()
            process.wait(30)
