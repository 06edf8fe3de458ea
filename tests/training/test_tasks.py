"""Tasks, splits, the order of epochs, and the digests that a resume compares."""

import random

import pytest

from evrun.errors import UsageFault
from evrun.training.blobs import Content
from evrun.training.inputs import input_digests
from evrun.training.tasks import chunks, epoch_order, load_tasks, steps_total
from tests.training.configured import config_in

TEMPLATE = {"ADAPTER.md": Content(b"x\n")}


def loaded(tmp_path, tasks, train="a\nb\n", **splits):
    """The tasks of these files' contents."""
    files = {
        "tasks.jsonl": tasks,
        "train.txt": train,
        **{f"{name}.txt": text for name, text in splits.items()},
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_tasks(config_in(tmp_path, *(f"data.{name}={name}.txt" for name in splits)))


AB = '{"id": "a", "n": 1}\n{"id": "b"}\n'


def test_tasks_and_splits_are_read_as_they_are_written(tmp_path):
    """Rows stay whole; ids may be texts, numbers, or `task_id`; comments and empty lines are none."""
    rows = (
        '\ufeff{"id": "a", "n": 1}\n\n{"task_id": "HumanEval/0", "x": "\u2028"}\n{"id": 7}\r\n{"id": "c d"}'
    )
    tasks = loaded(tmp_path, rows, "# first\nc d\n\n  a\r\n", val="7\n", test="\ufeffHumanEval/0")
    assert tasks.rows["a"] == {"id": "a", "n": 1}
    assert tasks.rows["HumanEval/0"] == {"task_id": "HumanEval/0", "x": "\u2028"}
    assert (tasks.train, tasks.val, tasks.test) == (["c d", "a"], ["7"], ["HumanEval/0"])


@pytest.mark.parametrize(
    ("tasks", "splits", "said"),
    [
        ('{"id": "a"}\n{"id": "a"}\n', {}, "line 2: the id 'a' is that of line 1 as well"),
        ('{"id": "a"}\n{}\n', {}, "line 2: it has no id"),
        ('{"id": ""}\n', {}, "line 1: its id is ''"),
        ('{"id": " a"}\n', {}, "line 1: its id is ' a'"),
        ('{"id": "#a"}\n', {}, "line 1: its id is '#a'"),
        ('{"id": "a/judge"}\n', {}, "line 1: its id is 'a/judge'"),
        ('{"id": 1.5}\n', {}, "line 1: its id is 1.5"),
        ('{"id": true}\n', {}, "line 1: its id is True"),
        ('{"id": "a"}\n{"id": "b"\n', {}, "line 2: no JSON"),
        ('{"id": "a", "n": NaN}\n', {}, "line 1: no JSON"),
        ('["a"]\n', {}, "line 1: expected a JSON object"),
        ("\n\n", {}, "holds no task"),
        (b'{"id": "\xff"}\n', {}, "not UTF-8"),
        (AB, {"train": "# nothing\n"}, "data.train .*train.txt: it names no task"),
        (AB, {"train": "a\nab\n"}, "train.txt, line 2: there is no task 'ab'"),
        (AB, {"train": "a\n\na\n"}, "train.txt, line 3: the task 'a' is on line 1 as well"),
        (AB, {"val": ""}, "data.val .*val.txt: it names no task"),
        (AB, {"train": "a\n", "val": "b\n", "test": "b\n"}, "data.test .*: the task 'b' is in data.val too"),
        (AB, {"test": "a\nb\n"}, "the task 'a' and 1 more is in data.train too"),
    ],
)
def test_what_is_wrong_with_tasks_is_told_by_file_and_line(tmp_path, tasks, splits, said):
    """Ids twice or missing, no JSON, unknown or doubled or shared tasks, empty files."""
    with pytest.raises(UsageFault, match=said):
        loaded(tmp_path, tasks, **splits)


def test_many_bad_lines_are_counted(tmp_path):
    """Five are shown, and how many there are besides."""
    with pytest.raises(UsageFault, match=r"line 5: .*; and 3 more"):
        loaded(tmp_path, "{}\n" * 8)
    (tmp_path / "tasks.jsonl").unlink()
    config = config_in(tmp_path)
    (tmp_path / "tasks.jsonl").unlink()
    with pytest.raises(UsageFault, match=r"data.tasks .*tasks.jsonl: No such file"):
        load_tasks(config)


def test_an_epoch_is_shuffled_as_python_does_with_its_seed(tmp_path):
    """Epoch e has the order of Random(seed + e), the file's order without shuffling, and no task is lost."""
    config = config_in(tmp_path, "data.shuffle_seed=5", "data.step_size=3", "trainer.epochs=2", tasks=8)
    train = load_tasks(config).train
    for epoch in (1, 2):
        expected = list(train)
        random.Random(5 + epoch).shuffle(expected)
        assert epoch_order(train, config, epoch) == expected
    assert [len(chunk) for chunk in chunks(train, 3)] == [3, 3, 2]
    assert steps_total(config, train) == 6
    assert epoch_order(train, config_in(tmp_path, "data.shuffle=false"), 1) == train


def test_every_input_has_a_digest_that_follows_its_content(tmp_path):
    """Files, the directory of task_info, the template, code and what it imports beside it; no built-ins."""
    (tmp_path / "agent.py").write_text("import helpers, json\nfrom pack.inner import x\ndef run(): ...\n")
    (tmp_path / "helpers.py").write_text("from . import other\nimport deeper\n")
    (tmp_path / "deeper.py").write_text("import agent\n")
    (tmp_path / "unused.py").write_text("")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/inner.py").write_text("from ..helpers import y\nfrom .near import z\n")
    (tmp_path / "pack/near.py").write_text("")
    (tmp_path / "info/deep").mkdir(parents=True)
    (tmp_path / "info/deep/README.md").write_text("read me")
    config = config_in(tmp_path, "task_info=info", "evolver=command:python learner.py 'agent.py'")
    before = {one.name: one for one in input_digests(config, TEMPLATE)}
    assert sorted(before) == [
        "agent.name", "agent.name/deeper.py", "agent.name/helpers.py", "agent.name/pack/__init__.py",
        "agent.name/pack/inner.py", "agent.name/pack/near.py", "data.tasks", "data.train", "evolver.name",
        "evolver.name/agent.py", "judge.path", "task_info", "template",
    ]  # fmt: skip
    assert before["task_info"].size_bytes == 7
    (tmp_path / "deeper.py").write_text("import agent \n")
    (tmp_path / "info/deep/README.md").rename(tmp_path / "info/README.md")
    after = {one.name: one for one in input_digests(config, {"ADAPTER.md": Content(b"y\n")})}
    changed = sorted(name for name in after if after[name].sha256 != before[name].sha256)
    assert changed == ["agent.name/deeper.py", "task_info", "template"]
    built_in = config_in(tmp_path, "agent=chat", "judge=exact", "evolver=reflect")
    assert [one.name for one in input_digests(built_in, TEMPLATE)] == ["data.tasks", "data.train", "template"]


def test_code_of_an_importable_module_has_a_digest(tmp_path):
    """`MODULE:NAME` is found where Python would find it, without being run."""
    config = config_in(tmp_path, "agent=json.tool:main", "evolver=colorsys:Learner")
    names = {one.name: one.path.rpartition("/")[2] for one in input_digests(config, TEMPLATE)}
    assert (names["agent.name"], names["evolver.name"]) == ("tool.py", "colorsys.py")


def test_an_input_that_cannot_be_read_is_named(tmp_path):
    """A path of the configuration that leads nowhere."""
    for override, said in (
        ("task_info=nowhere", "task_info .*no such directory"),
        ("judge=no.py", "judge.path"),
    ):
        with pytest.raises(UsageFault, match=said):
            input_digests(config_in(tmp_path, override), TEMPLATE)
