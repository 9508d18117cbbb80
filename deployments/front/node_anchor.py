"""A replica that only exists, in a module without imports: its process has nothing of ours in memory."""

from __future__ import annotations


class NodeAnchor:
    """Keeps an HTTP proxy on its node (`deployments.front.app:build_anchors`)."""

    def __call__(self) -> str:
        """Return nothing."""
        return ""
