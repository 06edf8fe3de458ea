"""run.yaml: which keys there are, what counts, and that nothing in it goes unheard."""

import re

import msgspec
import pytest

from evrun.errors import UsageFault
from evrun.training.backends import KNOWN_FIELDS
from evrun.training.config_file import (
    OPERATIONAL,
    changes_between,
    config_from_record,
    config_record,
    load_config,
    shaping_changes,
)
from evrun.training.config_record import UNRECORDED
from evrun.training.config_values import known_keys
from tests.house import ROOT
from tests.training.configured import PLAIN, config_in, written

EVERY_KEY = """\
data: {tasks: tasks.jsonl, train: train.txt, val: v.txt, test: t.txt, step_size: 3, shuffle: false,
  shuffle_seed: 9}
task_info: info
agent: {name: agent.py:run, concurrency: 2, timeout_min: 1.5, params: {model: m, list: [1, {a: b}]},
  bound: {usd: 0.1}}
judge: {path: judge.py, name: grade, timeout_min: 2, params: {field: gold}}
template: prompt-only@1.0
start_from: first/final
evolver: {name: learner.py:Learner, resume: true, params: {k: null}, bound: {usd: 0, tokens: 5}}
model: mine/m
backends: {mine: {base_url: "http://127.0.0.1:1/v1", prices: {m: {input: 1, output: 2}}}}
llm: {model: mine/m, extra_body: {top_k: 3}}
trainer:
  run_name: whole
  output_dir: out
  tree_dir: trees/all
  epochs: 4
  allow_early_stop: true
  resume_mode: disable
  save_freq: {steps: 2, epochs: null}
  budget: {usd: 5, tokens: 1000000, hours: 1.5, calls: 90, step_usd: 0.5, role_usd: {learner: 1},
    finalize_reserve_usd: 0.25}
  call_timeout_min: 3
  retries: 0
  coverage_min: 0.75
  executor: ray
  ray_address: 127.0.0.1:6379
eval: {repeats: 3}
prices: ["m=1,2,0.5"]
unknown_price: allow
"""


def dropped(config):
    """A configuration without what is said anew for each session."""
    trainer = msgspec.structs.replace(config.trainer, executor="local", ray_address=None)
    return msgspec.structs.replace(config, trainer=trainer)


def refusal(tmp_path, *overrides, text=PLAIN):
    """What is said of a configuration, with the hint."""
    with pytest.raises(UsageFault) as caught:
        config_in(tmp_path, *overrides, text=text)
    return f"{caught.value} [{caught.value.hint}]"


def test_every_key_of_the_file_is_in_the_configuration(tmp_path):
    """A file that says every key otherwise than its default leaves no default in the record."""
    record = config_record(config_in(tmp_path, text=EVERY_KEY))
    plain = config_record(config_in(tmp_path, "trainer.run_name=x"))
    assert sorted(record) == sorted({*known_keys()} - UNRECORDED)
    same = {key for key in record if record[key] == plain[key]}
    assert same == {
        "data.tasks",
        "data.train",
        "agent.name",
        "judge.path",
        "evolver.name",
        "agent.bound.tokens",
    }


def test_a_record_gives_the_configuration_back(tmp_path):
    """What the log holds, through its own encoding, is the configuration again; an older one has defaults."""
    config = config_in(tmp_path, text=EVERY_KEY)
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(config_record(config)))
    assert config_from_record(record) == dropped(config)
    plain = config_in(tmp_path)
    assert config_from_record(config_record(plain)) == plain
    older = {key: value for key, value in config_record(plain).items() if key != "trainer.coverage_min"}
    assert config_from_record(older) == plain


