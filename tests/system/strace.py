"""Trace a process of `acting` with strace, with faults injected, and read the trace."""

import os
import re
import subprocess
from collections import Counter
from typing import NamedTuple

from tests.system.processes import DEADLINE_S

RENAMES = ("rename", "renameat", "renameat2")
UNLINKS = ("unlink", "unlinkat")
SYNCS = ("fdatasync", "fsync")
WRITES = ("pwrite64", "ftruncate", "fallocate")
TRACED = (
    "open", "openat", "mkdir", "mkdirat", "flock", "pread64", "fadvise64", "write",
    *WRITES, *SYNCS, *RENAMES, *UNLINKS,
)  # fmt: skip


class Call(NamedTuple):
    """One system call, the `nth` of its name in its thread; `path` is what it is about.

    `begun` and `ended` are its places in the trace.
    """

    thread: int
    name: str
    text: str
    path: str
    result: str
    begun: int
    ended: int
    nth: int = 0

    @property
    def struck(self):
        """Whether a fault was injected here."""
        return "(INJECTED)" in self.result or "(DELAYED)" in self.result

    @property
    def failed(self):
        """Whether it returned an error."""
        return self.result.startswith("-1")

    @property
    def target(self):
        """The second path of a rename."""
        return re.findall(r'"([^"]*)"', self.text)[-1]


def selection(*names):
    """System calls for a -e option; those that this machine does not have are passed over."""
    return ",".join(f"?{name}" for name in names)


def traced(server, act, log, inject="", gate_at="start", **order):
    """Run one act under strace; return what it said, its calls on the log in the order of their ends.

    strace counts calls, for its faults, in each thread on its own, and from when it came.
    """
    gate = server.directory / f"gate-{server.count}"
    os.mkfifo(gate)
    life = server.start(act, log, gate=str(gate), gate_at=gate_at, **order)
    life.wait_for("G")
    trace = server.directory / f"trace-{server.count}"
    command = ["strace", "-f", "-y", "-s", "48", "-o", str(trace), "-e", f"trace={selection(*TRACED)}"]
    command += ["-e", f"inject={inject}"] if inject else []
    with subprocess.Popen([*command, "-p", str(life.pid)], stderr=subprocess.PIPE, text=True) as strace:
        attached = strace.stderr.readline()
        assert "attached" in attached, attached + strace.stderr.read()
        gate.write_bytes(b"-")
        strace.stderr.read()
        strace.wait(DEADLINE_S)
    gate.unlink()
    life.wait()
    found = parsed(trace.read_text(errors="replace").splitlines())
    trace.unlink()
    return life.said, [call for call in found if is_about(call, log, life.path)]


def is_about(call, log, said):
    """Whether a call is about the log, its parents, or something said."""
    if call.name == "write":
        return call.path == str(said)
    return call.path.startswith(str(log)) or str(log).startswith(call.path.rstrip("/") + "/")


def parsed(lines):
    """The calls of a trace, in the order in which they ended."""
    begun = {}
    found = []
    counts = Counter()
    for place, line in enumerate(lines):
        thread, _, rest = line.partition(" ")
        rest = rest.strip()
        if rest.startswith(("+++", "---")):
            if "killed" in rest and thread in begun:
                start, text = begun.pop(thread)
                found.append(call_of(int(thread), text, "?", start, place))
            continue
        if rest.endswith("<unfinished ...>"):
            begun[thread] = place, rest.removesuffix("<unfinished ...>").rstrip()
            continue
        start = place
        if rest.startswith("<..."):
            start, text = begun.pop(thread)
            rest = text + rest.partition(" resumed>")[2]
        text, _, result = rest.rpartition(" = ")
        found.append(call_of(int(thread), text.rstrip(), result, start, place))
    for place, call in enumerate(found):
        counts[call.thread, call.name] += 1
        found[place] = call._replace(nth=counts[call.thread, call.name])
    return found


def call_of(thread, text, result, begun, ended):
    """Take one call apart."""
    name = text.partition("(")[0]
    if name in ("open", "openat", "mkdir", "mkdirat", *RENAMES, *UNLINKS):
        path = (re.findall(r'"([^"]*)"', text) or [""])[0]
    else:
        path = (re.findall(r"\(\d+<([^>]*)>", text) or [""])[0]
    return Call(thread, name, text, path, result, begun, ended)
