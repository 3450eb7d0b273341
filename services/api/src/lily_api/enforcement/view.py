"""Which tags are effective, of every asset that has any: kept in memory, by the rule of `lily_common.state`.

Pure. A notice's register has a version: the greatest wins, so that the view may be filled from a database and from the
stream at once, in any order and again. A deletion hides what is older.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from lily_common import events as ev
from lily_common.state import DELETED, SEPARATOR
from lily_connectors.egress.digests import asset_key, folded_key

NO_TAGS: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Asset:
    """`origins`: (tag, origin) -> (version, whether it is attached)."""

    grave: str = ""
    #: `folded_key` of the asset, once it is known.
    folded: UUID | None = None
    origins: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)
    effective: frozenset[str] = NO_TAGS

    def settle(self) -> None:
        self.effective = frozenset(
            tag for (tag, _), (version, live) in self.origins.items() if live and version > self.grave
        )


class TagView:
    """One thread writes, any reads: an answer is of one moment, as each asset's tags are replaced as a whole."""

    def __init__(self) -> None:
        self._assets: dict[UUID, _Asset] = {}
        #: `folded_key` -> the assets that have it, and their effective tags together
        self._alike: dict[UUID, tuple[_Asset, ...]] = {}
        self._together: dict[UUID, frozenset[str]] = {}
        #: Noted before names were folded: found by their own names alone.
        self._unfolded: set[UUID] = set()
        #: How often effective tags have changed.
        self.changes = 0

    def __len__(self) -> int:
        return len(self._assets)

    def tags(self, tenant: str, name: str) -> frozenset[str]:
        """The effective tags of the asset."""
        held = self._assets.get(asset_key(tenant, name))
        return held.effective if held is not None else NO_TAGS

    def tags_in_any_case(self, tenant: str, name: str) -> frozenset[str]:
        """The effective tags of the assets whose names differ from this one by letter case at most, together."""
        found = self._together.get(folded_key(tenant, name), NO_TAGS)
        return found | self.tags(tenant, name) if self._unfolded else found

    def take_notice(self, asset: UUID, folded: UUID, kind: str, register: str, version: str) -> bool:
        """A notice of type `kind`; returns whether effective tags are others now."""
        if register == DELETED:
            return self.deleted(asset, version)
        if kind not in (ev.TAG_ATTACHED, ev.TAG_DETACHED):
            return False
        tag, _, origin = register.partition(SEPARATOR)[2].partition(SEPARATOR)
        return self.tagged(asset, folded, tag, origin, version, live=kind == ev.TAG_ATTACHED)

    def tagged(
        self, asset: UUID, folded: UUID | None, tag: str, origin: str, version: str, *, live: bool
    ) -> bool:
        """One origin of a tag, attached or not; returns whether effective tags are others now."""
        held = self._assets.setdefault(asset, _Asset())
        if held.folded is None and folded is not None:
            held.folded = folded
            self._unfolded.discard(asset)
            self._alike[folded] = (*self._alike.get(folded, ()), held)
            self._gather(folded)
        elif held.folded is None:
            self._unfolded.add(asset)
        known = held.origins.get((tag, origin))
        if known is not None and known[0] >= version:
            return False
        held.origins[tag, origin] = (version, live)
        return self._settled(held)

    def deleted(self, asset: UUID, version: str) -> bool:
        """The asset was deleted; returns whether effective tags are others now."""
        held = self._assets.setdefault(asset, _Asset())
        if version <= held.grave:
            return False
        held.grave = version
        return self._settled(held)

    def _settled(self, held: _Asset) -> bool:
        before = held.effective
        held.settle()
        if held.effective == before:
            return False
        if held.folded is not None:
            self._gather(held.folded)
        self.changes += 1
        return True

    def _gather(self, folded: UUID) -> None:
        self._together[folded] = NO_TAGS.union(*(held.effective for held in self._alike[folded]))
