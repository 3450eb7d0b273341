"""Every sink by its kind: those of this package and those of the vendors' folders that have an `outbound.py`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic import SecretStr, ValidationError

from lily_common.errors import FieldError, InvalidInputError
from lily_connectors.contract import AnySink, SinkConfig
from lily_connectors.registry import kinds
from lily_connectors.sinks.kafka import KafkaSink
from lily_connectors.sinks.webhook import WebhookSink


@lru_cache(maxsize=1)
def sinks() -> dict[str, type[AnySink]]:
    """kind -> sink class."""
    found: dict[str, type[AnySink]] = {WebhookSink.kind: WebhookSink, KafkaSink.kind: KafkaSink}
    for kind in kinds().values():
        if kind.has_outbound:
            sink: type[AnySink] = kind.outbound.SINK
            found[sink.kind] = sink
    return found


def sink_class(kind: str) -> type[AnySink]:
    """The sink of that kind. Raises InvalidInputError (422) naming those there are."""
    found = sinks().get(kind)
    if found is None:
        error = FieldError("sink.kind", f"unknown sink; expected one of: {', '.join(sorted(sinks()))}")
        raise InvalidInputError(error.message, [error])
    return found


def parse_config(kind: str, fields: dict[str, Any]) -> SinkConfig:
    """The checked configuration. Raises InvalidInputError (422) naming each wrong field."""
    model = sink_class(kind).config_model
    try:
        return model.model_validate(fields)
    except ValidationError as invalid:
        errors = [
            FieldError(".".join(["sink", *(str(part) for part in item["loc"])]), item["msg"])
            for item in invalid.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise InvalidInputError(f"{errors[0].field}: {errors[0].message}", errors) from None


def build(kind: str, fields: dict[str, Any], signing: Sequence[str] = ()) -> AnySink:
    """A sink ready to send, from its configuration with secrets in plain text."""
    return sink_class(kind)(parse_config(kind, fields), signing)


def revealed(config: SinkConfig) -> dict[str, Any]:
    """The configuration with its secrets in plain text, for sealing. Never log or answer it."""
    plain = _reveal(config.model_dump())
    assert isinstance(plain, dict)
    return plain


def _reveal(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {name: _reveal(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_reveal(item) for item in value]
    return value
