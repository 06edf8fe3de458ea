"""After a crash: the processes that an earlier session's tools left behind, found by their marker."""

import time

from .processes_table import Marked, kill, marked_processes
from .secrets import MARKER_VARIABLE

MOST_PASSES = 100
"""What forks while it is being killed leaves a child for the next pass; with a fork bomb this has to end."""
PASS_S = 0.02


def kill_orphans(marker: str, *, spare: str | None = None) -> list[Marked]:
    """Kill every process of this user that carries `marker`, or a marker below it (`marker/…`).

    Those whose marker begins with `spare` are left alone.

    Each is killed with its process group, so also those of its relatives that have cleared their
    environment. Returns what was killed. What left its group and cleared its environment too is not found.
    """
    killed: dict[int, Marked] = {}
    for _ in range(MOST_PASSES):
        found = [
            each
            for each in marked_processes(MARKER_VARIABLE)
            if (each.marker == marker or each.marker.startswith(f"{marker}/"))
            and not (spare and each.marker.startswith(spare))
        ]
        if not found:
            break
        for each in found:
            killed.setdefault(each.pid, each)
            kill(each)
        time.sleep(PASS_S)
    return list(killed.values())
