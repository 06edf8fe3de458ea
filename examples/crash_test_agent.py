"""Crash-testing an agent: it writes down what it is about to do before it does it, so nothing is paid twice.

Run it: `python examples/crash_test_agent.py`. The careful agent passes; the one that acts first is caught.
"""

from collections.abc import Callable

from eventlog.testing import CrashTestFailed, ForgetfulFileSystem, crash_test, open_log

TASKS = ("book the flight", "book the hotel", "pay the guide")

Act = Callable[[str], None]
Agent = Callable[[ForgetfulFileSystem, Act], None]


def careful_agent(disk: ForgetfulFileSystem, act: Act) -> None:
    """Reserve, then act, then note the outcome. What was reserved before a crash is never done again."""
    with open_log(disk) as writer:
        known = {record.payload.decode() for record in writer.reader().read()}
        for task in TASKS:
            if f"reserved: {task}" in known:
                continue  # done, or nobody knows: a person decides
            writer.append([f"reserved: {task}".encode()])  # returns once it is durable
            act(task)
            writer.append([f"done: {task}".encode()])


def hasty_agent(disk: ForgetfulFileSystem, act: Act) -> None:
    """The same, but it acts first and writes it down afterwards."""
    with open_log(disk) as writer:
        known = {record.payload.decode() for record in writer.reader().read()}
        for task in TASKS:
            if f"done: {task}" in known:
                continue
            act(task)
            writer.append([f"done: {task}".encode()])


def check_with(agent: Agent) -> Callable[[ForgetfulFileSystem, list[str]], None]:
    """After a crash the agent is started again: nothing that it did before may be done once more."""

    def check(disk: ForgetfulFileSystem, done_before: list[str]) -> None:
        done_now: list[str] = []
        agent(disk, done_now.append)
        twice = set(done_before) & set(done_now)
        assert not twice, f"done twice: {sorted(twice)}"

    return check


def crash(agent: Agent) -> str:
    """Crash an agent everywhere; say in a sentence what came of it."""
    try:
        # What the agent does in the world cannot be undone: each act is a promise that the log must keep.
        report = crash_test(agent, check_with(agent), images_per_point=20)
    except CrashTestFailed as caught:
        return f"caught. {caught}"
    return f"{report.points} crash points, {report.images} images, nothing done twice"


if __name__ == "__main__":
    print(f"careful: {crash(careful_agent)}")
    print(f"hasty: {crash(hasty_agent)}")
