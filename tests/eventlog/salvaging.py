"""What must hold of every salvage, whatever became of the log."""

from collections import Counter

from eventlog.storage import Gap, salvage, verify

from .logs import Unsynced


def salvaged(directory, **options):
    """All that is found in a log: the commits, and the gaps, each a list."""
    options.setdefault("filesystem", Unsynced())
    items = list(salvage(directory, **options))
    return [item for item in items if not isinstance(item, Gap)], [i for i in items if isinstance(i, Gap)]


def check(directory, events, **options):
    """Look at a damaged log that held `events`; give the gaps, and the proofs with how many have each.

    Nothing is found that was not written, in another order, or twice. What is not found lies in a gap. What
    is proven is the beginning. A log that opens is whole, and a salvage without a gap has all that was there.
    """
    options.setdefault("filesystem", Unsynced())
    following, proven, proofs, gaps = 1, True, Counter(), []
    for item in salvage(directory, **options):
        assert not gaps or gaps[-1].to_sequence is not None, "nothing comes after an end that nobody knows"
        if isinstance(item, Gap):
            assert item.from_sequence == following
            assert item.missing is None or item.missing >= 0
            assert item.why
            following = following if item.to_sequence is None else item.to_sequence + 1
            proven = proven and item.missing == 0
            gaps.append(item)
            continue
        for record in item.records:
            assert (record.sequence, record.payload) == (following, events[following - 1])
            following += 1
        proofs[item.proof] += len(item.records)
        assert item.proven <= proven
        proven = item.proven
    open_end = bool(gaps) and gaps[-1].to_sequence is None
    assert following == len(events) + 1 or open_end
    if verify(directory, filesystem=options["filesystem"]).opens:
        assert gaps == []
    if not gaps:
        assert proofs == {"chain": len(events)}
    return gaps, proofs
