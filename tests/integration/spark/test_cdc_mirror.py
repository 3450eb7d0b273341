"""`user_ratings`, captured and mirrored: the lake answers what needs all of it, the mirror what is asked by key."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pymongo.collection import Collection
from tests.integration.spark.captured import Captured
from tests.integration.spark.process import JobProcess
from tests.support.debezium import Postgres, of
from tests.support.poll import until
from tests.support.stack import Stack

from lily_common.events import CDC_SOURCES_TOPIC
from lily_common.kafka import producer_config
from lily_spark.cdc.topics import Capture
from lily_spark.cdc.views import latest_sql

pytestmark = pytest.mark.stack
NOW = datetime.now(UTC).replace(microsecond=0)
COLUMNS = {
    "user_id": of("int32"),
    "movie_id": of("int32"),
    "gender": of("string"),
    "rating": of("int32"),
    "timestamp": of("string", "io.debezium.time.ZonedTimestamp"),
    "comment": of("string"),
}
#: (user, movie, gender, rating, days ago)
RATINGS = [
    (123, 1, "f", 3, 10),
    (123, 2, "f", 3, 100),
    (123, 3, "f", 5, 1),
    (123, 4, "f", 3, 400),
    (7, 1, "m", 3, 20),
    (7, 2, "m", 1, 2),
]


class Ratings:
    """The captured table, its mirror's configuration and its collection."""

    def __init__(self, servers: Stack) -> None:
        self.table = Captured(
            servers.environment, Capture("acme", f"s{secrets.token_hex(3)}", "public.user_ratings")
        )
        self.source = Postgres(COLUMNS, ("user_id", "movie_id"))
        self._producer = Producer(producer_config(servers.environment["KAFKA_BOOTSTRAP"]))
        self.documents: Collection[dict[str, Any]] = servers.mirror.database[self.table.capture.topic]

    def mirror(self, *columns: str, days: float | None = 180) -> None:
        """Choose these columns; none: the table is mirrored no longer."""
        capture = self.table.capture
        mirror = {capture.name: {"columns": columns, "ttl_days": days}} if columns else {}
        value = {"tenant": capture.tenant, "source": capture.source, "connector_id": "c", "mirror": mirror}
        self._producer.produce(
            CDC_SOURCES_TOPIC, orjson.dumps(value), f"{capture.tenant}|{capture.source}".encode()
        )
        assert self._producer.flush(30) == 0

    def rate(self, user: int, movie: int, gender: str, rating: int, days: float, **more: Any) -> None:
        time = NOW - timedelta(days=days)
        row = {
            "user_id": user,
            "movie_id": movie,
            "gender": gender,
            "rating": rating,
            "timestamp": time.isoformat(),
            "comment": "c",
        }
        self.table.send(self.source.create(row, seconds=int(time.timestamp()), **more))

    def newest(self, user: int) -> dict[str, Any] | None:
        """The mirror's query: the newest rating of one user."""
        return self.documents.find_one(
            {"user_id": user, "__deleted": False},
            {"_id": 0, "user_id": 1, "rating": 1, "timestamp": 1},
            sort=[("timestamp", -1)],
        )

    def threes(self) -> set[tuple[Any, ...]]:
        """The lake's query: ratings of 3 in the last six months by user and gender."""
        table = self.table.table()
        connection = duckdb.connect()
        connection.register("user_ratings", table.to_pyarrow_dataset())
        latest = latest_sql(
            "user_ratings", pa.schema(table.schema().to_arrow()), ["user_id", "movie_id"], "duckdb"
        )
        found = connection.execute(
            f"""SELECT u.user_id, u.gender, count(*) AS rating_count FROM ({latest}) u
            WHERE u.rating = 3 AND u.timestamp >= $since GROUP BY u.user_id, u.gender""",
            {"since": NOW - timedelta(days=183)},
        ).fetchall()
        return set(found)


@pytest.fixture
def ratings(servers: Stack) -> Ratings:
    return Ratings(servers)


def test_both_queries_of_the_example(lake: JobProcess, ratings: Ratings) -> None:
    ratings.mirror("rating", "timestamp")
    for rating in RATINGS:
        ratings.rate(*rating)
    until(lambda: len(ratings.table.latest("user_id", "movie_id")) == len(RATINGS), "the lake")
    until(lambda: ratings.threes() == {(123, "f", 2), (7, "m", 1)}, "ratings of 3")
    newest = {"user_id": 123, "rating": 5, "timestamp": NOW - timedelta(days=1)}
    until(lambda: ratings.newest(123) == newest, "the newest rating")
    ratings.rate(123, 5, "f", 3, 0)
    until(lambda: (ratings.newest(123) or {}).get("rating") == 3, "the rating of now")
    until(lambda: ratings.threes() == {(123, "f", 3), (7, "m", 1)}, "ratings of 3")
    document = ratings.documents.find_one({"user_id": 7})
    assert document is not None
    assert {name for name in document if not name.startswith("_")} == {
        "user_id",
        "movie_id",
        "rating",
        "timestamp",
    }
    assert document["__expires_at"] == document["__source_time"] + timedelta(days=180)


def test_deletes_remove_and_late_rows_bring_nothing_back(lake: JobProcess, ratings: Ratings) -> None:
    ratings.mirror("rating", "timestamp")
    ratings.rate(1, 1, "f", 4, 0, lsn=500)
    until(lambda: ratings.newest(1), "the rating")
    ratings.table.send(ratings.source.delete({"user_id": 1, "movie_id": 1}, lsn=700))
    until(lambda: ratings.newest(1) is None, "its end")
    grave = ratings.documents.find_one({})
    assert grave is not None
    assert "rating" not in grave
    ratings.rate(1, 1, "f", 4, 0, lsn=600)
    ratings.rate(1, 2, "f", 2, 1, lsn=800)
    until(lambda: (ratings.newest(1) or {}).get("rating") == 2, "the other rating")
    assert ratings.documents.count_documents({"__deleted": False}) == 1


def test_what_is_chosen_later_is_filled_from_the_lake_and_leaves_with_the_choice(
    lake: JobProcess, ratings: Ratings
) -> None:
    for rating in RATINGS:
        ratings.rate(*rating)
    until(lambda: len(ratings.table.latest("user_id", "movie_id")) == len(RATINGS), "the lake")
    assert ratings.documents.count_documents({}) == 0
    ratings.mirror("rating", "timestamp", days=365)
    until(
        lambda: ratings.documents.count_documents({}) == len(RATINGS) - 1, "all but the one that is too old"
    )
    ratings.mirror("comment", days=None)
    until(lambda: ratings.documents.count_documents({"comment": "c"}) == len(RATINGS), "other columns")
    assert ratings.documents.count_documents({"rating": {"$exists": True}}) == 0
    ratings.mirror()
    until(lambda: ratings.documents.count_documents({}) == 0, "an empty mirror")
