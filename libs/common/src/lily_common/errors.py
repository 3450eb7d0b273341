"""Errors that carry their own problem details (RFC 9457), so that every edge answers them alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PROBLEM_BASE = "urn:lily:problem:"


@dataclass(frozen=True)
class FieldError:
    """One wrong field: where it is (`data.qualified_name`), what is wrong, what was expected."""

    field: str
    message: str

    def as_dict(self) -> dict[str, str]:
        return {"field": self.field, "message": self.message}


@dataclass
class LilyError(Exception):
    """Base of every error that a caller may see; `code` is the problem type's last segment."""

    detail: str
    code: str = "internal-error"
    title: str = "Internal error"
    status: int = 500
    errors: list[FieldError] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.detail

    def problem(self, instance: str | None = None) -> dict[str, Any]:
        """The problem details object of RFC 9457."""
        body: dict[str, Any] = {
            "type": PROBLEM_BASE + self.code,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if instance is not None:
            body["instance"] = instance
        if self.errors:
            body["errors"] = [error.as_dict() for error in self.errors]
        return body


class InvalidInputError(LilyError):
    """The request is understood but a field is wrong (422)."""

    def __init__(
        self, detail: str, errors: list[FieldError] | None = None, code: str = "invalid-input"
    ) -> None:
        super().__init__(detail, code, "Invalid input", 422, errors or [])


class MalformedError(LilyError):
    """The body cannot be read at all (400)."""

    def __init__(self, detail: str, code: str = "malformed-body") -> None:
        super().__init__(detail, code, "Malformed request", 400)


class UnsupportedMediaTypeError(LilyError):
    def __init__(self, detail: str) -> None:
        super().__init__(detail, "unsupported-media-type", "Unsupported media type", 415)


class PayloadTooLargeError(LilyError):
    def __init__(self, detail: str) -> None:
        super().__init__(detail, "payload-too-large", "Payload too large", 413)


class UnauthenticatedError(LilyError):
    def __init__(self, detail: str, code: str = "unauthenticated") -> None:
        super().__init__(
            detail, code, "Not authenticated", 401, headers={"WWW-Authenticate": 'Bearer realm="lily"'}
        )


class ForbiddenError(LilyError):
    def __init__(self, detail: str, code: str = "forbidden") -> None:
        super().__init__(detail, code, "Forbidden", 403)


class NotFoundError(LilyError):
    def __init__(self, detail: str, code: str = "not-found") -> None:
        super().__init__(detail, code, "Not found", 404)


class ConflictError(LilyError):
    def __init__(self, detail: str, code: str = "conflict") -> None:
        super().__init__(detail, code, "Conflict", 409)


class UnavailableError(LilyError):
    """A dependency is down or the system is full; the client should try again after `retry_after` seconds."""

    def __init__(self, detail: str, code: str = "unavailable", retry_after: int = 1) -> None:
        super().__init__(detail, code, "Service unavailable", 503, headers={"Retry-After": str(retry_after)})
