"""The audit log: append-only, one hash chain per tenant. Other domains call `audit.record` in their transaction."""

from lily_api.audit.service import record

__all__ = ["record"]
