"""On PYTHONPATH, this makes an `evrun` die as by kill -9 in the moment at which its log has so many events.

`DIE_AT_SEQUENCE` is that of the last event that becomes durable; nothing that waits for it goes on.
"""

import os
import signal

from evrun.journal import Journal

_fold = Journal._fold


def _fold_and_die(self, ticket, events):
    _fold(self, ticket, events)
    if ticket.last_sequence >= int(os.environ["DIE_AT_SEQUENCE"]):
        os.kill(os.getpid(), signal.SIGKILL)


if "DIE_AT_SEQUENCE" in os.environ:
    Journal._fold = _fold_and_die
