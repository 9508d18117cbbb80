"""Choose nodes for replicas so that no node has two API replicas more than another. Plain Python without Ray.

start    on the node with the fewest replicas of the deployment, of those with room
move     the newest replica of the fullest node, once nothing has changed for a while
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

SETTLED_S = 30.0
"Seconds without a change of the replicas before one is moved: an update, or a node that returns, takes less."
PAUSE_MAX_S = 3_600.0
"Longest pause between two moves. It doubles with each move that did not make the nodes even."


def choose_node(replicas_by_node: Mapping[str, int], free_cpus: Mapping[str, float]) -> str | None:
    """Return the node with the fewest replicas; of equals the one with the most free processors.

    `free_cpus` has the nodes with room. None if there is none.
    """
    return min(
        free_cpus,
        # The name last, so that equal nodes give one answer.
        key=lambda node: (replicas_by_node.get(node, 0), -free_cpus[node], node),
        default=None,
    )


class ReplicaMover:
    """Decides when a replica of one deployment leaves a crowded node."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._since_s = 0.0
        self._pause_s = SETTLED_S

    def choose_replica(
        self,
        node_by_replica: Mapping[str, str],
        nodes: Collection[str],
        now_s: float,
        find_room: Callable[[], Collection[str]],
    ) -> str | None:
        """Return the replica to stop, so that its successor starts on an emptier node; None for no move.

        `node_by_replica` has the running replicas, oldest first; `nodes` the nodes that are alive and not draining;
        `find_room` returns the nodes with room for one more replica and is called only before a move.
        """
        if self._seen != node_by_replica:
            self._seen = dict(node_by_replica)
            self._since_s = now_s
        counts = Counter(dict.fromkeys(nodes, 0))
        counts.update(node for node in node_by_replica.values() if node in counts)
        most = max(counts.values(), default=0)
        # A difference of one is even: moving a replica would only swap the two nodes.
        if most - min(counts.values(), default=0) < 2:
            # The pause starts over only when the nodes have stayed even: a move is even for a moment, too.
            if now_s - self._since_s >= SETTLED_S:
                self._pause_s = SETTLED_S
            return None
        if now_s - self._since_s < self._pause_s:
            return None
        # Without room, too: the search is tried again only after the pause.
        self._since_s = now_s
        if not any(counts[node] <= most - 2 for node in find_room() if node in counts):
            return None
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        return [replica for replica, node in node_by_replica.items() if counts[node] == most][-1]
