"""The peers of the money table, each in an environment of its own, resumed as its documentation says."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from ._money import Job, Report, Unavailable, output_of

HERE = Path(__file__).resolve().parent
INSTALL_S = 1200


def account(printed: dict[str, Any]) -> Report:
    """What a peer's own script printed."""
    return Report(printed["rows"], printed["tokens"], printed["row_tokens"], frozenset(printed["named"]))


def attempt(command: list[str], cwd: Path) -> None:
    """Run an installer's command.

    Raises:
        Unavailable: it failed; with the last line that says why.
    """
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, check=False, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} did not end in {INSTALL_S} s") from error
    if done.returncode != 0:
        wrong = [line for line in done.stderr.splitlines() if "err" in line.lower()] or ["no message"]
        raise Unavailable(f"{' '.join(command[:4])}: {wrong[-1]}")


def once(directory: Path, wanted: str, commands: list[list[str]]) -> None:
    """Run the commands that make an environment, unless they ended well for this very wish before."""
    stamp = directory / "installed"
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return
    directory.mkdir(parents=True, exist_ok=True)
    print(f"installing {wanted} into {directory}", file=sys.stderr)
    for command in commands:
        attempt(command, directory)
    stamp.write_text(wanted, "utf-8")


class PythonPeer:
    """A peer from PyPI. `script`: its program beside this file, run by its own interpreter."""

    name: str
    folder: ClassVar[str]
    requires: ClassVar[tuple[str, ...]]
    script: ClassVar[str]

    def install(self, cache: Path) -> str:
        """A venv with lower bounds, made once."""
        self.venv = cache.resolve() / self.folder
        pip = [str(self.venv / "bin/python"), "-m", "pip", "install", "--quiet", *self.requires]
        once(self.venv, " ".join(self.requires), [[sys.executable, "-m", "venv", str(self.venv)], pip])
        package = self.requires[0].partition(">=")[0]
        asked = f"import importlib.metadata as m; print(m.version({package!r}))"
        found = subprocess.run([self.python, "-c", asked], capture_output=True, text=True, check=True)
        return f"{self.name} {found.stdout.strip()}"

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.venv / "bin/python")

    @property
    def program(self) -> list[str]:
        """Its script, as a command."""
        return [self.python, str(HERE / self.script)]

    def tokenizers(self) -> dict[str, str]:
        """The files that tiktoken would fetch, from litellm's wheel."""
        files = next(self.venv.glob("lib/*/site-packages/litellm/litellm_core_utils/tokenizers"))
        return {"TIKTOKEN_CACHE_DIR": str(files)}

    def environment(self, job: Job) -> dict[str, str]:
        """A home of its own for each trial, so that caches and databases are new."""
        return {"HOME": str(job.directory)}

    def start(self, job: Job) -> list[str]:
        """Its script, told to run."""
        return [*self.program, "run", job.base_url, str(job.dataset), str(job.in_flight)]

    def resume(self, job: Job) -> list[str]:
        """The same program again."""
        return self.start(job)

    def report(self, job: Job) -> Report:
        """Its script, told to report."""
        return account(output_of([*self.program, "report"], self, job))


class InspectAi(PythonPeer):
    """`inspect eval`, then `inspect eval-retry LOG`, which recovers samples from its buffer by itself."""

    name = "inspect_ai"
    folder = "inspect_ai"
    requires = ("inspect_ai>=0.3.285", "openai>=2", "litellm>=1.80")  # litellm: for its tokenizer files
    script = "_money_inspect.py"

    def environment(self, job: Job) -> dict[str, str]:
        """An OpenAI-compatible provider of the name `local`."""
        own = {"LOCAL_API_KEY": "none", "LOCAL_BASE_URL": job.base_url}
        return {**super().environment(job), **self.tokenizers(), **own}

    def start(self, job: Job) -> list[str]:
        """An evaluation of one task with one sample for each prompt."""
        width = str(job.in_flight)
        options = ["-T", f"dataset={job.dataset}", "--max-connections", width, "--max-samples", width]
        model = ["--model", "openai-api/local/test-model"]
        return [*self._inspect, "eval", f"{HERE / self.script}@prompts", *model, *options, *self._quiet]

    def resume(self, job: Job) -> list[str]:
        """A retry of the log that the killed one left."""
        left = sorted(str(path) for path in (job.directory / "logs").glob("*.eval"))
        return [*self._inspect, "eval-retry", *left, *self._quiet]

    def report(self, job: Job) -> Report:
        """What its logs say."""
        return account(output_of([*self.program, "logs"], self, job))

    @property
    def _inspect(self) -> list[str]:
        return [str(self.venv / "bin/inspect")]

    _quiet = ("--display", "none", "--log-dir", "logs")


