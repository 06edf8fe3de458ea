"""`evrun` as a program out of a nest, for shells: it orders the process and is what the shell sees of it.

Started as ``python -I -S warm_program.py DOOR ENTRY ARGUMENTS…`` (`warm.program`); it imports next to none,
and that is all that it is for. It hands on SIGINT and SIGTERM; if it is killed the nest kills the process.
"""

import json
import os
import signal
import socket
import sys


def main(door: str, entry: str, arguments: list[str]) -> int:
    """Order the process, wait for its end, and end as it did."""
    order = {"entry": entry, "arguments": arguments, "cwd": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
    name = f"{os.environ['HOME']}/order-{os.getpid()}"
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.unlink(name)  # noqa: PTH108
    os.write(file, json.dumps(order).encode())
    life, told = os.pipe()
    with socket.socket(socket.AF_UNIX) as orders:
        orders.connect(door)
        socket.send_fds(orders, [b"!"], [file, told, 0, 1, 2])
    os.close(told)
    said = b""
    while b"\n" not in said:
        said += os.read(life, 64) or sys.exit("the nest is gone")
    pid = int(said.split(b"\n")[0])
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(pid, number))
    while said.count(b"\n") < 2:
        said += os.read(life, 64) or sys.exit("the nest is gone")
    ended = os.waitstatus_to_exitcode(int(said.split(b"\n")[1]))
    if ended < 0:
        if -ended != signal.SIGKILL:
            signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
