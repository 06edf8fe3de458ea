"""Containers: the commands of a row that names an image, run through docker or podman.

Each command gets a container of its own, which is gone when the command has ended: what stays is the
attempt's directory, mounted into it. So an attempt can go on after a crash with all that it has. Containers
carry the run's marker as a label, because their processes are no children of ours and in no group of ours.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from .clock import random_bytes
from .processes import Ended, run_command
from .secrets import MARKER_VARIABLE, TEMPORARY_DIRECTORY, find_secrets

ENGINES = ("docker", "podman")
"""In the order in which they are tried."""
DEFAULT_MOUNT = "/workspace"
PROBE_S = 20.0
PULL_S = 600.0
REMOVE_S = 30.0
LEAVING_S = 5.0
"""Who wants to leave at once waits no longer for an engine; the next session removes what is left."""
SHOWN = 500
RUN_LABEL = "evrun.run"
ATTEMPT_LABEL = "evrun.attempt"
COULD_NOT_RUN = 125
"""With this code an engine says that it could not run a container at all."""


class Container(msgspec.Struct, frozen=True):
    """Where the commands of a row run: an engine's program, an image, and the attempt directory's place."""

    engine: str
    image: str
    mount: str

    @property
    def is_podman(self) -> bool:
        """Whether the user within is root, which means whoever runs evrun."""
        return "podman" in Path(self.engine).name


class NoContainer(NamedTuple):
    """Why a row's commands cannot run where it wants them to; `error_class` is that of its failure."""

    error_class: str
    message: str
    retryable: bool = False


class Containers:
    """The containers of a run in one session; `marker` names the run. An engine is looked for when needed."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._engine: str | None = None
        self._problem: str | None = None
        self._images: dict[str, NoContainer | None] = {}
        self._lock = anyio.Lock()

    async def place(self, image: object, cwd: object) -> Container | NoContainer | None:
        """Where the commands of a row run: null is the host. Its image is there afterwards."""
        if image is None:
            return None if cwd is None else NoContainer("cwd_without_image", _cwd_alone(cwd))
        problem = _unusable(image, cwd)
        if problem is not None:
            return NoContainer("no_container", problem)
        name = str(image).removeprefix("docker://")
        async with self._lock:
            if self._engine is None and self._problem is None:
                await self._find_engine()
            if self._engine is None:
                message = f"the row asks for container image {name!r}, and no engine works: {self._problem}"
                return NoContainer("no_container", message)
            if self._images.get(name, name) is not None:
                self._images[name] = await self._provide(self._engine, name)
            refusal = self._images[name]
        return refusal or Container(self._engine, name, str(cwd or DEFAULT_MOUNT))

    async def end(self, marker: str) -> None:
        """Remove what is left of an attempt's containers."""
        if self._engine is not None:
            await _remove_labelled(self._engine, f"{ATTEMPT_LABEL}={marker}")

    async def end_all(self) -> None:
        """Remove what is left of the run's containers."""
        if self._engine is not None:
            await _remove_labelled(self._engine, f"{RUN_LABEL}={self._marker}")

    def end_all_at_once(self) -> None:
        """The same for a process that is about to leave."""
        if self._engine is None:
            return
        with suppress(OSError, subprocess.SubprocessError):
            names = subprocess.run(  # noqa: S603 - the engine that was found
                [self._engine, *_listing(f"{RUN_LABEL}={self._marker}")],
                check=False,
                capture_output=True,
                timeout=LEAVING_S,
            ).stdout.split()
            if names:
                subprocess.run(  # noqa: S603 - likewise
                    [self._engine, "rm", "--force", *names],
                    check=False,
                    capture_output=True,
                    timeout=LEAVING_S,
                )

    async def _find_engine(self) -> None:
        problems = []
        for name in ENGINES:
            program = shutil.which(name)
            if program is None:
                problems.append(f"{name} is not installed")
                continue
            # Asking for the containers needs what running one needs: the client and, for docker, its daemon.
            ended = await _ask([program, "ps", "--quiet"], PROBE_S)
            if ended.exit_code == 0:
                self._engine = program
                # A crash may have left some behind.
                await self.end_all()
                return
            problems.append(f"{name}: {_said(ended) or 'it does not answer'}")
        self._problem = "; ".join(problems)

    async def _provide(self, engine: str, image: str) -> NoContainer | None:
        if (await _ask([engine, "image", "inspect", image], PROBE_S)).exit_code == 0:
            return None
        ended = await _ask([engine, "pull", "--quiet", image], PULL_S)
        if ended.exit_code == 0:
            return None
        said = _said(ended) if ended.exit_code is not None else f"not done within {PULL_S:g} s"
        return NoContainer("image_pull", f"{Path(engine).name} pull {image}: {said}", retryable=True)


