"""A training run that dies of kill -9 at a given event: `dying RUN.YAML SEQUENCE`, a process of its own."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from eventlog.events import Recorded
from evrun.training import load_config, run_training_sync
from projections import RunState


class _Deadly:
    """Tells nothing, and ends the process as a power cut would once an event is durable and folded."""

    def __init__(self, sequence: int) -> None:
        self._sequence = sequence

    def note(self, text: str) -> None:
        """Say one thing, once."""
        sys.stderr.write(f"{text}\n")

    def progress(self, state: RunState) -> None:
        """Show how far the run is."""

    @property
    def see(self) -> Callable[[Recorded], None]:
        """Shown each event after it is durable and folded."""
        return self._see

    def _see(self, record: Recorded) -> None:
        if record.sequence >= self._sequence:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Train, and die."""
    config, sequence = sys.argv[1:]
    result = run_training_sync(load_config(Path(config), []), dict(os.environ), _Deadly(int(sequence)))
    sys.exit(result.exit_code)
