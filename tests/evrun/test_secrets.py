import json
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evrun.effects.secrets import Redactor, child_environment, find_secrets

KEY = 'sk-live/"9+4\\=x'
ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-abcdefgh",
    "MY_ENDPOINT": "named-secret-1",
    "GITHUB_TOKEN": "ghp_123456789\n",
    "db_password": "correct horse",
    "AWS_ACCESS_KEY_ID": "AKIAXXXXXXXX",
    "DATABASE_URL": "postgres://me:hunter2hunter2@host:5432/db",
    "SHORT_KEY": "1234567",
    "OLD_KEY": "lm-studio",
    "KEYBOARD_LAYOUT": "us-international",
    "TOKENIZERS_PARALLELISM": "not-a-secret",
    "HOME": "/home/someone",
    "HOMEPAGE": "http://example.org:8080/page",
}


def test_secret_values_are_found_by_their_names_and_places():
    """Named variables, telling names in any case, passwords in URLs; not short ones, not placeholders."""
    assert find_secrets(ENVIRONMENT, "MY_ENDPOINT") == {
        "OPENAI_API_KEY": "sk-abcdefgh",
        "MY_ENDPOINT": "named-secret-1",
        "GITHUB_TOKEN": "ghp_123456789",
        "db_password": "correct horse",
        "AWS_ACCESS_KEY_ID": "AKIAXXXXXXXX",
        "DATABASE_URL": "hunter2hunter2",
    }


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        json.dumps(KEY),
        json.dumps({"a": [KEY]}),
        json.dumps(KEY).replace("/", "\\/"),
        f"http://host/?key={quote(KEY, safe='')}&x=1",
        f"A={KEY}\0B=2",
        f"{KEY}{KEY}",
    ],
)
def test_every_usual_writing_of_a_secret_is_replaced(form):
    """As it is, in JSON, with escaped slashes, in a URL, between NULs, twice in a row."""
    redactor = Redactor({"OPENAI_API_KEY": KEY})
    cleaned = redactor.clean(form.encode())
    assert b"[redacted:OPENAI_API_KEY]" in cleaned
    assert b"live" not in cleaned
    assert redactor.clean_text(form) == cleaned.decode()


@given(st.text(min_size=8, alphabet=st.characters(exclude_categories=["Cs"])), st.text(), st.text())
@example("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9", "", "")
def test_no_secret_is_left_in_a_text_or_in_its_json(secret, before, after):
    """Whatever the secret and whatever stands around it."""
    secret = f"k{secret}k"
    redactor = Redactor({"K": secret})
    text = f"{before} {secret} {after}"
    for form in (text, json.dumps(text), json.dumps(text, ensure_ascii=False)):
        cleaned = redactor.clean(form.encode())
        assert secret.encode() not in cleaned
        assert json.dumps(secret)[1:-1].encode() not in cleaned
        assert b"[redacted:K]" in cleaned


@given(st.text())
def test_text_without_a_secret_is_the_same_object(text):
    """Nothing is copied and nothing changed where there is nothing to hide."""
    redactor = Redactor({"K": "\u2603 never in the text \u2603"})
    data = text.encode("utf-8", "surrogatepass")
    assert redactor.clean(data) is data
    assert redactor.clean_text(text) is text


def test_json_stays_json_after_the_replacement():
    """An answer that quotes the key is still an answer."""
    body = json.dumps({"content": f"your key is {KEY}", "n": 1}).encode()
    assert json.loads(Redactor({"K": KEY}).clean(body)) == {"content": "your key is [redacted:K]", "n": 1}


def test_secret_that_holds_another_one_goes_as_a_whole():
    """Otherwise the rest of the longer one would be left standing."""
    redactor = Redactor({"A": "abcdefgh", "B": "abcdefgh-and-more"})
    assert redactor.clean(b"x abcdefgh-and-more y abcdefgh") == b"x [redacted:B] y [redacted:A]"


def test_redactor_shows_no_secret_of_its_own():
    """It may stand in a traceback or a log."""
    assert "sk-abcdefgh" not in repr(Redactor.from_environment(ENVIRONMENT))


def test_tools_see_an_allow_list_and_a_home_of_their_own(tmp_path):
    """No variable of the runner that is not named, whatever it is called; the marker is there."""
    seen = child_environment(
        tmp_path, "run/unit", {**ENVIRONMENT, "PATH": "/bin", "LC_ALL": "C", "EDITOR": "vi"}
    )
    assert seen == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / ".tmp"),
        "TERM": "dumb",
        "EVRUN_ATTEMPT": "run/unit",
    }
