"""Configurations for clusters name things that exist: import paths, arguments, environment variables, keys.

No Ray runs here; its own schema and constants are asked.
"""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cluster.paths import InstallationPaths
from cluster.process.installation_processes import MARK
from cluster.records.engine import Scaling
from cluster.runtime import bootstrap
from cluster.runtime.node_environment import SPREAD
from cluster.runtime.ray_environment import HOT_LAYER, RayPorts, ray_environment, shared_environment
from cluster.settings import SECRET_VARIABLES
from deployments.api.http.hot import middlewares

pytestmark = pytest.mark.ray
CLUSTER = Path(__file__).resolve().parents[2] / "cluster"
SERVE = sorted((CLUSTER / "serve").glob("*.yaml"))


def _environment() -> dict[str, str]:
    return ray_environment(
        InstallationPaths.from_data_dir(Path("/x")), RayPorts(1, 2, 3, 4, 5, 6), haproxy=True
    )


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`", "ignore:.*look_back_period_s")
@pytest.mark.parametrize("path", SERVE, ids=lambda path: path.stem)
def test_a_serve_configuration_is_one_that_serve_accepts(path: Path) -> None:
    from ray.serve.schema import ServeDeploySchema

    schema = ServeDeploySchema.model_validate(yaml.safe_load(path.read_text()))
    assert schema.applications
    for application in schema.applications:
        module, _, name = application.import_path.partition(":")
        build = getattr(importlib.import_module(module), name)
        arguments = set(re.findall(r'args(?:\.get\(|\[)"(\w+)"', inspect.getsource(build))) | (
            set(Scaling.model_fields) if "Scaling.model_fields" in inspect.getsource(build) else set()
        )
        assert set(application.args) <= arguments, (path.name, application.name)


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`")
@pytest.mark.filterwarnings("ignore:.*(look_back_period_s|metrics_interval_s)")
@pytest.mark.parametrize(("given", "limit"), [({"max_replicas_per_node": 2}, 2), ({}, None)])
def test_the_replicas_of_an_engine_on_one_node_can_be_limited(
    given: dict[str, int], limit: int | None
) -> None:
    from deployments.hosts.app import build_recommender

    deployment = build_recommender({"app_id": "shop", **given})._bound_deployment
    assert deployment._replica_config.max_replicas_per_node == limit
    assert deployment._deployment_config.user_config.get("max_replicas_per_node") == limit


def test_there_is_a_configuration_for_each_environment() -> None:
    assert [path.stem for path in SERVE] == ["development", "playground", "production"]


