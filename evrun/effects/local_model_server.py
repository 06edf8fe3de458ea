"""The process of the embedded model: llama.cpp's own HTTP server, on loopback, for one parent.

A script of its own, started by path (see `local_model`). Its one argument is a JSON object: `weights` (path),
`name`, `threads`, `slots`, `context_tokens` (of each slot) and `tied` (whether the kernel shall end it
together with the thread that started it). Once it serves it writes one line to its stdout, `{"port": …}`. It
lives as long as its stdin stays open.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import threading
from typing import Any

PR_SET_PDEATHSIG = 1
HTTP_THREADS_BESIDE_SLOTS = 8
"""Waiting requests each hold a thread of the HTTP server, so a few more than slots keep /health answering."""
ERRORS_ONLY = 1


def serve(settings: dict[str, Any]) -> None:
    """Load the model, serve it, say where, and never return."""
    report = _take_stdout()
    if settings["tied"]:
        _die_with_parent()
    # llama.cpp puts handlers of its own in place, under which its server lives on. Signals that are held back
    # in every thread never reach them; they are waited for below. Ctrl-C is the parent's business.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})

    # The pipe is watched while it loads, too.
    threading.Thread(target=_die_at_end_of_stdin, daemon=True).start()
    xllamacpp = importlib.import_module("xllamacpp")
    server = xllamacpp.Server(_parameters(xllamacpp, settings))
    port = int(server.listening_address.rsplit(":", 1)[1])
    os.write(report, json.dumps({"port": port}).encode() + b"\n")
    os.close(report)
    while signal.sigwait({signal.SIGINT, signal.SIGTERM}) != signal.SIGTERM:
        pass
    _die()


def _parameters(xllamacpp: Any, settings: dict[str, Any]) -> Any:
    """llama.cpp's settings. Each slot is a conversation with a context of its own."""
    params = xllamacpp.CommonParams()
    params.model.path = settings["weights"]
    params.model_alias = settings["name"]
    params.hostname = "127.0.0.1"
    # The kernel picks a port that nobody listens on. A port chosen here could be shared without an error.
    params.port = 0
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["slots"] * settings["context_tokens"]
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.n_threads_http = settings["slots"] + HTTP_THREADS_BESIDE_SLOTS
    # Tools need the model's own chat template.
    params.use_jinja = True
    # Kept conversations beside the slots cost memory and save little with so small a model.
    params.cache_ram_mib = 0
    params.webui = False
    params.endpoint_slots = False
    params.verbosity = ERRORS_ONLY
    return params


def _take_stdout() -> int:
    """The real stdout, for the one line; whatever a library prints there goes to stderr from now on."""
    report = os.dup(1)
    os.dup2(2, 1)
    return report


def _die_with_parent() -> None:
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        _die()


def _die_at_end_of_stdin() -> None:
    """Nobody writes to stdin: it only ends, when the parent closes it or is gone in whatever way."""
    while os.read(0, 64):
        pass
    _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
