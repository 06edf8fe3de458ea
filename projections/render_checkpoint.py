"""checkpoint.json: where the run stood at one position of its log."""

from collections.abc import Iterator

from .batch import BatchState
from .jsontext import json_bytes
from .status import counts_of
from .unit_table import FrozenOutcomes

_ENTRIES_A_CHUNK = 2048


def render_checkpoint(batch: BatchState, chain_sequence: int, chain: bytes) -> Iterator[bytes]:
    """The file in chunks, one line for each finished prompt, in the order of planning.

    What may change of the state is copied now, in little time; the chunks may be made in another thread while
    the fold goes on.

    `chain` is the log's chain value where the commit ends whose last event is `chain_sequence`; that is the
    state's own sequence, unless the state stands for the middle of a commit.
    """
    head = {
        "run_name": batch.run,
        "sequence": batch.sequence,
        "chain": chain.hex(),
        "chain_sequence": chain_sequence,
        "counts": counts_of(batch),
    }
    return _chunks(json_bytes(head)[:-1] + b',"completed":[', batch.units.outcomes_now())


def _chunks(head: bytes, outcomes: FrozenOutcomes) -> Iterator[bytes]:
    lines = [head]
    separator = b"\n"
    for unit in outcomes.ended():
        # Ids, batches and outcomes need no escaping.
        lines.append(
            b'%b{"prompt_id":"%b","sample":%d,"batch":%d,"outcome":"%b"}'
            % (separator, unit.prompt_id.encode(), unit.sample, unit.batch, unit.outcome.encode())
        )
        separator = b",\n"
        if len(lines) >= _ENTRIES_A_CHUNK:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines) + b"\n]}\n"
