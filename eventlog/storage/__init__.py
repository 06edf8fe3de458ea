"""The log: bytes kept in order, durable before acknowledged, blind to their meaning. See FORMAT.md."""

from .files import AppendFile, replace_file
from .filesystem import FileSystem, RealFileSystem
from .presence import log_exists
from .reader import LogReader
from .tickets import Ticket
from .verdict import Position, Record, Verdict
from .verify import lock_holder, verify
from .writer import LogWriter

__all__ = [
    "AppendFile",
    "FileSystem",
    "LogReader",
    "LogWriter",
    "Position",
    "RealFileSystem",
    "Record",
    "Ticket",
    "Verdict",
    "lock_holder",
    "log_exists",
    "replace_file",
    "verify",
]
