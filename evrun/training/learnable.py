"""The files of an adapter that a learner may rewrite, as texts, and candidates made of them."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .authoring import Workspace
from .blobs import read_files
from .globs import covered
from .manifest import FRAMEWORK_FILES, MANIFEST, parse_manifest


def learnable_texts(adapter: Path, chosen: Sequence[str] = ()) -> dict[str, str]:
    """The learnable files of an adapter by path, or those of them that the patterns `chosen` cover.

    Raises:
        ValueError: there are none, or one of them is no text.
    """
    found = read_files(adapter)
    patterns = [one.path for one in parse_manifest(found[MANIFEST].data).learnable]
    paths = [path for path in found if path not in FRAMEWORK_FILES and covered(patterns, path)]
    taken = [path for path in paths if not chosen or covered(chosen, path)]
    if not taken:
        wanted = (
            f"evolver.params.files: {', '.join(chosen)}" if chosen else "structure.learnable of adapter.yaml"
        )
        raise ValueError(
            f"{wanted}: no such file is in the adapter; it has {', '.join(paths) or 'none to learn'}"
        )
    return {path: _text(path, found[path].data) for path in taken}


def put_texts(adapter: Path, texts: Mapping[str, str]) -> None:
    """Write files of an adapter, over what is there."""
    for path, text in texts.items():
        target = adapter / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def candidate_directory(workspace: Workspace, name: str, texts: Mapping[str, str]) -> Path:
    """A copy of the working adapter with other texts, among the files that are thrown away."""
    place = workspace.scratch / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(workspace.adapter, place)
    put_texts(place, texts)
    return place


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(
            f"{path} is no UTF-8 text, so a model cannot rewrite it; name others in evolver.params.files"
        ) from None
