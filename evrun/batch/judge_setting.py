"""The setting `judge`: what was typed, and the text of its rubric or file, which the log keeps."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..effects.judge import check_function
from ..errors import UsageFault
from .judging import LLM, asks_model
from .settings import Settings

NO_JUDGE = "none"
_FORMS = "llm:RUBRIC_FILE, or FILE.py:FUNCTION, or none"


class JudgeFunction(NamedTuple):
    """Where a judge that is a function stands."""

    path: Path
    name: str


def judge_values(values: Mapping[str, Any], *, given: bool, new: bool) -> dict[str, Any]:
    """The settings `judge` and `judge_text` of a session.

    A rubric that was recorded is used as it was recorded, whatever became of its file, unless the option was
    `given` now. A file with a function is read again each time, since it will be run as it is now.

    Raises:
        UsageFault: another form, a file that cannot be read, or `--min-score` on a new run without a judge.
    """
    judge, known = values.get("judge"), values.get("judge_text")
    if judge == NO_JUDGE:
        judge = None
    if judge is None:
        if new and values.get("min_score") is not None:
            raise UsageFault("--min-score without --judge: nothing gives a score", hint=f"--judge {_FORMS}")
        return {"judge": None, "judge_text": None}
    recorded = known is not None and not given
    if judge.startswith(LLM):
        text = known if recorded else _text(judge, Path(judge.removeprefix(LLM)))
    else:
        path = function_of(judge).path
        text = known if recorded and not path.is_file() else _text(judge, path)
    return {"judge": judge, "judge_text": text}


def function_of(judge: str) -> JudgeFunction:
    """The parts of ``FILE.py:FUNCTION``.

    Raises:
        UsageFault: it is something else.
    """
    path, _, name = judge.rpartition(":")
    if not path.endswith(".py") or not name.isidentifier():
        raise UsageFault(f"--judge {judge}: expected {_FORMS}")
    return JudgeFunction(Path(path).absolute(), name)


def check_judge(settings: Settings) -> None:
    """See that the judge can judge, before anything is written: a function is loaded once.

    Raises:
        UsageFault: its file is gone or broken.
    """
    if settings.judge is not None and not asks_model(settings):
        path, name = function_of(settings.judge)
        if not path.is_file():
            raise UsageFault(f"--judge {settings.judge}: {path} is not there", hint="give --judge again")
        check_function(path, name)


def _text(judge: str, path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UsageFault(f"--judge {judge}: {path}: {what}", hint=f"expected {_FORMS}") from error
    if not text.strip():
        raise UsageFault(f"--judge {judge}: {path} is empty", hint="say in it how to score")
    return text
