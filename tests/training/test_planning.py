"""What a training run does next, from what is recorded: pure, so it can be asked anything."""

from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import (
    EpochStarted,
    FileEntry,
    HistoryStored,
    Recorded,
    RunStarted,
    StepCommitted,
    StepStarted,
)
from evrun.training.config import (
    AgentConfig,
    DataConfig,
    EvolverConfig,
    JudgeConfig,
    SaveFreqConfig,
    TrainerConfig,
    TrainingConfig,
)
from evrun.training.planning import (
    checkpoint_tags,
    choose_final,
    ends_epoch,
    mean_on,
    next_chunk,
    step_with,
    steps_in_all,
)
from projections import RunState, adapter_digest

ids = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=12, unique=True)


def config_of(step_size=2, epochs=2, **trainer):
    """A configuration with these numbers."""
    return TrainingConfig(
        data=DataConfig(tasks="", train="", step_size=step_size),
        agent=AgentConfig(),
        judge=JudgeConfig(),
        template="prompt-only",
        evolver=EvolverConfig(name="reflect"),
        trainer=TrainerConfig(run_name="r", output_dir="o", tree_dir="t", epochs=epochs, **trainer),
    )


class Life:
    """A training run that is recorded, and nothing more."""

    def __init__(self):
        self.state = RunState()
        self.record(RunStarted("training", "r", {}, {}, {}, []))
        self.record(HistoryStored("start", "start", [], complete=True, files=[], root_files=[]))

    @property
    def training(self):
        """What is recorded of the training."""
        return self.state.training

    def record(self, event):
        """An event is durable."""
        self.state.apply(Recorded(self.state.sequence + 1, self.state.sequence + 1, 1, event))

    def begin(self, chunk):
        """A step begins."""
        if chunk.order is not None:
            self.record(EpochStarted(chunk.epoch, chunk.order))
        self.record(StepStarted(chunk.step, chunk.epoch, chunk.tasks, self.training.head))

    def commit(self, chunk):
        """A step is over."""
        self.record(
            StepCommitted(chunk.step, chunk.epoch, "done", None, self.training.head, [], [], None, [], 0)
        )


@given(ids, st.integers(1, 5), st.integers(1, 3))
def test_every_epoch_takes_every_task_once_in_its_recorded_order(train, step_size, epochs):
    """Chunk by chunk, whatever the numbers; the count of steps is known from the beginning."""
    life, config = Life(), config_of(step_size, epochs)
    total = steps_in_all(life.training, train, config)
    taken, steps = {}, 0
    while (chunk := next_chunk(life.training, train, config)) is not None:
        life.begin(chunk)
        assert ends_epoch(life.training, train) == chunk.ends_epoch
        assert steps_in_all(life.training, train, config) == total
        life.commit(chunk)
        steps += 1
        assert chunk.step == steps
        assert steps_in_all(life.training, train, config) == total
        assert 1 <= len(chunk.tasks) <= step_size
        taken.setdefault(chunk.epoch, []).extend(chunk.tasks)
    assert steps == total
    assert taken == life.training.epochs
    assert all(sorted(order) == sorted(train) for order in taken.values())
    assert list(taken) == list(range(1, epochs + 1))


@given(ids, st.integers(1, 4), st.data())
def test_a_changed_split_trains_nothing_twice_in_an_epoch(train, step_size, data):
    """Tasks that are gone are passed over, new ones come in the next epoch, whatever was done before."""
    life, config = Life(), config_of(step_size, epochs=2)
    first = next_chunk(life.training, train, config)
    life.begin(first)
    life.commit(first)
    kept = data.draw(st.lists(st.sampled_from(train), min_size=1, unique=True))
    now = [*kept, "new"]
    seen = list(first.tasks)
    while (chunk := next_chunk(life.training, now, config)) is not None:
        life.begin(chunk)
        life.commit(chunk)
        if chunk.epoch == 1:
            seen += chunk.tasks
    assert len(seen) == len(set(seen))
    assert "new" not in seen
    assert set(seen) == set(first.tasks) | set(kept)
    assert "new" in life.training.epochs[2]


def test_checkpoints_are_tagged_as_often_as_was_asked():
    """Every so many steps, and at the end of every so many epochs."""
    config = config_of(save_freq=SaveFreqConfig(steps=2, epochs=2))
    assert checkpoint_tags(1, 1, config, ends=False) == []
    assert checkpoint_tags(2, 1, config, ends=True) == ["ckpt-step-2"]
    assert checkpoint_tags(4, 2, config, ends=True) == ["ckpt-step-4", "ckpt-epoch-2"]
    never = config_of(save_freq=SaveFreqConfig(steps=None, epochs=None))
    assert checkpoint_tags(4, 2, never, ends=True) == []


def test_a_mean_needs_every_task():
    """An adapter that was tried on some of the tasks cannot be compared with one that was tried on all."""
    assert mean_on({"a": 1.0, "b": 0.5}, ["a", "b"]) == 0.75
    assert mean_on({"a": 1.0}, ["a", "b"]) is None
    assert mean_on({}, []) is None


def test_the_best_on_validation_is_final_and_of_equals_the_latest():
    """By scores that are recorded, else the last one; what the learner wants counts more."""
    life = Life()
    training = life.training
    assert choose_final(training, "start", ["v"], None)[:3] == (0, "start", "last")
    training.adapters = {"start": "d0"}
    training.trials = {"d0": {"v": 0.5}}
    assert choose_final(training, "start", ["v"], None) == (0, "start", "best", 0.5)
    assert choose_final(training, "start", [], None).how == "last"
    assert choose_final(training, "start", ["v"], 7).how == "best"
    assert choose_final(training, "start", ["v"], 0).how == "learner"


def test_an_adapter_is_known_again_as_that_of_the_newest_step_that_has_it():
    """By its files, but for evrun's own account in it; one that no step has is none."""
    life, config = Life(), config_of(step_size=1, epochs=1)
    for _ in range(2):
        chunk = next_chunk(life.training, ["a", "b"], config)
        life.begin(chunk)
        life.commit(chunk)
    files = [FileEntry("ADAPTER.md", b"d", 1), FileEntry("CARD.md", b"c", 1)]
    assert step_with(life.training, "start", files) is None
    life.training.adapters = {"start": adapter_digest(files[:1])}
    assert step_with(life.training, "start", files) == 2
