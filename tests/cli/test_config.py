"""Options from a config file, the environment and `.env`: which counts, what is refused, what is recorded."""

import json
from pathlib import Path

import pytest

from tests.cli.shell import evrun_forked
from tests.endpoint.client import RunningEndpoint, running_endpoint

PROMPT = '{"prompt": "hello"}\n'


@pytest.fixture(scope="module", name="endpoint")
def _endpoint():
    with running_endpoint() as endpoint:
        yield endpoint


def recorded(cwd: Path, run: str = "r") -> dict:
    """The settings that a run's first event records."""
    said = evrun_forked("events", run, "--type", "RunStarted", "--json", cwd=cwd)
    return json.loads(said.out.splitlines()[0])["data"]["settings"]


def begin(cwd: Path, endpoint: RunningEndpoint, *arguments: object, **environment: str):
    """A run of one prompt in a directory, with these arguments and variables."""
    (cwd / "d.jsonl").write_text(PROMPT)
    values = {"OPENAI_BASE_URL": endpoint.base_url, **environment}
    return evrun_forked("run", "d.jsonl", "--run-name", "r", *arguments, cwd=cwd, environment=values)


def test_typed_counts_more_than_config_than_environment_than_dotenv(endpoint, tmp_path):
    """Four sources name four batch sizes, three models, two turns; each time the nearer one counts."""
    (tmp_path / ".env").write_text("EVRUN_BATCH_SIZE=1\nEVRUN_MODEL=a\nEVRUN_MAX_TURNS=1\nEVRUN_RETRIES=1\n")
    (tmp_path / "run.yaml").write_text("batch_size: 3\nmodel: c\nkeep-all: true\n")
    said = begin(
        tmp_path, endpoint, "--config", "run.yaml", "--batch-size", 4,
        EVRUN_BATCH_SIZE="2", EVRUN_MODEL="b", EVRUN_MAX_TURNS="2",
    )  # fmt: skip
    assert said.code == 0, said.err
    found = recorded(tmp_path)
    names = ("batch_size", "model", "max_turns", "retries", "require_reasoning")
    assert [found[name] for name in names] == [4, "c", 2, 1, False]
    assert "settings: " in said.err
    assert "batch_size 4" in said.err


def test_everything_that_can_be_typed_can_stand_in_a_config_file(endpoint, tmp_path):
    """Lists, maps, switches and aliases become what somebody would have typed, in all three formats."""
    values = {
        "run_name": "named", "num-workers": 3, "price": {"m": "1,2"}, "header": {"X-A": "b"},
        "extra_body": {"top_k": 2}, "toolsets": [], "keep_all": True, "budget_usd": 5, "temperature": 0.5,
        "providers_order": ["a", "b"], "model": "m", "max_tokens": 9, "dataset_file": "d.jsonl",
    }  # fmt: skip
    (tmp_path / "d.jsonl").write_text(PROMPT)
    (tmp_path / "run.json").write_text(json.dumps(values))
    said = evrun_forked(
        "run", "--config", "run.json", cwd=tmp_path, environment={"OPENAI_BASE_URL": endpoint.base_url}
    )
    assert said.code == 0, said.err
    found = recorded(tmp_path, "named")
    assert found["concurrency"] == 3
    assert found["prices"] == ["m=1,2"]
    assert found["headers"] == {"X-A": "b"}
    assert found["extra_body"] == {"top_k": 2}
    assert found["toolsets"] == []
    assert found["providers_order"] == ["a", "b"]
    assert (found["temperature"], found["max_tokens"]) == (0.5, 9)
    (tmp_path / "run.toml").write_text('model = "m"\nbatch-size = 7\ntoolsets = "none"\n')
    assert begin(tmp_path, endpoint, "--config", "run.toml").code == 0
    assert recorded(tmp_path)["batch_size"] == 7


def test_on_a_resume_the_record_counts_more_than_the_environment(endpoint, tmp_path):
    """A variable changes nothing of a run that is there; what a config file says is given now."""
    assert begin(tmp_path, endpoint, "--model", "m", "--concurrency", 4).code == 0
    values = {"OPENAI_BASE_URL": endpoint.base_url, "EVRUN_CONCURRENCY": "9", "EVRUN_TOOLSETS": "none"}
    resume = ("run", "--run-name", "r", "--resume")
    said = evrun_forked(*resume, cwd=tmp_path, environment=values)
    assert (said.code, "changed" in said.err) == (0, False)
    (tmp_path / "more.yaml").write_text("concurrency: 5\n")
    said = evrun_forked(*resume, "--config", "more.yaml", cwd=tmp_path, environment=values)
    assert (said.code, "concurrency 4 -> 5" in said.err) == (0, True)


