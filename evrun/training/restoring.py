"""Refs and views of what has just become durable; whatever is missing of them is made again at a start."""

from pathlib import Path

from eventlog.storage import LogReader
from projections import TrainingState, TrainingViews

from ..effects.git import HEADS, TAGS, Tree
from .blobs import Blobs
from .config import TrainingConfig
from .means import Means
from .tree import restore_tree


def show_step(means: Means) -> None:
    """The branch, the tags and the files of the step that was committed last."""
    record = means.state.steps[-1]
    run = means.prepared.config.trainer.run_name
    move(means.tree, run, record.commit, record.tags)
    means.views.write_step()


def show_final(means: Means) -> None:
    """The branch and the tag of the final adapter."""
    final = means.state.final
    assert final is not None
    move(means.tree, means.prepared.config.trainer.run_name, final.commit.sha, ["final"])


def move(tree: Tree, run: str, commit: str, tags: list[str]) -> None:
    """Let a run's branch stand at a commit, and give that these tags of the run."""
    tree.set_ref(f"{HEADS}{run}", commit)
    for tag in tags:
        tree.set_ref(f"{TAGS}{run}/{tag}", commit)


def restored(means: Means) -> None:
    """Bring the tree to what the log says: objects, branch and tags."""
    restore_tree(means.state, means.blobs, means.tree.path, whole=False)


def bring_up(views: TrainingViews, reader: LogReader, config: TrainingConfig) -> None:
    """Views, refs and tags of a run that nobody will work on any more."""
    views.finish()
    blobs = Blobs(views.state.training, reader)
    restore_tree(views.state.training, blobs, Path(config.trainer.tree_dir))


def training_counts(state: TrainingState) -> dict[str, int]:
    """What a finished run has done."""
    steps = sum(record.step > 0 for record in state.steps)
    return {"steps": steps, "rollouts_ok": state.rollouts_ok, "rollouts_error": state.rollouts_error}
