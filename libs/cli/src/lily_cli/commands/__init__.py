"""One file per command group. A command parses its options, makes its calls and prints; nothing else."""