def test_what_is_typed_silences_its_opposite_elsewhere(endpoint, tmp_path):
    """Two options contradict each other only where they are given in the same place."""
    (tmp_path / "run.yaml").write_text("distribution: research\n")
    said = begin(tmp_path, endpoint, "--config", "run.yaml", "--toolsets", "none", "--model", "m")
    assert said.code == 0, said.err
    assert recorded(tmp_path)["toolsets"] == []


def test_a_key_in_dotenv_is_sent_and_nowhere_recorded(tmp_path):
    """`.env` holds the key; the endpoint, which wants it, gets it; no file of the run does."""
    key = "sk-from-dotenv-0123456789"
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={key}\n")
    with running_endpoint(api_key=key) as endpoint:
        assert begin(tmp_path, endpoint, "--model", "m").code == 0
    for path in (tmp_path / "data").rglob("*"):
        assert not path.is_file() or b"sk-from-dotenv" not in path.read_bytes()


WRONG = {
    "no such option": ("batchsize: 3", ["batchsize: no option", "did you mean batch_size?"]),
    "no number": ("batch_size: many", ["--batch-size", "it came from the file of --config"]),
    "no mapping": ("- 3", ["expected options by name"]),
    "no YAML": ("a: [", ["--config run.yaml"]),
    "a key": ("api_key: sk-1234567", ["a key does not belong"]),
    "twice": ("batch_size: 1\nbatch-size: 2", ["given twice"]),
    "a budget": ("budget_usd: 5usd", ["--budget-usd"]),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_config_file_is_refused_and_nothing_is_made(text, told, endpoint, tmp_path):
    """Exit 2, with the option's name, and no run."""
    (tmp_path / "run.yaml").write_text(text)
    said = begin(tmp_path, endpoint, "--config", "run.yaml", "--model", "m")
    assert said.code == 2
    assert all(part in said.err for part in told), said.err
    assert "sk-1234567" not in said.err
    assert not (tmp_path / "data").exists()


def test_a_wrong_variable_is_named(endpoint, tmp_path):
    """A value that is none names its variable; a name that is none is pointed out."""
    said = begin(tmp_path, endpoint, EVRUN_CONCURRENCY="many")
    assert (said.code, "EVRUN_CONCURRENCY" in said.err) == (2, True)
    said = begin(tmp_path, endpoint, "--model", "m", EVRUN_CONCURENCY="3")
    assert (said.code, "did you mean EVRUN_CONCURRENCY?" in said.err) == (0, True)


def test_other_commands_hear_the_environment_too(endpoint, tmp_path):
    """EVRUN_OUTPUT_DIR is where a run is made, and where it is looked for."""
    assert begin(tmp_path, endpoint, "--model", "m", EVRUN_OUTPUT_DIR="elsewhere").code == 0
    said = evrun_forked("status", "r", "--json", cwd=tmp_path, environment={"EVRUN_OUTPUT_DIR": "elsewhere"})
    assert (said.code, said.json["dir"]) == (0, "elsewhere/r")


def test_plain_values_of_a_yaml_file_are_what_is_written(endpoint, tmp_path):
    """To YAML 2026_01_15 is a number and 1.10 is 1.1; a run name and a model are texts."""
    (tmp_path / "d.jsonl").write_text(PROMPT)
    text = "run_name: 2026_01_15\nmodel: 1.10\nsystem_prompt: 0123\nstop: [1]\ndataset_file: d.jsonl\n"
    (tmp_path / "run.yaml").write_text(text.replace("stop: [1]\n", "toolsets: []\nretry_failed: true\n"))
    said = evrun_forked(
        "run", "--config", "run.yaml", cwd=tmp_path, environment={"OPENAI_BASE_URL": endpoint.base_url}
    )
    assert said.code == 0, said.err
    found = recorded(tmp_path, "2026_01_15")
    assert (found["model"], found["system_prompt"]) == ("1.10", "0123")
