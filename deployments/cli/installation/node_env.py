"""`kiosk node`: what a node of an existing Ray cluster needs before Ray starts."""

from __future__ import annotations

import os
import secrets
import shlex
from typing import Annotated

import typer

from cluster.admin.master_keys import find_external_master_keys, save_manifest_key
from cluster.build_info import package_root
from cluster.errors import Invalid
from cluster.local.haproxy_process import write_image_wrapper
from cluster.paths import InstallationPaths, write_private
from cluster.runtime.handover import find_exposed_files
from cluster.runtime.node_environment import check_node, node_environment, wrapper_path
from cluster.settings import SECRET_VARIABLES, Settings
from deployments.cli.framework import screen

app = typer.Typer(help="A node of a Ray cluster of yours: its environment.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A node of a Ray cluster of yours: its environment."""


ENV_EPILOG = """
[bold]Examples[/]

  export KIOSK_REDIS_URL_FILE=/etc/kiosk/redis.url KIOSK_MASTER_KEY_FILE=/etc/kiosk/master.key
  export KIOSK_DATA_DIR=/srv/kiosk           a folder that all nodes see; with a bucket, a folder of this node

  eval "$(kiosk node env --head --ray-redis REDIS:6380)"
  ray start --head --port=6379 --dashboard-host=0.0.0.0 --object-store-memory=268435456         on the head

  eval "$(kiosk node env)"
  timeout 120 ray start --address=HEAD:6379 --object-store-memory=268435456                     on every other node

HEAD and REDIS are addresses, or names in DNS. Then `kiosk cluster up` on one node. The lines hold no secrets: a secret
in a variable moves to a file of this node.
"""


@app.command("env", epilog=ENV_EPILOG)
def env(
    head: Annotated[bool, typer.Option("--head", help="This node runs Ray's head.")] = False,
    ray_redis: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Redis where Ray's head keeps its state, so that the cluster outlives it.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Print the environment of `ray start` as lines of a shell, and write this node's HAProxy wrapper.

    It is what `kiosk up` sets for itself: the tightened proxy, one thread for each library, priorities, log rotation,
    the token of Ray, and health checks that bring a dead proxy back within seconds.
    """
    settings = Settings()
    check_node(settings)
    paths = InstallationPaths.from_data_dir(settings.data_dir)
    paths.make_run_dir()
    if not paths.ray_token.exists() and not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        if not head:
            raise Invalid(
                f"there is no token of Ray at {paths.ray_token}: run `kiosk node env --head` on the head first, and "
                "where KIOSK_DATA_DIR is not a shared folder, copy its ray.token to this node with mode 600"
            )
        write_private(paths.ray_token, secrets.token_hex(32))
    write_image_wrapper(wrapper_path(paths).parent, str(paths.haproxy_dir / "pid"))
    variables = node_environment(paths, os.environ, package_root(), head=head, ray_redis=ray_redis)
    if find_external_master_keys(settings) or paths.master_key.exists():
        save_manifest_key(settings)
    gone = [name for name in SECRET_VARIABLES if os.environ.get(name)]
    for path in find_exposed_files(settings):
        screen.err().print(
            screen.style_text(
                "warning:", "bold red", f" every user of this node can read {path}: chmod 600 {path}"
            )
        )
    if head and not ray_redis:
        screen.err().print("Without --ray-redis the cluster ends when its head does.", style="dim")
    if as_json:
        screen.print_json({"set": variables, "unset": gone})
        return
    lines = [f"export {name}={shlex.quote(text)}" for name, text in variables.items()]
    screen.print_lines(*(f"unset {name}" for name in gone), *lines)
