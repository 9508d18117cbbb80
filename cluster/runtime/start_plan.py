"""The supervisor's orders for `bootstrap`: one value, passed as JSON on the command line. No secrets."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

API = "deployments.front.app:build"
ANCHORS = "deployments.front.app:build_anchors"
API_APPLICATION = "api"
"Name of the Serve application of the API replicas."
PROXIES = "proxies"
"Name of the Serve application that keeps a proxy on every node."
INTAKE = "actors.intake.host:IntakeHost"
ENGINES = "deployments.hosts.app:build_recommender"
ASSIGNER = "actors.experiments.host:AssignerHost"
TRACKER = "actors.history.host:TrackerHost"
TRACKER_SERVICES = "deployments.hosts.gateway:open_tracker_services"
TRAINER = "jobs.refresh.driver:Trainer"


@dataclass(frozen=True, slots=True)
class StartPlan:
    """The parts of an installation to start, and how."""

    host: str
    port: int
    haproxy: bool
    ray_arguments: list[str]
    "Empty: Ray runs already."
    ray_address: str
    replicas_host: str = ""
    "Where replicas listen for HAProxy; empty: on `host`, so that other nodes reach them."
    api: str = API
    "Import path of the application's builder."
    proxy_location: str = "EveryNode"
    "Where Serve runs HTTP proxies: `EveryNode` or `HeadOnly`."
    spread: bool = False
    "Several nodes: default numbers of API replicas follow from them, and every node keeps a proxy."
    anchors: str = ANCHORS
    "Import path of the builder of the application that keeps a proxy on every node."
    api_arguments: dict[str, Any] = field(default_factory=dict)
    intake: str = INTAKE
    "Import path of the intake actor's class; empty: none."
    engines: str = ENGINES
    "Import path of the builder of dedicated engines; empty: there are none."
    trainer: str = TRAINER
    "Import path of the class of the trainer; empty: none."
    assigner: str = ASSIGNER
    "Import path of the class of the actor that assigns variants to users; empty: API replicas assign them."
    tracker: str = TRACKER
    "Import path of the class of the actor that watches history threads; empty: no user is notified of updates."
    tracker_services: str = TRACKER_SERVICES
    "Import path of the function that opens the services of the tracker."
    playground: bool = True
    "Load the sample data if it is absent."

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> StartPlan:
        """Return the plan from JSON, also of a supervisor of the release before or after this one."""
        given = json.loads(text)
        given.setdefault("tracker_services", given.pop("tracker_means", TRACKER_SERVICES))
        return cls(**{name: value for name, value in given.items() if name in cls.__dataclass_fields__})
