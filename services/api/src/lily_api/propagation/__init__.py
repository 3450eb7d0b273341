"""Propagation: the rules that tenants declare, and what a change would do."""
