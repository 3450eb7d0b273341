"""What a user did or met that ends a command: one clear line, an exit code, no traceback."""

from __future__ import annotations

from typing import Final

#: The request was answered with an error, or the command's own check failed.
FAILED: Final = 1
#: The command was called wrongly; as the shell's and typer's own usage errors.
USAGE: Final = 2
#: The API could not be reached.
UNREACHABLE: Final = 3


class CliError(Exception):
    """A message for the user and the exit code of the process."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(CliError):
    def __init__(self, message: str) -> None:
        super().__init__(message, USAGE)


class ApiError(CliError):
    """An answer of 400 or above. `problem` is the body's problem details (RFC 9457), empty when there were none."""

    def __init__(self, status: int, problem: dict[str, object], message: str) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem
