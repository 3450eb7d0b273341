"""The shop's nightly Spark SQL job: customers, orders, payments -> two marts. It knows nothing of Lily.

What reports its lineage is the OpenLineage listener that its starter puts into the Spark properties.
Environment: SHOP_JDBC_URL, SHOP_USER, SHOP_PASSWORD, SHOP_MARTS (a folder). Prints one JSON line: the marts.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import DataFrame, SparkSession

CUSTOMER_REVENUE = """
    SELECT c.customer_id,
           c.email,
           upper(c.country) AS country,
           count(DISTINCT o.order_id) AS orders,
           sum(p.amount) AS revenue
    FROM customers c
    JOIN orders o ON o.customer_id = c.customer_id
    JOIN payments p ON p.order_id = o.order_id
    GROUP BY c.customer_id, c.email, c.country
"""
DAILY_REVENUE = """
    SELECT to_date(o.ordered_at) AS day,
           c.country,
           sum(p.amount) AS revenue
    FROM orders o
    JOIN customers c ON c.customer_id = o.customer_id
    JOIN payments p ON p.order_id = o.order_id
    WHERE o.status <> 'returned'
    GROUP BY to_date(o.ordered_at), c.country
"""


def jdbc_options() -> dict[str, str]:
    return {
        "url": os.environ["SHOP_JDBC_URL"],
        "user": os.environ["SHOP_USER"],
        "password": os.environ["SHOP_PASSWORD"],
        "driver": "org.postgresql.Driver",
    }


def read_tables(spark: SparkSession) -> None:
    for table in ("customers", "orders", "payments"):
        source: DataFrame = (
            spark.read.format("jdbc").options(**jdbc_options(), dbtable=f"public.{table}").load()
        )
        source.createOrReplaceTempView(table)


def main() -> int:
    spark = SparkSession.builder.appName("shop_marts").getOrCreate()
    read_tables(spark)
    folder = os.environ["SHOP_MARTS"]
    spark.sql(CUSTOMER_REVENUE).coalesce(1).write.mode("overwrite").parquet(f"{folder}/customer_revenue")
    daily = spark.sql(DAILY_REVENUE).coalesce(1)
    daily.write.format("jdbc").options(**jdbc_options(), dbtable="marts.daily_revenue").mode(
        "overwrite"
    ).save()
    spark.stop()
    sys.stdout.write(json.dumps({"marts": ["customer_revenue", "daily_revenue"]}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
