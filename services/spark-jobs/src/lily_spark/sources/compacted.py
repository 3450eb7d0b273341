"""Compacted topics as maps; see `lily_common.compacted`."""

from lily_common.compacted import Compacted

__all__ = ["Compacted"]
