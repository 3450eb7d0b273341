"""The job of an OpenLineage event, and its latest run as the job's aspect `run`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lily_common import events as ev
from lily_common.names import AssetType
from lily_connectors.openlineage.changes import Changes
from lily_connectors.openlineage.datasets import ASPECT
from lily_connectors.openlineage.facets import as_dict, as_text, facets_of, kept
from lily_connectors.openlineage.names import job_qualified_name

JOB = AssetType.JOB.value
_MAX_MESSAGE = 2_000


def describe(
    changes: Changes, namespace: str, name: str, job: Mapping[str, Any], run: Mapping[str, Any]
) -> str:
    """The job's asset, and its parent's as far as the parent facet names it. Returns the job's qualified name."""
    qualified_name = job_qualified_name(namespace, name)
    parent = _parent(run)
    if parent == qualified_name:
        parent = None
    if parent is not None:
        above = as_dict(as_dict(facets_of(run).get("parent")).get("job"))
        changes.patch(parent, JOB, {"asset_type": JOB, "name": as_text(above.get("name"))})
    changes.patch(qualified_name, JOB, {"asset_type": JOB, "name": name, "parent": parent})
    changes.patch(qualified_name, JOB, kept(facets_of(job), without=frozenset()), ASPECT)
    return qualified_name


def record_run(
    changes: Changes, qualified_name: str, run: Mapping[str, Any], *, run_id: str, state: str, time: str
) -> None:
    """Aspect `run`: the latest run by event time, as a whole."""
    facets = facets_of(run)
    parent = as_dict(facets.get("parent"))
    nominal = as_dict(facets.get("nominalTime"))
    engine = as_dict(facets.get("processing_engine"))
    error = as_text(as_dict(facets.get("errorMessage")).get("message"))
    data = {
        "qualified_name": qualified_name,
        "asset_type": JOB,
        "aspect": "run",
        "run_id": run_id,
        "state": state,
        "event_time": time,
        "parent_run_id": as_text(as_dict(parent.get("run")).get("runId")),
        "parent_job": _parent(run),
        "nominal_start": as_text(nominal.get("nominalStartTime")),
        "nominal_end": as_text(nominal.get("nominalEndTime")),
        "engine": as_text(engine.get("name")),
        "engine_version": as_text(engine.get("version")),
        "error": error[:_MAX_MESSAGE] if error else None,
    }
    changes.add(ev.ASSET_UPSERTED, {key: value for key, value in data.items() if value is not None})


def _parent(run: Mapping[str, Any]) -> str | None:
    job = as_dict(as_dict(facets_of(run).get("parent")).get("job"))
    namespace, name = as_text(job.get("namespace")), as_text(job.get("name"))
    return job_qualified_name(namespace, name) if namespace and name else None
