"""A copy of the packages that acts as the next release: one more field in a record, a message and a manifest, one more
value of a `Literal`, and a migration."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "cluster", "deployments", "jobs", "tests")
EDITS = (
    (
        "cluster/records/engine.py",
        "    scaling: Scaling = Scaling()\n",
        '    colour: str = ""\n    scaling: Scaling = Scaling()\n',
    ),
    (
        "cluster/records/engine.py",
        "    replicas_min: int = Field(default=1, ge=1, le=256)\n",
        '    zone: str = ""\n    replicas_min: int = Field(default=1, ge=1, le=256)\n',
    ),
    (
        "cluster/records/experiment.py",
        'status: Literal["Active", "Paused"] = "Active"',
        'status: Literal["Active", "Paused", "Frozen"] = "Active"',
    ),
    (
        "actors/recommender/messages.py",
        '    engine_id: str\n    user_id: str = ""\n',
        '    engine_id: str\n    locale: str = "none"\n    user_id: str = ""\n',
    ),
    (
        "actors/recommender/messages.py",
        "    products: list[dict[str, Any]] = field(default_factory=list)\n",
        '    answered_by: str = "next"\n    products: list[dict[str, Any]] = field(default_factory=list)\n',
    ),
    (
        "cluster/artifacts/manifest.py",
        '                "format": FORMAT,\n',
        '                "format": FORMAT,\n                "written_with": "next",\n',
    ),
    (
        "cluster/artifacts/manifest.py",
        '_FIELDS = frozenset({"format",',
        '_FIELDS = frozenset({"written_with", "format",',
    ),
    (
        "cluster/admin/schema.py",
        "1, _number_only),)",
        '1, _number_only), Migration(2, "the next release", 1, _number_only))',
    ),
    ("cluster/build_info.py", 'return "0+checkout"', 'return "1+next"'),
    ("cluster/build_info.py", 'return importlib.metadata.version("kiosk")', 'return "1+next"'),
)


def copy_next_release(folder: Path) -> Path:
    """Write the next release into a folder and return it."""
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.gz", "node_modules", "assets")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name, before, after in EDITS:
        path = folder / name
        text = path.read_text("utf-8")
        assert text.count(before) >= 1, f"{name} has no {before!r} any more: adapt the next release"
        path.write_text(text.replace(before, after, 1), "utf-8")
    return folder
