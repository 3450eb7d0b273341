"""Probes and metrics, for machines that watch the API."""
