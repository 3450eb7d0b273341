"""Names of every metric that Lily's processes expose, in one commented place, and the small server for workers.

A worker (anything but the API) answers `/metrics` (Prometheus) and `/readyz` on LILY_METRICS_PORT.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)

#: Requests by method, route template and status.
HTTP_REQUESTS = Counter("lily_http_requests_total", "HTTP requests", ["method", "route", "status"])
#: Time to answer, in seconds, by method and route template.
HTTP_SECONDS = Histogram("lily_http_request_seconds", "Time to answer", ["method", "route"], buckets=_SECONDS)
#: Events accepted (acknowledged by Kafka), by way in (events, webhook, openlineage) and lane.
INGEST_ACCEPTED = Counter("lily_ingest_accepted_total", "Events accepted", ["way", "lane"])
#: Items refused, by way in and problem code.
INGEST_REJECTED = Counter("lily_ingest_rejected_total", "Items refused", ["way", "reason"])

#: Rows read by a streaming query.
STREAM_ROWS = Counter("lily_stream_rows_total", "Rows read", ["query"])
#: Repeats of an event identity that were dropped.
STREAM_REPEATS = Counter("lily_stream_repeats_total", "Repeats dropped", ["query"])
#: Repeats whose body differed from the first: dropped too, and worth a look.
STREAM_CONFLICTS = Counter("lily_stream_conflicts_total", "Identity conflicts dropped", ["query"])
#: Messages that could not be processed and went to a dead-letter topic.
STREAM_DLQ = Counter("lily_stream_dlq_total", "Messages to the dead-letter topic", ["query", "reason"])
#: Duration of a micro-batch, in seconds.
STREAM_BATCH_SECONDS = Histogram("lily_stream_batch_seconds", "Micro-batch time", ["query"], buckets=_SECONDS)
#: Kafka messages not yet read by a query, at the end of its last batch.
STREAM_LAG = Gauge("lily_stream_lag_messages", "Messages behind", ["query"])
#: Times a streaming query died and was started again in place.
STREAM_RESTARTS = Counter("lily_stream_restarts_total", "Query restarts", ["query"])
#: Events of the past sent to `lily.replays` by the lake job.
REPLAYED = Counter("lily_replayed_events_total", "Events replayed")
#: Upkeep operations on lake tables.
UPKEEP_SECONDS = Histogram("lily_upkeep_seconds", "Upkeep time", ["table", "operation"], buckets=_SECONDS)
#: Data files of a lake table, and their bytes, as of its last upkeep.
TABLE_FILES = Gauge("lily_table_files", "Data files of a lake table", ["table"])
TABLE_BYTES = Gauge("lily_table_bytes", "Bytes of a lake table's data files", ["table"])

#: Refreshes of incremental tables, by table (its path), mode (incremental, full) and outcome (succeeded, failed).
TABLE_REFRESHES = Counter("lily_table_refreshes_total", "Refreshes", ["table", "mode", "outcome"])
#: Duration of a refresh, in seconds.
TABLE_REFRESH_SECONDS = Histogram(
    "lily_table_refresh_seconds", "Refresh time", ["table", "mode"], buckets=(*_SECONDS, 120, 600)
)
#: Rows that refreshes wrote, by operation (upserted, removed).
TABLE_REFRESH_ROWS = Counter("lily_table_refresh_rows_total", "Rows written", ["table", "operation"])
#: Rows that a full refresh found to differ from what the incremental ones had left.
TABLE_DRIFT = Counter("lily_table_drift_rows_total", "Rows that differed", ["table"])

#: Notices read by egress (each event arrives twice by design).
NOTICES = Counter(
    "lily_notices_total", "Notices read", ["outcome"]
)  # transition | repeat | reasserted | stale
#: Delivery attempts by sink kind and outcome (delivered, retry, dead, gone).
ATTEMPTS = Counter("lily_delivery_attempts_total", "Delivery attempts", ["sink", "outcome"])
#: Duration of an attempt, in seconds.
ATTEMPT_SECONDS = Histogram("lily_delivery_attempt_seconds", "Attempt time", ["sink"], buckets=_SECONDS)
#: From the event's acceptance to its first successful delivery, in seconds.
DELIVERY_SECONDS = Histogram("lily_delivery_seconds", "Accepted to delivered", ["sink"], buckets=_SECONDS)
#: Deliveries waiting (pending in the table).
DELIVERIES_PENDING = Gauge("lily_deliveries_pending", "Deliveries pending")

#: Derived events that propagation has told, by operation (attached, detached).
PROPAGATED = Counter("lily_derived_events_total", "Events that Lily itself made", ["by", "operation"])
#: The version of silver.assets that propagation stands at.
FOLLOWER_VERSION = Gauge(
    "lily_follower_version", "Version of silver.assets that a follower stands at", ["name"]
)

ReadyCheck = Callable[[], dict[str, str]]


def serve(port: int, ready: ReadyCheck, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Answer /metrics and /readyz on `port` from a daemon thread.

    `ready` returns a map of check name -> "ok" or what is wrong; all "ok" answers 200, else 503.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest())
            elif self.path in ("/readyz", "/healthz"):
                checks = ready() if self.path == "/readyz" else {}
                status = 200 if all(value == "ok" for value in checks.values()) else 503
                self._answer(status, "application/json", json.dumps({"checks": checks}).encode())
            else:
                self._answer(404, "application/json", b'{"detail": "not found"}')

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes every second are not news."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server
