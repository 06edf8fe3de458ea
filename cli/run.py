"""`evrun run`: work through a dataset of prompts, or go on with an interrupted run."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from eventlog.storage import log_exists
from evrun.batch import Options, Result, dry_run_sync, report_of, run_batch_sync, spool_stdin
from evrun.tools import distribution_table, toolset_names

from . import output
from . import run_options as o
from .config import ConfigFile, by_precedence, environment, misspelt
from .dry_run import as_report, show
from .progress import Progress
from .runs import DATA

STDIN = "-"
"""The dataset's name when it comes from standard input."""


def run_command(
    context: typer.Context,
    dataset: o.Dataset = None,
    *,
    config: ConfigFile = None,
    dataset_file: o.DatasetFile = None,
    run_name: o.RunName = "",
    output_dir: o.OutputDir = DATA,
    resume: o.Resume = False,
    batch_size: o.BatchSize = None,
    max_samples: o.MaxSamples = None,
    samples: o.Samples = None,
    skip_bad_rows: o.SkipBadRows = False,
    retry_failed: o.RetryFailed = False,
    retry_discarded: o.RetryDiscarded = False,
    require_reasoning: o.RequireReasoning = None,
    unknown_tools: o.UnknownTools = None,
    agent: o.Agent = None,
    judge: o.Judge = None,
    min_score: o.MinScore = None,
    model: o.Model = None,
    base_url: o.BaseUrl = None,
    api_key_env: o.ApiKeyEnv = None,
    api_key: o.ApiKey = None,
    api: o.Api = None,
    header: o.Header = None,
    stream: o.Stream = None,
    price: o.Price = None,
    unknown_price: o.UnknownPrice = None,
    budget_usd: o.BudgetUsd = None,
    budget_tokens: o.BudgetTokens = None,
    budget_calls: o.BudgetCalls = None,
    budget_hours: o.BudgetHours = None,
    prompt_budget_usd: o.PromptBudgetUsd = None,
    providers_allowed: o.ProvidersAllowed = None,
    providers_ignored: o.ProvidersIgnored = None,
    providers_order: o.ProvidersOrder = None,
    provider_sort: o.ProviderSort = None,
    max_tokens: o.MaxTokens = None,
    temperature: o.Temperature = None,
    top_p: o.TopP = None,
    seed: o.Seed = None,
    reasoning_effort: o.ReasoningEffort = None,
    reasoning_disabled: o.ReasoningDisabled = None,
    response_format: o.ResponseFormat = None,
    tool_choice: o.ToolChoice = None,
    extra_body: o.ExtraBody = None,
    template: o.Template = None,
    system_prompt: o.SystemPrompt = None,
    ephemeral_system_prompt: o.EphemeralSystemPrompt = None,
    prefill_messages_file: o.PrefillMessagesFile = None,
    distribution: o.Distribution = None,
    toolsets: o.Toolsets = None,
    tools: o.Tools = None,
    mcp_config: o.McpConfig = None,
    web_allow: o.WebAllow = None,
    list_distributions: o.ListDistributions = False,
    concurrency: o.Concurrency = None,
    max_turns: o.MaxTurns = None,
    retries: o.Retries = None,
    prompt_timeout: o.PromptTimeout = None,
    request_timeout: o.RequestTimeout = None,
    rpm: o.Rpm = None,
    tpm: o.Tpm = None,
    executor: o.Executor = None,
    ray_address: o.RayAddress = None,
    otel: o.Otel = None,
    verbose: o.Verbose = False,
    log_prefix_chars: o.LogPrefixChars = 100,
    quiet: o.Quiet = False,
    dry_run: o.DryRun = False,
    json: output.JsonFlag = False,
) -> int:
    """Work through a dataset of prompts, or go on with an interrupted run.

    `evrun run DATASET --run-name NAME` begins; `evrun run --run-name NAME --resume` goes on, and needs
    nothing else. `--dry-run` sends nothing and says what it may cost. Values in [brackets] are defaults of
    a new run. Every option may also stand in the file of `--config`, or in the environment: `--batch-size`
    is EVRUN_BATCH_SIZE.

    Exit codes: 0 done, 1 could not go on, 2 wrong input, 3 done but some prompts failed, 4 paused by a cap
    or a quota, 5 the log is damaged, 6 in use, 130 and 143 ended by a signal.
    """
    return _begin(context, {name: it for name, it in locals().items() if name not in {"context", "config"}})


def _begin(context: typer.Context, asked: dict[str, Any]) -> int:
    """Do what was asked for, by the names of the options."""
    if asked["list_distributions"]:
        return _list_distributions()
    json: bool = asked["json"]
    there = asked["resume"] and log_exists(asked["output_dir"] / asked["run_name"] / "log")
    options = o.options_of(by_precedence(context, asked, recorded=there))
    for line in misspelt(context.command.params, environment()):
        output.note(line)
    if asked["dry_run"]:
        return _think(options, json)
    shown = asked["log_prefix_chars"] if asked["verbose"] else None
    return _run(options, Progress(asked["quiet"], shown), json)


def _think(options: Options, json: bool) -> int:  # noqa: FBT001 (the flag of the command line)
    with ExitStack() as scratch:
        if str(options.dataset) == STDIN:
            spool = Path(scratch.enter_context(TemporaryDirectory()))
            options.dataset, options.dataset_name = spool_stdin(spool), STDIN
        found = dry_run_sync(options, environment())
    if json:
        output.as_json(as_report(found, options.run_name))
    else:
        show(found, options.run_name)
    return 0


def _run(options: Options, progress: Progress, json: bool) -> int:  # noqa: FBT001 (the flag of the command line)
    with TemporaryDirectory() as scratch, progress:
        if str(options.dataset) == STDIN:
            options.dataset, options.dataset_name = spool_stdin(Path(scratch)), STDIN
        result: Result = run_batch_sync(options, environment(), progress)
    report = report_of(result, options)
    if json:
        output.as_json(report)
    else:
        _say(result, report, options)
    return result.exit_code


def _say(result: Result, report: dict[str, Any], options: Options) -> None:
    counts = report["counts"]
    ended = [f"{counts[name]} {name}" for name in ("kept", "discarded", "failed") if counts[name]]
    output.line(f"{result.name}: {counts['total']} prompts: {', '.join(ended) or 'none finished'}")
    if result.reason is not None:
        output.line(f"reason: {result.reason}")
    parts = [f"{report['settled_usd']} USD settled"]
    if result.state.ledger.in_doubt:
        parts.append(f"{output.at_most(report['in_doubt_usd'])} in doubt")
    if result.state.ledger.total.unpriced:
        parts.append(f"{result.state.ledger.total.unpriced} calls unpriced")
    output.line(f"spent: {', '.join(parts)}")
    output.line(f"files: {options.directory}")
    left = counts["open"] + counts["pending"]
    if left:
        where = "" if options.output_dir == DATA else f" --output-dir {options.output_dir}"
        output.line(f"{left} left; go on with: evrun run --run-name {options.run_name}{where} --resume")


def _list_distributions() -> int:
    rows = [
        (name, ", ".join(f"{toolset} {percent}" for toolset, percent in table.items()))
        for name, table in distribution_table().items()
    ]
    output.table(["distribution", "toolsets and percent"], rows)
    output.line(f"evrun has: {', '.join(toolset_names())}; others are left out of a draw")
    return 0
