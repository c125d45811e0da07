"""The address of an object in S3."""

import pytest

from embedder.artifact_download.s3_object import S3Object, parse_location


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-central-1", "https://kit.s3.eu-central-1.amazonaws.com/artifact/a%3D1"),
        ("cn-north-1", "https://kit.s3.cn-north-1.amazonaws.com.cn/artifact/a%3D1"),
    ],
)
def test_an_object_has_the_address_of_its_region(region: str, url: str) -> None:
    """The region's own endpoint answers without a redirect, with the bucket in the host."""
    assert S3Object(parse_location("s3://kit/artifact/a=1"), region=region).url == url


def test_another_endpoint_has_the_bucket_in_the_path() -> None:
    """A server on this machine has no host for each bucket."""
    made = S3Object(
        parse_location("s3://kit/a/b"), region="eu-central-1", endpoint="http://localhost:4566"
    )
    assert made.url == "http://localhost:4566/kit/a/b"
