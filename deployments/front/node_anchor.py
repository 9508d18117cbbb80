"""A replica without work, in a module without imports, so that its process does not load Kiosk."""

from __future__ import annotations


class NodeAnchor:
    """Keeps an HTTP proxy on its node (`deployments.front.app:build_anchors`)."""

    def __call__(self) -> str:
        return ""
