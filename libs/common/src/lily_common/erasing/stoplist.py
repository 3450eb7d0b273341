"""The stop-list: what a tenant had erased, as digests; and what of a text, a name or an event they match.

The entries are the messages of `lily.erasures`. Reading one tells nobody what was erased.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from lily_common.erasing.digests import DigestKey, Form, tokens
from lily_common.names import parent_of
from lily_common.state import SEPARATOR, register_keys

#: What stands where erased text stood.
ERASED = "[erased]"
Kind = Literal["asset", "person", "tenant"]


class Entry(BaseModel):
    """One erasure. `open`: the lake has still to carry it out. `descendants` is of assets, `form` and `words` of persons."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    tenant: str
    kind: Kind
    digest: str
    descendants: bool = False
    form: Form = "words"
    words: int = 1
    open: bool = True


def encode(entry: Entry) -> bytes:
    return entry.model_dump_json().encode()


def decode(value: bytes) -> Entry:
    """Raises ValueError when it is none."""
    try:
        return Entry.model_validate_json(value)
    except ValidationError as broken:
        raise ValueError(f"not an erasure: {broken.error_count()} errors") from None


class Matcher:
    """What some erasures of one tenant match."""

    def __init__(self, key: DigestKey, tenant: str, entries: Iterable[Entry]) -> None:
        entries = [entry for entry in entries if entry.tenant == tenant]
        self._key = key
        self.tenant = tenant
        #: The tenant itself is erased: everything of it matches.
        self.everything = any(entry.kind == "tenant" for entry in entries)
        self._names = frozenset(entry.digest for entry in entries if entry.kind == "asset")
        self._roots = frozenset(
            entry.digest for entry in entries if entry.kind == "asset" and entry.descendants
        )
        persons = [entry for entry in entries if entry.kind == "person"]
        self._persons = frozenset(entry.digest for entry in persons)
        self._forms = sorted({(entry.form, entry.words) for entry in persons})

    def name(self, text: str) -> bool:
        """Whether `text` is an erased asset's qualified name, or below one whose descendants went with it."""
        if not self._names or not text or len(text) > 2048:
            return False
        if self._key.asset(self.tenant, text) in self._names:
            return True
        above = parent_of(text) if self._roots else None
        while above is not None:
            if self._key.asset(self.tenant, above) in self._roots:
                return True
            above = parent_of(above)
        return False

    def text(self, text: str) -> bool:
        """Whether `text` is an erased name, or holds an erased person's identifier."""
        return self.everything or self.name(text) or any(True for _ in self._spans(text))

    def redacted(self, text: str) -> str:
        """`text` with ERASED in place of what matches."""
        if self.everything or self.name(text):
            return ERASED
        spans = sorted(self._spans(text))
        if not spans:
            return text
        parts, end = [], 0
        for first, last in spans:
            if first >= end:
                parts += [text[end:first], ERASED]
            end = max(end, last)
        return "".join([*parts, text[end:]])

    def value(self, value: Any) -> bool:
        """Whether any text in a JSON value matches, names of fields included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return any(self.text(key) or self.value(held) for key, held in value.items())
        return isinstance(value, list | tuple) and any(map(self.value, value))

    def clean(self, value: Any) -> Any:
        """The JSON value with ERASED in place of what matches; the very same object when nothing does."""
        if isinstance(value, str):
            return self.redacted(value)
        if not self.value(value):
            return value
        if isinstance(value, Mapping):
            return {self.redacted(key): self.clean(held) for key, held in value.items()}
        return [self.clean(held) for held in value]

    def json_text(self, text: str) -> str:
        """As `clean`, of JSON text; the same text when nothing matches. What is no JSON is one text."""
        try:
            value = orjson.loads(text)
        except ValueError:
            return self.redacted(text)
        cleaned = self.clean(value)
        return text if cleaned is value or cleaned == value else orjson.dumps(cleaned).decode()

    def body(self, body: bytes) -> bool:
        """Whether a request's body holds what matches: any text of its JSON, else any word between blanks and quotes."""
        if self.everything:
            return True
        try:
            return self.value(orjson.loads(body))
        except ValueError:
            text = body.decode("utf-8", "replace")
        return self.text(text) or any(map(self.name, text.translate(_SEPARATORS).split()))

    def key_of_event(self, event_type: str, source: str, event_id: str, subject: str, data: Any) -> bool:
        """Whether what an event is about, or what names its register, matches: it then goes as a whole."""
        if self.everything or any(map(self.text, (subject, source, event_id))):
            return True
        try:
            keys = register_keys(event_type, source, data)
        except (KeyError, TypeError, AttributeError, ValueError):
            return False
        return any(self.register(key) for key in keys)

    def register(self, key: str) -> bool:
        return any(map(self.text, key.split(SEPARATOR)))

    def event(self, event: Mapping[str, Any]) -> bool:
        """Whether an event that arrives is to be stopped: any of its texts matches."""
        return self.everything or self.value(event)

    def _spans(self, text: str) -> Iterable[tuple[int, int]]:
        for form, words in self._forms:
            for token, first, last in tokens(text, form, words):
                if self._key.person(self.tenant, form, token) in self._persons:
                    yield first, last


class StopList:
    """All erasures of all tenants at one moment; made anew when they change."""

    def __init__(self, key: DigestKey, entries: Iterable[Entry] = ()) -> None:
        by_tenant: dict[str, list[Entry]] = {}
        for entry in entries:
            by_tenant.setdefault(entry.tenant, []).append(entry)
        self._matchers = {tenant: Matcher(key, tenant, held) for tenant, held in by_tenant.items()}

    def __bool__(self) -> bool:
        return bool(self._matchers)

    def of(self, tenant: str) -> Matcher | None:
        """What the tenant had erased; None when nothing: the common case, which costs one look."""
        return self._matchers.get(tenant)

    def stops(self, tenant: str, event: Mapping[str, Any]) -> bool:
        matcher = self._matchers.get(tenant)
        return matcher is not None and matcher.event(event)


#: The stop-list as it stands now.
Current = Callable[[], StopList]
_SEPARATORS = str.maketrans(dict.fromkeys("\"'<>,;()[]{}", " "))