async def run_in_container(
    container: Container,
    command: Sequence[str],
    *,
    directory: Path,
    marker: str,
    timeout_s: float,
    keep_bytes: int,
) -> Ended:
    """Run a command in a container of its own, to its end or its deadline; afterwards the container is gone.

    Raises:
        OSError: the engine could not be started.
        ValueError: the engine could not run a container, or the arguments cannot be handed over.
    """
    name = f"evrun-{random_bytes(8).hex()}"
    removed = False
    try:
        ended = await run_command(
            _command_line(container, name, directory, marker, command),
            directory=directory,
            environment=_environment(marker),
            timeout_s=timeout_s,
            keep_bytes=keep_bytes,
        )
        removed = ended.exit_code is not None
    finally:
        if not removed:
            # The client is dead, and the container does not know it.
            with anyio.CancelScope(shield=True):
                await _ask([container.engine, "rm", "--force", name], REMOVE_S)
    if ended.exit_code == COULD_NOT_RUN:
        raise ValueError(f"{Path(container.engine).name} could not run it: {_said(ended)}")
    return ended


def _command_line(
    container: Container, name: str, directory: Path, marker: str, command: Sequence[str]
) -> list[str]:
    run = marker.partition("/")[0]
    variables = {
        "HOME": container.mount,
        "TMPDIR": f"{container.mount}/{TEMPORARY_DIRECTORY}",
        "TERM": "dumb",
        MARKER_VARIABLE: marker,
    }
    # In a container of docker's, root would be root outside as well, and its files nobody's to remove.
    user = [] if container.is_podman else ["--user", f"{os.getuid()}:{os.getgid()}"]
    return [
        container.engine,
        *("run", "--rm", "--pull=never", "--name", name),
        *("--label", f"{RUN_LABEL}={run}", "--label", f"{ATTEMPT_LABEL}={marker}"),
        *("--security-opt", "label=disable", *user),
        *("--mount", f"type=bind,source={directory},target={container.mount}", "--workdir", container.mount),
        *(part for variable, value in variables.items() for part in ("--env", f"{variable}={value}")),
        *("--entrypoint", command[0], container.image, *command[1:]),
    ]


def _unusable(image: object, cwd: object) -> str | None:
    if not isinstance(image, str) or not image.strip() or image.startswith("-"):
        return f"the row's image is {image!r}: expected the name of a container image"
    if cwd is None:
        return None
    if not isinstance(cwd, str) or not cwd.startswith("/") or not cwd.strip("/") or set(cwd) & set(',"\n'):
        return f"the row's cwd is {cwd!r}: expected an absolute path in the container, like {DEFAULT_MOUNT}"
    return None


def _cwd_alone(cwd: object) -> str:
    return (
        f"the row asks for the working directory {cwd!r}, which is honoured only in a container, and names "
        "no image; give it an image, or leave cwd out: tools then work in the attempt's own directory"
    )


async def _ask(command: Sequence[str], timeout_s: float) -> Ended:
    """Let an engine do something; what it said is in the head."""
    try:
        return await run_command(
            command, directory=Path.cwd(), environment=_environment(None), timeout_s=timeout_s
        )
    except OSError as error:
        return Ended(COULD_NOT_RUN, str(error).encode(), b"", 0)


async def _remove_labelled(engine: str, label: str) -> None:
    with anyio.CancelScope(shield=True):
        names = (await _ask([engine, *_listing(label)], REMOVE_S)).head.decode("utf-8", "replace").split()
        if names:
            await _ask([engine, "rm", "--force", *names], REMOVE_S)


def _listing(label: str) -> list[str]:
    return ["ps", "--all", "--quiet", "--filter", f"label={label}"]


def _environment(marker: str | None) -> Mapping[str, str]:
    """An engine needs to find its configuration; secrets it does not need."""
    secret = find_secrets(os.environ)
    kept = {name: value for name, value in os.environ.items() if name not in secret}
    return kept if marker is None else {**kept, MARKER_VARIABLE: marker}


def _said(ended: Ended) -> str:
    return " ".join(ended.head.decode("utf-8", "replace").split())[:SHOWN]
