"""A stand-in for a container engine: a program that writes down how it was called, and obeys on the host.

`install(directory, name, …)` makes DIRECTORY/bin/NAME. Each call is a line of DIRECTORY/calls: a JSON array
of its arguments and of its environment's names. "Images" are the names in DIRECTORY/images; "containers" that
run are files in DIRECTORY/containers, named after them, with their labels and their command's process id.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = '#!/bin/sh\nexec {python} {program} {directory} "$@"\n'


def install(directory, name="docker", *, images=("box",), pulls=(), works=True):
    """Put the stand-in on a path of its own; returns that path's directory."""
    for folder in ("bin", "containers"):
        (directory / folder).mkdir(parents=True, exist_ok=True)
    (directory / "images").write_text("\n".join(images))
    (directory / "pulls").write_text("\n".join(pulls))
    (directory / "works").write_text("yes" if works else "")
    program = directory / "bin" / name
    program.write_text(SCRIPT.format(python=sys.executable, program=__file__, directory=directory))
    program.chmod(0o755)
    return directory / "bin"


def calls(directory):
    """All calls so far: (arguments, names of the environment's variables)."""
    path = directory / "calls"
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def runs(directory):
    """The arguments of the calls that ran something."""
    return [arguments for arguments, _ in calls(directory) if arguments[0] == "run"]


def main(directory, arguments):
    """One call."""
    with (directory / "calls").open("a") as file:
        file.write(json.dumps([arguments, sorted(os.environ)]) + "\n")
    if not (directory / "works").read_text():
        sys.stderr.write("Cannot connect to the daemon.\n")
        return 1
    match arguments:
        case ["ps", "--all", *_]:
            return list_containers(directory, arguments[-1].removeprefix("label="))
        case ["ps", *_]:
            return 0
        case ["image", "inspect", image]:
            return 0 if image in (directory / "images").read_text().splitlines() else 1
        case ["pull", "--quiet", image]:
            return pull(directory, image)
        case ["rm", "--force", *names]:
            return remove(directory, names)
        case ["run", *rest]:
            return run(directory, rest)
    return 2


def list_containers(directory, label):
    """The names of those that carry a label."""
    for path in (directory / "containers").iterdir():
        if label in json.loads(path.read_text())["labels"]:
            sys.stdout.write(path.name + "\n")
    return 0


def pull(directory, image):
    """An image comes, or there is none."""
    if image not in (directory / "pulls").read_text().splitlines():
        sys.stderr.write("no such image" + "!" * 600 + "\n")
        return 1
    with (directory / "images").open("a") as file:
        file.write(f"\n{image}")
    return 0


def remove(directory, names):
    """Kill what they run, and forget them."""
    for name in names:
        path = directory / "containers" / name
        if path.exists():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
            path.unlink()
    return 0


def run(directory, arguments):
    """The command, in the mounted directory, in a session of its own: nobody's child, as an engine's are."""
    options = {"label": [], "env": []}
    while arguments[0].startswith("--"):
        name, _, value = arguments.pop(0).removeprefix("--").partition("=")
        if name == "rm" or value:
            continue
        options[name] = [*options.get(name, []), arguments.pop(0)]
    mount = dict(part.split("=") for part in options["mount"][0].split(","))
    # The host's own path stands for the place of the mount.
    words = [
        word.replace(mount["target"], mount["source"]) for word in [*options["entrypoint"], *arguments[1:]]
    ]
    variables = dict(each.split("=", 1) for each in options["env"] if not each.startswith("EVRUN_"))
    environment = {"PATH": os.environ["PATH"], **variables}
    process = subprocess.Popen(words, cwd=mount["source"], env=environment, start_new_session=True)
    container = directory / "containers" / options["name"][0]
    container.write_text(json.dumps({"labels": options["label"], "pid": process.pid}))
    code = process.wait()
    container.unlink(missing_ok=True)
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
