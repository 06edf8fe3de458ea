"""Event <-> bytes, and the only place where old shapes are brought up to date.

An event is the msgpack array ``[type, schema_version, data]``. Decoding gates on the version first:
msgspec would drop unknown trailing fields without a word.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import MalformedEvent, UnknownEvent
from . import batch, run, spend, training
from .base import Event

EVENT_TYPES: tuple[type[Event], ...] = (
    run.RunStarted,
    run.SessionOpened,
    run.SessionClosed,
    run.SettingsChanged,
    run.RunFinished,
    batch.PromptsPlanned,
    batch.RowsSkipped,
    batch.PromptsWithdrawn,
    batch.PromptStarted,
    batch.ModelAsked,
    batch.ModelAnswered,
    batch.ModelCallFailed,
    batch.ToolStarted,
    batch.ToolFinished,
    batch.AttemptSuperseded,
    batch.TrajectoryCompleted,
    batch.TrajectoryDiscarded,
    batch.TrajectoryJudged,
    batch.TrajectoryRestored,
    batch.TrajectoryImported,
    batch.PromptFailed,
    spend.BudgetReserved,
    spend.BudgetSpent,
    spend.BudgetReleased,
    spend.SpendInDoubt,
    spend.SpendCorrected,
    spend.BudgetChanged,
    spend.BudgetExhausted,
    *training.TRAINING_EVENTS,
)

# (type, version) -> the data of that version as the data of the next one. Pure, one step each. Empty while
# every type is at its first version.
UPCASTERS: dict[tuple[str, int], Callable[[list[Any]], list[Any]]] = {}

_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[str, int, msgspec.Raw])
_by_name = {kind.__name__: kind for kind in EVENT_TYPES}
_decoders = {kind.__name__: msgspec.msgpack.Decoder(kind) for kind in EVENT_TYPES}
# How the bytes of each type begin in its newest version: all but the data, which is one byte here.
_by_head = {_encoder.encode((kind.__name__, kind.VERSION, None))[:-1]: kind for kind in EVENT_TYPES}
# A head is an array's first byte, the name's length in one byte with these bits, the name, and the version.
_NAME_BITS = 0xA0
_AROUND_NAME = 3


def encode_event(event: Event) -> bytes:
    """The bytes of an event. The same event gives the same bytes, anywhere.

    Raises:
        UnicodeEncodeError: a string field holds a lone surrogate; such text belongs into a bytes field.
    """
    kind = type(event)
    return _encoder.encode((kind.__name__, kind.VERSION, event))


def event_type(payload: bytes) -> str:
    """The type name of an event's bytes, without decoding its data.

    Raises:
        MalformedEvent: the bytes are no event.
    """
    return _open(payload)[0]


def event_kind(payload: bytes) -> type[Event] | None:
    """The type of an event's bytes, told by how they begin; null where only `decode_event` can say.

    So it is for old versions, for what a newer program wrote, and for bytes that are no event.
    """
    if len(payload) < _AROUND_NAME:
        return None
    return _by_head.get(payload[: payload[1] - _NAME_BITS + _AROUND_NAME])


def decode_event(payload: bytes) -> Event:
    """The event of its bytes, in the newest shape of its type.

    Raises:
        UnknownEvent: the type or its version is newer than this program.
        MalformedEvent: the bytes are no event, or its data are not what its type says.
    """
    name, version, data = _open(payload)
    kind = _by_name.get(name)
    if kind is None:
        raise UnknownEvent(f"event type {name!r} is not known to this evrun; upgrade evrun to read this log")
    if version != kind.VERSION:
        data = _upcast(name, version, kind.VERSION, data)
    try:
        return _decoders[name].decode(data)
    except msgspec.DecodeError as error:
        raise MalformedEvent(f"{name} version {version}: {error}") from error


def _open(payload: bytes) -> tuple[str, int, msgspec.Raw]:
    try:
        return _envelope.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedEvent(
            f"not an event: expected [type, version, data], found {payload[:32]!r}"
        ) from error


def _upcast(name: str, version: int, newest: int, data: msgspec.Raw) -> msgspec.Raw:
    if not 1 <= version <= newest:
        raise UnknownEvent(
            f"{name} version {version} is not known to this evrun (it knows 1 to {newest}); "
            "upgrade evrun to read this log"
        )
    fields: list[Any] = msgspec.msgpack.decode(data)
    for step in range(version, newest):
        fields = UPCASTERS[name, step](fields)
    return msgspec.Raw(_encoder.encode(fields))
