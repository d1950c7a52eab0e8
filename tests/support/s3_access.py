"""How a test reaches an S3 server on localhost, whichever it is."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import boto3

REGION = "us-east-1"


class S3Access(ABC):
    """A server at a port, as its clients are told of it."""

    access_key: ClassVar[str]
    secret_key: ClassVar[str]
    port: int

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """storage_options in obstore's spelling."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": REGION,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
        }

    def client(self) -> Any:
        """boto3's client, for a second opinion on what is stored."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )
