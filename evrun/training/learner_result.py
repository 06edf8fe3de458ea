"""What a learner gave, looked at: only what the run can use goes on, and money is counted on every path."""

import json
import math
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any, NamedTuple

from eventlog.events import LearnerUsage
from projections import loads_lenient

from ..effects.secrets import Redactor
from .authoring import USAGE_FILE

METHODS = ("setup", "bootstrap", "step", "finalize")
STATUSES = ("done", "failed", "out_of_budget", "stop")
LOG_FILE = "learner.log"
LARGEST_LOG = 1 << 20
"""Of a longer log the first and the last half of this are kept."""
LARGEST_USAGE = 8 << 20
LONGEST_TEXT = 100_000
_MOST = 1 << 62


class Returned(NamedTuple):
    """How a call ended. Where `in_order` is false it died, was stopped at its deadline, or gave nonsense.

    Its files do not count then, and `status` is "failed", with `error` saying why. `extra` is any JSON value;
    of `finalize` it is ``{"step": N}`` where the learner chose a step's adapter, ``{"adapter": "chosen"}``
    where it chose the working copy as it is now, and `summary` is its text.

    With `paused` the run is ending and the call is not over: nothing is to be recorded of its end, and the
    next session calls again under the same number. With `diverged` it asked something else than an earlier
    session had recorded: the attempt is superseded, and the next number begins anew.
    """

    status: str
    summary: str
    rationale: str
    session: str | None
    usage: list[LearnerUsage]
    extra: Any
    error: str | None
    in_order: bool
    paused: bool = False
    diverged: bool = False


class Nonsense(Exception):
    """What a learner gave cannot be used, and why."""


def returned(raw: dict[str, Any], output: Path, redactor: Redactor) -> Returned:
    """What a learner gave back, once it is known to be usable; else a failure that says what is wrong."""
    try:
        return _checked(raw, output, redactor)
    except Nonsense as problem:
        return failed(str(problem), output, redactor, raw.get("usage"))


def failed(why: str, output: Path, redactor: Redactor, usage: Any = None) -> Returned:
    """The end of a call whose files do not count; what it said of its spending does."""
    said = redactor.clean_text(_sound(why))[:LONGEST_TEXT]
    found = noted(output) if usage is None else _as_far_as_known(usage)
    return Returned("failed", "", "", None, found, None, said, in_order=False)


def late(call: str, timeout_s: float) -> str:
    """What is said of a call that was stopped at its deadline."""
    return f"the learner's {call} was stopped: not done within {timeout_s:g} s (trainer.call_timeout_min)"


def noted(output: Path) -> list[LearnerUsage]:
    """What a learner noted of its spending while it was going on, with all that died with it."""
    try:
        with (output / USAGE_FILE).open("rb") as file:
            lines = file.read(LARGEST_USAGE).splitlines()
    except OSError:
        return []
    found = []
    for line in filter(bytes.strip, lines):
        try:
            found += _as_far_as_known([loads_lenient(line)])
        except ValueError:
            # A line that was cut when it died: something was spent, nobody knows how much.
            found.append(LearnerUsage("", None, None, None, None, None))
    return found


def usage_of(given: Any) -> list[LearnerUsage]:
    """What a learner says that it used.

    Raises:
        Nonsense: a field is no number that a count, or an amount of money, can be.
    """
    if not isinstance(given, list):
        raise Nonsense(f"the learner's usage is {given!r:.100}; expected a list")
    return [_usage(one, number) for number, one in enumerate(given)]


def tidy_log(output: Path, redactor: Redactor) -> None:
    """Keep secrets out of a learner's log, and its middle where it is too long."""
    path = output / LOG_FILE
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            data = file.read(LARGEST_LOG // 2 if size > LARGEST_LOG else LARGEST_LOG)
            if size > LARGEST_LOG:
                file.seek(-(LARGEST_LOG // 2), 2)
                gap = b"\n... %d bytes are left out here ...\n" % (size - LARGEST_LOG)
                data += gap + file.read()
        clean = redactor.clean(data)
        if clean is not data or size > LARGEST_LOG:
            path.write_bytes(clean)
    except OSError:
        return


def _checked(raw: dict[str, Any], output: Path, redactor: Redactor) -> Returned:
    status, session, usage = raw.get("status"), raw.get("session"), raw.get("usage")
    if status not in STATUSES:
        raise Nonsense(f"the learner's status is {status!r:.100}; there is {', '.join(STATUSES)}")
    if not isinstance(session, str | None):
        raise Nonsense(f"the learner's session is {session!r:.100}; expected a text")
    return Returned(
        str(status),
        _text(raw, "summary", redactor),
        _text(raw, "rationale", redactor),
        None if session is None else redactor.clean_text(_sound(session)),
        noted(output) if usage is None else usage_of(usage),
        _clean(raw.get("extra"), redactor),
        None,
        in_order=True,
    )


def _as_far_as_known(given: Any) -> list[LearnerUsage]:
    """As `usage_of`, for what comes with a failure: a field that makes no sense is not known."""
    found = []
    for one in given if isinstance(given, list) else [given]:
        try:
            found.append(_usage(one, 0))
        except Nonsense:
            model = one.get("model") if isinstance(one, dict) else ""
            found.append(LearnerUsage(str(model or ""), None, None, None, None, None))
    return found


def _usage(one: Any, number: int) -> LearnerUsage:
    if not isinstance(one, dict):
        raise Nonsense(f"the learner's usage[{number}] is {one!r:.100}; expected a Usage")
    where = f"usage[{number}]."
    return LearnerUsage(
        _sound(str(one.get("model") or ""))[:1000],
        _count(one, "input_tokens", where),
        _count(one, "cached_input_tokens", where),
        _count(one, "output_tokens", where),
        _count(one, "calls", where),
        _nano(one.get("cost_usd"), f"{where}cost_usd"),
    )


def _count(one: dict[str, Any], name: str, where: str) -> int | None:
    value = one.get(name)
    if value is None:
        return None
    whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not whole or value != int(value) or not 0 <= value < _MOST:
        raise Nonsense(f"the learner's {where}{name} is {value!r:.100}; expected a whole number, or null")
    return int(value)


def _nano(value: Any, name: str) -> int | None:
    """USD as nano-USD, rounded up; a float as the decimal number that it is written as."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise Nonsense(f"the learner's {name} is {value!r:.100}; expected an amount in USD, or null")
    nano = int((Decimal(repr(value)) * 10**9).to_integral_value(ROUND_CEILING))
    if nano >= _MOST:
        raise Nonsense(f"the learner's {name} is {value!r:.100}; expected an amount in USD, or null")
    return nano


def _text(raw: dict[str, Any], name: str, redactor: Redactor) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Nonsense(f"the learner's {name} is {value!r:.100}; expected a text")
    return redactor.clean_text(_sound(value))[:LONGEST_TEXT]


def _clean(extra: Any, redactor: Redactor) -> Any:
    if extra is None:
        return None
    text = json.dumps(extra)
    clean = redactor.clean_text(text)
    return extra if clean is text else json.loads(clean)


def _sound(text: str) -> str:
    """A text that UTF-8 can carry: half of a pair, as JSON can have it, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
