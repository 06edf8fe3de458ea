"""The verdict on a log: one numbered procedure.

V, the chain of whole frames, is what is there. W, the largest sequence that any evidence promises durable, is
what must be there. Evidence can lag behind what is durable and never leads it, so after any legal crash W <=
end(V).
"""

from ..errors import LogUnreadable, LogUnsupported, Problem
from .scan import Evidence
from .survey import Survey
from .verdict import Kind, Position, Verdict

_LISTINGS = 3  # how often a name may go away between being listed and being opened


def examine(survey: Survey, *, live: bool, anchor: Position | None = None) -> Verdict:
    """Classify the log and bring the survey up to date. Nothing is changed; damage is never raised.

    `live` says that another process holds the lock: then what it is writing just now is no evidence of
    anything.
    """
    missed = 0
    while missed < _LISTINGS:
        try:
            return _examine(survey, live=live, anchor=anchor)
        except FileNotFoundError as error:
            gone = error
            # A writer beside us compresses one segment after the other, each of them once: that has an end.
            missed += not survey.compressed_since(error)
        except LogUnsupported as error:
            return _verdict(survey, "unsupported", error.problem or survey.problem(str(error)))
        except LogUnreadable as error:
            return _verdict(survey, "unreadable", error.problem and _with_message(error))
    return _verdict(survey, "lost", survey.problem(f"a file of the log has gone: {gone.filename or gone}"))


def _examine(survey: Survey, *, live: bool, anchor: Position | None) -> Verdict:
    # 0. A survey that is taken up again looks on from what was durable; a fresh one from the empty log.
    survey.resume()
    if anchor is not None:
        survey.marks.add(anchor)

    # 1. Read HEAD before all else: a live writer can since only have moved ahead of what it says.
    survey.read_head()

    # 2. List the segments and read every header. Each whole one promises what its predecessor held.
    survey.read_headers()

    # 3. Walk the segments in the order of their numbers, each exactly to where its successor says that it
    # ended.
    problem = _walk_segments(survey)

    # 4. In the last segment, every byte behind the end is looked at: for promises, and for what a crash left.
    evidence = Evidence()
    if problem is None and not live and survey.catalog.segments:
        evidence = survey.look_behind()
        survey.promised = max(survey.promised, evidence.promised_sequence)

    # 5. What HEAD names must be met with the chain value that it names.
    if problem is None:
        problem = _head_problem(survey)

    # 6. W > end: durable events are gone. Only a read-only look, explicitly asked for, goes on from here.
    if problem is None and survey.promised > survey.end.sequence:
        problem = survey.problem("no whole commit follows there")
    if problem is not None:
        return _verdict(survey, "lost", problem)

    # 7. The log is whole. An anchor from elsewhere has the last word.
    survey.settle(live=live)
    if anchor is not None:
        what = _anchor_problem(survey, anchor)
        if what is not None:
            return _verdict(survey, "tampered", what)
    return _verdict(survey, "torn" if evidence.torn_bytes else "clean", None, evidence.torn_bytes)


def _walk_segments(survey: Survey) -> Problem | None:
    """Walk on from where the survey stands, into every new segment; stop at the first that does not fit."""
    if survey.catalog.segments:
        problem = _walk_to(survey, 0)
        if problem is not None:
            return problem
    for at, found in enumerate(survey.found):
        what = survey.next_problem(found)
        if what is not None:
            return survey.problem(what, found.name.name)
        survey.enter(found)
        problem = _walk_to(survey, at + 1)
        if problem is not None:
            return problem
    return None


def _walk_to(survey: Survey, next_at: int) -> Problem | None:
    """Walk the newest segment; with a successor it must end exactly where, and as, that one's header says."""
    successor = survey.found[next_at] if next_at < len(survey.found) else None
    header = None
    if successor is not None and survey.next_problem(successor) is None:
        header = successor.header
    why = survey.walk_last(header)
    end = survey.end
    if header is None or (end.offset_bytes, end.sequence, end.chain) == (
        header.previous_offset_bytes,
        header.previous_sequence,
        header.previous_chain,
    ):
        return None
    expected = f"its successor says that it ends at byte {header.previous_offset_bytes}"
    return survey.problem(f"{why}, and {expected} with event {header.previous_sequence}")


def _head_problem(survey: Survey) -> Problem | None:
    """What HEAD says against the segments, as far as they reach."""
    for _, head in survey.heads:
        if survey.catalog.segments and head.log_id != survey.log_id:
            return survey.problem("HEAD belongs to another log")
        behind = head.sequence < survey.durable.sequence  # looked at before
        if (
            not behind
            and head.sequence <= survey.end.sequence
            and Position(head.sequence, head.chain) not in survey.met
        ):
            return survey.problem(
                f"HEAD knows another chain value at event {head.sequence} than the segments"
            )
    return None


def _anchor_problem(survey: Survey, anchor: Position) -> Problem | None:
    """What the anchor says against the log, or None."""
    if anchor in survey.met:
        return None
    if anchor.sequence > survey.end.sequence:
        found = f"it ends at event {survey.end.sequence}"
    else:
        found = f"it has another history up to event {anchor.sequence}"
    return survey.problem(
        f"{found}, and the anchor was taken at event {anchor.sequence}, {anchor.chain.hex()}"
    )


def _verdict(survey: Survey, kind: Kind, problem: Problem | None, torn_bytes: int = 0) -> Verdict:
    place = survey.end if kind == "lost" else survey.durable
    position = Position(place.sequence, place.chain)
    segments = len(survey.catalog.segments)
    return Verdict(kind, position, segments, sum(survey.sizes.values()), torn_bytes, problem)


def _with_message(error: LogUnreadable) -> Problem:
    """The problem of an unreadable log, with the whole sentence."""
    assert error.problem is not None
    return Problem(error.problem.segment, error.problem.offset_bytes, 0, 0, str(error))
