"""evrun from Python: what `import evrun` gives."""

from .opened import Run, open_run
from .progress import LineProgress
from .running import RunResult, run, run_async

__all__ = ["LineProgress", "Run", "RunResult", "open_run", "run", "run_async"]
