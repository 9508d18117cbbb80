"""One installation for the folder, whose first process is given every secret as a variable.

Its files run in the order of their names; the last test leaves it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from tests.cluster.installed import House
from tests.fakes.llm_provider import Press
from tests.suites.redis_process import RedisProcess

SPY = '''
import json, os
import numpy as np
from actors.models.model import Parts
from cluster.settings import Settings

class Model:
    def __init__(self, count):
        self.count = count
    def score(self, histories):
        return np.zeros((len(histories), histories.n_items), np.float32)
    def save(self):
        return Parts({"count": np.array([self.count], np.int32)})

class Spy:
    """Writes down what a model class sees where it is trained."""
    def __init__(self, to=""):
        self.to = to
    def train(self, data, rng):
        settings = Settings()
        seen = {"environment": dict(os.environ), "llm": settings.llm, "settings": repr(settings),
                "master": repr(settings.master_key), "pid": os.getpid()}
        with open(self.to, "w") as file:
            json.dump(seen, file)
        return Model(data.n_items)
    def load(self, parts):
        return Model(int(parts.array("count")[0]))
'''


@pytest.fixture(scope="session")
def press() -> Iterator[Press]:
    with Press() as press:
        yield press


@pytest.fixture(scope="session")
def house(press: Press, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "spying_learner.py").write_text(SPY)
    llm = {"URL": press.provider.url, "MODEL": "m", "INTERNAL": "1", "FIRST_S": "20", "TOTAL_S": "25"}
    settings = {f"KIOSK_LLM_{name}": value for name, value in llm.items()}
    settings |= {"KIOSK_REPLICAS_MIN": "1", "KIOSK_REPLICAS_MAX": "1"}
    paths, server = InstallationPaths.from_data_dir(folder / "data"), RedisProcess()
    try:
        server.start()
        house = House(paths, free_ports(1)[0], server.url, folder, settings)
        yield house
        house.kiosk("down")
    finally:
        server.stop()


@pytest.fixture(scope="session")
def up(house: House) -> Any:
    return json.loads(house.kiosk("up", "--port", str(house.port), "--json").stdout)
