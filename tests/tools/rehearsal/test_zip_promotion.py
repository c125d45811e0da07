"""A zip that is built once is deployed by other environments, against an emulated S3."""

import zipfile
from uuid import uuid4

import pytest

from embedding_kit.image_identity import model_labels
from embedding_kit.settings import ModelSettings
from operations import built_images as module
from operations.built_images import built_zip
from operations.packages import (
    PackageBucket,
    file_digest,
    package_bucket,
    read_address,
    write_labeled,
)
from operations.promotion import promote_zip, zip_reference
from stacks.environment import EnvironmentSettings

from .test_promotion import MODEL

IN_S3 = {"function": {"package": "zip", "artifact": "s3"}, "cold_start": {"kind": "snapstart"}}


@pytest.fixture
def make(aws, session):
    """Return a function that makes an environment of a zip, with its bucket."""
    made = set()

    def make(*, bucket=True, **settings):
        properties = {
            "model": ModelSettings(name=MODEL),
            "function": {"package": "zip"},
            **settings,
        }
        environment = EnvironmentSettings(name=f"e{uuid4().hex[:12]}", **properties)
        name = package_bucket(environment, read_address(session, environment))
        if bucket and name not in made:
            aws.client("s3").create_bucket(Bucket=name)
            made.add(name)
        return environment

    yield make
    for name in made:
        for item in _objects(aws, name):
            aws.client("s3").delete_object(Bucket=name, Key=item)
        aws.client("s3").delete_bucket(Bucket=name)


@pytest.fixture
def build(session, monkeypatch, tmp_path):
    """Return a function that runs `built_zip` with a small zip in place of the builder's."""

    def run(command):
        archive = tmp_path / ("artifact" if "--artifact-object" in command else "built.zip")
        if archive.suffix:
            with zipfile.ZipFile(archive, "w") as output:
                output.writestr(zipfile.ZipInfo("handler.py"), "# code\n")
        else:
            archive.write_bytes(b"weights")
        return archive

    monkeypatch.setattr(module, "_run", run)
    return lambda environment: built_zip(session, environment)


def _objects(aws, bucket):
    listed = aws.client("s3").list_objects_v2(Bucket=bucket)
    return sorted(item["Key"] for item in listed.get("Contents", []))


def _key(uri):
    return uri.rpartition("/")[2]


def _bucket(session, environment):
    return package_bucket(environment, read_address(session, environment))


def test_a_zip_is_built_and_uploaded_once(aws, session, make, build):
    """Its key is the digest of its bytes, which are the same in the next build."""
    dev = make()
    uri = build(dev)
    bucket = _bucket(session, dev)
    assert bucket == f"cdk-hnb659fds-assets-{aws.account}-{aws.region}"
    assert uri.startswith(f"s3://{bucket}/")
    assert build(dev) == uri
    assert [key for key in _objects(aws, bucket) if key.endswith(".zip")] == [_key(uri)]
    digest = f"sha256:{_key(uri).removesuffix('.zip')}"
    assert promote_zip(session, dev, [uri]) == {"zip": digest}
    assert promote_zip(session, make(), [uri]) == {"zip": digest}


def test_a_zip_and_its_artifact_have_the_same_keys_in_the_next_environment(
    aws, session, make, build
):
    """Each environment has its own bucket, and an object in it is not copied again."""
    dev, staging = make(**IN_S3), make(**IN_S3)
    uri = build(dev)
    keys = _objects(aws, _bucket(session, dev))
    (artifact,) = (key for key in keys if key.startswith("artifact/"))
    assert set(keys) == {_key(uri), artifact}
    for _ in range(2):
        found = promote_zip(session, staging, [uri])
        assert sorted(found) == ["artifact", "zip"]
        assert _objects(aws, _bucket(session, staging)) == keys


def test_a_check_changes_nothing(aws, session, make, build):
    """It comes before the stack of the environment's bucket, so the bucket may be missing."""
    uri = build(make(**IN_S3))
    staging = make(bucket=False, **IN_S3)
    assert promote_zip(session, staging, [uri], check=True)
    assert _bucket(session, staging) not in str(aws.client("s3").list_buckets()["Buckets"])


