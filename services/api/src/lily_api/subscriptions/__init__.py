"""Subscriptions: what a tenant wants to hear, and where it is sent. Egress reads the same table and delivers."""
