"""kill -9 at random moments; `make chaos`. The seed is printed, LILY_CHAOS_SEED repeats a run."""
