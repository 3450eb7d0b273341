"""Deliveries: what was sent to whom, every attempt, and trying again. Egress writes them."""
