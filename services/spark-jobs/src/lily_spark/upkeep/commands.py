"""Commands to the lake job, from `lily.commands`: read, done in turn, answered on `lily.command-results`.

A command's offset is committed after its work, so that a crash repeats it; every command may be done twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from confluent_kafka import Consumer, KafkaException, Message, Producer

from lily_common.events import COMMAND_RESULTS_TOPIC, COMMANDS_TOPIC
from lily_common.kafka import consumer_config, producer_config
from lily_common.logs import get_logger

log = get_logger(__name__)
GROUP = "lily-lake"

#: (tenant, args) -> detail for the answer
Handler = Callable[[str, dict[str, Any]], Any]
#: Takes the whole command on and returns at once; how it goes is told later, by `Commands.answer`.
Starter = Callable[[dict[str, Any]], None]


class Commands:
    """The consumer of commands. Used by one thread. What `stopping` cuts off is done again after the restart."""

    def __init__(self, bootstrap: str, handlers: dict[str, Handler], stopping: Callable[[], bool]) -> None:
        self._handlers = handlers
        #: Commands whose work goes on elsewhere: a starter notes for good what it takes on.
        self.starters: dict[str, Starter] = {}
        self._stopping = stopping
        # A rebuild may take hours, during which nothing is polled.
        self._consumer = Consumer(consumer_config(bootstrap, GROUP, **{"max.poll.interval.ms": 86_400_000}))
        self._consumer.subscribe([COMMANDS_TOPIC])
        self._producer = Producer(producer_config(bootstrap))

    def poll(self, seconds: float) -> None:
        """Wait up to `seconds` for a command and do it. Raises when its result cannot be told: it is then done again."""
        message = self._consumer.poll(seconds)
        if message is None or message.error() is not None:
            return
        command = _read(message)
        if command is not None:
            self._do(command)
        self._consumer.commit(message=message, asynchronous=False)

    def close(self) -> None:
        self._consumer.close()
        self._producer.flush(5)

    def _do(self, command: dict[str, Any]) -> None:
        name = command["command"]
        starter, handler = self.starters.get(name), self._handlers.get(name)
        if starter is None and handler is None:
            self.answer(command, "failed", f"unknown command {name!r}")
            return
        self.answer(command, "running", None)
        try:
            if starter is not None:
                starter(command)
                return
            assert handler is not None
            detail = handler(command["tenant"], command.get("args") or {})
        except Exception as failed:  # whatever it is, the next command must have its turn
            if self._stopping():
                raise
            log.exception("command failed", id=command["id"], command=command["command"])
            self.answer(command, "failed", f"{type(failed).__name__}: {str(failed)[:1000]}")
        else:
            self.answer(command, "succeeded", detail)

    def answer(self, command: dict[str, Any], status: str, detail: Any) -> None:
        """Tell the API; any thread may. Raises KafkaException when Kafka does not acknowledge."""
        named = {name: command[name] for name in ("id", "tenant", "command")}
        value = orjson.dumps(named | {"status": status, "detail": detail}, default=str)
        self._producer.produce(COMMAND_RESULTS_TOPIC, value, command["tenant"].encode())
        if self._producer.flush(15):
            raise KafkaException(f"the result of command {command['id']} was not acknowledged")


def _read(message: Message) -> dict[str, Any] | None:
    """The command in a message; None, with a word in the log, when there is none."""
    try:
        command: Any = orjson.loads(message.value() or b"")
        if all(isinstance(command[name], str) for name in ("id", "tenant", "command")):
            return dict(command)
    except (ValueError, KeyError, TypeError):
        pass
    log.error("not a command", offset=message.offset())
    return None
