"""A run by its directory or its name, whatever kind of run it is."""

from contextlib import closing
from pathlib import Path

from eventlog.events import RunStarted
from eventlog.storage import LogReader, log_exists
from projections import TRAINING, recorded

from ..errors import UsageFault
from .opened import Run
from .training_run import TrainingRun


def open_run(run: str | Path, output_dir: str | Path = "data") -> Run:
    """A run by its directory, or by its name under `output_dir`; a training run is a `TrainingRun`.

    Raises:
        UsageFault: neither is a run.
    """
    for place in (Path(run), Path(output_dir) / run):
        if log_exists(place / "log"):
            return TrainingRun(place) if _trains(place) else Run(place)
    raise UsageFault(
        f"no run {str(run)!r}: looked for {Path(run) / 'log'} and {Path(output_dir) / run / 'log'}"
    )


def _trains(place: Path) -> bool:
    with closing(LogReader.open(place / "log")) as reader:
        first = next(iter(recorded(reader, 1, 1)), None)
    return first is not None and isinstance(first.event, RunStarted) and first.event.kind == TRAINING
