"""How a test runs a benchmark that prints a table: the real command, as a process."""

import json
import subprocess
import sys

from tests.house import ROOT


def printed_and_found(script, out, options, timeout_s):
    """Run a script of benchmarks/ with options and `--json OUT`; what it printed, and what it wrote there."""
    words = [str(word) for pair in {**options, "--json": out}.items() for word in pair]
    ran = subprocess.run(
        [sys.executable, f"benchmarks/{script}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, json.loads(out.read_text())
