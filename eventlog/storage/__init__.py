"""The log: bytes kept in order, durable before acknowledged, blind to their meaning. See FORMAT.md."""

from .compact import compact
from .compaction import Compacted
from .durable_log import DurableFile, DurableLog
from .files import AppendFile, replace_file
from .filesystem import FileSystem, RealFileSystem
from .presence import log_exists
from .reader import LogReader
from .salvage import Gap, Salvaged, salvage
from .salvage_copy import SalvageCopy
from .tickets import Ticket
from .verdict import Position, Record, Verdict
from .verify import lock_holder, verify
from .writer import LogWriter

__all__ = [
    "AppendFile",
    "Compacted",
    "DurableFile",
    "DurableLog",
    "FileSystem",
    "Gap",
    "LogReader",
    "LogWriter",
    "Position",
    "RealFileSystem",
    "Record",
    "SalvageCopy",
    "Salvaged",
    "Ticket",
    "Verdict",
    "compact",
    "lock_holder",
    "log_exists",
    "replace_file",
    "salvage",
    "verify",
]
