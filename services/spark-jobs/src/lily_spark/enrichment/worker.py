"""The thread of the lake job that enriches."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from lily_common.enrichment.rules import EnrichmentRule
from lily_common.events import ENRICHMENT_RULES_TOPIC
from lily_spark.config import SparkSettings
from lily_spark.declared import Declared, Topic
from lily_spark.enrichment.index import Index
from lily_spark.enrichment.rounds import Rounds
from lily_spark.following import Follower
from lily_spark.propagation.facts import Facts


def parse(value: bytes) -> Declared[EnrichmentRule]:
    """Raises ValueError for what is no rule: the last good one of its key then holds."""
    return Declared[EnrichmentRule].model_validate(orjson.loads(value))


TOPIC = Topic(ENRICHMENT_RULES_TOPIC, "/lily/enrichment-rules", "lily-lake-enrichment-rules", parse)


class Enricher(Follower[EnrichmentRule]):
    """Follows the registers and the rules of enrichment."""

    def __init__(self, settings: SparkSettings) -> None:
        super().__init__(settings, "enrichment", TOPIC)

    def _open(self, rules: Mapping[str, Mapping[str, EnrichmentRule]]) -> Facts:  # noqa: ARG002
        if self._held is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._held = Index(self._path)
        return self._held

    def _rounds(self, facts: Facts) -> Rounds:
        assert isinstance(facts, Index)
        return Rounds(facts)

    def _told_of(self, facts: Facts) -> list[tuple[str, str]]:
        assert isinstance(facts, Index)
        return facts.rules_given()