def test_every_variable_we_set_is_one_that_ray_reads() -> None:
    import ray

    sources = ["serve/_private/constants.py", "_private/ray_constants.py", "_private/node.py"]
    source_text = "\n".join((Path(ray.__file__).parent / name).read_text() for name in sources)
    dockerfile = (CLUSTER / "docker" / "Dockerfile").read_text()
    ours = set(_environment()) | set(re.findall(r"(RAY_SERVE_\w+)=", dockerfile))
    serve = {name for name in ours if name.startswith(("RAY_SERVE_", "RAY_ROTATION_"))} - {
        # Read where logging is set up.
        "RAY_SERVE_LOG_ROTATION_MAX_BYTES"
    }
    assert len(serve) > 20
    assert {name for name in serve if name not in source_text} == set()


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`", "ignore:.*look_back_period_s")
def test_serve_makes_the_scheduler_that_spreads_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.serve._private import default_impl
    from ray.serve._private.deployment_scheduler import DeploymentScheduler
    from ray.serve._private.utils import call_function_from_import_path

    monkeypatch.setattr(default_impl, "DeploymentScheduler", DeploymentScheduler)
    call_function_from_import_path(SPREAD)
    scheduler = default_impl.create_deployment_scheduler(None, head_node_id_override="head")
    assert type(scheduler).__name__ == "SpreadScheduler"
    assert scheduler.schedule({}, {}) == {}
    source = (
        Path(importlib.import_module("ray").__file__).parent / "serve/_private/constants.py"
    ).read_text()
    assert '"RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH"' in source


def test_the_image_sets_the_same_behaviour_as_a_start() -> None:
    dockerfile = (CLUSTER / "docker" / "Dockerfile").read_text()
    baked = {
        name: quoted or plain
        for name, quoted, plain in re.findall(r'(RAY_\w+)=(?:"([^"]*)"|(\S+))', dockerfile)
    }
    baked.pop("RAY_SERVE_HAPROXY_BINARY_PATH")
    started = _environment()
    assert baked["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"] == HOT_LAYER
    assert {name: started.get(name) for name in baked} == baked


OF_A_START = frozenset(
    [
        "RAY_AUTH_MODE",
        "RAY_AUTH_TOKEN_PATH",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT",
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT",
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT",
        "RAY_SERVE_HAPROXY_BINARY_PATH",
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC",
        "RAY_SERVE_HAPROXY_MAXCONN",
        "RAY_SERVE_HAPROXY_METRICS_PORT",
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH",
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE",
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE",
        "RAY_SERVE_HAPROXY_SOCKET_PATH",
        "RAY_SERVE_HAPROXY_STATS_PORT",
    ]
)
"Paths, ports and tokens of one machine; the connections of HAProxy stand in the options of its wrapper."


def test_the_image_lacks_no_behaviour_of_a_start() -> None:
    """Pods would behave otherwise than nodes, and nobody would see it."""
    dockerfile = (CLUSTER / "docker" / "Dockerfile").read_text()
    baked = set(re.findall(r"(\w+)=", dockerfile))
    assert sorted(_environment().keys() - OF_A_START - baked) == []
    paths = InstallationPaths.from_data_dir(Path("/x"))
    shared = shared_environment(paths, {}, CLUSTER.parent)
    given_elsewhere = {"PATH", "PYTHONPATH", MARK}
    assert sorted(shared.keys() - given_elsewhere - baked) == []


def test_one_machine_in_a_container_is_reachable_from_that_machine_only() -> None:
    service = yaml.safe_load((CLUSTER / "docker" / "compose.yaml").read_text())["services"]["kiosk"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert (CLUSTER.parent / service["build"]["dockerfile"]).exists()
    # Values come from outside or not at all.
    assert all("=" not in item for item in service["environment"])


def test_no_secret_stands_in_the_environment_of_the_container() -> None:
    compose = yaml.safe_load((CLUSTER / "docker" / "compose.yaml").read_text())["services"]["kiosk"]
    assert not set(SECRET_VARIABLES) & set(compose["environment"])


def test_the_image_has_what_probes_of_kuberay_call_and_the_user_of_its_pods() -> None:
    dockerfile = (CLUSTER / "docker" / "Dockerfile").read_text()
    installed = re.search(
        r"apt-get install -y --no-install-recommends ([\w \\\n-]+?)\s*\\\n\s*&&", dockerfile
    )
    assert installed is not None
    assert {"tini", "wget"} <= set(installed[1].split())
    user = re.search(r"useradd .*--uid (\d+)", dockerfile)
    assert user is not None
    chart = (CLUSTER / "helm" / "kiosk" / "templates" / "_helpers.tpl").read_text()
    assert set(re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", chart)) == {user[1]}


def test_only_one_machine_in_a_container_is_checked_as_one() -> None:
    # every node of a cluster has the same image, and no node but the supervisor's knows `kiosk status`
    assert "HEALTHCHECK" not in (CLUSTER / "docker" / "Dockerfile").read_text()
    service = yaml.safe_load((CLUSTER / "docker" / "compose.yaml").read_text())["services"]["kiosk"]
    assert service["healthcheck"]["test"][:2] == ["CMD", "wget"]
    assert service["healthcheck"]["test"][-1].endswith("/-/healthz")


def test_files_of_logs_are_bounded_in_the_image() -> None:
    dockerfile = (CLUSTER / "docker" / "Dockerfile").read_text()
    assert {"RAY_ROTATION_MAX_BYTES", "RAY_ROTATION_BACKUP_COUNT", "RAY_SERVE_LOG_ROTATION_MAX_BYTES"} <= set(
        re.findall(r"(RAY_\w+)=", dockerfile)
    )


def test_a_baked_wrapper_leaves_the_address_to_serve(tmp_path: Path) -> None:
    from cluster.local.haproxy_config import HAProxyOptions, rewrite_ray_config
    from cluster.local.haproxy_process import write_image_wrapper

    write_image_wrapper(tmp_path)
    options = HAProxyOptions.load(tmp_path / "haproxy.json")
    assert str(tmp_path / "haproxy.json") in (tmp_path / "haproxy").read_text()
    assert "bind *:8000" in rewrite_ray_config("frontend http_frontend\n    bind *:8000\n", options)


def test_alerts_name_numbers_that_are_counted() -> None:
    groups = yaml.safe_load((CLUSTER / "prometheus" / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    metrics = {
        name for rule in rules for name in re.findall(r"ray_(kiosk_\w+?)(?:_total|_bucket)?\b", rule["expr"])
    }
    folders = [CLUSTER.parent / name for name in ("actors", "cluster", "deployments", "jobs")]
    code = "\n".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    counted = {name.removesuffix("_total") for name in re.findall(r'"(kiosk_\w+)"', code)}
    assert metrics <= counted, metrics - counted
    assert all({"summary", "do"} <= rule["annotations"].keys() for rule in rules)


def test_documented_import_paths_of_earlier_releases_stay_valid() -> None:
    assert importlib.import_module("deployments.api.hot").middlewares is middlewares
    former = importlib.import_module("cluster.runtime.head")
    assert former.without_client_server is bootstrap.without_client_server
    plan = subprocess.run(
        [sys.executable, "-m", "cluster.runtime.head", "no plan"], capture_output=True, text=True, check=False
    )
    assert "JSONDecodeError" in plan.stderr
