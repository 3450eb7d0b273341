"""Playback: what the command `replay` takes, what is checked before it goes to the lake job, and how it is cancelled."""
