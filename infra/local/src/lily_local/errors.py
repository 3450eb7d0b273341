"""What the user can put right; the commands print it as one line, never as a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A condition outside the program, with what to do about it in its message."""
