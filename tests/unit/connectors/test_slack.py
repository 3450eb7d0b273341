"""Slack's limits and its control characters."""

from __future__ import annotations

from typing import Any

from lily_connectors.vendors.slack.outbound import message


def event(**data: Any) -> dict[str, Any]:
    return {
        "type": "lily.incident.opened",
        "id": "1",
        "source": "urn:test",
        "subject": "postgres://db/shop/public/customers",
        "time": "2026-05-01T08:00:00.000000Z",
        "data": {"qualified_name": "q", "incident_id": "i", **data},
    }


def test_nothing_in_a_payload_can_mention_or_link() -> None:
    sent = message(event(title="<!channel> & <https://evil.example|click>", status="<@U1>"))
    markdown = [field["text"] for block in sent["blocks"] for field in block.get("fields", [])]
    assert all("<" not in text for text in [*markdown, sent["text"]])
    assert "&lt;!channel&gt; &amp; " in sent["text"]


def test_long_texts_are_cut_to_slacks_limits() -> None:
    sent = message(
        event(title="x" * 5000, description="y" * 5000, owners=["z" * 400] * 50, reason="r" * 5000)
    )
    header, section, *_ = sent["blocks"]
    assert len(header["text"]["text"]) == 150
    assert len(section["fields"]) <= 10
    assert all(len(field["text"]) <= 2000 for field in section["fields"])


def test_only_plain_https_links_become_links() -> None:
    def links(url: str) -> int:
        return str(message(event(title="t", url=url))).count("Open at the source")

    assert links("https://monitor.example/incidents/1") == 1
    for url in ("http://monitor.example", "javascript:alert(1)", "https://a|b", "https://a>b", "https://a b"):
        assert links(url) == 0
