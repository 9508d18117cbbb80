"""Examples of operations as the reference shows them: the arguments of a call, and its result.

`python -m tests.performed_examples` performs those that it lists and writes their results anew; a test performs them
again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deployments.operations.framework.operation import Operation

PATH = Path(__file__).with_name("examples.json")
EXAMPLE_APP = "bookshop"


@cache
def load_examples() -> Mapping[str, Mapping[str, Any]]:
    """Return operation -> its `arguments`, where they are more than the app, and its `result`, where it is JSON."""
    return json.loads(PATH.read_text("utf-8"))  # type: ignore[no-any-return]


def example_arguments(operation: Operation[Any, Any]) -> dict[str, Any]:
    """Return the arguments of an example call."""
    app = {"app_id": EXAMPLE_APP} if "app_id" in operation.arguments.model_fields else {}
    return {**app, **load_examples().get(operation.name, {}).get("arguments", {})}


def example_result(operation: Operation[Any, Any]) -> Any:
    """Return what the example call returned, as JSON; None where that is no JSON."""
    return load_examples().get(operation.name, {}).get("result")