def test_what_was_typed_counts_more_than_the_file(tmp_path):
    """Overrides are YAML: numbers, lists, maps, nothing at all; a whole section, or one key of it."""
    config = config_in(
        tmp_path, "trainer.epochs=7", "trainer.budget={usd: 2}", "agent.params.list=[1, 2]", "task_info=",
        "evolver.params.deep.er=x y", "agent.concurrency=9", "trainer.save_freq.epochs=",
        text=EVERY_KEY,
    )  # fmt: skip
    assert (config.trainer.epochs, config.agent.concurrency, config.task_info) == (7, 9, None)
    assert (config.trainer.budget.usd, config.trainer.budget.hours) == (2.0, None)
    assert config.agent.params == {"model": "m", "list": [1, 2]}
    assert config.evolver.params == {"k": None, "deep": {"er": "x y"}}
    assert config.trainer.save_freq.epochs is None


def test_paths_are_relative_to_the_file_and_variables_are_expanded(tmp_path, monkeypatch):
    """From wherever it is used, a config file names the same files; `~` and $VAR are known."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DATA", "sub")
    (tmp_path / "part.py").write_text("")
    config = config_in(
        tmp_path, "data.train=$DATA/x.txt", "data.val=~/v.txt", "data.test=${DATA}/../t.txt",
        "trainer.output_dir=/abs/out", "agent=command:python part.py --n 3", "evolver=sub/l.py:L",
    )  # fmt: skip
    assert config.data.tasks == str(tmp_path / "tasks.jsonl")
    assert config.data.train == str(tmp_path / "sub/x.txt")
    assert (config.data.val, config.data.test) == (str(home / "v.txt"), str(tmp_path / "t.txt"))
    assert config.agent.name == f"command:python {tmp_path}/part.py --n 3"
    assert config.evolver.name == f"{tmp_path}/sub/l.py:L"
    assert config.trainer.tree_dir == "/abs/out/trees/prompt-only"
    assert "NOWHERE_SET is not set" in refusal(tmp_path, "task_info=$NOWHERE_SET/x")


def test_texts_are_taken_as_they_are_written(tmp_path):
    """To YAML 2026_01_15 is a number and 1.10 is 1.1; a run's name and a model are texts."""
    config = config_in(tmp_path, "trainer.run_name=2026_01_15", "model=1.10", "trainer.budget.usd=1e-3")
    assert (config.trainer.run_name, config.model, config.trainer.budget.usd) == ("2026_01_15", "1.10", 0.001)


def test_a_run_without_a_name_is_called_after_its_learner_and_template(tmp_path):
    """The default name is one that a directory and a branch can have."""
    text = PLAIN.replace("trainer: {run_name: r}", "")
    assert config_in(tmp_path, text=text).trainer.run_name == "Learner-prompt-only"
    assert config_in(tmp_path, "evolver=reflect", text=text).trainer.run_name == "reflect-prompt-only"
    assert config_in(tmp_path, "evolver=command:x.sh -a", text=text).trainer.run_name == "command-prompt-only"


