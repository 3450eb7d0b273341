"""Benchmarks: `python -m tests.bench.<name>` writes bench/results/<name>.json and prints the same as a table.

A figure never fails a run; a gate does: what was sent must be what arrived. Load and receiver are processes of their own.
"""
