"""The log: bytes kept in order, durable before they are acknowledged, and blind to their meaning. See FORMAT.md."""

from .files import AppendFile, replace_file
from .filesystem import FileSystem, RealFileSystem
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
    "replace_file",
    "verify",
]