class Curator(PythonPeer):
    """A curator.LLM over the dataset; the same program again goes on from its cache."""

    name = "curator"
    folder = "curator"
    requires = ("bespokelabs-curator>=0.1.31",)
    script = "_money_curator.py"

    def environment(self, job: Job) -> dict[str, str]:
        """Without telemetry and the live display."""
        off = {"TELEMETRY_ENABLED": "0", "CURATOR_DISABLE_RICH_DISPLAY": "1"}
        return {**super().environment(job), **self.tokenizers(), **off}


class Dbos(PythonPeer):
    """A queued workflow for each prompt; at launch DBOS recovers what was pending."""

    name = "DBOS on SQLite"
    folder = "dbos"
    requires = ("dbos>=3.4", "httpx>=0.28")
    script = "_money_dbos.py"


class Promptfoo:
    """`promptfoo eval`, then `promptfoo eval --resume`."""

    name = "promptfoo"
    wants = "promptfoo@>=0.121.0 <0.122.0"

    def install(self, cache: Path) -> str:
        """A folder with node_modules, made once."""
        self.folder = cache.resolve() / "promptfoo"
        npm = shutil.which("npm")
        if npm is None:
            raise Unavailable("npm is not here")
        install = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(self.folder), self.wants]
        once(self.folder, self.wants, [install])
        package = json.loads((self.folder / "node_modules/promptfoo/package.json").read_text("utf-8"))
        return f"promptfoo {package['version']}"

    def environment(self, job: Job) -> dict[str, str]:
        """A home of its own for each trial; nothing that reaches for the network."""
        off = {f"PROMPTFOO_DISABLE_{what}": "1" for what in ("TELEMETRY", "UPDATE", "REMOTE_GENERATION")}
        return {"HOME": str(job.directory), "PROMPTFOO_CONFIG_DIR": str(job.directory / "state"), **off}

    def start(self, job: Job) -> list[str]:
        """A test case for each prompt."""
        lines = job.dataset.read_text("utf-8").splitlines()
        config = {
            "prompts": ["{{prompt}}"],
            "providers": [{"id": "openai:chat:test-model", "config": {"apiBaseUrl": job.base_url}}],
            "tests": [{"vars": {"prompt": json.loads(line)["prompt"]}} for line in lines],
        }
        (job.directory / "config.json").write_text(json.dumps(config), "utf-8")
        return [*self._eval, "-c", "config.json", "--max-concurrency", str(job.in_flight)]

    def resume(self, job: Job) -> list[str]:
        """The latest evaluation goes on."""
        return [*self._eval, "--resume", "--max-concurrency", str(job.in_flight)]

    def report(self, job: Job) -> Report:
        """Its own export of the evaluation."""
        command = [*self._promptfoo, "export", "eval", "latest", "--output", "export.json"]
        subprocess.run(
            command,
            cwd=job.directory,
            env={**os.environ, **self.environment(job)},
            capture_output=True,
            check=True,
            timeout=120,
        )
        results = json.loads((job.directory / "export.json").read_text("utf-8"))["results"]
        rows = {r["vars"]["prompt"]: r["response"] for r in results["results"] if r["response"].get("output")}
        row_tokens = sum(response["tokenUsage"].get("total", 0) for response in rows.values())
        return Report(len(rows), results["stats"]["tokenUsage"]["total"], row_tokens)

    @property
    def _promptfoo(self) -> list[str]:
        return [str(self.folder / "node_modules/.bin/promptfoo")]

    @property
    def _eval(self) -> list[str]:
        return [*self._promptfoo, "eval", "--no-table", "--no-progress-bar"]
