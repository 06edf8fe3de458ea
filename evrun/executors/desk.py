"""The driver's side of one worker: hands it sessions, serves what it asks, and knows when it is gone."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.abc
from anyio import to_thread

from eventlog.errors import AppendError

from ..batch.control import Control, Ending
from ..effects.limiter import Limiter
from ..errors import EvrunError, RunFailed
from .base import Lost
from .line import Line, LineBroken
from .post import Confused, Post
from .wire import (
    Begin,
    Cancel,
    Ended,
    Failed,
    FromWorker,
    Kept,
    Message,
    Note,
    NotUnderstood,
    Over,
    Pause,
    Record,
    Recorded,
    Refused,
    Reserve,
    Stop,
    Withdraw,
    from_worker,
    to_bytes,
)

LAST_WORDS_S = 5.0
"""So long a worker may take to record how a session ends that was cancelled."""
STOPPED = "abandoned: the run was stopped before the answer came"


class _Session:
    """A session that is handed over, until it is `done`."""

    def __init__(self, post: Post) -> None:
        self.post = post
        self.done = anyio.Event()
        self.result = b""
        self.kept: list[Kept] = []
        self.error: Exception | None = None
        self.waiting: dict[int, anyio.CancelScope] = {}


class Desk:
    """Serves one worker. `number` is the worker's, in this session of the run.

    `broken` says why it works no more; it was `lost` unless it was told to end.
    """

    def __init__(
        self, line: Line, number: int, control: Control, limiter: Limiter, note: Callable[[str], None]
    ) -> None:
        self.name = line.name
        self.number = number
        self.broken: str | None = None
        self.lost = True
        self._line = line
        self._control = control
        self._limiter = limiter
        self._note = note
        self._sessions: dict[int, _Session] = {}
        self._last = 0
        self._outbox: list[bytes] = []
        self._written = anyio.Event()
        self._scope = anyio.CancelScope()

    @property
    def load(self) -> int:
        """How many sessions it works on."""
        return len(self._sessions)

    async def work_on(self, post: Post, work: bytes) -> bytes:
        """Have a session worked on; what the worker gives back when it has ended.

        Raises:
            Lost: the worker is gone; what was open is in doubt, durably.
            EvrunError, AppendError: the run cannot go on.
        """
        self._last += 1
        number, session = self._last, _Session(post)
        post.worked_on_by(self.number)
        self._sessions[number] = session
        self._say(Begin(number, work, post.attempt, post.any_success))
        try:
            await session.done.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._cancel(number, session)
            raise
        finally:
            self._sessions.pop(number, None)
        await post.abandon("its session has ended without a word about it")
        await self._keep(session)
        if session.error is not None:
            raise session.error
        return session.result

    async def serve(self) -> None:
        """Serve the worker until it is gone; afterwards its sessions are lost."""
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._carry)
                    group.start_soon(self._tell_of_the_end)
                    await self._listen(group)
        finally:
            # Also where all of them are ended at once, and with them whoever serves.
            with anyio.CancelScope(shield=True):
                await self._part()

    def end(self) -> None:
        """Nothing more is to be worked on."""
        self.broken, self.lost = self.broken or "it was ended", False
        self._scope.cancel()

    async def _part(self) -> None:
        if self.lost:
            self._line.cut()
        else:
            await self._line.end()
        for session in list(self._sessions.values()):
            await self._lose(session)

    def give_up(self, why: str) -> None:
        """Nothing is expected from the worker any more: its sessions are lost."""
        self._break(LineBroken(why))

    # What comes.

    async def _listen(self, group: anyio.abc.TaskGroup) -> None:
        try:
            while True:
                for data in await self._line.hear():
                    self._heard(from_worker(data), group)
        except (LineBroken, NotUnderstood, Confused) as error:
            self._break(error)

    def _heard(self, message: FromWorker, group: anyio.abc.TaskGroup) -> None:
        match message:
            case Note():
                self._note(f"{self.name}: {message.text}")
            case Pause():
                self._limiter.pause_until(message.wait_s)
            case Stop():
                self._control.stop(Ending(message.state, message.exit_code, message.reason))
            case _:
                session = self._sessions.get(message.session)
                # Of a session that was given up nothing is taken any more.
                if session is not None:
                    self._heard_of(session, message, group)

    def _heard_of(
        self,
        session: _Session,
        message: Reserve | Record | Withdraw | Over | Kept | Ended,
        group: anyio.abc.TaskGroup,
    ) -> None:
        match message:
            case Reserve():
                waiting = session.waiting[message.number] = anyio.CancelScope()
                group.start_soon(
                    self._answer, session, message, lambda: session.post.reserve(message, waiting)
                )
            case Record():
                group.start_soon(self._answer, session, message, lambda: session.post.record(message))
            case Withdraw():
                if message.number in session.waiting:
                    session.waiting[message.number].cancel()
            case Over():
                session.post.over_bound(message.how)
            case Kept():
                session.kept.append(message)
            case Ended():
                session.result = message.result
                if message.error is not None and session.error is None:
                    session.error = RunFailed(f"{self.name}: {message.error}")
                session.done.set()

    async def _keep(self, session: _Session) -> None:
        for kept in session.kept:
            try:
                await to_thread.run_sync(session.post.keep, kept)
            except OSError as error:
                self._note(f"{self.name}: what a program has said could not be kept: {error}")

    async def _answer(
        self,
        session: _Session,
        asked: Reserve | Record,
        work: Callable[[], Awaitable[Recorded | Refused]],
    ) -> None:
        try:
            answer: Message = await work()
        except Confused as error:
            self._break(error)
            return
        except (AppendError, EvrunError) as error:
            session.error = error
            answer = Failed(asked.session, asked.number, str(error))
        session.waiting.pop(asked.number, None)
        self._say(answer)

    # What goes.

    def _say(self, message: Message) -> None:
        self._outbox.append(to_bytes(message))
        self._written.set()

    async def _carry(self) -> None:
        try:
            while True:
                await self._written.wait()
                self._written = anyio.Event()
                said, self._outbox = self._outbox, []
                await self._line.say(said)
        except LineBroken as error:
            self._break(error)

    async def _tell_of_the_end(self) -> None:
        await self._control.stopped()
        ending = self._control.ending
        assert ending is not None, "it was stopped"
        self._say(Stop(*ending))

    # How it ends.

    def _break(self, error: Exception) -> None:
        self.broken = self.broken or str(error)
        self._scope.cancel()

    async def _cancel(self, number: int, session: _Session) -> None:
        self._say(Cancel(number))
        with anyio.move_on_after(LAST_WORDS_S):
            await session.done.wait()
        await session.post.abandon(STOPPED)

    async def _lose(self, session: _Session) -> None:
        why = f"{self.name} was lost: {self.broken}"
        try:
            await session.post.abandon(why)
        except (AppendError, EvrunError) as error:
            session.error = error
        else:
            # Its end may have come just before that of its worker.
            session.error = session.error or (None if session.post.ended else Lost(why))
        session.done.set()