def test_sections_have_short_and_older_spellings(tmp_path):
    """`judge: numeric`, `agent: chat`, `pipeline.run`, and prices by model."""
    config = config_in(
        tmp_path, "judge=numeric",
        text=PLAIN.replace("agent: agent.py:run", "pipeline: {run: agent.py:run, concurrency: 3}\n"
        "prices: {a/b: {input: 0.10, output: 2, cached_input: 0.010}, c: [1, 2]}"),
    )  # fmt: skip
    assert (config.judge.path, config.judge.name) == (None, "numeric")
    assert (config.agent.name, config.agent.concurrency) == (f"{tmp_path}/agent.py:run", 3)
    assert config.prices == ["a/b=0.10,2,0.010", "c=1,2"]
    assert config_in(tmp_path, "prices=m=1,2").prices == ["m=1,2"]
    assert config_in(tmp_path, "trainer.budget.role_usd={judge: 1, learner: }").trainer.budget.role_usd == {
        "judge": 1.0
    }
    assert config_in(tmp_path, "pipeline.run=agent.py:other").agent.name.endswith(":other")
    assert "twice" in refusal(tmp_path, text=PLAIN + "pipeline: {run: x.py:y}\n")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("trainer.epoch=3", ["unknown key trainer.epoch", "did you mean trainer.epochs?"]),
        ("trainer.step_size=3", ["unknown key trainer.step_size", "data.step_size"]),
        ("nonsense=3", ["unknown key nonsense"]),
        ("trainer.epochs=three", ["trainer.epochs", "a whole number", "'three'"]),
        ("trainer.epochs=2.5", ["trainer.epochs", "a whole number", "2.5"]),
        ("trainer.epochs=true", ["trainer.epochs", "a whole number", "True"]),
        ("trainer.epochs=0", ["trainer.epochs", "at least 1"]),
        ("trainer={epochs: 3, run_name: [1]}", ["trainer.run_name", "a text"]),
        ("data=5", ["data: expected a map"]),
        ("data.shuffle=7", ["data.shuffle", "true or false"]),
        ("data.shuffle_seed=99999999999999999999", ["data.shuffle_seed"]),
        ("trainer.resume_mode=nonsense", ["trainer.resume_mode", "auto, disable", "nonsense"]),
        ("trainer.save_freq.steps=0", ["trainer.save_freq.steps", "null: never"]),
        ("trainer.budget.usd=0", ["trainer.budget.usd", "above 0"]),
        ("trainer.budget.usd=.nan", ["trainer.budget.usd", "a number"]),
        ("trainer.budget.role_usd.agent=1", ["role_usd", "rollout, judge, learner, evaluation"]),
        ("trainer.budget.finalize_reserve_usd=1", ["finalize_reserve_usd", "trainer.budget.usd"]),
        ("trainer.coverage_min=50", ["trainer.coverage_min", "0 to 1"]),
        ("trainer.call_timeout_min=0", ["trainer.call_timeout_min"]),
        ("trainer.run_name=a/b", ["trainer.run_name", "branch"]),
        ("trainer.run_name=trunk", ["trainer.run_name", "tree"]),
        ("trainer.run_name=trees", ["lie in each other"]),
        ("judge.name=not a name", ["judge.name"]),
        ("judge={name: nummeric}", ["judge.name", "did you mean numeric?"]),
        ("judge={params: {}}", ["judge: expected a path"]),
        ("judge=", ["judge: expected a path"]),
        ("agent=react", ["agent.name", "chat"]),
        ("agent=agent.py", ["agent.name", "FILE.py:FUNCTION"]),
        ("agent='command: '", ["agent.name", "names no command"]),
        ("evolver=skillopt", ["evolver.name", "reflect and gepa"]),
        ("evolver=learner.py", ["evolver.name", "learner.py:CLASS"]),
        ("evolver=nowhere", ["evolver.name", "nowhere", "evolver.yaml"]),
        ("template=mwm@2.0", ["template", "prompt-only@1.0"]),
        ("template=./nowhere", ["template", "adapter.yaml"]),
        ("unknown_price=maybe", ["unknown_price", "refuse, allow"]),
        ("prices=[m]", ["prices", "MODEL=INPUT,OUTPUT"]),
        ("prices={m: {input: -1, output: 2}}", ["prices", "below 0"]),
        ("agent.params.when=2026-01-15", ["agent.params.when", "quotes"]),
        ("agent.params.x=.inf", ["agent.params.x", "cannot be recorded"]),
        ("agent.params={1: x}", ["agent.params", "quotes"]),
        ("agent.params.api_key=abcdefgh", ["agent.params.api_key", "looks like a secret", "environment"]),
        ("llm={model: m, extra_body: {x: [sk-abcdefgh1jklmnop]}}", ["llm.extra_body.x[0]", "a secret"]),
        ("agent='command:x --key sk-abcdefgh1jklmnop'", ["agent.name", "a secret"]),
        ("trainer.epochs", ["key.sub=value"]),
        ("=3", ["key.sub=value"]),
        ("trainer.epochs.x=3", ["trainer.epochs is", "no keys"]),
        ("agent.params={a: 1, a: 2}", ["'a' is given twice"]),
        ("agent.params={a: [1", ["expected YAML"]),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_by_its_key(tmp_path, override, said):
    """An unknown key, a wrong value, a secret, no YAML: what was found, what is expected, what to do."""
    text = PLAIN.replace("run_name: r", "run_name: r, epochs: 2")
    found = refusal(tmp_path, override, text=text)
    assert [part for part in said if part not in found] == [], found
    assert "abcdefgh" not in found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sandbox: {enabled: true}", ["sandbox.enabled", "container"]),
        ("sandbox: {network: isolated}", ["sandbox.network"]),
        ("sandbox: {env: [PATH]}", ["sandbox.env"]),
        ("sandbox: {enforce: best_effort, env: [PATH]}", ["sandbox.env"]),
        ("sandbox: {enforce: best_effort, audit: files}", ["sandbox.audit"]),
        ("sandbox: {profiles: {learner: {network: open}}}", ["sandbox.profiles"]),
        ("sandbox: {enabld: false}", ["sandbox.enabld", "enabled"]),
        ("evolver_access: {environment: [/data]}", ["evolver_access.environment", "evolver.params"]),
        ("evolver_access: {tools: [t.yaml]}", ["evolver_access.tools"]),
        ("evolver_access: {send_material_out: false}", ["send_material_out", "write true"]),
    ],
)
def test_what_hermit_confines_and_evrun_does_not_is_refused_by_name(tmp_path, line, said):
    """Whoever asked for a sandbox is told that there is none, and what to do."""
    found = refusal(tmp_path, text=f"{PLAIN}{line}\n")
    assert [part for part in said if part not in found] == [], found


