"""Writes the lock from infra/pom.xml: a developer's step (`python -m lily_local lock-jars`), not a user's."""

from __future__ import annotations

import hashlib
import json
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

from lily_local.jars.lock import LOCK_FILE, pom_digest

_NS = "http://maven.apache.org/POM/4.0.0"
# Not taken although something asks for it: Spark carries the same classes under another name.
_SPARK_HAS_UNDER_ANOTHER_NAME = {"commons-logging": "jcl-over-slf4j", "shims": "RoaringBitmap"}
_BESIDE_SPARK = {"spark"}


def default_pom() -> Path:
    """infra/pom.xml of the checkout that this package is installed from (editable)."""
    return Path(__file__).parents[4] / "pom.xml"


def write_lock(pom: Path, lock_file: Path = LOCK_FILE) -> dict[str, int]:
    """Resolve each profile of `pom` and write the lock; returns the number of jars of each set."""
    sets = {profile: _locked(pom, profile) for profile in profiles(pom)}
    text = json.dumps({"pom_sha256": pom_digest(pom), "sets": sets}, indent=1)
    lock_file.write_text(text + "\n")
    return {name: len(jars) for name, jars in sets.items()}


def profiles(pom: Path) -> list[str]:
    root = ET.parse(pom).getroot()  # noqa: S314 - our own file
    return [element.text or "" for element in root.iterfind(f".//{{{_NS}}}profile/{{{_NS}}}id")]


def _locked(pom: Path, profile: str) -> list[dict[str, str | int]]:
    from jgo.maven import MavenContext
    from jgo.maven._pom import POM

    if whole := _archives(pom, profile):
        return whole
    with tempfile.TemporaryDirectory() as folder:
        flat = Path(folder) / "pom.xml"
        _write_profile_pom(pom, profile, flat)
        context = MavenContext()
        _, nodes = context.pom_dependency_list(POM(flat))
    skip = _carried_by_spark() if profile in _BESIDE_SPARK else set()
    artifacts = [node.dep.artifact for node in nodes if node.dep.type == "jar"]
    kept = [artifact for artifact in artifacts if artifact.artifactId not in skip]
    return [
        {"coordinate": coordinate, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
        for coordinate, data in sorted(
            (f"{a.groupId}:{a.artifactId}:{a.version}", Path(a.resolve()).read_bytes()) for a in kept
        )
    ]


def _archives(pom: Path, profile: str) -> list[dict[str, str | int]]:
    """What a profile names that is no jar: taken as it is, with nothing that it pulls in."""
    from jgo.maven import MavenContext

    root = ET.parse(pom).getroot()  # noqa: S314 - our own file
    properties = {
        f"${{{one.tag.rpartition('}')[2]}}}": one.text or ""
        for one in root.find(f"{{{_NS}}}properties") or ()
    }
    found: list[dict[str, str | int]] = []
    for element in root.iterfind(f".//{{{_NS}}}profile"):
        if element.findtext(f"{{{_NS}}}id") != profile:
            continue
        for dependency in element.iterfind(f".//{{{_NS}}}dependency"):
            packaging = dependency.findtext(f"{{{_NS}}}type") or "jar"
            if packaging == "jar":
                continue
            group, artifact, version = (
                dependency.findtext(f"{{{_NS}}}{part}") or "" for part in ("groupId", "artifactId", "version")
            )
            version = properties.get(version, version)
            component = MavenContext().project(group, artifact).at_version(version)
            file = Path(component.artifact(packaging=packaging).resolve())
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            coordinate = f"{group}:{artifact}:{version}:{packaging}"
            found.append({"coordinate": coordinate, "sha256": digest, "size": file.stat().st_size})
    return found


def _write_profile_pom(pom: Path, profile: str, target: Path) -> None:
    """The pom with one profile's dependencies as its own: jgo does not activate profiles by name."""
    ET.register_namespace("", _NS)
    tree = ET.parse(pom)  # noqa: S314 - our own file
    root = tree.getroot()
    found = root.find(f"{{{_NS}}}profiles")
    assert found is not None
    root.remove(found)
    for element in found:
        if element.findtext(f"{{{_NS}}}id") == profile:
            dependencies = element.find(f"{{{_NS}}}dependencies")
            assert dependencies is not None
            root.append(dependencies)
    tree.write(target)


def _carried_by_spark() -> set[str]:
    """Artifact names of the jars in the pyspark wheel: a second version beside them would break Spark."""
    import pyspark

    stems = {path.stem for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    names = {stem[: _version_start(stem)] for stem in stems}
    return names | {name for name, twin in _SPARK_HAS_UNDER_ANOTHER_NAME.items() if twin in names}


def _version_start(stem: str) -> int:
    """Index of the hyphen before the version in `artifact-1.2.3`."""
    for index, char in enumerate(stem[:-1]):
        if char == "-" and stem[index + 1].isdigit():
            return index
    return len(stem)
