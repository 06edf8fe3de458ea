"""A run's plan, as tests make and change it."""

import json

from eventlog.events import Counts, PromptStarted, Recorded, RunStarted, TrajectoryCompleted
from evrun.batch.dataset import Row
from evrun.batch.identities import content_id
from evrun.batch.opening import comparison, first_plan, further_plan, replanned, scan_dataset
from evrun.batch.plan import Numbering, plan, scan
from evrun.batch.settings import Settings
from projections import BatchState, unit_name


def lines_of(values):
    """Rows as the reader gives them."""
    return [Row(n, value, json.dumps(value).encode()) for n, value in enumerate(values, 1)]


def prompts(*texts):
    """Rows of these prompts."""
    return [{"prompt": text} for text in texts]


def planned_rows(values, batch_size=2, samples=1):
    """All planned rows of a first planning."""
    events = plan(
        lines_of(values), scan(lines_of(values), None), None, Numbering(0, 1, 0, batch_size), samples
    )
    return [row for event in events for row in event.rows]


class Planner:
    """A run's plan, brought up to one dataset after the other through a real file and the real fold."""

    def __init__(self, path, batch_size=2, samples=1):
        self.path = path
        self.settings = Settings(dataset=str(path), model="m", batch_size=batch_size, samples=samples)
        self.state = BatchState()
        self.sequence = 0
        self.apply(RunStarted("batch", "r", {"model": "m"}, {}, {}, []))

    def apply(self, event):
        """Fold an event."""
        self.sequence += 1
        self.state.apply(Recorded(self.sequence, self.sequence, 1, event))

    def write(self, values):
        """The dataset, from now on."""
        self.path.write_bytes(b"".join(line.raw + b"\n" for line in lines_of(values)))

    def first(self, values, stop_after=None):
        """Plan a new run, perhaps only its first events."""
        self.write(values)
        scanned = scan_dataset(self.path, self.settings, skip_bad_rows=False)
        for number, event in enumerate(first_plan(self.path, self.settings, scanned)):
            if number == stop_after:
                break
            self.apply(event)

    def further(self, values):
        """Resume with a dataset; the comparison, and the events."""
        self.write(values)
        scanned = scan_dataset(self.path, self.settings, skip_bad_rows=False)
        compared = comparison(scanned, self.state, self.settings)
        planned = further_plan(self.path, self.settings, self.state, scanned, compared)
        events = list(replanned(self.state, compared))
        for event in events:
            self.apply(event)
        for event in planned:
            self.apply(event)
            events.append(event)
        assert self.state.unexplained == 0
        return compared, events

    def end(self, unit):
        """A unit is kept."""
        self.apply(PromptStarted(unit, 1, [], b"s"))
        counts = Counts(1, 1, 0, None, {})
        self.apply(
            TrajectoryCompleted(unit, 1, completed=True, partial=False, finish_reason="stop", counts=counts)
        )

    def places(self):
        """Unit -> (index, batch, sample, outcome)."""
        return {n: (u.index, u.batch, u.sample, u.outcome) for n, u in self.state.units.items()}


def name(text, occurrence=1, sample=1):
    """The unit of a prompt."""
    return unit_name(content_id({"prompt": text}), occurrence, sample)
