"""Every error of the acting side, as one tree.

::

    EvrunError                 something a user can meet; knows its exit code and what to do
    ├── UsageFault             exit 2: the input is wrong; nothing was spent, nothing changed
    │   └── DatasetFault       exit 2: dataset lines that cannot be used, all of them listed
    ├── RunFailed              exit 1: evrun could not go on; what was done is kept
    └── Stopped                exit 130, 143: a signal came before anything had begun

The errors of the log itself are in `eventlog.errors`.
"""

from eventlog.errors import EventLogError


class EvrunError(Exception):
    """The root: one line for people, an exit code for scripts, and what to do next."""

    exit_code: int = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageFault(EvrunError):
    """The input is wrong; nothing was spent and nothing was changed."""

    exit_code: int = 2


class DatasetFault(UsageFault):
    """Dataset lines that cannot be used; `lines` holds (line number from 1, what was found)."""

    def __init__(self, message: str, lines: list[tuple[int, str]], hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.lines = lines


class RunFailed(EvrunError):
    """evrun could not go on; what was done so far is in the log."""


class Stopped(EvrunError):
    """A signal came before anything had begun; nothing was changed."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of a group that a person should see: the first of ours, else the first."""
    leaves: list[BaseException] = []
    stack: list[BaseException] = [group]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(reversed(error.exceptions))
        else:
            leaves.append(error)
    ours = [error for error in leaves if isinstance(error, EvrunError | EventLogError)]
    return (ours or leaves)[0]
