"""From the log to the files people look at: live, from nothing, or compared. Here projections meet files."""

from .check import FileCheck, check
from .live import Views, open_views
from .rebuild import rebuild
from .row_spool import RowSpool, spool_rows

__all__ = ["FileCheck", "RowSpool", "Views", "check", "open_views", "rebuild", "spool_rows"]
