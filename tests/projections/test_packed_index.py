"""Keys that are kept in packed columns."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections import PackedIndex
from projections.packed_column import Column


def digest(number: int) -> bytes:
    """A content id."""
    return hashlib.sha256(b"%d" % number).digest()[:16]


KEYS = st.tuples(
    st.integers(0, 40).map(digest) | st.sampled_from([bytes(16), b"\xff" * 16]),
    st.sampled_from([1, 2, 3, 255, 256, 70_000, 2**32]),
    st.sampled_from([1, 2, 255, 256, 70_000]),
)


@given(st.lists(KEYS, max_size=120))
def test_index_answers_as_a_dict_of_keys_would(keys: list[tuple[bytes, int, int]]) -> None:
    """Whatever is added in whatever order, ordinals and keys are those that a dict gives."""
    index = PackedIndex()
    plain: dict[tuple[bytes, int, int], int] = {}
    for key in keys:
        assert index.find(*key) == plain.get(key)
        assert index.add(*key) == plain.setdefault(key, len(plain))
        assert len(index) == len(plain)
    for again in (index, PackedIndex.of_parts(index.parts())):
        assert [again.key(ordinal) for ordinal in range(len(again))] == list(plain)
        assert [again.find(*key) for key in plain] == list(plain.values())
        assert again.find(digest(1000), 1, 1) is None


def test_keys_that_differ_in_one_number_alone_are_not_looked_for_one_after_the_other() -> None:
    """Ten thousand repeats of one row are spread over the slots: a key is found after few of them."""
    index = PackedIndex()
    for occurrence in range(1, 5001):
        for sample in (1, 2):
            index.add(digest(0), occurrence, sample)
    slots = len(index._slots)
    steps = 0
    for slot, following in enumerate(index._slots):
        if following:
            _, occurrence, sample = index.key(following - 1)
            first = PackedIndex._slot_of(_Empty(index), digest(0), occurrence, sample)
            steps += (slot - first) % slots
    assert steps / len(index) < 3


class _Empty(PackedIndex):
    """An index with as many slots as another, and nothing in it: it tells where a search begins."""

    def __init__(self, other: PackedIndex) -> None:
        super().__init__()
        self._clear_slots(len(other._slots))


def test_a_key_of_a_million_takes_few_bytes() -> None:
    """Contents, numbers and slots of a hundred thousand keys together take below 32 bytes each."""
    index = PackedIndex()
    for number in range(100_000):
        index.add(digest(number), 1, 1)
    size = sum(map(len, index.parts().values())) + len(index._slots) * index._slots.itemsize
    assert size / len(index) < 32


def test_content_that_is_no_content_id_is_refused_and_never_found() -> None:
    """An id is 16 bytes; nothing is added of another length, nor with a number that no cell holds."""
    index = PackedIndex()
    with pytest.raises(ValueError, match="16 bytes was expected, found 3 bytes"):
        index.add(b"abc", 1, 1)
    for numbers in ((-1, 1), (1, 2**64), (2**64, 1)):
        with pytest.raises(OverflowError):
            index.add(digest(1), *numbers)
    assert len(index) == 0
    assert index.find(b"abc", 1, 1) is None
    assert index.find(digest(1), 1, 1) is None
    assert index.add(digest(1), 1, 1) == 0
    assert index.key(0) == (digest(1), 1, 1)


@pytest.mark.parametrize("part", ["contents", "occurrences", "samples"])
def test_parts_that_are_none_are_refused(part: str) -> None:
    """Parts of a wrong shape are an error, not another index."""
    index = PackedIndex()
    index.add(digest(1), 1, 1)
    with pytest.raises(ValueError, match=r"expected|found|bytes"):
        PackedIndex.of_parts({**index.parts(), part: b"nothing"})


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300))))
def test_column_holds_what_was_put_whatever_its_width(puts: list[tuple[int, int]]) -> None:
    """A column gives back the newest number of each place, 0 elsewhere; also from its bytes."""
    signed, unsigned, plain = Column("i"), Column(), {}
    for place, number in puts:
        signed.put(place, number)
        unsigned.put(place, abs(number))
        plain[place] = number
    for one, other in ((signed, unsigned), (Column.of_part(signed.part()), Column.of_part(unsigned.part()))):
        assert [one.get(place) for place in range(32)] == [plain.get(place, 0) for place in range(32)]
        assert [other.get(place) for place in range(32)] == [abs(plain.get(place, 0)) for place in range(32)]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64])
def test_number_of_more_than_64_bits_is_an_error_and_not_another_number(number: int) -> None:
    """What does not fit raises and leaves the column as it was."""
    column = Column("i")
    column.put(0, 7)
    for place in (0, 5):
        with pytest.raises(OverflowError):
            column.put(place, number)
    assert [column.get(place) for place in range(7)] == [7, 0, 0, 0, 0, 0, 0]
