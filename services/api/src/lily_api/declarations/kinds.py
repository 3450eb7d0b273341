"""The kinds of declarations, and the topic that each is told on."""

from __future__ import annotations

from dataclasses import dataclass

from lily_common.enrichment.rules import MAX_RULES as MAX_ENRICHMENT_RULES
from lily_common.events import ENRICHMENT_RULES_TOPIC, PROPAGATION_RULES_TOPIC
from lily_common.policies.mapping import MAX_MAPPINGS
from lily_common.policies.model import MAX_POLICIES
from lily_common.propagation.rules import MAX_RULES


@dataclass(frozen=True)
class Kind:
    """`name` stands in rows and in the audit log, `noun` in messages to people; a tenant has at most `most`.

    `topic` is where it is told; None: to nobody.
    """

    name: str
    noun: str
    topic: str | None
    most: int


PROPAGATION_RULE = Kind("propagation-rule", "propagation rule", PROPAGATION_RULES_TOPIC, MAX_RULES)
ENRICHMENT_RULE = Kind("enrichment-rule", "enrichment rule", ENRICHMENT_RULES_TOPIC, MAX_ENRICHMENT_RULES)
POLICY = Kind("policy", "policy", None, MAX_POLICIES)
MAPPING = Kind("mapping", "mapping", None, MAX_MAPPINGS)
KINDS = {kind.name: kind for kind in (PROPAGATION_RULE, ENRICHMENT_RULE, POLICY, MAPPING)}