@pytest.mark.parametrize(
    "line",
    [
        "sandbox: {enabled: false, network: isolated, env: [PATH], profiles: {learner: {network: open}}}",
        "sandbox: {enforce: best_effort, network: isolated, read: [/data]}",
        "sandbox: {network: open, allow: [], env: null}",
        "sandbox:",
        "evolver_access: {send_material_out: true, environment: [], tools: []}",
    ],
)
def test_what_hermit_asks_and_is_so_anyway_is_taken_along(tmp_path, line):
    """A file that wants no sandbox, or one only where there is one, is honoured as it is."""
    assert config_in(tmp_path, text=f"{PLAIN}{line}\n") == config_in(tmp_path)


def test_a_learner_may_be_a_directory_with_evolver_yaml(tmp_path):
    """Its class is found beside it, its parameters stand under the config's, and its needs are looked at."""
    place = tmp_path / "learner"
    place.mkdir()
    (place / "evolver.yaml").write_text(
        "class: code.py:Mine\nneeds: [validation_data]\nparams: {a: 1, b: 2}\n"
    )
    assert "data.val" in refusal(tmp_path, "evolver=learner")
    for name in ("learner", "learner/evolver.yaml"):
        config = config_in(tmp_path, f"evolver.name={name}", "evolver.params.b=3", "data.val=v.txt")
        assert config.evolver.name == f"{place}/code.py:Mine"
        assert config.evolver.params == {"a": 1, "b": 3}
    (place / "evolver.yaml").write_text("class: code.py:Mine\nneeds: [environment]\n")
    assert "environment" in refusal(tmp_path, "evolver=learner")


