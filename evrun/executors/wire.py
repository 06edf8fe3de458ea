"""What a driver and its workers say to each other, as bytes: the same whatever carries them.

A worker asks: `Reserve`, `Record`; each is answered once, by `Recorded`, `Refused` or `Failed`. All else is
told, and nobody answers.
"""

import msgspec

from projections import Attempt

from ..bounds import Bound


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """One message; tagged by its name."""


# From a worker.


class Reserve(Message, frozen=True, gc=False):
    """Wait until a request may be sent, and record its reservation, in one commit with `first`.

    Events are as the log has them. `size_bytes` is that of the request; `priced`: its model has a price.
    """

    session: int
    number: int
    first: list[bytes]
    reserved: bytes
    size_bytes: int
    bound: Bound
    priced: bool


class Record(Message, frozen=True, gc=False):
    """Record these events as one commit."""

    session: int
    number: int
    events: list[bytes]


class Withdraw(Message, frozen=True, gc=False):
    """Nobody waits for this `Reserve` any more; where it is not too late, it is refused."""

    session: int
    number: int


class Over(Message, frozen=True, gc=False):
    """An answer took more than was set aside for it; says how."""

    session: int
    how: str


class Pause(Message, frozen=True, gc=False):
    """The provider wants everybody to wait."""

    wait_s: float


class Stop(Message, frozen=True, gc=False):
    """The run is to end: as `Ending`. From the driver too: the run is ending."""

    state: str
    exit_code: int
    reason: str


class Note(Message, frozen=True, gc=False):
    """Something for people."""

    text: str


class Kept(Message, frozen=True, gc=False):
    """What the program of an attempt of this session has said: it is kept with the run."""

    session: int
    attempt: int
    output: bytes


class Ended(Message, frozen=True, gc=False):
    """A session is over. `error` says how it failed by a fault that is not the prompt's."""

    session: int
    result: bytes
    error: str | None


# From the driver.


class Begin(Message, frozen=True, gc=False):
    """Work on a session, from where its attempt stands. `any_success`: the endpoint has answered before."""

    session: int
    work: bytes
    attempt: Attempt
    any_success: bool


class Recorded(Message, frozen=True, gc=False):
    """The events are durable and folded. `waited_s`: so long the run was held back before."""

    session: int
    number: int
    time_ns: int
    waited_s: float
    any_success: bool


class Refused(Message, frozen=True, gc=False):
    """The request is not to be sent: the run is ending, or `unsendable` says why it never can be."""

    session: int
    number: int
    waited_s: float
    unsendable: tuple[str, str, bool] | None


class Failed(Message, frozen=True, gc=False):
    """Nothing could be recorded, and the session is over."""

    session: int
    number: int
    message: str


class Cancel(Message, frozen=True, gc=False):
    """End a session: what is on its way is abandoned, and recorded as such."""

    session: int


FromWorker = Reserve | Record | Withdraw | Over | Pause | Stop | Note | Kept | Ended
FromDriver = Begin | Recorded | Refused | Failed | Cancel | Stop

_encoder = msgspec.msgpack.Encoder()
_from_worker = msgspec.msgpack.Decoder(FromWorker)
_from_driver = msgspec.msgpack.Decoder(FromDriver)


class NotUnderstood(Exception):
    """Bytes that are no message."""


def to_bytes(message: Message) -> bytes:
    """A message as it is carried."""
    return _encoder.encode(message)


def from_worker(data: bytes) -> FromWorker:
    """What a worker says.

    Raises:
        NotUnderstood: it is none of its messages.
    """
    try:
        return _from_worker.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotUnderstood(str(error)) from error


def from_driver(data: bytes) -> FromDriver:
    """What the driver says; it is believed."""
    return _from_driver.decode(data)
