"""`evrun archive RUN DEST`: a run's log kept elsewhere; `--restore` brings it back."""

from pathlib import Path
from typing import Annotated, Any

import typer

from evrun.archive import Archived, Restored, archive_run, restore
from evrun.errors import UsageFault

from . import output
from .output import JsonFlag
from .runs import DATA, OutputDirectory, find_run

Source = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run directory or a run's name; with --restore, an archive."),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="DEST", help="A directory, or s3://BUCKET/PREFIX; with --restore, the run directory to make."
    ),
]
RestoreFlag = Annotated[
    bool, typer.Option("--restore", help="The other way: make a run directory of an archive.")
]

CheckFlag = Annotated[
    bool,
    typer.Option("--check", help="Read back what was sent earlier, too; send again what is not whole."),
]


def archive_command(
    source: Source,
    target: Target,
    *,
    restore_run: RestoreFlag = False,
    check: CheckFlag = False,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Keep a run's log in another place: a directory, or a bucket that speaks S3.

    What is there is not sent again; what is sent is read back and compared; the archive is renewed only when
    all of it is there. Works while a process works on the run, up to the last durable event. `evrun verify
    DEST`, `evrun replay DEST --out DIR` and all that only reads take the archive for the run. A bucket's
    endpoint and keys come from the usual AWS_ variables.
    """
    if restore_run and check:
        raise UsageFault("--check is for sending", "--restore looks at every byte anyway")
    if restore_run:
        report_restored(restore(source, Path(target)), json=json)
        return 0
    say = (lambda _: None) if json else output.note
    report_archived(archive_run(find_run(source, output_dir), target, say, check=check), json=json)
    return 0


def report_archived(done: Archived, *, json: bool) -> None:
    """Print what the archive holds now."""
    manifest = done.manifest
    if json:
        output.as_json(
            {
                "run": manifest.run,
                "archive": done.place,
                **_position(manifest.sequence, manifest.chain),
                "files": len(manifest.files),
                "bytes": manifest.stored_bytes,
                "sent": [{"name": one.name, "bytes": one.bytes, "sha256": one.sha256} for one in done.sent],
                "sent_bytes": done.sent_bytes,
                "removed": done.removed,
            }
        )
        return
    output.facts(
        [
            ("archive", f"{manifest.run} in {done.place}"),
            ("events", manifest.sequence),
            ("chain", manifest.chain),
            ("holds", f"{len(manifest.files)} files, {manifest.stored_bytes:,} bytes"),
            ("sent", _sent(done)),
        ]
    )


def _sent(done: Archived) -> str:
    if not done.sent:
        return "nothing: all of it was there"
    return f"{len(done.sent)} files, {done.sent_bytes:,} bytes, each read back and compared"


def report_restored(done: Restored, *, json: bool) -> None:
    """Print what was brought back."""
    manifest = done.manifest
    if json:
        position = _position(manifest.sequence, manifest.chain)
        output.as_json({"run": manifest.run, "archive": done.place, "dir": done.directory, **position})
        return
    output.line(f"{done.directory}: run {manifest.run} from {done.place}, {manifest.sequence} events")
    output.line(f"its log is whole; `evrun replay {done.directory}` makes the views, a resume goes on")


def _position(sequence: int, chain: str) -> dict[str, Any]:
    return {"sequence": sequence, "chain": chain}
