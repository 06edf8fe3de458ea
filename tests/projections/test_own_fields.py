"""The dataset's own fields in the rows of a run: one schema, nothing lost, whatever the rows bring along."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import PlannedRow, PromptsPlanned, PromptStarted, SessionOpened
from projections import Views, check, open_views
from projections.conversation import Attempt
from projections.own_fields import (
    HEAD,
    MIXED,
    MOST,
    OTHERS,
    OwnFields,
    _quick_kinds,
    in_form,
    kind_of,
    merged,
    own_fields,
)
from projections.render_rows import Frame, Place, RowShape, kept_row
from tests.runs import environment

from .histories import LogMaker, kept, name_of
from .views import files, finished_unit, follow, opening, rebuilt, why

PLAIN = "{prompt}"


def forms_of(rows, template=PLAIN):
    """The forms that a plan of these rows gives."""
    fields = OwnFields()
    for row in rows:
        fields.add(json.dumps({"prompt": "p", **row}).encode(), template)
    return fields.forms()


def shown(rows):
    """The own fields of each row as all rows show them."""
    forms = forms_of(rows)
    return [in_form(own_fields({"prompt": "p", **row}, PLAIN), forms) for row in rows]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"a": 1}, {"b": "x"}], [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
        ([{}, {"a": [1]}], [{"a": None}, {"a": [1]}]),
        ([{"a": 1}, {"a": 0.5}], [{"a": 1.0}, {"a": 0.5}]),
        ([{"a": 1}, {"a": "x"}, {}], [{"a": "1"}, {"a": '"x"'}, {"a": "null"}]),
        ([{"a": True}, {"a": 1}], [{"a": "true"}, {"a": "1"}]),
        ([{"a": {"x": 1}}, {"a": {"x": 0.5}}], [{"a": {"x": 1.0}}, {"a": {"x": 0.5}}]),
        ([{"a": {"x": 1}}, {"a": {"y": 1}}], [{"a": '{"x":1}'}, {"a": '{"y":1}'}]),
        ([{"a": []}, {"a": [None]}], [{"a": []}, {"a": [None]}]),
        ([{"a": [1, "x"]}], [{"a": '[1,"x"]'}]),
        ([{"a": 2**63}], [{"a": str(2**63)}]),
        ([{"a": "2024-01-01"}, {"a": "soon"}], [{"a": "2024-01-01"}, {"a": "soon"}]),
        ([{"metadata": {"s": "x"}}, {"s": "y"}], [{"s": "x"}, {"s": "y"}]),
    ],
)
def test_every_row_has_every_field_of_one_type(rows, expected):
    """Null where a row has none; a mixed field as JSON text in every row, which gives its values back."""
    assert shown(rows) == expected
    assert len({tuple(row) for row in shown(rows)}) == 1


def test_what_shows_itself_late_stands_as_text_from_the_first_row():
    """A reader that takes types from the beginning of a file would refuse it otherwise."""
    rows = [{"early": n, "when": "2024-01-01", "n": 1} for n in range(HEAD)]
    rows += [{"late": 5, "when": "soon", "n": 0.5}, {"early": None, "when": "2024-01-02", "n": 2}]
    forms = forms_of(rows)
    assert forms == {"early": "int", "when": MIXED, "n": "float", "late": MIXED}
    assert shown(rows)[0] == {"early": 0, "when": '"2024-01-01"', "n": 1.0, "late": "null"}
    assert forms_of(rows[1 : HEAD + 1])["late"] == "int"


def test_very_many_names_share_one_field():
    """Rows stay as long as they are, however many names a dataset makes up."""
    rows = [{f"n{n}": n} for n in range(MOST + 3)]
    last = shown(rows)[-1]
    assert len(last) == MOST + 1
    assert json.loads(last[OTHERS]) == {f"n{MOST + 2}": MOST + 2}
    assert shown(rows)[0][OTHERS] == "{}"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.dates().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=2),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), values), min_size=1, max_size=6))
def test_no_value_is_lost_and_all_of_a_field_are_of_one_kind(rows):
    """For any values: the kinds of what is shown agree, and what was given can be had back."""
    forms, all_shown = forms_of(rows), shown(rows)
    for name, form in forms.items():
        kind = None
        for row, seen in zip(rows, all_shown, strict=True):
            kind = merged(kind, kind_of(seen[name]))
            given_back = json.loads(seen[name]) if form == MIXED else seen[name]
            assert given_back == row.get(name)
        assert kind != MIXED


texts = st.text(max_size=3) | st.sampled_from(["2024-01-01", "2024-01-01T10:00:00Z", "2024-13", "é\u2028"])
rows_like = st.fixed_dictionaries(
    {},
    optional={
        "prompt": texts | st.none() | st.integers(),
        "a": values | texts,
        "model": texts,
        "messages": st.just([]) | st.just([{"role": "user", "content": "q"}]) | st.none(),
        "custom_id": texts,
        "metadata": st.dictionaries(st.sampled_from(["a", "b", "model"]), values | texts, max_size=2)
        | values,
    },
)


@given(rows_like)
def test_a_quick_look_at_a_row_sees_what_a_close_one_does(row):
    """Without reading its texts; where it could be wrong it says nothing."""
    quick = _quick_kinds(json.dumps(row).encode())
    close = {name: kind_of(value) for name, value in own_fields(row, PLAIN).items()}
    assert quick is None or quick == close
    if row.keys() <= {"prompt", "a"} and isinstance(row.get("prompt"), str):
        assert quick is not None


@given(values, values, values)
def test_the_order_of_rows_does_not_decide_a_kind(one, other, third):
    """Merging kinds is commutative and associative."""
    a, b, c = map(kind_of, (one, other, third))
    assert merged(a, b) == merged(b, a)
    assert merged(merged(a, b), c) == merged(a, merged(b, c))


LOAD = """
import json, sys
from datasets import load_dataset
loaded = load_dataset("json", data_files=sys.argv[1], split="train")
last = loaded[-1]
print(json.dumps([loaded.num_rows, last["metadata"], last["tool_stats"], loaded[0]["metadata"]]))
"""


def test_datasets_loads_thousands_of_rows_of_which_the_last_differ(tmp_path):
    """More than its first block: a new field, another type, a date that is none, a tool that nobody has."""
    pad = "x" * 2500
    rows = [
        {"prompt": pad, "n": n, "level": 3, "when": "2024-01-01", "tags": [], "info": {"a": n}}
        for n in range(5200)
    ]
    rows[-1] |= {"new": {"deep": [1]}, "level": "hard", "when": "soon", "tags": ["t"], "info": {"b": None}}
    shape = RowShape(forms_of(rows), ("look",))
    frame = Frame({"model": "m"}, {}, shape)
    attempt = Attempt.start(PromptStarted("prompt:00#1.1", 1, [], b"s"), 0, 1)
    path = tmp_path / "trajectories.jsonl"
    with path.open("wb") as file:
        for n, row in enumerate(rows):
            place = Place("prompt:00#1.1", n, 1, 1, json.dumps(row).encode(), n)
            ending = kept("prompt:00#1.1", tools=int(n == len(rows) - 1))
            file.write(kept_row(frame, place, attempt, ending))
    assert path.stat().st_size > 10 << 20
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        env=environment(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "hf")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    count, last, stats, first = json.loads(done.stdout.splitlines()[-1])
    assert (count, list(stats)) == (5200, ["look"])
    assert {name: json.loads(last[name]) for name in ("new", "level", "when", "tags", "info")} == {
        "new": {"deep": [1]},
        "level": "hard",
        "when": "soon",
        "tags": ["t"],
        "info": {"b": None},
    }
    assert (last["n"], json.loads(first["level"]), first["new"]) == (5199, 3, "null")


def another(index, **fields):
    """A plan of one more row."""
    row = json.dumps({"prompt": "q", **fields}).encode()
    content = bytes.fromhex(name_of(index)[len("prompt:") :].partition("#")[0])
    return PromptsPlanned([PlannedRow(content, 1, index, 9, row)], complete=True)


def test_rows_that_were_finished_get_the_fields_of_rows_that_come_later(tmp_path):
    """A resume brings a new field: every row has it then, views on disk are behind until they are renewed."""
    with LogMaker(tmp_path / "log") as maker:
        maker.write([*opening(2), *finished_unit(0), *finished_unit(1)])
        (tmp_path / "run").mkdir()
        views = Views(tmp_path / "run", maker.reader())
        follow(views, maker.reader())
        views.finish()
        before = files(tmp_path / "run")["batch_1.jsonl"]
        maker.write([[SessionOpened(2, 1, "host", "0"), another(2, level="hard")], *finished_unit(2)])
        assert why(maker.reader(), tmp_path / "run")["batch_1.jsonl"] == "behind"
        views = open_views(tmp_path / "run", maker.reader())
        views.finish()
        after = files(tmp_path / "run")
        assert after == rebuilt(maker.reader(), tmp_path / "again")
        assert all(one.same for one in check(maker.reader(), tmp_path / "run"))
    rows = [json.loads(line) for line in after["trajectories.jsonl"].splitlines()]
    assert [row["metadata"]["level"] for row in rows] == [None, None, "hard"]
    assert [row["metadata"]["id"] for row in rows] == [0, 1, None]
    assert before != after["batch_1.jsonl"]


def test_rows_without_fields_of_their_own_stay_as_they_are(tmp_path):
    """More of the same rows change no byte of what is finished."""
    with LogMaker(tmp_path / "log") as maker:
        maker.write([*opening(2), *finished_unit(0)])
        before = rebuilt(maker.reader(), tmp_path / "before")["batch_1.jsonl"]
        maker.write([[SessionOpened(2, 1, "host", "0"), another(2, id=7)]])
        assert rebuilt(maker.reader(), tmp_path / "after")["batch_1.jsonl"] == before
