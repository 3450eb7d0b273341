"""Tenants: who they are and what of their assets may be mirrored."""
