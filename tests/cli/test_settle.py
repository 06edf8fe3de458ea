"""`evrun audit RUN --settle CALL=USD`: what an invoice says, on record, and nothing else changed."""

import hashlib

import pytest

from eventlog.events import SessionClosed, SpendCorrected, SpendInDoubt, decode_event
from eventlog.storage import LogReader
from tests.cli.shell import evrun, evrun_process
from tests.cli.story import UNITS, asked, opening, tell, writer


@pytest.fixture
def paused(tmp_path):
    """`data/paused`: a cap was met with two calls in doubt."""
    doubts = [SpendInDoubt(call, "lost", 2_000_000, 140) for call in ("s1.c1", "s1.c2")]
    ending = [SessionClosed(1, "paused", "a cap is reached", 5_000_000_000)]
    return tell(tmp_path / "data/paused", [*opening(), asked(0, "s1.c1"), asked(1, "s1.c2"), doubts, ending])


def digest(run):
    """All files of a run but LOCK, by what is in them."""
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "LOCK")
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def events_of(run):
    """The events of a log."""
    with LogReader.open(run / "log") as reader:
        return [(record.epoch, decode_event(record.payload)) for record in reader.read()]


def identical(name, tmp_path):
    """Whether the views are what the log says."""
    return evrun("replay", name, "--check", "--json", cwd=tmp_path).json["identical"]


def state_of(name, tmp_path):
    """What status says of a run, but for its money and its log."""
    report = evrun("status", name, "--json", cwd=tmp_path).json
    changing = ("sequence", "chain", "settled_usd", "in_doubt_usd", "open")
    return {key: value for key, value in report.items() if key not in changing}


def test_a_call_in_doubt_is_settled_from_an_invoice(done, tmp_path):
    """Its doubt ends, its cost counts where its prompt went, the new audit is printed, the views agree."""
    before = state_of("done", tmp_path)
    said = evrun_process(
        "audit", "done", "--settle", "s1.c3=0.0012", "--note", "invoice 7", "--json", cwd=tmp_path
    )
    assert (said.code, said.err) == (0, "")
    report = said.json
    assert (report["settled_usd"], report["in_doubt_usd"], report["in_doubt"]) == ("0.0049", "0.00", [])
    assert report["by_outcome"]["failed"] == "0.0012"
    assert [(one["call"], one["settled_usd"], one["note"]) for one in report["corrected"]] == [
        ("s1.c3", "0.0012", "invoice 7")
    ]
    assert report == evrun("audit", "done", "--json", cwd=tmp_path).json
    assert identical("done", tmp_path)
    assert state_of("done", tmp_path) == before
    assert before["state"] == "done"


def test_it_is_one_commit_by_a_session_that_only_keeps_the_books(done, tmp_path):
    """No SessionOpened, no SessionClosed: the event alone."""
    earlier = len(events_of(done))
    evrun("audit", "done", "--settle", "s1.c3=0.0012", cwd=tmp_path)
    assert events_of(done)[earlier:] == [(2, SpendCorrected("s1.c3", 1_200_000, ""))]


def test_a_paused_run_stays_paused(paused, tmp_path):
    """Several calls in one commit; the state, its reason and its session are those of before."""
    before = state_of("paused", tmp_path)
    assert (before["state"], before["exit_code"], before["reason"]) == ("paused", 4, "a cap is reached")
    said = evrun("audit", "paused", "--settle", "s1.c1=0", "--settle", "s1.c2=0.002", cwd=tmp_path)
    assert said.code == 0
    assert "0.002 USD in 2 calls" in said.out
    assert state_of("paused", tmp_path) == before
    assert identical("paused", tmp_path)


def test_an_orphan_of_a_crash_can_be_settled_before_any_resume(crash, tmp_path):
    """It goes in doubt and is settled in one commit; the run stays interrupted, its prompt open."""
    before = state_of("crash", tmp_path)
    assert before["state"] == "interrupted"
    report = evrun("audit", "crash", "--settle", "s1.c2=0.001", "--json", cwd=tmp_path).json
    assert (report["settled_usd"], report["in_doubt_usd"]) == ("0.00285", "0.00")
    assert report["by_outcome"]["open"] == "0.001"
    assert [type(event) for _, event in events_of(crash)[-2:]] == [SpendInDoubt, SpendCorrected]
    assert all(check["ok"] for check in report["checks"])
    assert state_of("crash", tmp_path) == before
    assert identical("crash", tmp_path)
    (attempt,) = evrun("status", "crash", "--json", cwd=tmp_path).json["open"]
    assert attempt["settled_usd"] == "0.001"


