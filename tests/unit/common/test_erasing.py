"""What the stop-list matches, what it leaves alone, and that it says nothing itself."""

from __future__ import annotations

import pickle

import pytest

from lily_common.erasing.digests import DigestKey, identifier
from lily_common.erasing.stoplist import ERASED, Entry, Matcher, StopList, decode, encode

KEY = DigestKey(bytes(range(32)))


def person(text: str) -> Entry:
    who = identifier(text)
    digest = KEY.person("acme", who.form, who.token)
    return Entry(id="e", tenant="acme", kind="person", digest=digest, form=who.form, words=who.words)


def asset(name: str, *, descendants: bool = False) -> Entry:
    digest = KEY.asset("acme", name)
    return Entry(id="e", tenant="acme", kind="asset", digest=digest, descendants=descendants)


def matcher(*entries: Entry) -> Matcher:
    return Matcher(KEY, "acme", entries)


@pytest.mark.parametrize(
    ("who", "text", "after"),
    [
        ("Jane.Doe@Example.com", "jane.doe@example.com", ERASED),
        ("jane.doe@example.com", "To: <JANE.DOE@EXAMPLE.COM>, today.", f"To: <{ERASED}>, today."),
        ("jane.doe@example.com", "mailto:jane.doe@example.com.", f"mailto:{ERASED}."),
        ("jane.doe@example.com", "mary-jane.doe@example.com", None),
        ("jane.doe@example.com", "jane.doe@example.com.au", None),
        ("Jane Doe", "by jane   DOE, then Jane-Doe", f"by {ERASED}, then {ERASED}"),
        ("Jane Doe", "Jane Doering", None),
        ("emp-4711", "emp-4711/emp-47112", f"{ERASED}/emp-47112"),
        ("jürgen groß", "JÜRGEN GROSS", ERASED),
    ],
)
def test_an_identifier_is_found_as_whole_words(who: str, text: str, after: str | None) -> None:
    found = matcher(person(who))
    assert found.text(text) is (after is not None)
    assert found.redacted(text) == (after or text)


def test_an_asset_is_its_name_and_with_descendants_what_is_below_it() -> None:
    alone, family = matcher(asset("pg://h/a/b")), matcher(asset("pg://h/a/b", descendants=True))
    for name, one, both in (
        ("pg://h/a/b", True, True),
        ("pg://h/a/b/c/d", False, True),
        ("pg://h/a/bc", False, False),
        ("pg://h/a", False, False),
    ):
        assert (alone.name(name), family.name(name)) == (one, both), name


def test_values_are_cleaned_wherever_they_are_and_nothing_else_is_touched() -> None:
    found = matcher(asset("pg://h/a"), person("jane@example.com"))
    value = {"owners": ["jane@example.com", "bob"], "n": 1, "deep": [{"jane@example.com": "pg://h/a"}]}
    assert found.clean(value) == {"owners": [ERASED, "bob"], "n": 1, "deep": [{ERASED: ERASED}]}
    fine = {"owners": ["bob"], "n": None}
    assert found.clean(fine) is fine
    assert found.json_text('{"a":  1}') == '{"a":  1}'


def test_another_tenants_things_are_its_own() -> None:
    stop = StopList(KEY, [asset("pg://h/a")])
    assert stop.stops("acme", {"subject": "pg://h/a"})
    assert not stop.stops("beta", {"subject": "pg://h/a"})
    assert not Matcher(KEY, "beta", [asset("pg://h/a")]).name("pg://h/a")
    assert stop.of("beta") is None


def test_a_body_that_is_no_json_is_looked_through_word_by_word() -> None:
    found = matcher(asset("pg://h/a"))
    assert found.body(b"table 'pg://h/a' is late")
    assert not found.body(b"table 'pg://h/b' is late")


def test_an_entry_says_nothing_and_comes_back_as_it_was() -> None:
    entry = person("jane.doe@example.com")
    assert b"jane" not in encode(entry)
    assert decode(encode(entry)) == entry
    with pytest.raises(ValueError, match="not an erasure"):
        decode(b"{}")
    other = DigestKey(bytes(32))
    assert other.asset("acme", "x") != KEY.asset("acme", "x")
    assert pickle.loads(pickle.dumps(KEY)).asset("acme", "x") == KEY.asset("acme", "x")


@pytest.mark.parametrize("text", ["", "ab", "--- !", " ".join(["word"] * 9)])
def test_what_is_no_identifier(text: str) -> None:
    with pytest.raises(ValueError, match="an identifier has"):
        identifier(text)
