"""From the log to the files people look at: live, from nothing, or compared. Here projections meet files."""

from .check import check
from .live import Views, open_run_views, open_views
from .rebuild import rebuild
from .row_spool import RowSpool, spool_rows
from .snapshots import Snapshots, fold_from_snapshot
from .training_check import check_training
from .training_live import TrainingViews, open_training_views
from .training_rebuild import rebuild_training
from .window import FileCheck

__all__ = [
    "FileCheck",
    "RowSpool",
    "Snapshots",
    "TrainingViews",
    "Views",
    "check",
    "check_training",
    "fold_from_snapshot",
    "open_run_views",
    "open_training_views",
    "open_views",
    "rebuild",
    "rebuild_training",
    "spool_rows",
]
