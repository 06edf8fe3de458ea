"""`evrun stats`: the numbers of statistics.json as a table, from the log, with the advice as sentences."""

import json

from tests.cli.shell import evrun, evrun_process
from tests.cli.story import UNITS, answered, asked, writer


def lines_of(said):
    """The facts by name, and the rows of each table by its title."""
    facts, tables, title = {}, {}, None
    for line in said.out.splitlines():
        if not line:
            title = ""
        elif title == "":
            title = line
            tables[title] = []
        elif title is None:
            name, _, value = line.partition("  ")
            facts[name] = value.strip()
        else:
            tables[title].append(line.split())
    return facts, tables


def test_a_finished_run_in_numbers(done, tmp_path):
    """Outcomes with their money, reasons, classes, reasoning, tokens, cost, time, sessions, advice."""
    said = evrun("stats", "done", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    facts, tables = lines_of(said)
    assert (
        facts
        | {
            "run": "told in data/done",
            "state": "done",
            "model": "some/model",
            "prompts": "3 in 2 batches",
            "filtered": "50.0%: 1 of 2 trajectories were set aside",
            "tool calls": "0.00 per kept trajectory",
            "reasoning": "in 1 of 1 answers; 5 tokens, 5.0 per trajectory",
            "tokens": "40 input, unknown of it cached, 60 output",
            "settled": "0.0037 USD in 2 calls",
            "in doubt": "at most 0.002 USD",
            "reserved": "at most 0.00 USD",
            "time": "5.0 s of work in 1 sessions",
        }
        == facts
    )
    assert tables["prompts"][1:] == [
        ["kept", "1", "0.00185"],
        ["discarded", "1", "0.00185"],
        ["failed", "1", "0.00"],
    ]
    assert tables["set aside"][1:] == [["no_reasoning", "1"]]
    assert tables["failed"][1:] == [["timeout", "1"]]
    advice = said.out.partition("\nadvice\n")[2]
    for code in ("high_filter_rate", "many_failures", "money_in_doubt"):
        assert f"[{code}]" in advice


def test_json_is_the_object_of_statistics_json(done, tmp_path):
    """The same object, key for key; a script may take either."""
    said = evrun_process("stats", "done", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    assert evrun("replay", "done", cwd=tmp_path).code == 0
    assert said.json == json.loads((done / "statistics.json").read_text("utf-8"))


def test_tools_are_counted_with_their_rates(tmp_path):
    """One row a tool; a rate is a percentage of the calls that succeeded or failed."""
    from eventlog.events import Counts, TrajectoryCompleted
    from tests.cli.story import opening, tell

    counts = Counts(1, 1, 0, 5, {"terminal": (4, 3, 1), "read_file": (1, 0, 0)})
    kept = TrajectoryCompleted(UNITS[0], 1, True, False, "stop", counts)  # noqa: FBT003
    tell(tmp_path / "data/r", [*opening(), asked(0, "s1.c1"), answered("s1.c1", "2"), [kept]])
    _, tables = lines_of(evrun("stats", "r", cwd=tmp_path))
    assert tables["tools"][1:] == [
        ["read_file", "1", "0", "0", "0.00", "%"],
        ["terminal", "4", "3", "1", "75.00", "%"],
    ]


def test_after_a_crash_and_while_it_goes_on_the_log_is_asked(crash, tmp_path):
    """A wrong view changes nothing; what was reserved is in doubt once no process holds the run."""
    (crash / "statistics.json").write_text("{}")
    facts, tables = lines_of(evrun("stats", "crash", cwd=tmp_path))
    assert facts["state"].startswith("interrupted")
    assert (facts["in doubt"], facts["reserved"]) == ("at most 0.002 USD", "at most 0.00 USD")
    assert [row[:2] for row in tables["prompts"][1:]] == [["kept", "1"], ["open", "1"], ["pending", "1"]]
    with writer(crash):
        facts, _ = lines_of(evrun("stats", "crash", cwd=tmp_path))
    assert facts["state"] == "running"
    assert (facts["in doubt"], facts["reserved"]) == ("at most 0.00 USD", "at most 0.002 USD")
    assert facts["completed"] == "not yet"


def test_a_run_whose_numbers_call_for_nothing_says_so(tmp_path):
    """No advice is an answer too."""
    from tests.cli.story import crashed, tell

    tell(tmp_path / "data/r", crashed()[:-1])
    said = evrun("stats", "r", cwd=tmp_path)
    assert said.out.endswith("\nadvice\nnone: the numbers call for nothing\n")


def test_a_run_that_is_not_there_is_exit_2(tmp_path):
    """With where was looked, as everywhere."""
    said = evrun("stats", "gone", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert "gone" in said.err
