"""What the stack consists of, as data: one file per server, one for the product's own processes.

A component says how it is prepared, started, probed and stopped; the supervisor knows nothing else of it.
To add one: make its `Component` and list it in `registry.py`.
"""

from lily_local.components.model import Component, Context

__all__ = ["Component", "Context"]
