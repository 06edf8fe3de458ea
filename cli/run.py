"""`evrun run`: work through a dataset of prompts, or go on with an interrupted run."""

import json as jsonlib
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from evrun.tools.toolsets import BUILT_IN

from evrun.batch.dataset import spool_stdin
from evrun.batch.options import Options
from evrun.batch.session import Result, run_batch
from evrun.errors import UsageFault
from evrun.tools.distributions import DISTRIBUTIONS
from projections import result_report

from . import output
from .progress import Progress
from .runs import DATA

STDIN = "-"
"""The dataset's name when it comes from standard input."""

# typer.Option is spelled often enough to deserve a short name here.
_Opt = typer.Option


def run_command(
    dataset: Annotated[
        Path | None, typer.Argument(metavar="[DATASET]", help="JSONL: a prompt a line.")
    ] = None,
    *,
    dataset_file: Annotated[Path | None, _Opt(help="The dataset, as an option.")] = None,
    run_name: Annotated[str, _Opt(help="The run's name: letters, digits, '.', '_', '-'.")] = "",
    output_dir: Annotated[Path, _Opt(help="The run lives in OUTPUT_DIR/RUN_NAME.")] = DATA,
    resume: Annotated[bool, _Opt("--resume", help="Go on with the run of this name.")] = False,
    batch_size: Annotated[int | None, _Opt(help="Prompts per batch_N.jsonl.  [10]")] = None,
    max_samples: Annotated[int | None, _Opt(help="Only the first N usable rows.")] = None,
    samples: Annotated[int | None, _Opt(help="Independent tries at each row.  [1]")] = None,
    skip_bad_rows: Annotated[bool, _Opt("--skip-bad-rows", help="Leave bad lines out, on record.")] = False,
    model: Annotated[str | None, _Opt(help="The model; 'local' is the embedded one.")] = None,
    base_url: Annotated[str | None, _Opt(help="An OpenAI-compatible endpoint.  [OPENAI_BASE_URL]")] = None,
    api_key_env: Annotated[str | None, _Opt(help="The variable with the key.  [OPENAI_API_KEY]")] = None,
    api_key: Annotated[str | None, _Opt(hidden=True)] = None,
    concurrency: Annotated[
        int | None, _Opt("--concurrency", "--num-workers", help="Prompts in flight.  [8]")
    ] = None,
    max_turns: Annotated[int | None, _Opt(help="Model calls per prompt.  [10]")] = None,
    max_tokens: Annotated[int | None, _Opt(help="The most tokens of one answer.")] = None,
    temperature: Annotated[float | None, _Opt(help="Sent as it is.")] = None,
    top_p: Annotated[float | None, _Opt(help="Sent as it is.")] = None,
    seed: Annotated[int | None, _Opt(help="Sent with each request; also draws the toolsets.")] = None,
    reasoning_effort: Annotated[
        str | None, _Opt(help="none, minimal, low, medium, high, xhigh, max, ultra.")
    ] = None,
    reasoning_disabled: Annotated[
        bool | None, _Opt("--reasoning-disabled", help="Ask for no reasoning.")
    ] = None,
    extra_body: Annotated[str | None, _Opt(metavar="JSON", help="Merged into each request.")] = None,
    system_prompt: Annotated[str | None, _Opt(help="Sent, and kept in trajectories.")] = None,
    ephemeral_system_prompt: Annotated[str | None, _Opt(help="Sent, never in trajectories.")] = None,
    prefill_messages_file: Annotated[
        Path | None, _Opt(help="JSON messages: sent, never in trajectories.")
    ] = None,
    distribution: Annotated[str | None, _Opt(help="Toolsets are drawn from it.  [default]")] = None,
    toolsets: Annotated[str | None, _Opt(metavar="A,B|none", help="These toolsets, nothing drawn.")] = None,
    list_distributions: Annotated[bool, _Opt("--list-distributions", help="Show them and exit.")] = False,
    require_reasoning: Annotated[
        bool | None,
        _Opt("--require-reasoning/--keep-all", help="Set aside what shows no reasoning.  [require]"),
    ] = None,
    retries: Annotated[int | None, _Opt(help="Repeats of a call that failed.  [4]")] = None,
    prompt_timeout: Annotated[float | None, _Opt(help="Seconds for one prompt.  [600]")] = None,
    request_timeout: Annotated[float | None, _Opt(help="Seconds for one request.  [120]")] = None,
    retry_failed: Annotated[
        bool, _Opt("--retry-failed", help="On resume: try failed prompts again.")
    ] = False,
    retry_discarded: Annotated[
        bool, _Opt("--retry-discarded", help="On resume: try set-aside ones again.")
    ] = False,
    price: Annotated[
        list[str] | None, _Opt(metavar="MODEL=IN,OUT[,CACHED]", help="USD per million tokens.")
    ] = None,
    providers_allowed: Annotated[str | None, _Opt(metavar="A,B", help="OpenRouter routing.")] = None,
    providers_ignored: Annotated[str | None, _Opt(metavar="A,B", help="OpenRouter routing.")] = None,
    providers_order: Annotated[str | None, _Opt(metavar="A,B", help="OpenRouter routing.")] = None,
    provider_sort: Annotated[str | None, _Opt(help="price, throughput or latency.")] = None,
    verbose: Annotated[bool, _Opt("--verbose", help="A line for each event, and tracebacks.")] = False,
    log_prefix_chars: Annotated[int, _Opt(help="Length of text previews with --verbose.")] = 100,
    quiet: Annotated[bool, _Opt("--quiet", help="No progress.")] = False,
    json: output.JsonFlag = False,
) -> int:
    """Work through a dataset of prompts, or go on with an interrupted run.

    `evrun run DATASET --run-name NAME` begins; `evrun run --run-name NAME --resume` goes on, and needs
    nothing else. Values in [brackets] are defaults of a new run. Exit codes: 0 done, 1 could not go on, 2
    wrong input, 3 done but some prompts failed, 4 paused by a quota, 5 the log is damaged, 6 in use, 130
    and 143 ended by a signal.
    """
    if list_distributions:
        return _list_distributions()
    _refuse_api_key(api_key)
    if dataset is not None and dataset_file is not None and dataset != dataset_file:
        raise UsageFault(f"two datasets: {dataset} and --dataset-file {dataset_file}", hint="give one")
    given: dict[str, Any] = {
        "batch_size": batch_size,
        "max_samples": max_samples or None,
        "samples": samples,
        "model": model,
        "base_url": base_url,
        "api_key_env": api_key_env,
        "concurrency": concurrency,
        "max_turns": max_turns,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "seed": seed,
        "reasoning_effort": reasoning_effort,
        "reasoning_disabled": reasoning_disabled,
        "extra_body": _json_object("extra-body", extra_body),
        "system_prompt": system_prompt,
        "ephemeral_system_prompt": ephemeral_system_prompt,
        "distribution": distribution,
        "toolsets": _toolsets(toolsets),
        "require_reasoning": require_reasoning,
        "retries": retries,
        "prompt_timeout": prompt_timeout,
        "request_timeout": request_timeout,
        "prices": price or None,
        "providers_allowed": _names(providers_allowed),
        "providers_ignored": _names(providers_ignored),
        "providers_order": _names(providers_order),
        "provider_sort": provider_sort,
    }
    options = Options(
        run_name=run_name,
        output_dir=output_dir,
        resume=resume,
        retry_failed=retry_failed,
        retry_discarded=retry_discarded,
        skip_bad_rows=skip_bad_rows,
        dataset=dataset or dataset_file,
        prefill_messages_file=prefill_messages_file,
        given=given,
    )
    progress = Progress(quiet=quiet, preview=log_prefix_chars if verbose else None)
    with TemporaryDirectory() as scratch:
        if str(options.dataset) == STDIN:
            options.dataset, options.dataset_name = spool_stdin(Path(scratch)), STDIN
        return _run(options, progress, json=json)


