"""Views renewed in another thread, while the fold goes on: what they show is one moment, whole."""

import threading
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from projections import Snapshots, open_views

from .histories import LogMaker, discarded, failed, kept, name_of, restored
from .random_history import History
from .views import files, finished_unit, follow, opening, rebuilt, why


def always():
    """A clock by which nothing costs anything, so that everything is always due."""
    return 0.0


@given(st.integers(0, 2**32))
@settings(max_examples=6, deadline=None)
def test_what_another_thread_writes_stands_for_the_moment_it_was_begun(tmp_path_factory, seed):
    """Rows, revisions and new sessions come between the two parts: nothing is lost, and nothing is early."""
    place, random = tmp_path_factory.mktemp("run"), Random(seed)
    history, at_work = History(random), None
    with LogMaker(place / "log") as maker:
        maker.write(history.commits)
        views = open_views(place, maker.reader(), Snapshots(place / "log", least_events=1))
        sessions = maker.sessions
        for _ in range(80):
            done = len(history.commits)
            history.step()
            maker.write(history.commits[done:])
            if maker.sessions > sessions:
                sessions, at_work = maker.sessions, None
                views = open_views(place, maker.reader(), Snapshots(place / "log", least_events=1))
            follow(views, maker.reader())
            if at_work is None and random.random() < 0.3:
                at_work, moment = views.begin_refresh(always), views.state.sequence
                views.flush()
            elif at_work is not None and random.random() < 0.3:
                assert views.begin_refresh(always) is None
                thread = threading.Thread(target=at_work)
                thread.start()
                thread.join()
                at_work = None
                shown = files(place)
                expected = rebuilt(maker.reader(), place / "then", moment)
                assert shown["checkpoint.json"] == expected["checkpoint.json"]
                assert shown["statistics.json"] == expected["statistics.json"]
            elif random.random() < 0.3:
                views.flush()
        views.finish()
        assert files(place) == rebuilt(maker.reader(), place / "out")
        assert why(maker.reader(), place) == {}


def test_rows_of_a_file_that_is_being_made_anew_wait_and_are_not_lost(tmp_path, maker):
    """A failure that was tried again: its file is made anew in another thread, and goes on growing."""
    maker.write([*opening(), *finished_unit(0, failed), *finished_unit(1, discarded)])
    place = tmp_path / "run"
    views = open_views(place, maker.reader())
    views.finish()
    maker.write([[restored(name_of(1))], *finished_unit(0, failed, attempt=2)])
    follow(views, maker.reader())
    work = views.begin_refresh(always)
    views.flush()
    maker.write([*finished_unit(2, failed), *finished_unit(3, kept)])
    follow(views, maker.reader())
    views.flush()
    work()
    views.flush()
    now = rebuilt(maker.reader(), tmp_path / "out")
    assert {name: data for name, data in files(place).items() if name[:6] in {"failed", "batch_"}} == {
        name: data for name, data in now.items() if name[:6] in {"failed", "batch_"}
    }


def test_a_batch_file_altered_while_the_views_are_renewed_is_made_anew(tmp_path, maker):
    """Nothing foreign gets into trajectories.jsonl: what is wrong is seen in the thread, and mended after."""
    maker.write([*opening(), *finished_unit(0), *finished_unit(2)])
    place = tmp_path / "run"
    views = open_views(place, maker.reader())
    work = views.begin_refresh(always)
    (place / "batch_1.jsonl").write_bytes(b'{"forged": true}\n')
    views.flush()
    work()
    assert not (place / "trajectories.jsonl").exists()
    views.refresh(always)
    assert files(place) == rebuilt(maker.reader(), tmp_path / "out")


def test_work_that_was_begun_and_given_up_is_done_by_the_end(tmp_path, maker):
    """Also the files that were to be made anew."""
    maker.write([*opening(), *finished_unit(0, failed)])
    place = tmp_path / "run"
    views = open_views(place, maker.reader())
    views.finish()
    maker.write(finished_unit(0, attempt=2))
    follow(views, maker.reader())
    assert views.begin_refresh(always) is not None
    views.finish()
    assert files(place) == rebuilt(maker.reader(), tmp_path / "out")


def test_trajectories_are_those_of_one_moment_though_batch_files_grow(tmp_path, maker):
    """Rows that came after it stand in their batch file already, and not there."""
    maker.write([*opening(), *finished_unit(0)])
    place = tmp_path / "run"
    views = open_views(place, maker.reader())
    then = rebuilt(maker.reader(), tmp_path / "then")
    work = views.begin_refresh(always)
    maker.write(finished_unit(1))
    follow(views, maker.reader())
    views.flush()
    work()
    assert (place / "trajectories.jsonl").read_bytes() == then["trajectories.jsonl"]
    assert (place / "batch_1.jsonl").read_bytes() != then["batch_1.jsonl"]
