"""One OpenLineage event (run, job or dataset event) to Lily's changes.

    normalise(event) -> list of CloudEvents, without tenant, in order, ids the same for the same event

- job: asset `job://<namespace>/<name>`; its latest run is its aspect `run`
- datasets: assets by `names.to_qualified_name`, columns from the schema facet (bulk lane)
- each input to each output, and the columnLineage facet: lineage edges with the job as `via`
- a failed or aborted run asserts no lineage; a dropped output is deleted
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from lily_common.errors import FieldError, InvalidInputError
from lily_connectors.openlineage import datasets, edges, jobs
from lily_connectors.openlineage.changes import Changes, Event
from lily_connectors.openlineage.datasets import Dataset
from lily_connectors.openlineage.facets import as_dict, as_text
from lily_connectors.openlineage.names import DatasetName

#: Event types in the order of a run's life: the sequence parts events of one run with the same time.
_SEQUENCE = {"START": 1, "RUNNING": 2, "OTHER": 3, "COMPLETE": 4, "FAIL": 4, "ABORT": 4}
_FAILED = frozenset({"FAIL", "ABORT"})


def normalise(event: Any) -> list[Event]:
    """The changes of one event. Raises InvalidInputError (422) naming each field that is missing or wrong."""
    if not isinstance(event, dict):
        raise InvalidInputError("the event must be a JSON object", [FieldError("", "must be a JSON object")])
    reader = _Reader(event)
    time = reader.time()
    state = reader.event_type()
    if "dataset" in event and "job" not in event:
        dataset = reader.dataset("dataset", event.get("dataset"))
        reader.check()
        changes = Changes(event, time, 0)
        _describe(changes, [dataset], failed=False)
        return changes.events
    namespace, name = reader.identity("job", event.get("job"))
    run_id = reader.run_id()
    inputs, outputs = reader.datasets("inputs"), reader.datasets("outputs")
    reader.check()
    changes = Changes(event, time, _SEQUENCE.get(state or "", 0))
    run = as_dict(event.get("run"))
    job = jobs.describe(changes, namespace, name, as_dict(event.get("job")), run)
    if run_id is not None:
        jobs.record_run(changes, job, run, run_id=run_id, state=state or "OTHER", time=time)
    failed = state in _FAILED
    mentioned = _merge([*inputs, *outputs])
    _describe(changes, mentioned, failed=failed)
    if not failed:
        alive = {dataset.qualified_name: dataset for dataset in mentioned if not dataset.dropped}
        edges.connect(changes, _living(inputs, alive), _living(outputs, alive), via=job)
    return changes.events


def _describe(changes: Changes, mentioned: Iterable[Dataset], *, failed: bool) -> None:
    for dataset in mentioned:
        if not dataset.dropped:
            datasets.describe(changes, dataset)
        elif not failed:
            datasets.drop(changes, dataset)


def _merge(mentioned: Iterable[Dataset]) -> list[Dataset]:
    """Each dataset once, with the facets of all its mentions; a later mention (an output) wins."""
    merged: dict[str, Dataset] = {}
    for dataset in mentioned:
        held = merged.get(dataset.qualified_name)
        if held is not None:
            both = {**held.facets, **dataset.facets}
            merged[dataset.qualified_name] = Dataset(dataset.identity, dataset.qualified_name, both)
        else:
            merged[dataset.qualified_name] = dataset
    return list(merged.values())


def _living(mentioned: Iterable[Dataset], alive: dict[str, Dataset]) -> list[Dataset]:
    names = dict.fromkeys(dataset.qualified_name for dataset in mentioned)
    return [alive[name] for name in names if name in alive]


class _Reader:
    """Reads the required fields and collects what is wrong with them."""

    def __init__(self, event: dict[str, Any]) -> None:
        self._event = event
        self._errors: list[FieldError] = []

    def check(self) -> None:
        if self._errors:
            first = self._errors[0]
            raise InvalidInputError(f"{first.field}: {first.message}", self._errors)

    def _wrong(self, field: str, message: str) -> None:
        if len(self._errors) < 20:
            self._errors.append(FieldError(field, message))

    def time(self) -> str:
        """`eventTime` with an offset; producers that leave it out mean UTC."""
        text = as_text(self._event.get("eventTime"))
        try:
            moment = datetime.fromisoformat(text or "")
        except ValueError:
            self._wrong("eventTime", "is required: a date and time of RFC 3339")
            return ""
        return text + "Z" if text is not None and moment.tzinfo is None else text or ""

    def event_type(self) -> str | None:
        value = self._event.get("eventType")
        if value is None:
            return None
        state = value.upper() if isinstance(value, str) else ""
        if state not in _SEQUENCE:
            self._wrong("eventType", f"must be one of {', '.join(_SEQUENCE)}")
        return state

    def run_id(self) -> str | None:
        """The run's id; None for a job event, which has no run."""
        if "run" not in self._event:
            return None
        run_id = as_text(as_dict(self._event.get("run")).get("runId"))
        if run_id is None or len(run_id) > 256:
            self._wrong("run.runId", "is required: a string")
        return run_id

    def identity(self, field: str, value: Any) -> tuple[str, str]:
        holder = as_dict(value)
        namespace, name = as_text(holder.get("namespace")), as_text(holder.get("name"))
        if namespace is None:
            self._wrong(f"{field}.namespace", "is required: a non-empty string")
        if name is None:
            self._wrong(f"{field}.name", "is required: a non-empty string")
        return namespace or "", name or ""

    def dataset(self, field: str, value: Any) -> Dataset:
        namespace, name = self.identity(field, value)
        if not namespace or not name:
            return Dataset(DatasetName(namespace, name), "", {})
        return Dataset.read(namespace, name, as_dict(value))

    def datasets(self, field: str) -> list[Dataset]:
        value = self._event.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong(field, "must be a list of datasets")
            return []
        return [self.dataset(f"{field}.{index}", item) for index, item in enumerate(value)]
