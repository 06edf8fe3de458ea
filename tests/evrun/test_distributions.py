import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.errors import UsageFault
from evrun.tools import Sources, chosen_toolsets, left_out, toolset_names
from evrun.tools.distributions import DISTRIBUTIONS, draw

ALL = ("web", "vision", "image_gen", "terminal", "file", "moa", "browser")
SEEN = {
    # Drawn once and written down: whoever changes the draw changes what every resumed run does.
    ("science", 0, b"p", 1): ["terminal", "file"],
    ("development", 7, b"prompt", 2): ["file"],
    ("reasoning", 1, b"q", 1): ["terminal"],
}
some_draw = st.tuples(
    st.sampled_from(sorted(DISTRIBUTIONS)), st.integers(), st.binary(max_size=20), st.integers(1, 9)
)


def shares(distribution, available, count=4000):
    """How often each toolset is drawn, in percent, over so many prompts."""
    drawn = [draw(distribution, 3, str(n).encode(), 1, available) for n in range(count)]
    return {name: 100 * sum(name in each for each in drawn) / count for name in DISTRIBUTIONS[distribution]}


@given(some_draw)
def test_draw_is_the_same_every_time_and_never_empty(inputs):
    """The same inputs give the same toolsets, in the table's order, each at most once, at least one."""
    drawn = draw(*inputs, ALL)
    assert draw(*inputs, ALL) == drawn
    assert drawn == [name for name in DISTRIBUTIONS[inputs[0]] if name in drawn]
    assert drawn


@given(some_draw)
def test_toolset_that_is_not_there_is_never_drawn_and_changes_no_other(inputs):
    """Each toolset is drawn on its own: what else is available makes no difference to it."""
    everything, some = draw(*inputs, ALL), draw(*inputs, ("terminal", "file"))
    assert set(some) <= {"terminal", "file"}
    if set(everything) & {"terminal", "file"}:
        assert set(some) >= set(everything) & {"terminal", "file"}


@pytest.mark.parametrize("distribution", ["science", "development", "safe", "mixed_tasks"])
def test_each_toolset_is_drawn_as_often_as_its_percent_says(distribution):
    """Over 4,000 prompts, within four points (five standard deviations); the forced ones add a little."""
    for name, share in shares(distribution, ALL).items():
        assert abs(share - DISTRIBUTIONS[distribution][name]) < 4, name


def test_two_toolsets_are_drawn_independently():
    """Both at 80 percent are on together for 64 of a hundred prompts."""
    drawn = [draw("development", 3, str(n).encode(), 1, ("terminal", "file")) for n in range(4000)]
    both = 100 * sum(len(each) == 2 for each in drawn) / len(drawn)
    assert abs(both - 64) < 4


def test_a_hundred_percent_is_always_and_nothing_drawn_forces_the_most_likely():
    """`reasoning` has terminal at 20 percent; alone it is forced whenever it is not drawn."""
    for number in range(200):
        content = str(number).encode()
        assert draw("default", 0, content, 1, ALL) == list(ALL)
        assert draw("reasoning", 0, content, 1, ("terminal",)) == ["terminal"]
        assert draw("safe", 0, content, 1, ("image_gen", "vision")) != []
    assert draw("browser_only", 0, b"p", 1, ("terminal", "file")) == []


@pytest.mark.parametrize("change", [(8, b"prompt", 2), (7, b"Prompt", 2), (7, b"prompt", 3)])
def test_seed_prompt_and_sample_each_make_another_draw(change):
    """None of the three is ignored: over forty seeds the draws differ somewhere."""
    seed, content, sample = change
    one = [draw("balanced", 7 + 100 * n, b"prompt", 2, ALL) for n in range(40)]
    other = [draw("balanced", seed + 100 * n, content, sample, ALL) for n in range(40)]
    assert one != other


def test_draws_of_released_versions_stay_as_they_were():
    """A resumed run must get what its first session recorded for the same unit."""
    assert {inputs: draw(*inputs, ("terminal", "file")) for inputs in SEEN} == SEEN


def test_table_is_the_one_that_users_know():
    """Seventeen distributions; spot values, order and names as documented for the Hermes runner."""
    assert len(DISTRIBUTIONS) == 17
    assert list(DISTRIBUTIONS["science"].items())[:3] == [("web", 94), ("terminal", 94), ("file", 94)]
    assert DISTRIBUTIONS["browser_tasks"] == {"browser": 97, "vision": 12, "terminal": 15}
    assert {name for table in DISTRIBUTIONS.values() for name in table} == set(ALL)
    assert all(0 < percent <= 100 for table in DISTRIBUTIONS.values() for percent in table.values())


def test_what_is_left_out_of_a_draw_is_known_before_the_run():
    """So that it can be reported once."""
    assert chosen("terminal_web") == ["terminal", "file", "web"]
    assert left_out("terminal_web", toolset_names()) == []
    assert chosen("browser_tasks") == ["terminal"]
    assert left_out("browser_tasks", toolset_names()) == ["browser", "vision"]
    assert chosen("browser_only") == []


def test_what_no_distribution_speaks_of_is_given_with_every_draw():
    """It was asked for by an option of its own; what takes a known name takes its place in the draw."""
    assert chosen("terminal_only", "mine") == ["terminal", "file", "mine"]
    assert chosen("browser_only", "browser", "mine") == ["browser", "mine"]
    assert chosen("browser_only", "mine", asked=["mine", "file"]) == ["mine", "file"]


def chosen(distribution, *more, asked=None):
    """The toolsets that attempts may get, where these are there too."""
    return chosen_toolsets(Sources(asked, distribution, [], None, None), [*toolset_names(), *more])


def test_unknown_distribution_is_refused_with_the_known_ones():
    """A misspelt name is a usage error before anything is spent."""
    with pytest.raises(UsageFault, match="--distribution defualt: expected one of default, image_gen"):
        chosen("defualt")