def test_a_copy_that_broke_off_continues(aws, session, make, build, monkeypatch):
    """An object that the bucket already has is not sent again."""
    dev, staging = make(**IN_S3), make(**IN_S3)
    uri, bucket = build(dev), _bucket(session, staging)
    write, sent = PackageBucket.write, []

    def breaks_off(self, key, file):
        sent.append(key)
        if len(sent) == 2:
            raise ConnectionError("broke off")
        return write(self, key, file)

    monkeypatch.setattr(PackageBucket, "write", breaks_off)
    with pytest.raises(ConnectionError):
        promote_zip(session, staging, [uri])
    assert _objects(aws, bucket) == sent[:1]
    promote_zip(session, staging, [uri])
    assert sent == [_key(uri), sent[1], sent[1]]
    assert _objects(aws, bucket) == _objects(aws, _bucket(session, dev))


def test_a_zip_comes_as_a_file_from_another_account(aws, session, make, build, tmp_path):
    """With its artifact next to it, as in the bucket; whoever could read both has copied them."""
    dev, staging = make(**IN_S3), make(**IN_S3)
    uri = build(dev)
    for key in _objects(aws, _bucket(session, dev)):
        file = tmp_path / "copied" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        answer = aws.client("s3").get_object(Bucket=_bucket(session, dev), Key=key)
        file.write_bytes(answer["Body"].read())
    archive = tmp_path / "copied" / _key(uri)
    promote_zip(session, staging, [str(archive)])
    assert _objects(aws, _bucket(session, staging)) == _objects(aws, _bucket(session, dev))
    (artifact,) = (tmp_path / "copied" / "artifact").iterdir()
    artifact.write_bytes(b"other weights")
    with pytest.raises(ValueError, match=r"artifact/.*: found: sha256:"):
        promote_zip(session, make(**IN_S3), [str(archive)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": ModelSettings(name="mine/other")},
            rf"name: found: {MODEL}; allowed: mine/other",
        ),
        (IN_S3, r"\[function\] artifact: found: package; allowed: s3"),
    ],
)
def test_a_zip_of_other_settings_is_refused(session, make, build, settings, message):
    """The error names each setting, and nothing is copied."""
    uri = build(make())
    staging = make(**settings)
    before = _objects(session.aws, _bucket(session, staging))
    with pytest.raises(ValueError, match=message):
        promote_zip(session, staging, [uri], check=True)
    assert _objects(session.aws, _bucket(session, staging)) == before


def test_what_is_no_zip_of_the_kit_is_refused(aws, session, make, tmp_path):
    """Neither a zip without labels, nor one that is not there, nor another file of its name."""
    dev = make()
    bucket = _bucket(session, dev)
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(foreign, "w") as output:
        output.writestr("handler.py", "")
    with pytest.raises(ValueError, match=r"no label embedding-kit\.target"):
        promote_zip(session, dev, [str(foreign)])
    with pytest.raises(ValueError, match=f"looked in: s3://{bucket}, .*; allowed: a zip"):
        promote_zip(session, dev, [f"s3://{bucket}/{'0' * 64}.zip"])
    (tmp_path / "no.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"no\.zip is no zip"):
        promote_zip(session, dev, [str(tmp_path / "no.zip")])
    name = f"{'1' * 64}.zip"
    aws.client("s3").put_object(Bucket=bucket, Key=name, Body=foreign.read_bytes())
    with pytest.raises(ValueError, match=f"other content than its name says; found: .*{'1' * 64}"):
        promote_zip(session, dev, [f"s3://{bucket}/{name}"])
    with pytest.raises(ValueError, match="found: 2 of them; allowed: one zip"):
        promote_zip(session, dev, [str(foreign)] * 2)


@pytest.mark.parametrize(
    "text", ["latest", "sha256:" + "a" * 64, "s3://bucket/latest.zip", "missing.zip"]
)
def test_a_zip_is_named_by_its_digest(text):
    """Or by a file: its content has one."""
    with pytest.raises(ValueError, match=r"--image: found: .*; allowed .*s3://BUCKET/DIGEST"):
        zip_reference(text)


def test_labels_change_only_the_file_of_labels(tmp_path):
    """The rest is as it was built, and the same labels give the same bytes."""
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as output:
        output.writestr("handler.py", "# code\n")
    for name in ("b.zip", "c.zip"):
        write_labeled(archive, model_labels(ModelSettings(name=MODEL)), tmp_path / name)
    assert file_digest(tmp_path / "b.zip") == file_digest(tmp_path / "c.zip")
    with zipfile.ZipFile(tmp_path / "b.zip") as labeled:
        assert labeled.namelist() == ["handler.py", "embedding-kit.json"]
        assert labeled.read("handler.py") == b"# code\n"
