"""What a runner hands its sessions to."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from eventlog.events import PromptStarted
from eventlog.storage import Ticket

from .line import Line

if TYPE_CHECKING:
    from ..batch.brief import Brief


class Session(NamedTuple):
    """One attempt at one unit, from where it stands to its boundary.

    `started`, where given, is not yet recorded: it goes into the log with the attempt's first event. Else the
    attempt is one that was left open.
    """

    unit: str
    brief: "Brief"
    number: int
    started: PromptStarted | None


class Lost(Exception):
    """Whoever worked on a session is gone; says who, and how.

    Every call that was open is in doubt by now, in the log. The attempt is still open there: it goes on, or
    is superseded, by the rules of a resume.
    """


class Executor(Protocol):
    """Brings sessions to their boundaries. Whoever works on them, one process writes."""

    def directory_there(self, unit: str, attempt: int) -> bool:
        """Whether what an attempt's tools have made so far is there for whoever goes on with it."""

    async def work_on(self, session: Session) -> Ticket | None:
        """Return when the session has its boundary, or when the run is told to end.

        Gives the commit of the boundary where that is not durable yet: to be awaited, but nothing depends on
        it. Cancelled, it leaves no call without an outcome in the log.

        Raises:
            Lost: it is to be handed over again.
            EvrunError, AppendError: the run cannot go on.
        """


class Place(NamedTuple):
    """A node: what the cluster calls it, its address for people, and how many CPUs it has."""

    node: str
    address: str
    cpus: int

    @property
    def name(self) -> str:
        """The node for people: several may have one address."""
        return f"node {self.address} ({self.node[:8]})"


class Cluster(Protocol):
    """Where workers can be."""

    async def places(self) -> list[Place] | None:
        """The nodes that are alive and may get workers; null where the cluster does not answer."""

    async def open(self, place: Place, worker: int, opening: bytes) -> Line:
        """A new worker on a node, ready for sessions.

        Raises:
            LineBroken: it could not be opened; says why.
        """

    def close(self) -> None:
        """Leave the cluster; one that was started for this run ends."""
