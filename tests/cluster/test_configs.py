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
from typing import Any

import pytest
import yaml

from cluster.paths import InstallationPaths
from cluster.records.engine import Scaling
from cluster.runtime import bootstrap
from cluster.runtime.ray_environment import HOT_LAYER, RayPorts, ray_environment
from cluster.runtime.start_plan import StartPlan
from cluster.settings import SECRET_VARIABLES, Settings
from deployments.api.http.hot import middlewares

pytestmark = pytest.mark.ray
CLUSTER = Path(__file__).resolve().parents[2] / "cluster"
SERVE = sorted((CLUSTER / "serve").glob("*.yaml"))


def _environment() -> dict[str, str]:
    return ray_environment(
        InstallationPaths.from_data_dir(Path("/x")), RayPorts(1, 2, 3, 4, 5, 6), haproxy=True
    )


def _manifests() -> list[dict[str, Any]]:
    folder = CLUSTER / "kuberay" / "base"
    names = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert sorted(names) == sorted(
        path.name for path in folder.glob("*.yaml") if path.name != "kustomization.yaml"
    )
    return [part for name in names for part in yaml.safe_load_all((folder / name).read_text())]


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`", "ignore:.*look_back_period_s")
@pytest.mark.parametrize("path", SERVE, ids=lambda path: path.stem)
def test_a_serve_configuration_is_one_that_serve_accepts(path: Path) -> None:
    from ray.serve.schema import ServeDeploySchema

    schema = ServeDeploySchema.model_validate(yaml.safe_load(path.read_text()))
    assert schema.applications
    for application in schema.applications:
        module, _, name = application.import_path.partition(":")
        build = getattr(importlib.import_module(module), name)
        known = set(re.findall(r'args(?:\.get\(|\[)"(\w+)"', inspect.getsource(build))) | (
            set(Scaling.model_fields) if "Scaling.model_fields" in inspect.getsource(build) else set()
        )
        assert set(application.args) <= known, (path.name, application.name)


def test_there_is_a_configuration_for_each_environment() -> None:
    assert [path.stem for path in SERVE] == ["development", "playground", "production"]


def test_every_variable_we_set_is_one_that_ray_reads() -> None:
    import ray

    sources = ["serve/_private/constants.py", "_private/ray_constants.py", "_private/node.py"]
    known = "\n".join((Path(ray.__file__).parent / name).read_text() for name in sources)
    dockerfile = (CLUSTER / "docker" / "Dockerfile").read_text()
    ours = set(_environment()) | set(re.findall(r"(RAY_SERVE_\w+)=", dockerfile))
    serve = {name for name in ours if name.startswith(("RAY_SERVE_", "RAY_ROTATION_"))} - {
        # Read where logging is set up.
        "RAY_SERVE_LOG_ROTATION_MAX_BYTES"
    }
    assert len(serve) > 20
    assert {name for name in serve if name not in known} == set()


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


def test_the_manifests_bring_up_what_the_code_knows() -> None:
    kinds = {part["kind"]: part for part in _manifests()}
    head = kinds["RayCluster"]["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    variables = {item["name"]: item.get("value", "") for item in head["env"]}
    plan = StartPlan.parse(variables["KIOSK_PLAN"])
    assert (plan.ray_arguments, plan.ray_address, plan.playground) == ([], "auto", True)
    fields = {f"KIOSK_{name.upper()}" for name in Settings.model_fields}
    assert {name for name in variables if name.startswith("KIOSK_")} - fields == {"KIOSK_PLAN"}
    assert kinds["RayCluster"]["spec"]["authOptions"] == {"mode": "token"}
    assert kinds["RayCluster"]["spec"]["rayVersion"].startswith("2.60.")


def test_secrets_are_named_and_never_written_down() -> None:
    wanted = set(
        re.findall(r"--from-literal=([\w-]+)=", (CLUSTER / "kuberay/base/kustomization.yaml").read_text())
    )
    used = set(re.findall(r"\{key: ([\w-]+), path: [\w-]+\}", _raw_manifests()))
    assert used == wanted == {"master-key", "redis-password", "redis-url"}


def test_secrets_are_mounted_as_files_and_stand_in_no_environment() -> None:
    assert "secretKeyRef" not in _raw_manifests()
    files = {}
    for pod in _pods():
        mounted = {
            item["path"] for volume in pod["volumes"] for item in volume.get("secret", {}).get("items", [])
        }
        for container in pod["containers"]:
            variables = {item["name"]: item.get("value", "") for item in container.get("env", [])}
            assert not set(SECRET_VARIABLES) & set(variables)
            files |= {name: value for name, value in variables.items() if name.endswith("_FILE")}
            assert {
                Path(value).name for name, value in variables.items() if name.endswith("_FILE")
            } <= mounted
            (place,) = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "secrets"]
            assert all(
                value.startswith(place + "/") for name, value in variables.items() if name.endswith("_FILE")
            )
    assert set(files) == {"KIOSK_MASTER_KEY_FILE", "KIOSK_REDIS_URL_FILE"}
    compose = yaml.safe_load((CLUSTER / "docker" / "compose.yaml").read_text())["services"]["kiosk"]
    assert not set(SECRET_VARIABLES) & set(compose["environment"])


def test_every_pod_gives_up_the_rights_it_does_not_need() -> None:
    pods = _pods()
    assert len(pods) == 3
    for pod in pods:
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
        user = pod["securityContext"]
        assert user["runAsNonRoot"]
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            # the root is read-only: what is written to has a volume of its own
            assert {"data", "scratch"} <= {mount["name"] for mount in container["volumeMounts"]}
    uid = re.search(r"useradd .*--uid (\d+)", (CLUSTER / "docker" / "Dockerfile").read_text())
    assert uid is not None
    assert {pod["securityContext"]["runAsUser"] for pod in pods} == {int(uid[1]), 999}


def test_nodes_start_ray_by_way_of_the_handover() -> None:
    text = (CLUSTER / "kuberay/base/raycluster.yaml").read_text()
    assert text.count("$KUBERAY_GEN_RAY_START_CMD") == 2
    assert text.count("python -m cluster.runtime.handover $KUBERAY_GEN_RAY_START_CMD") == 2
    assert importlib.import_module("cluster.runtime.handover").main([]) == 2


def test_the_store_of_the_manifests_loses_nothing() -> None:
    (redis,) = [part for part in _manifests() if part["kind"] == "StatefulSet"]
    command = redis["spec"]["template"]["spec"]["containers"][0]["args"][0]
    for words in ("--appendonly yes", "--appendfsync everysec", "--maxmemory-policy noeviction"):
        assert words in command


def test_one_machine_in_a_container_is_reachable_from_that_machine_only() -> None:
    service = yaml.safe_load((CLUSTER / "docker" / "compose.yaml").read_text())["services"]["kiosk"]
    assert service["ports"] == ["127.0.0.1:8000:8000"]
    assert (CLUSTER.parent / service["build"]["dockerfile"]).exists()
    # Values come from outside or not at all.
    assert all("=" not in item for item in service["environment"])


def test_a_baked_wrapper_leaves_the_address_to_serve(tmp_path: Path) -> None:
    from cluster.local.haproxy_config import HAProxyOptions, tighten
    from cluster.local.haproxy_process import write_image_wrapper

    write_image_wrapper(tmp_path)
    wishes = HAProxyOptions.load(tmp_path / "haproxy.json")
    assert str(tmp_path / "haproxy.json") in (tmp_path / "haproxy").read_text()
    assert "bind *:8000" in tighten("frontend http_frontend\n    bind *:8000\n", wishes)


def test_alerts_name_numbers_that_are_counted() -> None:
    groups = yaml.safe_load((CLUSTER / "prometheus" / "alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    wanted = {
        name for rule in rules for name in re.findall(r"ray_(kiosk_\w+?)(?:_total|_bucket)?\b", rule["expr"])
    }
    folders = [CLUSTER.parent / name for name in ("actors", "cluster", "deployments", "jobs")]
    code = "\n".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    counted = {name.removesuffix("_total") for name in re.findall(r'"(kiosk_\w+)"', code)}
    assert wanted <= counted, wanted - counted
    assert all({"summary", "do"} <= rule["annotations"].keys() for rule in rules)


def _pods() -> list[dict[str, Any]]:
    """Find the pods of all manifests."""
    found = []
    for part in _manifests():
        spec = part["spec"]
        if part["kind"] == "RayCluster":
            groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
            found += [group["template"]["spec"] for group in groups]
        elif part["kind"] == "StatefulSet":
            found.append(spec["template"]["spec"])
    return found


def _raw_manifests() -> str:
    return "\n".join(path.read_text() for path in sorted((CLUSTER / "kuberay" / "base").glob("*.yaml")))


def test_documented_import_paths_of_earlier_releases_stay_valid() -> None:
    assert importlib.import_module("deployments.api.hot").middlewares is middlewares
    former = importlib.import_module("cluster.runtime.head")
    assert former.without_client_server is bootstrap.without_client_server
    plan = subprocess.run(
        [sys.executable, "-m", "cluster.runtime.head", "no plan"], capture_output=True, text=True, check=False
    )
    assert "JSONDecodeError" in plan.stderr
