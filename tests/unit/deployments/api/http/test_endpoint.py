from __future__ import annotations

from collections.abc import Iterable

import pytest

from cluster.clock import SystemClock
from deployments.api.http.endpoint import Endpoint
from deployments.api.http.endpoints import ApiServices, build_endpoints
from deployments.edge.http.path_table import PathTable
from tests.fakes.request_handler import ScriptedRecommender
from tests.fakes.stores.memory import memory_stores


@pytest.fixture(scope="module")
def table() -> tuple[Endpoint, ...]:
    stores = memory_stores()
    return build_endpoints(ApiServices(stores, ScriptedRecommender(stores), SystemClock()))


@pytest.fixture(scope="module")
def paths(table: tuple[Endpoint, ...]) -> PathTable[Endpoint]:
    return PathTable(table)


def match_path(paths: PathTable[Endpoint], method: str, raw: bytes) -> tuple[str, dict[str, str]] | None:
    match = paths.find(raw)
    endpoint = match.endpoint(method) if match is not None else None
    return None if match is None or endpoint is None else (endpoint.name, dict(match.ids))


@pytest.mark.parametrize(
    ("method", "raw", "name", "ids"),
    [
        ("POST", b"/v1/users", "users.upload", {}),
        ("POST", b"/v1/users/", "users.upload", {}),
        ("GET", b"/v1/users/_ids", "users.ids", {}),
        ("GET", b"/v1/users/_ids/", "users.ids", {}),
        ("GET", b"/v1/users/%5Fids", "users.ids", {}),
        ("POST", b"/v1/products/_delete", "products.delete_many", {}),
        ("GET", b"/v1/products/_status/abc", "products.status", {"task_id": "abc"}),
        ("GET", b"/v1/products/_status/_abc", "products.status", {"task_id": "_abc"}),
        ("GET", b"/v1/users/gina-7", "users.read", {"user_id": "gina-7"}),
        ("HEAD", b"/v1/users/gina-7", "users.read", {"user_id": "gina-7"}),
        ("DELETE", b"/v1/users/gina-7", "users.delete_one", {"user_id": "gina-7"}),
        ("GET", b"/v1/users/a/b/c", "users.read", {"user_id": "a/b/c"}),
        ("GET", b"/v1/users/a%2Fb", "users.read", {"user_id": "a/b"}),
        ("GET", b"/v1/users/a%252Fb", "users.read", {"user_id": "a%2Fb"}),
        ("GET", b"/v1/users/a/", "users.read", {"user_id": "a/"}),
        ("GET", b"/v1/users/a+b", "users.read", {"user_id": "a+b"}),
        ("GET", b"/v1/users/..%2F..%2Fproducts", "users.read", {"user_id": "../../products"}),
        ("GET", b"/v1/users/../products/x", "users.read", {"user_id": "../products/x"}),
        ("GET", b"/v1/users/%E2%80%AEabc", "users.read", {"user_id": "\u202eabc"}),
        ("GET", "/v1/users/gína".encode(), "users.read", {"user_id": "gína"}),
        ("GET", b"/v1/users/%FF", "users.read", {"user_id": "\ufffd"}),
        ("GET", b"/v1/users/%00", "users.read", {"user_id": "\0"}),
        ("GET", b"/v1/users//", "users.read", {"user_id": "/"}),
        ("GET", b"/v1/users/a_b", "users.read", {"user_id": "a_b"}),
        ("DELETE", b"/v1/interactions", "interactions.erase", {}),
        ("POST", b"/v1/interactions/_delete", "interactions.erase_alias", {}),
        ("POST", b"/v1/recommendation/user_to_trending", "recommendation.user_to_trending", {}),
    ],
)
def test_a_path_leads_to_its_endpoint(
    paths: PathTable[Endpoint], method: str, raw: bytes, name: str, ids: dict[str, str]
) -> None:
    assert match_path(paths, method, raw) == (name, ids)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"/", b"/v1", b"/v1/", b"/v1/user", b"/v1/usersx", b"/V1/users", b"/v1/users/_foo",
        b"/v1/users/%5Ffoo", b"/v1/users/_status", b"/v1/users/_status/", b"//v1/users", b"/v1/interactions/x",
        b"/v1/recommendation", b"/v1/recommendation/user_to_products//", b"/v1/recommendation/user_to_products/x",
    ],
)  # fmt: skip
def test_other_paths_lead_nowhere(paths: PathTable[Endpoint], raw: bytes) -> None:
    assert paths.find(raw) is None


def test_a_path_knows_its_methods(paths: PathTable[Endpoint]) -> None:
    def allowed(raw: bytes) -> Iterable[str]:
        match = paths.find(raw)
        assert match is not None
        return match.entry.allowed

    assert allowed(b"/v1/users") == ("OPTIONS", "POST")
    assert allowed(b"/v1/users/gina") == ("DELETE", "GET", "HEAD", "OPTIONS")
    assert allowed(b"/v1/interactions") == ("DELETE", "OPTIONS", "POST")


def test_the_table_has_every_endpoint_of_the_records_and_recommendations(table: tuple[Endpoint, ...]) -> None:
    listed = {(endpoint.method, endpoint.path) for endpoint in table}
    for noun in ("user", "product"):
        root = f"/v1/{noun}s"
        assert {
            ("POST", root), ("GET", f"{root}/{{{noun}_id}}"), ("DELETE", f"{root}/{{{noun}_id}}"),
            ("POST", f"{root}/_delete"), ("GET", f"{root}/_status/{{task_id}}"), ("GET", f"{root}/_ids"),
            ("POST", f"{root}/_aggregate"), ("GET", f"{root}/_aggregate"),
        } <= listed  # fmt: skip
    assert {("POST", "/v1/interactions"), ("DELETE", "/v1/interactions")} <= listed
    assert sum(path.startswith("/v1/recommendation/") for _, path in listed) == 6
    assert len(listed) == len(table)


def test_reach_is_as_the_interface_lists_it(table: tuple[Endpoint, ...]) -> None:
    def reached(endpoint: Endpoint) -> bool:
        groups = ("/v1/recommendation/", "/v1/search/", "/v1/ask/", "/v1/qa/question_")
        single = {("POST", "/v1/interactions"), ("POST", "/v1/bulk")}
        if endpoint.path.endswith("/touch"):
            return False
        return endpoint.path.startswith(groups) or (endpoint.method, endpoint.path) in single

    reachable = {endpoint.name for endpoint in table if endpoint.rules.publishable}
    assert reachable == {endpoint.name for endpoint in table if reached(endpoint)}
    proving = {endpoint.name for endpoint in table if endpoint.rules.proves_user}
    personal = ("/v1/recommendation/", "/v1/search/")
    assert proving == {endpoint.name for endpoint in table if endpoint.path.startswith(personal)}
    strict = {endpoint.name for endpoint in table if endpoint.rules.bucket == "write"}
    assert not any(endpoint.path.startswith(personal) for endpoint in table if endpoint.name in strict)
    assert strict >= {
        f"{noun}s.{name}" for noun in ("user", "product") for name in ("upload", "delete_many", "delete_one")
    } | {"interactions.erase", "interactions.erase_alias"}
