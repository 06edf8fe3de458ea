"""The properties of the log, by number: docs/properties.md says each in a sentence and names its tests.

The checks lie in the modules beside this one, so that `test_negative_controls` can run the same ones.
"""

import pytest

from . import compression, concurrency, crashes, damage, faults, snapshots, views


def test_property_01_every_image_holds_what_was_acknowledged_and_nothing_else():
    """A <= R <= I, byte-identical, in order: every crash point of appends, groups, rolls and reopening."""
    crashes.check_prefix(12)


def test_property_02_no_image_shows_part_of_a_commit():
    """Commits of three, four and forty events: whole, or not there."""
    crashes.check_atomic_commits(30)


def test_property_03_every_legal_image_opens_for_writing():
    """Also when the events are made of frame headers that lie."""
    crashes.check_no_false_refusal(12)


@pytest.mark.parametrize("one_in", [500])
def test_property_04_no_damage_is_silent(one_in):
    """Bits, sectors, cuts and files of plain and compressed logs; and holes of any size without HEAD."""
    damage.check_no_silent_loss(one_in)


def test_property_04_a_compressed_log_that_opens_for_writing_reads_to_its_end():
    """It is opened by the checksums over its bytes, without unpacking; that finds every damage."""
    damage.check_opening_finds_damage(200)


def test_property_05_recovery_is_idempotent_and_a_crash_inside_it_changes_nothing():
    """Every operation of an opening and of the first append after it, on many crashed disks."""
    crashes.check_recovery_is_idempotent(10)


def test_property_06_what_was_dropped_never_returns():
    """Not even as a whole stale frame at the very place where the next is expected."""
    damage.check_no_resurrection(1)


def test_property_07_a_log_goes_on_after_any_number_of_crashes():
    """Six logs of twelve lives, each ended by a crash."""
    crashes.check_continues_after_crashes(6)


def test_property_08_what_a_reader_was_shown_survives_a_power_cut():
    """Readers look while each sync is still to come, and after the writer has died."""
    crashes.check_exposed_is_durable(12)


def test_property_09_a_failed_sync_is_final_for_the_handle():
    """Whatever the kernel does with the pages; and whoever comes after builds on what is on the disk."""
    faults.check_failed_sync_is_final(40)


def test_property_10_a_write_that_found_no_room_leaves_nothing():
    """At every crash that follows; and the handle goes on."""
    faults.check_failed_write_leaves_nothing(8)


def test_property_10_any_other_failed_write_is_unknown():
    """The handle is done for; every commit is wholly there or wholly absent."""
    faults.check_failed_write_is_unknown(40)


def test_property_11_read_errors_and_short_calls_never_shrink_the_log():
    """Refused or whole."""
    faults.check_read_errors_never_shrink(5)


def test_property_12_every_subset_of_unsynced_names_is_safe():
    """At every step of append, roll, seal and compression."""
    crashes.check_names(64)


def test_property_13_a_usurper_fences_the_holder_and_both_keep_what_was_acknowledged():
    """LOCK is unlinked, and another process writes, before each single call of the holder."""
    concurrency.check_single_writer(1)


def test_property_14_order_is_dense_under_concurrency_and_cancellation():
    """Four threads and a loop; a follower in another process sees each event once, in order."""
    concurrency.check_dense_order(60)


def test_property_15_every_waiter_is_told_and_no_commit_is_there_in_part():
    """Cancelled, orphaned by their loop, behind a failed sync, behind a close."""
    concurrency.check_no_one_waits_for_ever(60)


def test_property_16_compression_is_invisible_at_every_crash_point():
    """To writers, readers and anchors; torn bytes are put aside first."""
    compression.check_recompression(6)
    compression.check_torn_bytes_are_kept(10)


def test_property_16_a_twin_that_came_out_wrong_never_gets_its_name():
    """One bit wrong in any of its writes: thrown away, and the plain segment stays."""
    compression.check_twin_is_proved(8)


def test_property_16_compression_beside_writers_and_readers_changes_nothing():
    """Session after session; and between any two calls of a reader."""
    compression.check_compressing_beside_a_writer(3)
    compression.check_readers_while_files_change(1)


def test_property_17_a_state_from_a_snapshot_is_that_of_the_whole_log():
    """At every position; of other code, damaged, cut, ahead of the log, or of another past: never used."""
    snapshots.check_snapshots(4)


def test_property_18_views_depend_on_the_events_alone(tmp_path):
    """Not on hash seed, time zone, locale, process, groups or compression: real processes replay a log."""
    views.check_views_depend_on_the_events_alone(tmp_path / "runs")


def test_property_19_old_events_decode_and_newer_things_are_refused():
    """Golden bytes; newer events are unknown, newer formats unsupported, never damage."""
    damage.check_versions(1)


def test_property_20_an_anchor_reports_any_change_before_it():
    """Edited, dropped, inserted, reordered, cut: forged with right checksums and a right chain."""
    damage.check_anchors(1)


def test_the_parser_ends_on_any_bytes_and_reads_each_a_bounded_number_of_times():
    """Junk in every file of plain and compressed logs: a verdict, in O(n) and bounded memory."""
    damage.check_robustness(60)
