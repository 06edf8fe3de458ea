"""docs/money.md: its commands are typed one after the other, and what it shows is what they print."""

import re
import shlex
from pathlib import Path

from cli.audit_tables import GROUPS
from evrun.batch import CAP_OPTIONS
from projections.spend import MOST_OVER_BOUND
from tests.endpoint.client import running_endpoint
from tests.runs import ROOT, evrun, write_prompts

PAGE = (ROOT / "docs/money.md").read_text("utf-8")
HANGS = {"match": {"contains": "question 2"}, "times": 1, "then": {"fault": "hang"}}


def transcripts() -> list[tuple[str, int, list[str]]]:
    """Each command of the page, its exit code, and the lines that are shown of what it prints."""
    found: list[tuple[str, int, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ evrun "):
                command, _, comment = line.removeprefix("$ evrun ").partition("   # exit ")
                found.append((command, int(comment or 0), []))
            elif line != "…":
                found[-1][2].append(line)
    return found


def test_the_transcripts_of_the_page_are_what_happens(tmp_path: Path) -> None:
    """Six questions, one of them never answered, a cap that is met: every shown line, in its order."""
    write_prompts(
        tmp_path / "questions.jsonl", [f"question {n}: what is {n} times {n}?" for n in range(1, 7)]
    )
    assert len(transcripts()) == 9
    with running_endpoint(rules=[HANGS]) as endpoint:
        for command, code, shown in transcripts():
            ended = evrun(*shlex.split(command), cwd=tmp_path, OPENAI_BASE_URL=endpoint.base_url)
            assert ended.code == code, (command, ended)
            printed = iter(ended.stdout.splitlines())
            assert [line for line in shown if line not in printed] == [], (command, ended.stdout)


def test_the_page_names_every_cap_and_every_grouping() -> None:
    """A new one would have to be explained."""
    for option in CAP_OPTIONS.values():
        assert f"| `{option} " in PAGE
    for group in GROUPS:
        assert f"`{group}`" in PAGE or f"`--by {group}`" in PAGE
    assert MOST_OVER_BOUND == 50
