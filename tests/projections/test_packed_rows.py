"""What is known of each row file, in few bytes: the same as a dictionary would say."""

from hypothesis import given
from hypothesis import strategies as st

from projections.materialize.contents import Content, Contents
from projections.materialize.packed import Packed

NAMES = st.one_of(
    st.integers(1, 50).map("batch_{}.jsonl".format),
    st.integers(1, 1 << 80).map("batch_{}.jsonl".format),
    st.sampled_from(["discarded.jsonl", "failed.jsonl", "batch_0.jsonl", "batch_07.jsonl"]),
)
ACTS = st.lists(st.tuples(st.sampled_from(["put", "put", "put", "pop"]), NAMES, st.integers(0, 99)))


def number(name):
    """The place of a batch file among others; those of no batch come last."""
    digits = name.removeprefix("batch_").removesuffix(".jsonl")
    return int(digits) if digits.isdigit() and not digits.startswith("0") else 1 << 90


@given(ACTS)
def test_packed_records_are_those_of_a_dictionary(acts):
    """Whatever is put and taken away, also batches far beyond all others; batch files in numeric order."""
    packed, known = Packed("QB"), {}
    for act, name, value in acts:
        if act == "put":
            packed.put(name, value, value % 7)
            known[name] = (value, value % 7)
        else:
            packed.pop(name)
            known.pop(name, None)
    assert {name: packed.get(name) for name in packed} == known
    assert len(packed) == len(known)
    assert all(name in packed for name in known)
    batches = [name for name in known if number(name) < 1 << 90]
    assert list(packed.batch_files()) == sorted(batches, key=number)
    assert set(packed.others()) == known.keys() - set(batches)


@given(st.lists(st.tuples(NAMES, st.lists(st.binary(min_size=1), min_size=1))))
def test_contents_are_the_same_after_a_copy_and_from_their_parts(written):
    """A copy is of its own; parts give all of it back."""
    contents, known = Contents(), {}
    for name, lines in written:
        contents.add(name, lines)
        known.setdefault(name, Content())
        for line in lines:
            known[name].add(line)
    copied, again = contents.copy(), Contents.of_parts(contents.parts())
    contents.add("batch_1.jsonl", [b"more"])
    assert dict(copied) == dict(again) == known


def test_a_batch_far_beyond_all_others_takes_no_room():
    """A log that somebody made up may name any batch."""
    contents = Contents()
    contents["batch_18446744073709551616.jsonl"] = Content(1, b"d" * 16)
    assert sum(map(len, contents.parts().values())) < 200
