"""JSON Schemas of the event payloads, generated from the models, and the backward-compatibility rule between two.

`python -m lily_common.schemas write` regenerates `contracts/schemas`; it refuses a change that would break
events already in the lake, unless told `--breaking`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from lily_common.events import EVENT_TYPES

Schema = dict[str, Any]


def generate() -> dict[str, Schema]:
    """File name -> JSON Schema (draft 2020-12) of the payload, for every event type."""
    return {f"{name}.schema.json": _schema(name) for name in EVENT_TYPES}


def _schema(name: str) -> Schema:
    body = EVENT_TYPES[name].model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **_untitled(body)}


def _untitled(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


def breaking_changes(old: Schema, new: Schema, path: str = "") -> list[str]:
    """Why an event valid under `old` might be refused under `new`; empty when it cannot be."""
    found: list[str] = []
    for name in sorted(set(new.get("required", [])) - set(old.get("required", []))):
        found.append(f"{path}{name}: became required")
    if old.get("additionalProperties", True) is not False and new.get("additionalProperties", True) is False:
        found.append(f"{path or '.'}: no longer takes unknown fields")
    held: Schema = new.get("properties", {})
    for name, before in old.get("properties", {}).items():
        after = held.get(name)
        if after is None:
            found.append(f"{path}{name}: was removed")
            continue
        narrowed = _kinds(before) - _kinds(after)
        if narrowed and _kinds(after):
            found.append(f"{path}{name}: no longer takes {', '.join(sorted(narrowed))}")
        lost = set(map(str, before.get("enum", []))) - set(map(str, after.get("enum", [])))
        if after.get("enum") and (lost or not before.get("enum")):
            found.append(f"{path}{name}: takes fewer values")
        found += breaking_changes(before, after, f"{path}{name}.")
    for name, before in old.get("$defs", {}).items():
        after = new.get("$defs", {}).get(name)
        if after is not None:
            lost = set(before.get("enum", [])) - set(after.get("enum", []))
            if lost:
                found.append(f"{path}$defs.{name}: no longer takes {', '.join(sorted(lost))}")
            found += breaking_changes(before, after, f"{path}$defs.{name}.")
    return found


def _kinds(schema: Schema) -> set[str]:
    """The JSON types that a property takes; empty when anything goes."""
    if "anyOf" in schema:
        return set().union(*(_kinds(option) for option in schema["anyOf"]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return set(kind)
    return {kind} if kind else ({schema["$ref"]} if "$ref" in schema else set())


def render(schema: Schema) -> str:
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def write(folder: Path, *, breaking: bool = False) -> list[str]:
    """Bring `folder` in line with the models; returns the breaking changes that were found.

    Writes nothing when there are any and `breaking` is False.
    """
    generated = generate()
    problems: list[str] = []
    for path in sorted(folder.glob("*.schema.json")):
        new = generated.get(path.name)
        if new is None:
            problems.append(f"{path.name}: the event type was removed")
        else:
            problems += [f"{path.name}: {why}" for why in breaking_changes(json.loads(path.read_text()), new)]
    if problems and not breaking:
        return problems
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.schema.json"):
        path.unlink()
    for name, schema in generated.items():
        (folder / name).write_text(render(schema))
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lily_common.schemas", description="Generate event schemas"
    )
    parser.add_argument("action", choices=["write"])
    parser.add_argument("--folder", type=Path, default=Path("contracts/schemas"))
    parser.add_argument("--breaking", action="store_true", help="write even what breaks older events")
    arguments = parser.parse_args()
    problems = write(arguments.folder, breaking=arguments.breaking)
    for problem in problems:
        sys.stderr.write(f"breaking: {problem}\n")
    return 1 if problems and not arguments.breaking else 0


if __name__ == "__main__":
    sys.exit(main())
