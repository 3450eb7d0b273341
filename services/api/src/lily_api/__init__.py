"""Lily's HTTP API: the control plane, ingest and reading.

One folder per domain, each with `endpoints.py` (parse and answer), `service.py` (decide), `repository.py` (the only
place with queries), `schemas.py` (what travels), `models.py` (tables). What is shared sits beside this file.
"""

from importlib.metadata import version

__version__ = version("lily-api")
