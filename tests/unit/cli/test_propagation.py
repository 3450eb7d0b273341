"""`lily propagation`: what it sends and what it prints."""

from __future__ import annotations

import json

RULE = {"name": "pii", "classifications": ["PII"], "property": None, "along": ["table"], "max_depth": 5}
VIEW = {"name": "pii", "version": 1, "rule": RULE | {"stop_at": [], "enabled": True}}
TOLD = {
    "attached": 1,
    "detached": 0,
    "assets": 1,
    "changes": [
        {
            "qualified_name": "db://h/b",
            "operation": "attached",
            "tag": "PII",
            "rule": "pii",
            "origin": "db://h/a",
            "path": ["db://h/a", "db://h/b"],
        }
    ],
}


def test_apply_and_list(lily, api, tmp_path):
    file = tmp_path / "pii.yaml"
    file.write_text("classifications: [PII]\n")
    route = api.put("/v1/propagation/rules/pii").respond(201, json=VIEW)
    assert lily("propagation", "apply", str(file)).exit_code == 0
    assert route.calls[0].request.content == file.read_bytes()
    api.get("/v1/propagation/rules").respond(200, json={"items": [VIEW], "next_cursor": None})
    shown = lily("propagation", "list")
    assert (shown.exit_code, "PII" in shown.stdout) == (0, True)


def test_a_preview_supposes_changes_and_a_rule(lily, api, tmp_path):
    file = tmp_path / "pii.yaml"
    file.write_text("classifications: [PII]\n")
    route = api.post("/v1/propagation/preview").respond(200, json=TOLD)
    asked = ("--attach", "PII=db://h/a", "--remove-edge", "db://h/a,db://h/c", "--rule", str(file))
    shown = lily("propagation", "preview", *asked)
    assert shown.exit_code == 0
    assert "db://h/b" in shown.stdout
    sent = json.loads(route.calls[0].request.content)
    assert [change["type"] for change in sent["changes"]] == [
        "lily.classification.attached",
        "lily.lineage.edge.removed",
    ]
    assert sent["rule"] == {"name": "pii", "classifications": ["PII"]}


def test_a_wrong_supposition_is_told(lily, api):
    shown = lily("propagation", "preview", "--attach", "PII")
    assert (shown.exit_code, "TAG=ASSET" in shown.stderr) == (2, True)
