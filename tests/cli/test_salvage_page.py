"""docs/salvage.md: what it shows is what happens."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from cli.salvage_account import Account
from cli.verify import SAYS
from tests.cli.shell import ENVIRONMENT, EVRUN, evrun

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/salvage.md").read_text("utf-8")


def commands():
    """The commands of the page's code blocks, in their order."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_of_the_page_can_be_typed(done, tmp_path):
    """One after the other on a damaged run, with the exit codes that the page names; no run is started."""
    noted = evrun("verify", "done", "--json", cwd=tmp_path).json
    (path,) = (done / "log").glob("*.evl")
    (tmp_path / "data/r/log").mkdir(parents=True)
    for file in (done / "log").iterdir():
        (tmp_path / "data/r/log" / file.name).write_bytes(file.read_bytes())
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"Let me add")] ^= 1
    (tmp_path / "data/r/log" / path.name).write_bytes(damaged)
    codes = []
    for line in commands():
        if " run " in line:
            continue
        text = line.replace("SEQUENCE:CHAIN", f"{noted['sequence']}:{noted['chain']}")
        text = text.replace("/somewhere/else/r", "kept").replace("RUN", "data/done").replace("DIR", "saved")
        words = shlex.split(text.replace("examples/", f"{ROOT}/examples/"))
        place = {"evrun": EVRUN, "python": [sys.executable]}.get(words[0], [words[0]])
        done_ = subprocess.run(
            [*place, *words[1:]], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=False
        )
        codes.append((" ".join(words[:2]), done_.returncode))
    assert [code for _, code in codes] == [0, 0, 0, 0, 0, 0, 5, 3, 0, 0], codes


def test_the_page_names_every_verdict_and_every_proof():
    """A new one would have to be explained."""
    for word in SAYS.values():
        assert f"| {word.split(':')[0]} |" in PAGE
    for proof in Account().proofs:
        assert f"| `{proof}` |" in PAGE
