"""Declarations of incremental tables: their form, their expressions and the tables that are built in. No I/O.

The API checks a declaration with it before it is kept, the lake job once more before it is run.
"""
