"""From the log to the files people look at: live, from nothing, or compared. Here projections meet files."""

from .check import FileCheck, check
from .live import Views, open_views
from .rebuild import rebuild

__all__ = ["FileCheck", "Views", "check", "open_views", "rebuild"]
