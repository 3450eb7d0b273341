"""Trino beside the stack: its archive unpacked, its configuration, the lake's tables in its catalog."""
