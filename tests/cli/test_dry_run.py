"""`evrun run --dry-run` beside a run that is there, held or not, and from standard input."""

import json
import subprocess

from tests.cli.shell import ENVIRONMENT, EVRUN, evrun
from tests.cli.story import PROMPTS, writer

RESUME = ("run", "--run-name", "crash", "--resume", "--dry-run")
PRICE = ("--price", "some/model=1,1", "--max-tokens", "10")


def test_a_run_that_somebody_works_on_can_be_looked_at(crash, tmp_path):
    """Nothing is locked and nothing written; that it goes on meanwhile is said."""
    free = evrun(*RESUME, *PRICE, "--json", cwd=tmp_path).json
    assert (free["held"], free["units"], free["sequence"]) == (False, 2, 11)
    with writer(crash):
        held = evrun(*RESUME, *PRICE, "--json", cwd=tmp_path).json
        assert held == free | {"held": True}
        assert "a process works on it now" in evrun(*RESUME, *PRICE, cwd=tmp_path).out


def test_what_is_in_doubt_counts_against_the_caps(crash, tmp_path):
    """A cap of a dollar, 0.00185 settled, 0.002 perhaps: the rest is left."""
    priced = evrun(*RESUME, *PRICE, "--json", cwd=tmp_path).json
    (cap,) = priced["caps"]
    assert (cap["limit"], cap["left"], cap["suffices"]) == ("1.00", "0.99615", "yes")


def test_a_cap_that_cannot_be_held_is_refused_before_anything_is_said(crash, tmp_path):
    """The recorded cap on money, and no price: as the resume itself would."""
    said = evrun(*RESUME, "--price", "other=1,1", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert "--price some/model=" in said.err


def test_the_dataset_may_come_from_standard_input(tmp_path):
    """Read once, kept nowhere."""
    rows = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS)
    options = ["--run-name", "r", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--toolsets", "none"]
    said = subprocess.run(
        [*EVRUN, "run", "-", *options, "--dry-run", "--json"],
        cwd=tmp_path, env=ENVIRONMENT, input=rows.encode(), capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(said.stdout)["units"] == 3
    assert list(tmp_path.iterdir()) == []
