"""`evrun import hermit`: a run whose log says what a run directory of Hermit says, which stays as it is."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from projections import RunState

from .reading import Unread


class HermitImport(msgspec.Struct, kw_only=True):
    """What somebody asked for: which run directory to take in, and as which run.

    `run_name` is Hermit's where it is null. `config` is the run.yaml that Hermit was started with, for
    relative paths that cannot be found otherwise; `tree` the git repository with the run's commits, likewise.
    """

    source: Path
    run_name: str | None = None
    output_dir: Path = Path("data")
    config: Path | None = None
    tree: Path | None = None


class HermitImported(msgspec.Struct):
    """What was made: the run's directory, state and chain, and what is in the source and not in the run."""

    directory: Path
    state: RunState
    chain: bytes
    unread: list[Unread]
    notes: list[str]


def import_hermit(asked: HermitImport, warn: Callable[[str], None]) -> HermitImported:
    """Make a run of a Hermit run directory. Until its log is whole and durable, there is no run.

    Raises:
        UsageFault: refused, or nothing in the directory can be used; nothing was made.
        LogLocked: another process makes a run of this name just now.
        OSError: the log could not be written; nothing was made.
    """
    raise NotImplementedError
