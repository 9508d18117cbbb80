"""`kiosk up` for real: what the first start prints and opens, and what works after it."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from cluster.process import probe
from cluster.process.installation_processes import list_processes
from tests.cluster.installed import ROOT, Installed
from tests.fakes.archive_oauth import Person, Program, answer_of

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(240)]
MOST_PSS_MB = 2.5 * 1024
INITIALIZE = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip


def test_status_is_ready_once_every_part_runs(installed: Installed, up: dict[str, Any]) -> None:
    """Every part is ready when `kiosk up` returns."""
    status = installed.run_json("status")
    assert [part for part in status["parts"] if not part["ok"]] == []


def test_the_first_start_tells_everything_scripts_rely_on(installed: Installed, up: dict[str, Any]) -> None:
    assert up["ready"] is True
    assert up["api_url"] == f"http://127.0.0.1:{installed.port}"
    assert up["mcp_url"] == up["api_url"] + "/mcp"
    assert up["console_url"].startswith(up["api_url"])
    assert up["data_dir"] == str(installed.places.data_dir)
    assert up["administrator"]["username"]
    assert len(up["administrator"]["password"]) >= 16
    assert [app["environment"] for app in up["apps"]] == ["playground", "development", "production"]
    for app in up["apps"]:
        assert app["secret_key"].startswith("ksk_")
        assert app["publishable_key"].startswith("kpk_")


def test_the_administrator_signs_in_to_the_console(up: dict[str, Any]) -> None:
    with httpx.Client(base_url=up["api_url"], timeout=30, follow_redirects=True) as browser:
        page = browser.get(up["console_url"])
        assert page.url.path == "/console/sign-in"
        token = page.text.partition('name="csrf" value="')[2].partition('"')[0]
        form = {"csrf": token, "next": "/console/", **up["administrator"]}
        overview = browser.post("/console/sign-in", data=form)
        assert (overview.status_code, overview.url.path) == (200, "/console/")
        assert "Requests/s" in overview.text


def _settled_processes(installed: Installed) -> set[int]:
    """Wait until no process begins any more: Ray starts workers for a while after everything answers."""
    pids: set[int] = set()
    for _ in range(20):
        before, pids = pids, {process.pid for process in list_processes(installed.places)}
        if pids == before:
            break
        time.sleep(1)
    return pids


def _read_replica_log(installed: Installed) -> list[dict[str, Any]]:
    """Return the lines that API replicas wrote to standard error."""
    logs = installed.places.ray_dir / "session_latest" / "logs"
    text = "".join(path.read_text("utf-8", "replace") for path in logs.glob("worker-*.err"))
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("process") == "api"]


def test_a_row_of_the_audit_log_is_a_line_on_standard_error_of_the_replica(
    installed: Installed, up: dict[str, Any]
) -> None:
    test_the_administrator_signs_in_to_the_console(up)
    until = time.monotonic() + 60
    while not (
        rows := [line["row"] for line in _read_replica_log(installed) if line["event"] == "audit_row"]
    ):
        assert time.monotonic() < until
        time.sleep(0.1)
    stored = installed.run_json("audit", "list", "--operation", "session.begin")["rows"]
    begun = [row for row in rows if row["operation"] == "session.begin"]
    assert begun[-1]["username"] == up["administrator"]["username"] == stored[0]["username"]
    assert up["administrator"]["password"] not in json.dumps(rows)


def test_replicas_write_their_lines_at_once_and_are_ready_by_an_answer(
    installed: Installed, up: dict[str, Any]
) -> None:
    assert "keys_loaded" in {line["event"] for line in _read_replica_log(installed)}
    reply = httpx.get(f"{up['api_url']}/-/ready")
    assert (reply.status_code, reply.json()) == (
        200, {"ready": True, "engine": "answers", "store": "reachable"},
    )  # fmt: skip


def test_a_second_start_reports_the_running_installation_and_changes_nothing(
    installed: Installed, up: dict[str, Any]
) -> None:
    before = json.loads(installed.places.state.read_text())
    processes = _settled_processes(installed)
    done = installed.kiosk("up", "--port", "1234", "--json")
    again = json.loads(done.stdout)
    assert "already running" in done.stderr
    assert f"It stays on {up['api_url']}." in done.stderr
    assert "kiosk up --host 127.0.0.1 --port 1234" in done.stderr
    edge = "https://edge.example.com"
    shown = json.loads(installed.kiosk("up", "--json", KIOSK_EDGE_URL=edge).stdout)
    assert (shown["edge_url"], shown["api_url"]) == (edge, up["api_url"])
    assert "ksk_" not in installed.kiosk("up").stdout, "only who asks for keys gets them printed again"
    assert {process.pid for process in list_processes(installed.places)} <= processes
    assert json.loads(installed.places.state.read_text()) == before
    assert again == {**up, "administrator": {"username": up["administrator"]["username"]}}


def test_the_printed_administrator_connects_an_agent_until_that_is_ended(
    installed: Installed, up: dict[str, Any]
) -> None:
    tokens, again = asyncio.run(_connect_an_agent(up))
    (connected,) = installed.run_json("users", "clients", up["administrator"]["username"])["clients"]
    assert connected["client_name"] == "Reader"
    assert again.status_code == 200
    ended = installed.run_json(
        "users", "disconnect", up["administrator"]["username"], connected["connection"]
    )
    assert ended["disconnected"] == 1
    time.sleep(1)
    headers = {"authorization": f"Bearer {tokens['access_token']}"}
    assert httpx.post(f"{up['api_url']}/mcp", headers=headers, json=INITIALIZE).status_code == 401


def test_the_printed_commands_work_when_pasted_and_a_click_changes_the_answer(
    installed: Installed, up: dict[str, Any]
) -> None:
    lines = [
        line for line in installed.kiosk("up", "--reveal").stdout.splitlines() if line.startswith("curl ")
    ]
    upload, click, ask, playground = (_paste(line) for line in lines)
    assert upload()["message"] == "success"
    until = time.monotonic() + 60
    while "products" not in (cold := ask()).get("data", {}):
        assert time.monotonic() < until, cold
        time.sleep(0.1)
    assert click()["message"] == "success"
    clicked = time.monotonic()
    while (warm := [item["product_id"] for item in ask()["data"]["products"]]) != ["teacup", "boots"]:
        assert time.monotonic() - clicked < 5, warm
    print(f"\na click changed the answer after {(time.monotonic() - clicked) * 1000:.0f} ms")
    assert time.monotonic() - clicked < 1.0
    assert len(playground()["data"]["products"]) == 3


def test_every_part_is_well(installed: Installed, up: dict[str, Any]) -> None:
    status = installed.run_json("status")
    assert status["ready"] is True
    assert {part["part"]: part["ok"] for part in status["parts"]} == dict.fromkeys(
        [
            "supervisor",
            "redis",
            "ray",
            "proxy",
            "api",
            "agreement",
            "app memory",
            "app storage",
            "intake",
            "trainer",
            "assigner",
            "tracker",
            "disk",
            "memory",
            "restarts",
        ],
        True,
    )
    assert "secret_key" not in json.dumps(status)
    examined = installed.run_json("doctor")
    assert [finding for finding in examined["findings"] if finding["level"] == "bad"] == []
    findings = {finding["check"]: finding for finding in examined["findings"]}
    assert {"app memory", "app storage", "audit log", "redis memory", "clock"} <= set(findings)
    assert " of 512 MiB for " in findings["app memory"]["words"]


def test_the_whole_stack_at_rest_stays_small(installed: Installed, up: dict[str, Any]) -> None:
    processes = list_processes(installed.places)
    used_mb = sum(process.memory_full_info().pss for process in processes) / 2**20
    print(f"\nat rest: {used_mb:.0f} MiB in {len(processes)} processes")
    assert used_mb < MOST_PSS_MB


def test_libraries_have_one_thread_each_in_every_worker(installed: Installed, up: dict[str, Any]) -> None:
    workers = [process for process in list_processes(installed.places) if "ray::Serve" in process.name()]
    assert workers
    for worker in workers:
        seen = worker.environ()
        assert (seen["OMP_NUM_THREADS"], seen["POLARS_MAX_THREADS"]) == ("1", "1")


def test_no_port_of_ray_answers_a_stranger(installed: Installed, up: dict[str, Any]) -> None:
    """No job, dashboard or client port answers without the token; nothing but the API is open to the network
    but what asks for it."""
    token = installed.places.ray_token.read_text()
    open_to_network, probed = [], 0
    for process in list_processes(installed.places):
        try:
            lines = process.net_connections(kind="tcp")
        except psutil.Error:
            continue
        for line in lines:
            if line.status != psutil.CONN_LISTEN or line.laddr.port == installed.port:
                continue
            if not line.laddr.ip.startswith(("127.", "::ffff:127.", "::1")):
                open_to_network.append((process.name(), line.laddr.port))
            for path in (
                "/api/jobs/",
                "/api/job_agent/jobs/",
                "/api/serve/applications/",
                "/nodes?view=summary",
            ):
                probed += 1
                try:
                    status, body = probe.send_request("127.0.0.1", line.laddr.port, "GET", path, within_s=1.0)
                except OSError:
                    continue
                # A replica's own port (loopback only) answers as the door does; HAProxy's pages hold figures.
                assert status != 200 or not _is_ray(body), (process.name(), line.laddr.port, path, body[:200])
    assert probed > 20
    assert [name for name, _ in open_to_network if not name.startswith("ray::ServeReplica")] == []
    dashboard = json.loads(installed.places.state.read_text())["dashboard_url"]
    assert _status(f"{dashboard}/api/jobs/", "") in (401, 403)
    assert _status(f"{dashboard}/api/jobs/", token) == 200


def test_the_ports_replicas_open_to_other_nodes_ask_for_the_token(
    installed: Installed, up: dict[str, Any]
) -> None:
    import grpc

    token = installed.places.ray_token.read_text()
    replicas = [process for process in list_processes(installed.places) if "ServeReplica" in process.name()]
    ports = [
        line.laddr.port
        for replica in replicas
        for line in replica.net_connections(kind="tcp")
        if line.status == psutil.CONN_LISTEN and not line.laddr.ip.startswith(("127.", "::ffff:127."))
    ]
    for port in ports:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(
                "/ray.serve.ASGIService/HandleRequest", lambda sent: sent, lambda came: came
            )
            codes = []
            for metadata in ((), (("authorization", f"Bearer {token}"),)):
                try:
                    call(b"", metadata=metadata, timeout=5)
                    codes.append(grpc.StatusCode.OK)
                except grpc.RpcError as error:
                    codes.append(error.code())
        assert codes[0] == grpc.StatusCode.UNAUTHENTICATED
        assert codes[1] != grpc.StatusCode.UNAUTHENTICATED


def test_no_secret_is_seen_in_processes_or_logs(installed: Installed, up: dict[str, Any]) -> None:
    key = next(app["secret_key"] for app in up["apps"] if app["environment"] == "development")
    url = f"{up['api_url']}/v1/users/nobody?api_key={key}&note=CANARYQUERY"
    assert _status(url, "") in (401, 403, 404)
    password = installed.places.redis_url.read_text().split(":")[2].partition("@")[0]
    secrets = [
        key,
        password,
        installed.places.ray_token.read_text(),
        installed.places.master_key.read_text().strip(),
    ]
    for process in list_processes(installed.places):
        try:
            seen = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        assert not [word for word in seen if any(secret in word for secret in secrets)], process
    time.sleep(1.0)
    words = [secret.encode() for secret in (*secrets, "CANARYQUERY")]
    private = {"redis.conf", "redis.url", "ray.token", "master.key"}
    folders = (installed.places.data_dir, installed.places.run_dir)
    files = [
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name not in private
    ]
    assert len(files) > 20
    leaks = [path for path in files if any(word in path.read_bytes() for word in words)]
    assert leaks == []


def test_a_notebook_trains_with_the_data_directory_alone(installed: Installed, up: dict[str, Any]) -> None:
    program = (
        "import ray; from jobs.refresh.driver import train; "
        "print(train('playground', recipe='fast').model_dump_json())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**installed.environment, "PYTHONPATH": str(ROOT)},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    run = json.loads(done.stdout.splitlines()[-1])
    assert (run["status"], run["promoted"]) == ("finished", False)
    assert run["figures"]["ndcg@10"] > 0


@pytest.mark.timeout(400)
def test_a_person_walks_through_the_console_and_both_demonstrations(
    up: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("playwright.async_api", reason="playwright is not installed")
    from tests.browser.stage import BROWSER, Tab, open_browser
    from tests.cluster.console_journey import ConsoleJourney

    if BROWSER is None:
        pytest.skip("no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER")

    async def walk() -> dict[str, float]:
        async with open_browser() as browser:
            journey = ConsoleJourney(await Tab.open(browser, up["api_url"]), tmp_path)
            await journey.walk(**up["administrator"])
            return journey.seconds

    seconds = asyncio.run(walk())
    print(f"\n{sum(seconds.values()):.0f} s: {seconds}")


def test_a_rotated_key_is_refused_within_a_second(installed: Installed, up: dict[str, Any]) -> None:
    made_key = installed.create_app("shortlived")
    # The command's own end is after its change: time is taken from a moment that is too early, never too late.
    begin = time.monotonic()
    rotated = installed.run_json("keys", "rotate", "shortlived", "--kind", "secret")
    ended = time.monotonic()
    while installed.ask_user(made_key) != 401:
        assert time.monotonic() - ended < 1.0
        time.sleep(0.02)
    print(f"\nrefused {time.monotonic() - ended:.2f} s after the command ended ({ended - begin:.1f} s long)")
    assert installed.ask_user(rotated["secret_key"]) == 404


def _paste(line: str) -> Any:
    def run() -> Any:
        return json.loads(
            subprocess.run(shlex.split(line), check=True, capture_output=True, timeout=20).stdout
        )

    return run


def _is_ray(body: bytes) -> bool:
    if body.startswith(b"# HELP"):
        return False
    return any(word in body for word in (b"submission_id", b"raylet", b"applications", b"nodeId"))


def _status(url: str, token: str) -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


async def _connect_an_agent(up: dict[str, Any]) -> tuple[dict[str, str], httpx.Response]:
    """Go the whole way of a client with the administrator that the first start printed."""
    who = up["administrator"]
    async with (
        httpx.AsyncClient(base_url=up["api_url"]) as http,
        httpx.AsyncClient(base_url=up["api_url"]) as browser,
    ):
        refused = await http.post("/mcp", json=INITIALIZE)
        assert refused.status_code == 401
        metadata = refused.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
        assert (await http.get(metadata)).json()["resource"] == up["mcp_url"]
        program, person = Program(http), Person(browser, who["username"], who["password"])
        assert (await program.register()).status_code == 201
        await person.open("/oauth/authorize/archive", **program.asks(resource=up["mcp_url"]))
        assert (await person.sign_in()).status_code == 200
        code = answer_of(await person.press("allow"))["code"]
        tokens = (await program.redeem(code, resource=up["mcp_url"])).json()
        tokens = (await program.refresh(tokens["refresh_token"], resource=up["mcp_url"])).json()
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        return tokens, await http.post("/mcp", json=INITIALIZE, headers=headers)
