"""The object store as the lake's benchmarks look at it."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from lily_common.config import Settings


def objects(settings: Settings) -> Any:
    """A boto3 client of the lake's S3."""
    return boto3.client(
        "s3",
        endpoint_url=settings.s3_endpoint,
        aws_access_key_id=settings.s3_access_key.get_secret_value(),
        aws_secret_access_key=settings.s3_secret_key.get_secret_value(),
        region_name="us-east-1",
        config=Config(retries={"max_attempts": 1}),
    )
