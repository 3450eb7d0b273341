"""The stream of the past by its numbers: which commits a tenant can read again, and when they were."""
