"""What a node of a cluster has in its environment before Ray starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster.errors import Invalid
from cluster.paths import InstallationPaths
from cluster.process.installation_processes import MARK
from cluster.process.priority import VARIABLE
from cluster.runtime.node_environment import check_node, node_environment, wrapper_path
from cluster.runtime.ray_environment import RayPorts, ray_environment
from cluster.settings import Settings

ROOT = Path("/usr/lib/python3/site-packages")
OF_A_MACHINE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
    "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT",
    "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT",
    "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT",
    "RAY_SERVE_HAPROXY_METRICS_PORT",
    "RAY_SERVE_HAPROXY_STATS_PORT",
    "RAY_SERVE_HAPROXY_MAXCONN",
}


@pytest.fixture
def paths(tmp_path: Path) -> InstallationPaths:
    paths = InstallationPaths.from_data_dir(tmp_path / "data", tmp_path)
    paths.run_dir.mkdir()
    return paths


def test_a_node_has_all_that_one_machine_has(paths: InstallationPaths) -> None:
    alone = ray_environment(paths, RayPorts(1, 2, 3, 4, 5, 6), haproxy=True)
    node = node_environment(paths, {}, ROOT, head=False, may_raise=True)
    assert alone.keys() - node.keys() == OF_A_MACHINE
    different = {name for name in alone.keys() & node.keys() if alone[name] != node[name]}
    assert different == {"RAY_SERVE_HAPROXY_BINARY_PATH"}
    assert node["RAY_SERVE_HAPROXY_BINARY_PATH"] == str(wrapper_path(paths))
    assert node["OMP_NUM_THREADS"] == node["RAYON_NUM_THREADS"] == "1"
    assert MARK not in node


def test_only_the_head_keeps_the_state_of_ray(paths: InstallationPaths) -> None:
    head = node_environment(paths, {}, ROOT, head=True, ray_redis="redis:6380")
    worker = node_environment(paths, {}, ROOT, head=False)
    assert head["RAY_REDIS_ADDRESS"] == "redis:6380"
    assert "RAY_REDIS_ADDRESS" not in worker
    assert head["RAY_gcs_rpc_server_reconnect_timeout_s"] == worker["RAY_gcs_rpc_server_reconnect_timeout_s"]
    with pytest.raises(Invalid, match="host:port"):
        node_environment(paths, {}, ROOT, head=True, ray_redis="redis")


def test_no_secret_is_printed(paths: InstallationPaths) -> None:
    given = {"KIOSK_MASTER_KEY": "hidden-1", "KIOSK_REDIS_URL": "redis://:hidden-2@redis"}
    node = node_environment(paths, given, ROOT, head=False)
    assert "hidden" not in str(node)
    assert Path(node["KIOSK_REDIS_URL_FILE"]).read_text() == "redis://:hidden-2@redis\n"
    assert Path(node["KIOSK_MASTER_KEY_FILE"]).stat().st_mode & 0o777 == 0o600


def test_what_the_operator_set_stays(paths: InstallationPaths) -> None:
    given = {"RAY_AUTH_TOKEN_PATH": "/etc/ray.token", "OMP_NUM_THREADS": "4", "RAY_USAGE_STATS_ENABLED": "0"}
    node = node_environment(paths, given, ROOT, head=False)
    assert node.keys() & given.keys() == set()


def test_workers_start_at_rest_where_nobody_may_wake_them(paths: InstallationPaths) -> None:
    """Without the right to take niceness back, replicas would serve with the priority of background work."""
    assert node_environment(paths, {}, ROOT, head=False, may_raise=False)[VARIABLE] == "0"
    assert node_environment(paths, {}, ROOT, head=False, may_raise=True)[VARIABLE] == "10"


def test_a_node_needs_a_shared_redis_and_folder(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="KIOSK_REDIS_URL_FILE"):
        check_node(Settings(data_dir=tmp_path))
    with pytest.raises(Invalid, match="KIOSK_DATA_DIR"):
        check_node(Settings(redis_url="redis://redis"))
    with pytest.raises(Invalid, match="a folder of this node"):
        check_node(Settings(redis_url="redis://redis", artifacts_url="s3://bucket/kiosk"))
    check_node(Settings(redis_url="redis://redis", data_dir=tmp_path))


NOT_IN_THE_IMAGE = {
    "PATH": "the base image sets it",
    "RAY_AUTH_MODE": "an operator's choice; on Kubernetes by the RayService",
    "RAY_AUTH_TOKEN_PATH": "the same",
    "KIOSK_RESERVE_MEMORY": "the chart sets it; one machine in a container needs none",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "the same",
    "RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH": "Ray's autoscaler ends pods that Serve leaves without replicas",
    "RAY_SERVE_HAPROXY_BINARY_PATH": "the image has its wrapper elsewhere",
    "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": "`kiosk up` sets it; on Kubernetes Serve's own path is private to the pod",
    "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": "the same",
    "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": "the same",
    "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": "the same",
    "RAY_SERVE_HAPROXY_SOCKET_PATH": "the same",
}
"Variable of a node -> why the image has another value, or none."


def test_the_image_has_the_environment_of_a_node() -> None:
    text = (Path(__file__).resolve().parents[4] / "cluster" / "docker" / "Dockerfile").read_text()
    (block,) = re.findall(r"^ENV (KIOSK_DATA_DIR(?:.*\\\n)+.*)$", text, re.MULTILINE)
    image = {name: quoted or plain for name, quoted, plain in re.findall(r'(\w+)=(?:"([^"]*)"|(\S+))', block)}
    place = InstallationPaths.from_data_dir(Path(image["KIOSK_DATA_DIR"]))
    node = node_environment(place, {}, ROOT, head=False, may_raise=True)
    different = {name for name in node.keys() | image.keys() if node.get(name) != image.get(name)}
    assert different == NOT_IN_THE_IMAGE.keys()