def _run(options: Options, progress: Progress, *, json: bool) -> int:
    import anyio  # noqa: PLC0415 (only a real run needs it)

    with progress:
        result: Result = anyio.run(run_batch, options, dict(os.environ), progress)
    report = result_report(
        result.state,
        run=options.run_name,
        dir=str(options.directory),
        state_name=result.name,
        exit_code=result.exit_code,
        reason=result.reason,
        chain=result.chain.hex(),
    )
    if json:
        output.as_json(report)
    else:
        _say(result, report, options)
    return result.exit_code


def _say(result: Result, report: dict[str, Any], options: Options) -> None:
    counts = report["counts"]
    outcomes = ", ".join(f"{counts[name]} {name}" for name in ("kept", "discarded", "failed") if counts[name])
    output.line(f"{result.name}: {counts['total']} prompts: {outcomes or 'none finished'}")
    left = counts["open"] + counts["pending"]
    if result.reason is not None:
        output.line(f"reason: {result.reason}")
    doubt = f", {report['in_doubt_usd']} USD in doubt" if result.state.ledger.in_doubt else ""
    unpriced = result.state.ledger.total.unpriced
    output.line(
        f"spent: {report['settled_usd']} USD settled{doubt}"
        + (f", {unpriced} calls unpriced" if unpriced else "")
    )
    output.line(f"files: {options.directory}")
    if left:
        where = "" if options.output_dir == DATA else f" --output-dir {options.output_dir}"
        output.line(f"{left} left; go on with: evrun run --run-name {options.run_name}{where} --resume")


def _list_distributions() -> int:
    rows = [
        (name, ", ".join(f"{toolset} {percent}" for toolset, percent in table.items()))
        for name, table in DISTRIBUTIONS.items()
    ]
    output.table(["distribution", "toolsets and percent"], rows)
    output.line(f"toolsets that evrun has: {', '.join(BUILT_IN)}; others are left out of a draw")
    return 0


def _refuse_api_key(value: str | None) -> None:
    if value is not None:
        raise UsageFault(
            "--api-key is refused: a key on a command line can be read in the process list",
            hint="put it into an environment variable and name that with --api-key-env NAME",
        )


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _toolsets(text: str | None) -> list[str] | None:
    return [] if text == "none" else _names(text)


def _json_object(option: str, text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = jsonlib.loads(text)
    except ValueError as error:
        raise UsageFault(f"--{option}: bad JSON: {error}", hint="for example '{\"top_k\": 20}'") from error
    if not isinstance(value, dict):
        raise UsageFault(f"--{option}: expected a JSON object, found {text[:60]}")
    return value
