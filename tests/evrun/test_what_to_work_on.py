"""Which units a session works on: found while it goes on, each once."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import AttemptSuperseded, PromptsWithdrawn
from evrun.batch.opening import units_to_retry, units_to_work_on
from evrun.batch.options import Options
from projections import RunState
from tests.projections.histories import (
    begun,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    records,
    started,
)

ENDS = {"kept": kept, "discarded": discarded, "failed": failed}
COUNT = 6


class Run:
    """A run's state, with some units in some outcomes."""

    def __init__(self, outcomes, gone=()):
        self.commits = []
        self.state = RunState()
        self.fold(started(), planned(len(outcomes)))
        for number, outcome in enumerate(outcomes):
            if outcome != "pending":
                self.fold(begun(name_of(number)))
            if outcome in ENDS:
                self.fold(ENDS[outcome](name_of(number)))
        if gone:
            self.fold(PromptsWithdrawn([name_of(number) for number in gone]))

    def fold(self, *events):
        """These are durable."""
        self.commits.append(list(events))
        for record in records(self.commits)[-len(events) :]:
            self.state.apply(record)

    def units(self, **options):
        """What there is to do."""
        return units_to_work_on(self.state.batch, options_of(**options))


def options_of(**options):
    """The options of a resume."""
    return Options(run_name="r", output_dir=Path(), resume=True, **options)


def names(*numbers):
    """The units of these rows."""
    return [name_of(number) for number in numbers]


def test_open_units_come_first_then_the_others_as_they_were_planned():
    """What an earlier session left open goes on before anything new is begun."""
    run = Run(["pending", "failed", "kept", "open", "discarded", "pending"])
    assert list(run.units()) == names(3, 0, 5)
    assert list(run.units(retry_failed=True)) == names(3, 0, 1, 5)
    assert list(run.units(retry_failed=True, retry_discarded=True)) == names(3, 0, 1, 4, 5)
    assert list(units_to_retry(run.state.batch, options_of(retry_discarded=True))) == names(4)


def test_what_was_withdrawn_is_not_given_another_attempt():
    """Its row is gone, whatever became of it before."""
    run = Run(["failed", "discarded", "pending", "failed"], gone=[0, 1, 2])
    both = {"retry_failed": True, "retry_discarded": True}
    assert list(run.units(**both)) == names(3)
    assert list(units_to_retry(run.state.batch, options_of(**both))) == names(3)


def test_a_unit_that_was_open_is_not_given_again_when_it_has_failed_meanwhile():
    """Nor when its attempt is superseded, and it waits for the next one."""
    run = Run(["open", "open", "pending"])
    units = run.units(retry_failed=True)
    assert [next(units), next(units)] == names(0, 1)
    run.fold(failed(name_of(0)))
    run.fold(AttemptSuperseded(name_of(1), 1, "the directory is gone"))
    assert list(units) == names(2)


@given(
    st.lists(st.sampled_from(["pending", "open", *ENDS]), min_size=COUNT, max_size=COUNT),
    st.lists(st.sampled_from([*ENDS, "superseded", "nothing"]), min_size=COUNT, max_size=COUNT),
    st.booleans(),
    st.booleans(),
)
def test_whatever_happens_meanwhile_each_unit_is_given_once(before, meanwhile, retry_failed, retry_discarded):
    """All that there is to do when a session begins, and nothing twice, however its work ends."""
    run = Run(before)
    wanted = {"pending", "open"} | ({"failed"} if retry_failed else set())
    wanted |= {"discarded"} if retry_discarded else set()
    given_names = []
    for name in run.units(retry_failed=retry_failed, retry_discarded=retry_discarded):
        given_names.append(name)
        number = next(n for n in range(COUNT) if name_of(n) == name)
        attempt = 1 if before[number] == "open" else 2
        if before[number] != "open":
            run.fold(begun(name, attempt))
        if meanwhile[number] in ENDS:
            run.fold(ENDS[meanwhile[number]](name, attempt))
        elif meanwhile[number] == "superseded":
            run.fold(AttemptSuperseded(name, attempt, "the node is gone"))
    assert run.state.batch.unexplained == 0
    assert sorted(given_names) == sorted(name_of(n) for n in range(COUNT) if before[n] in wanted)
