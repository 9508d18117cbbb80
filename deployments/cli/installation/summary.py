"""What `kiosk up` and `kiosk status` say about a running installation, for programs and for people."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any

from cluster.admin.accounts import USERNAME, ensure_administrator
from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.process.installation_state import InstallationState
from cluster.store.connect import OpenStores
from deployments.cli.framework.installation import Installation, read_clock_ms

USER = "ada"
"The made-up user of the three commands."


@dataclass(frozen=True, slots=True)
class AppKeys:
    """An app and its newest key of each kind."""

    app_id: str
    environment: str
    secret_key: str = ""
    publishable_key: str = ""

    def to_dict(self, *, secrets: bool) -> dict[str, str]:
        named = {"app_id": self.app_id, "environment": self.environment}
        keys = {"secret_key": self.secret_key, "publishable_key": self.publishable_key}
        return {**named, **keys} if secrets else named


@dataclass(frozen=True, slots=True)
class InstallationSummary:
    """Everything that is shown."""

    state: InstallationState
    apps: list[AppKeys]
    playground_user: str = ""
    password: str = ""
    "Only on the first start."
    edge_url: str = ""
    "Origin by which browsers reach the API; empty: that of the API."
    console: bool = True
    "Whether the console and the demonstrations are served."

    def to_dict(self, *, secrets: bool) -> dict[str, Any]:
        """Say it as JSON: the shape that scripts outside the project rely on."""
        administrator = {"username": USERNAME}
        if secrets and self.password:
            administrator["password"] = self.password
        return {
            "ready": self.state.phase == "ready",
            "degraded": self.state.is_degraded,
            "proxy": self.state.proxy,
            "api_url": self.state.api_url,
            "edge_url": self.edge_url or self.state.api_url,
            "mcp_url": f"{self.state.api_url}/mcp",
            "console_url": f"{self.state.api_url}/console",
            "data_dir": self.state.data_dir,
            "administrator": administrator,
            "apps": [app.to_dict(secrets=secrets) for app in self.apps],
        }

    def lines(self) -> list[str]:
        """Say it to people; commands stand on lines of their own, so that they can be pasted."""
        state = self.state
        lines = [
            "",
            f"  API        {state.api_url}   (interface described at {state.api_url}/docs)",
            *([f"  Browsers   {self.edge_url}   (load kiosk-1.js from there)"] if self.edge_url else ()),
            *(self._pages() if self.console else ()),
            f"  Data       {state.data_dir}",
            f"  Logs       {state.logs_dir} (`kiosk logs` shows them)",
        ]
        if state.dashboard_url:
            lines.append(f"  Ray        {state.dashboard_url}   (token in {state.data_dir}/ray.token)")
        if self.password:
            lines.append(f"  Admin      {USERNAME} / {self.password}   (shown this once)")
        lines.append("")
        if not any(app.secret_key for app in self.apps):
            return [
                *lines[:-1],
                "  Keys       `kiosk keys list --reveal` prints them, `kiosk up --reveal` with commands to try",
            ]
        for app in self.apps:
            lines.append(f"  {app.app_id:<12} secret       {app.secret_key}")
            lines.append(f"  {'':<12} publishable  {app.publishable_key}")
        return [*lines, "", *self.example_commands()]

    def _pages(self) -> list[str]:
        url = self.state.api_url
        shop = (
            [f"  Demo       {url}/demo/shop"] if any(app.app_id == "playground" for app in self.apps) else []
        )
        return [f"  Console    {url}/console   (sign in as {USERNAME})", *shop]

    def example_commands(self) -> list[str]:
        """Write commands that work when pasted."""
        keys = {app.app_id: app for app in self.apps}
        lines: list[str] = []
        if "development" in keys:
            lines += _first_steps(self.state.api_url, keys["development"].secret_key)
        if "playground" in keys and self.playground_user:
            ask = {"user_id": self.playground_user, "rows": 3, "fl": ["title"]}
            lines += [
                "# the playground: sample data, read-only",
                _curl(
                    self.state.api_url,
                    "/v1/recommendation/user_to_products",
                    keys["playground"].secret_key,
                    ask,
                ),
            ]
        return lines


def _first_steps(url: str, key: str) -> list[str]:
    products = [
        {
            "product_id": "teapot",
            "title": "Stoneware teapot",
            "brand": "Holm",
            "categories": [["Kitchen", "Tea"]],
        },
        {
            "product_id": "teacup",
            "title": "Stoneware tea cup",
            "brand": "Holm",
            "categories": [["Kitchen", "Tea"]],
        },
        {
            "product_id": "boots",
            "title": "Hiking boots",
            "brand": "Fjell",
            "categories": [["Outdoor", "Shoes"]],
        },
    ]
    click = {"type": "click", "user_id": USER, "product_ids": ["teapot"]}
    ask = {"user_id": USER, "rows": 2}
    return [
        "# 1. upload three products to development",
        _curl(url, "/v1/products", key, {"data": products}),
        "# 2. a user clicks on the teapot",
        _curl(url, "/v1/interactions", key, {"data": [click]}),
        "# 3. which products should this user see next?",
        _curl(url, "/v1/recommendation/user_to_products", key, ask),
    ]


def _curl(url: str, path: str, key: str, body: object) -> str:
    return f"curl -s {url}{path} -H 'X-API-KEY: {key}' -d {shlex.quote(json.dumps(body))}"


def build_summary(
    installation: Installation, state: InstallationState, *, reveal: bool, first: bool = False
) -> InstallationSummary:
    """Collect everything from the store; the start (`first`) creates the administrator if there is none."""

    async def read(keeping: AppKeyAdmin, stores: OpenStores) -> InstallationSummary:
        keys: dict[str, AppKeys] = {
            app.app_id: AppKeys(app.app_id, app.environment) for app in await keeping.apps()
        }
        for entry in await keeping.keys(reveal=reveal):
            earlier = keys[entry.key.app_id]
            # Oldest first, so the newest key of a kind is the one that stays.
            keys[earlier.app_id] = AppKeys(
                earlier.app_id,
                earlier.environment,
                entry.text if entry.key.kind == "secret" else earlier.secret_key,
                entry.text if entry.key.kind == "publishable" else earlier.publishable_key,
            )
        users = await stores.records.ids("playground", "user") if reveal else []
        user = next((user_id for user_id in users if user_id != "playground-keeper"), "")
        password = await ensure_administrator(stores.accounts, read_clock_ms()) if first else ""
        settings = installation.settings
        return InstallationSummary(
            state, list(keys.values()), user, password, settings.edge_url, settings.console
        )

    return installation.administer(read)
