"""The bundle's form, as Open Policy Agent reads it."""

from __future__ import annotations

import io
import tarfile

import orjson

from lily_api.policies.bundle import packed

DATA = {"policies": [{"name": "pii"}], "mappings": [], "tags": {"db://h/t/é": ["PII"]}}


def test_it_holds_data_and_a_manifest_and_is_the_same_each_time() -> None:
    made = packed(DATA)
    with tarfile.open(fileobj=io.BytesIO(made.content), mode="r:gz") as archive:
        parts = {name: orjson.loads(archive.extractfile(name).read()) for name in archive.getnames()}  # type: ignore[union-attr]
    assert parts == {
        "data.json": {"lily": DATA},
        ".manifest": {"revision": made.revision, "roots": ["lily"]},
    }
    assert packed(dict(reversed(DATA.items()))) == made
    assert packed({**DATA, "tags": {}}).revision != made.revision