def test_a_correction_can_be_corrected_in_both_directions(done, tmp_path):
    """The newest word counts; 0 is an amount; nothing ever gets negative, and nothing is counted twice."""
    for typed, settled in (("0.5", "0.5037"), ("0", "0.0037"), ("0.000000001", "0.003700001")):
        report = evrun("audit", "done", "--settle", f"s1.c3={typed}", "--json", cwd=tmp_path).json
        assert (report["settled_usd"], report["in_doubt_usd"]) == (settled, "0.00")
        assert report["calls"]["settled"] == 3
        assert all(check["ok"] for check in report["checks"])
        assert identical("done", tmp_path)


def test_a_correction_upwards_may_pass_the_cap_and_is_shown_as_such(done, tmp_path):
    """No reservation was granted past the cap, so the checks hold; what is left is below 0."""
    said = evrun("audit", "done", "--settle", "s1.c3=2.5", cwd=tmp_path)
    assert said.code == 0
    assert "cap       1.00 USD, passed by 1.5037 USD" in said.out
    assert "250 % of the cap on money are used" in said.out
    report = evrun("audit", "done", "--json", cwd=tmp_path).json
    assert report["left_usd"] == "-1.5037"


@pytest.mark.parametrize(
    ("settle", "expected"),
    [
        (["s1.c3"], "expected CALL=USD"),
        (["=1"], "expected CALL=USD"),
        (["s1.c3=$5"], "is not a number"),
        (["s1.c3=5usd"], "is not a number"),
        (["s1.c3=nan"], "is not a finite number"),
        (["s1.c3=-1"], "is below 0"),
        (["s1.c3=1e-10"], "finer than"),
        (["s1.c3=1e300"], "is above"),
        (["s1.c3="], "is not a number"),
        (["s1.c3=1", "s1.c3=2"], "named twice"),
        (["s1.c9=1"], "there is no call s1.c9"),
        (["s1.c1=1"], "was settled by its answer, at 0.00185 USD"),
        (["s1.c3=1", "s1.c1=1"], "was settled by its answer"),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(done, tmp_path, settle, expected):
    """Exit 2 with what was found; not one byte of the run is another, also where another call was right."""
    before = digest(done)
    said = evrun("audit", "done", *(part for text in settle for part in ("--settle", text)), cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert expected in said.err
    assert digest(done) == before


def test_a_note_that_is_no_text_is_refused(done, tmp_path):
    """A byte that is no UTF-8 comes from the command line as half a character."""
    before = digest(done)
    said = evrun("audit", "done", "--settle", "s1.c3=1", "--note", "caf\udce9", cwd=tmp_path)
    assert (said.code, digest(done)) == (2, before)


def test_a_run_that_somebody_works_on_is_not_touched(crash, tmp_path):
    """Exit 6, naming the holder; its calls may still settle themselves."""
    with writer(crash):
        before = digest(crash)
        said = evrun("audit", "crash", "--settle", "s1.c2=0.001", cwd=tmp_path)
        assert said.code == 6
        assert "in use" in said.err or "holds" in said.err
        assert digest(crash) == before
    assert evrun("audit", "crash", "--settle", "s1.c2=0.001", cwd=tmp_path).code == 0


def test_the_past_keeps_what_was_known_then(done, tmp_path):
    """A correction is an event like any other: before it, the call was in doubt."""
    evrun("audit", "done", "--settle", "s1.c3=0.001", cwd=tmp_path)
    report = evrun("audit", "done", "--at", 21, "--json", cwd=tmp_path).json
    assert (report["settled_usd"], report["in_doubt_usd"]) == ("0.0037", "0.002")
    assert [doubt["call"] for doubt in report["in_doubt"]] == ["s1.c3"]


def test_settling_ends_only_the_calls_that_were_named(paused, tmp_path):
    """The other one stays in doubt, by name."""
    report = evrun("audit", "paused", "--settle", "s1.c1=0.001", "--json", cwd=tmp_path).json
    assert [(doubt["call"], doubt["unit"]) for doubt in report["in_doubt"]] == [("s1.c2", UNITS[1])]
    assert report["in_doubt_usd"] == "0.002"
