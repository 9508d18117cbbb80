"""The same echo behind Ray Serve's default Python proxy: what a team gets without our settings.

Started by `stack.python_proxy_echo`, which takes our own Serve settings out of its environment.
"""

from __future__ import annotations

import sys
import tempfile
import time

import ray
from ray import serve

from tests.benchmarks.peers.echo import app


@serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=256)
@serve.ingress(app)
class Echo:
    """The echo as a Serve deployment."""


def main() -> None:
    """Serve the echo on the port of the first argument until a signal stops the process."""
    port = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="ray-echo-") as folder:
        ray.init(num_cpus=2, include_dashboard=False, _temp_dir=folder, log_to_driver=False)
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(Echo.bind(), name="echo", route_prefix="/")
        print("ready", flush=True)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            serve.shutdown()
            ray.shutdown()


if __name__ == "__main__":
    main()
