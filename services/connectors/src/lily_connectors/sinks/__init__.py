"""Sinks that are no vendor's: the generic webhook and the tenant's Kafka topic, and the ports that all sinks send by.

Vendors' sinks live in `lily_connectors.vendors.<name>.outbound`; `catalogue` finds both. Called by egress (to send) and
by the API (for the configuration's schema).
"""
