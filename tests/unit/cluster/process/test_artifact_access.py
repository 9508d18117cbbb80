"""Every process of the product opens the artifact store with its key: a store without one believes anybody."""

from __future__ import annotations

import ast

from tests.house.tree import sources


def test_the_artifact_store_is_opened_in_one_place() -> None:
    opened = [
        source.name
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "open"
        and isinstance(node.value, ast.Name)
        and node.value.id == "ArtifactStore"
    ]
    assert set(opened) == {"cluster/process/artifact_access.py"}
