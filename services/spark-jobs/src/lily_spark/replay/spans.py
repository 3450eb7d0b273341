"""How far to read at once: from what files say of themselves to spans of commits that hold about so many rows. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class FileRange(NamedTuple):
    """A file's least and greatest commit, and its rows."""

    first: int
    last: int
    rows: int


def span_end(files: Iterable[FileRange], start: int, end: int, rows: int) -> int:
    """The last commit of a span that begins with `start`, goes no further than `end` and holds about `rows` rows.

    A file's rows are taken as spread evenly over its commits. A span holds at least one commit that has rows, however
    many they are: a commit is a micro-batch, and those are bounded.
    """
    steps: dict[int, float] = defaultdict(float)
    for first, last, count in files:
        if last >= start and first <= end:
            density = count / (last - first + 1)
            steps[max(first, start)] += density
            steps[min(last, end) + 1] -= density
    expected, density, at = 0.0, 0.0, start
    for step in sorted(steps):
        here = density * (step - at)
        if density > 0 and expected + here >= rows:
            fit = int((rows - expected) / density)
            if fit or expected == 0:
                return min(at + max(fit, 1) - 1, end)
            return at - 1
        expected += here
        density += steps[step]
        at = step
        if density < 1e-9:  # what is left of sums and differences of fractions is no rows
            density = 0.0
    return end
