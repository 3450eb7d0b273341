"""Applications and queries: each file wires sources, transforms and sinks, and nothing else."""
