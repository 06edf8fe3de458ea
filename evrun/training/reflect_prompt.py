"""What `reflect` asks its model, and what it takes from the answer. Pure: text in, text out."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .learner_material import Trial

BEGIN = "<<<FILE "
END = "<<<END>>>"

_SYSTEM = """\
You improve the instructions that an agent reads before each task. You see the instructions, and how the
agent did on some tasks with them. Find out what the tasks ask for and what the agent did wrong, and write
better instructions: general rules that help with new tasks of this kind, never answers to the tasks shown.
Keep what works.

Answer with the whole new text of every file that you change, each like this, and with nothing else:

<<<FILE ADAPTER.md>>>
the whole new text
<<<END>>>"""

_ANSWERED = re.compile(
    r"^<<<FILE (?P<path>[^>\n]+)>>>[ \t]*\n(?P<text>.*?)^<<<END>>>", re.DOTALL | re.MULTILINE
)
_FENCED = re.compile(r"\A\s*```[\w-]*\n(?P<text>.*)\n```\s*\Z", re.DOTALL)


def question(
    files: Mapping[str, str],
    seen: Sequence[Trial],
    *,
    about: str = "",
    tried: Sequence[str] = (),
    limit: int = 2000,
) -> list[dict[str, str]]:
    """The messages that ask for better files. `tried` are earlier rewritings that did no better, in short."""
    parts = [f"# What the tasks are about\n\n{_cut(about, 4 * limit)}"] if about.strip() else []
    parts.append("# The instructions now\n\n" + "\n\n".join(_shown(path, files[path]) for path in files))
    parts.append("# How the agent did with them\n\n" + "\n\n".join(_told(one, limit) for one in seen))
    if tried:
        parts.append("# What was tried before and did no better\n\n" + "\n".join(f"- {one}" for one in tried))
    parts.append("Write the better files now.")
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def complaint(
    messages: Sequence[Mapping[str, str]], answer: str, problems: Sequence[str]
) -> list[dict[str, str]]:
    """The same question again, with an answer that cannot be used and what is wrong with it."""
    said = "\n".join(f"- {problem}" for problem in problems)
    return [
        *(dict(message) for message in messages),
        {"role": "assistant", "content": answer},
        {
            "role": "user",
            "content": f"This cannot be used:\n{said}\n\nWrite the files again, in the form asked for.",
        },
    ]


def answered(answer: str, files: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The files of an answer that differ from those that are there, and what is wrong with the answer.

    Where there is one file only, an answer without any marker is taken for its text: small models forget
    the form.
    """
    found = {one["path"].strip(): _tidy(one["text"]) for one in _ANSWERED.finditer(answer)}
    if not found and len(files) == 1 and BEGIN not in answer and END not in answer:
        fenced = _FENCED.match(answer)
        found = {next(iter(files)): _tidy(fenced["text"] if fenced else answer)}
    strange = [path for path in found if path not in files]
    problems = [f"{path} is not one of the files to be changed: {', '.join(files)}" for path in strange]
    empty = [path for path, text in found.items() if not text.strip()]
    problems += [f"the text of {path} is empty" for path in empty]
    if not found:
        problems.append(f"no file was found in it; each begins with {BEGIN}PATH>>> and ends with {END}")
    changed = {path: text for path, text in found.items() if path in files and text != files[path]}
    if found and not changed and not problems:
        problems.append("it is what is there already")
    return changed, problems


def _shown(path: str, text: str) -> str:
    return f"{BEGIN}{path}>>>\n{text.rstrip()}\n{END}"


def _told(one: Trial, limit: int) -> str:
    lines = [f"## Task {one.task}", f"Given: {_cut(_text(one.given), limit)}"]
    if one.error:
        return "\n".join([*lines, f"It could not be done or judged: {_cut(one.error, limit)}"])
    lines += [f"The agent's output: {_cut(_text(one.output), limit)}", f"Score: {one.score}"]
    return "\n".join([*lines, f"Feedback: {_cut(one.feedback, limit)}"] if one.feedback else lines)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} characters more)"


def _tidy(text: str) -> str:
    return f"{text.strip()}\n" if text.strip() else ""
