"""What it means: pure folds over the events, and the files people look at."""

from .agent_messages import agent_messages, conversation_messages, last_answer
from .answer import Answer, ToolCall, normalise_usage, parse_answer, read_answer
from .asking import prompt_text, row_messages
from .audit import audit_report
from .audit_caps import WARNING_PERCENTS
from .batch import BatchState
from .batch_lines import batch_request, is_batch_line, own_tools, with_own_fields
from .calls import Call
from .conversation import Attempt, ToolResult, Turn, add_usage
from .counts import count_attempt, unknown_calls
from .exchanges import Exchange, Exchanges, Request, ToolUse, tell
from .export_openai import AskedMessages, openai_line
from .export_rows import Best, ExportRows, RowLine, best_of, csv_head, csv_line, jsonl_line
from .export_schema import COLUMNS as EXPORT_COLUMNS
from .export_schema import KINDS as EXPORT_KINDS
from .export_schema import OUTCOMES as EXPORT_OUTCOMES
from .export_schema import SCHEMA_VERSION as EXPORT_SCHEMA_VERSION
from .git_objects import (
    CommitFacts,
    GitObject,
    Member,
    fits_git,
    git_id,
    is_ref_name,
    make_commit,
    parse_commit,
    parse_tree,
)
from .imported import imported_counts, imported_prompt
from .jsontext import json_line, loads_lenient
from .listing import EventLister, WantedEvents, as_listed, tells_of_calls
from .load import fold_log, kind_of, recorded, sequence_at, sifted, worked_on
from .materialize import (
    FileCheck,
    RowSpool,
    Snapshots,
    TrainingViews,
    Views,
    check,
    check_training,
    fold_from_snapshot,
    open_run_views,
    open_training_views,
    open_views,
    rebuild,
    rebuild_training,
    spool_rows,
)
from .mean import mean
from .messages import Message, attempt_messages, request_messages
from .money import cap_amount, is_money, usd
from .open_attempts import OpenAttempts
from .outcomes import by_prompt, settled_by_outcome
from .overview import Summary, overview, summary_of, summary_of_views, unreadable
from .own_fold import Fold, FoldFailed, fold_events, project, render_fold
from .packed_index import PackedIndex
from .reasons import REMEDIES
from .render_card import FinalChoice, render_card
from .render_evaluation import evaluation_report
from .render_statistics import statistics
from .render_steps import render_step
from .render_summary import render_summary
from .rows_source import RowSource
from .sharegpt import render_conversation
from .sharegpt_parse import parse_conversation
from .spans import Span, SpanFold
from .spend import Ledger
from .state import TRAINING, RunState
from .status import result_report, state_name, status_report
from .templates import fill as fill_template
from .templates import template_fields
from .times import rfc3339
from .tool_outcome import tool_succeeded
from .training import INPUT, RUN_NAME, TrainingState
from .training_facts import SUPERSEDED, Evaluation, OpenStep, Rollout, RolloutSummary, StepRecord
from .training_records import rollout_summary
from .training_units import (
    FRAMEWORK_FILES,
    adapter_digest,
    evaluation_unit,
    group_of,
    judge_unit,
    judged_unit,
    learner_unit,
    rollout_unit,
    trial_unit,
)
from .transcript_report import transcript
from .transcript_units import Lookup, find_units
from .unit_rows import Unit
from .unit_table import UnitTable
from .units import idempotency_key, unit_key, unit_name
from .view_names import is_view

__all__ = [
    "EXPORT_COLUMNS",
    "EXPORT_KINDS",
    "EXPORT_OUTCOMES",
    "EXPORT_SCHEMA_VERSION",
    "FRAMEWORK_FILES",
    "INPUT",
    "REMEDIES",
    "RUN_NAME",
    "SUPERSEDED",
    "TRAINING",
    "WARNING_PERCENTS",
    "Answer",
    "AskedMessages",
    "Attempt",
    "BatchState",
    "Best",
    "Call",
    "CommitFacts",
    "Evaluation",
    "EventLister",
    "Exchange",
    "Exchanges",
    "ExportRows",
    "FileCheck",
    "FinalChoice",
    "Fold",
    "FoldFailed",
    "GitObject",
    "Ledger",
    "Lookup",
    "Member",
    "Message",
    "OpenAttempts",
    "OpenStep",
    "PackedIndex",
    "Request",
    "Rollout",
    "RolloutSummary",
    "RowLine",
    "RowSource",
    "RowSpool",
    "RunState",
    "Snapshots",
    "Span",
    "SpanFold",
    "StepRecord",
    "Summary",
    "ToolCall",
    "ToolResult",
    "ToolUse",
    "TrainingState",
    "TrainingViews",
    "Turn",
    "Unit",
    "UnitTable",
    "Views",
    "WantedEvents",
    "adapter_digest",
    "add_usage",
    "agent_messages",
    "as_listed",
    "attempt_messages",
    "audit_report",
    "batch_request",
    "best_of",
    "by_prompt",
    "cap_amount",
    "check",
    "check_training",
    "conversation_messages",
    "count_attempt",
    "csv_head",
    "csv_line",
    "evaluation_report",
    "evaluation_unit",
    "fill_template",
    "find_units",
    "fits_git",
    "fold_events",
    "fold_from_snapshot",
    "fold_log",
    "git_id",
    "group_of",
    "idempotency_key",
    "imported_counts",
    "imported_prompt",
    "is_batch_line",
    "is_money",
    "is_ref_name",
    "is_view",
    "json_line",
    "jsonl_line",
    "judge_unit",
    "judged_unit",
    "kind_of",
    "last_answer",
    "learner_unit",
    "loads_lenient",
    "make_commit",
    "mean",
    "normalise_usage",
    "open_run_views",
    "open_training_views",
    "open_views",
    "openai_line",
    "overview",
    "own_tools",
    "parse_answer",
    "parse_commit",
    "parse_conversation",
    "parse_tree",
    "project",
    "prompt_text",
    "read_answer",
    "rebuild",
    "rebuild_training",
    "recorded",
    "render_card",
    "render_conversation",
    "render_fold",
    "render_step",
    "render_summary",
    "request_messages",
    "result_report",
    "rfc3339",
    "rollout_summary",
    "rollout_unit",
    "row_messages",
    "sequence_at",
    "settled_by_outcome",
    "sifted",
    "spool_rows",
    "state_name",
    "statistics",
    "status_report",
    "summary_of",
    "summary_of_views",
    "tell",
    "tells_of_calls",
    "template_fields",
    "tool_succeeded",
    "transcript",
    "trial_unit",
    "unit_key",
    "unit_name",
    "unknown_calls",
    "unreadable",
    "usd",
    "with_own_fields",
    "worked_on",
]
