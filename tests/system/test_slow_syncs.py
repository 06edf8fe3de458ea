"""Syncs that take long: acknowledgements wait for them, the event loop does not."""

from tests.system.order import objections
from tests.system.processes import judge
from tests.system.strace import traced

DELAY_MS = 300


def test_the_event_loop_turns_while_a_sync_takes_long(server, tmp_path, record_property):
    """Each of five syncs is held up by 300 ms: the loop ticks all the while, and nothing is acked early."""
    log = tmp_path / "log"
    said, calls = traced(
        server,
        "ticking",
        log,
        f"fdatasync:delay_enter={DELAY_MS * 1000}:when=2..6",
        gate_at="opened",
        count=7,
    )
    assert [call.nth for call in calls if call.struck] == [2, 3, 4, 5, 6]
    assert objections(calls) == []
    assert judge(log, [said]) == list(range(7))
    waited = [list(map(int, words[2:])) for words in said if words[0] == "T"]
    delayed = [turns for turns, _, took_us in waited if took_us >= DELAY_MS * 1000]
    stalls = [stall_us for _, stall_us, _ in waited]
    assert len(delayed) >= 4  # one commit may have met two slow syncs, for it was rolled before
    assert min(delayed) >= 10
    record_property(
        f"system:longest stall of the event loop while fdatasync took {DELAY_MS} ms",
        f"{max(stalls) / 1000:.1f} ms, {min(delayed)} to {max(delayed)} turns meanwhile",
    )


def test_an_acknowledgement_waits_for_each_kind_of_slow_sync(server, tmp_path, tally):
    """Each fdatasync and fsync of a life is held up, before and behind: no acknowledgement overtakes it."""
    done = 0
    for count, (name, where) in enumerate(
        (name, where) for name in ("fdatasync", "fsync") for where in ("delay_enter", "delay_exit")
    ):
        log = tmp_path / f"log-{count}"
        said, calls = traced(server, "write", log, f"{name}:{where}=20000", count=7)
        done += sum(call.struck for call in calls)
        assert all(call.struck for call in calls if call.name == name)
        assert objections(calls) == []
        assert judge(log, [said]) == list(range(7))
    tally("injections", done)


def test_a_kill_during_a_slow_sync_loses_nothing(server, tmp_path, tally):
    """The process dies while a sync is under way: what it issued may be there, what was acked is."""
    log = tmp_path / "log"
    told = []
    for life, nth in enumerate((1, 2, 3, 5)):
        inject = f"fdatasync:delay_enter=200000:when={nth}"
        said, calls = traced(server, "write", log, inject, gate_at="opened", first=life * 100, kill_in_s=0.1)
        assert objections(calls) == []
        told.append(said)
        judge(log, told)
    assert any(words[0] == "A" for said in told for words in said)
    tally("injections", len(told))
    tally("kills", len(told))
