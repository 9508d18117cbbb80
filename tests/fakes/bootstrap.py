"""Stands in for the head of a start: does what a plan says without Ray, as a script.

The plan's `api_arguments` choose: `fail` (give up with this message), `rest_s`, `hang`,
`late_fronts` (so many heads find no HAProxy in time).
The vital processes are copies of `sleep` under the names the supervisor looks for, and a small HTTP server
answers for the API replicas.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from cluster.process.free_ports import accepts_connections

REPLICA = """
import http.server, socket, sys
class Replica(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *words): pass
class Server(http.server.ThreadingHTTPServer):
    allow_reuse_address = True
    request_queue_size = 128
    def server_bind(self):  # as Serve's proxy does
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()
server = Server(("127.0.0.1", int(sys.argv[1])), Replica)
print("bound", flush=True)
server.serve_forever()
"""


def main() -> int:
    """Bring up the stand-ins and tell the steps."""
    plan = json.loads(sys.argv[1])
    arguments = plan["api_arguments"]
    run_dir = Path(os.environ["FAKE_RUN_DIR"])
    report_step("apps", first_start=True)
    late = run_dir / "late"
    tried = len(late.read_text()) if late.exists() else 0
    if plan["haproxy"] and tried < arguments.get("late_fronts", 0):
        late.write_text("x" * (tried + 1))
        report_step("api")
        report_step("failed", "no good answer within 60 s")
        return 1
    if "fail" in arguments:
        report_step("failed", arguments["fail"])
        return 1
    if arguments.get("hang"):
        time.sleep(600)
    time.sleep(arguments.get("rest_s", 0))
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for name in ("gcs_server", "raylet"):
        copy = run_dir / name
        if not copy.exists():
            shutil.copy(shutil.which("sleep") or "/bin/sleep", copy)
        subprocess.Popen([str(copy), "600"], **quiet)  # type: ignore[call-overload]
    report_step("api")
    # where HAProxy listens, it keeps the port
    if not (plan["haproxy"] and accepts_connections("127.0.0.1", plan["port"])):
        serving = subprocess.Popen(
            [sys.executable, "-c", REPLICA, str(plan["port"])], **{**quiet, "stdout": subprocess.PIPE}
        )  # type: ignore[call-overload]
        assert serving.stdout.readline() == b"bound\n"
    report_step("ready", "ready")
    return 0


def report_step(step: str, message: str = "", **facts: object) -> None:
    """Say a step as the real head does."""
    sys.stdout.write(json.dumps({"step": step, "message": message or step, "after_s": 0.1, **facts}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