def test_a_template_directory_gives_the_tree_its_name(tmp_path):
    """The tree of a template of one's own is named after its id."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/adapter.yaml").write_text("template: {id: my-id, version: '2'}\n")
    config = config_in(tmp_path, "template=mine")
    assert config.template == str(tmp_path / "mine")
    assert config.trainer.tree_dir == str(tmp_path / "runs/trees/my-id")
    (tmp_path / "prompt-only").mkdir()
    (tmp_path / "prompt-only/adapter.yaml").write_text("template: {id: my-id, version: '2'}\n")
    assert config_in(tmp_path).template == "prompt-only"
    assert config_in(tmp_path, "template=./prompt-only").template == str(tmp_path / "prompt-only")
    (tmp_path / "mine/adapter.yaml").write_text("template: {version: '2'}\n")
    assert "template.id" in refusal(tmp_path, "template=mine")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"- a\n- b\n", "expected keys by name"),
        (b"a: [", "line"),
        (b"data: \xff", "UTF-8"),
        (b"model: a\nmodel: b\n", "given twice"),
        (b"", "judge"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_with_its_path(tmp_path, text, said):
    """A list, no YAML, no text, a key twice, nothing."""
    path = written(tmp_path)
    path.write_bytes(text)
    with pytest.raises(UsageFault, match=said):
        load_config(path, [])
    with pytest.raises(UsageFault, match="nowhere"):
        load_config(tmp_path / "nowhere.yaml", [])


def test_changes_are_told_apart_by_whether_they_shape_the_run(tmp_path):
    """More patience and another place are no other run; another step size, model or seed is."""
    before = config_in(tmp_path, text=EVERY_KEY)
    assert changes_between(before, before) == {}
    now = config_in(
        tmp_path, "trainer.budget.usd=9", "agent.concurrency=1", "data.step_size=2", "model=mine/other",
        "backends.mine.base_url=http://127.0.0.1:2/v1", "agent.name=sub/agent.py:run", text=EVERY_KEY,
    )  # fmt: skip
    changes = changes_between(before, now)
    assert changes["data.step_size"] == (3, 2)
    assert changes["trainer.budget.usd"] == (5.0, 9.0)
    assert sorted(shaping_changes(changes)) == ["data.step_size", "model"]
    more = config_in(tmp_path, "backends.mine.extra_body={a: 1}", "agent.name=agent.py:other", text=EVERY_KEY)
    assert sorted(shaping_changes(changes_between(before, more))) == ["agent.name", "backends"]
    assert set(known_keys()) >= OPERATIONAL


def test_where_a_session_works_is_no_change_and_in_no_record(tmp_path):
    """Executor and address may be others in each session; only known executors are taken."""
    before, now = config_in(tmp_path), config_in(tmp_path, "trainer.executor=ray", "trainer.ray_address=h:1")
    assert (now.trainer.executor, now.trainer.ray_address) == ("ray", "h:1")
    assert config_record(before) == config_record(now)
    assert changes_between(before, now) == {}
    assert "expected one of local, ray, found 'rae'" in refusal(tmp_path, "trainer.executor=rae")


def test_words_of_a_prompt_are_no_keys(tmp_path):
    """Texts among the parameters may hold hyphenated words that begin as keys do."""
    text = (
        "A task-specific-instruction, a risk-averse-strategy, hf-internal-testing and sk-learning-machines."
    )
    assert config_in(tmp_path, f"evolver.params.prompt='{text}'").evolver.params == {"prompt": text}


def test_a_directory_that_was_moved_is_no_change(tmp_path):
    """The same files elsewhere: every difference is about where things are."""
    text = PLAIN.replace("agent: agent.py:run", "agent: {name: chat, params: {tools: [t.py]}}\nmodel: local")
    text = text.replace("judge: judge.py", "judge: {name: llm, params: {rubric_file: r.md}}")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    before, now = (config_in(tmp_path / name, text=text) for name in ("one", "two"))
    changes = changes_between(before, now)
    assert {"data.tasks", "evolver.name", "agent.params", "judge.params"} <= set(changes)
    assert shaping_changes(changes) == {}
    other = config_in(tmp_path / "two", "judge.params.rubric_file=other.md", text=text)
    assert sorted(shaping_changes(changes_between(before, other))) == ["judge.params"]


def test_the_page_about_run_yaml_names_every_key():
    """docs/training-config.md has each key, whole or below its section, and each field of a backend."""
    page = (ROOT / "docs/training-config.md").read_text("utf-8")
    shown = set(re.findall(r"[`{, ]([a-z_.]+)[`},]", page))
    missing = [key for key in known_keys() if key not in shown and f".{key.rpartition('.')[2]}" not in shown]
    assert [key for key in missing if key.partition(".")[0] != "trainer"] == []
    assert [key for key in missing if key.rpartition(".")[2] not in shown] == []
    assert [field for field in KNOWN_FIELDS if field not in shown] == []
