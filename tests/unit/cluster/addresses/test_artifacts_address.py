"""Addresses of the artifact store: what is accepted, what is refused, and that no secret is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.addresses.artifacts_address import parse_artifacts_address
from cluster.artifacts.storage.bucket_access import bucket_options, open_location
from cluster.artifacts.storage.conditional_writes import credentials_from_file
from cluster.errors import Invalid, InvalidSetting
from cluster.settings import Settings


@pytest.mark.parametrize(
    ("text", "scheme", "bucket", "path"),
    [
        ("/srv/store", "file", "", "/srv/store"),
        ("file:///srv/my%20store", "file", "", "/srv/my store"),
        ("s3://news", "s3", "news", ""),
        ("s3://news/kiosk/blue/?region=eu-west-1", "s3", "news", "kiosk/blue"),
        ("gs://news/kiosk", "gs", "news", "kiosk"),
    ],
)
def test_an_address_is_taken_apart(text: str, scheme: str, bucket: str, path: str) -> None:
    artifacts_address = parse_artifacts_address(text)
    assert (artifacts_address.scheme, artifacts_address.bucket, artifacts_address.path) == (
        scheme,
        bucket,
        path,
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("s3://AKIA7:hunter2@news/kiosk", "must not hold credentials"),
        ("s3://news/kiosk#hunter2", "must not hold credentials"),
        ("s3://news/kiosk?secret_key=hunter2", "unknown option"),
        ("s3://news/kiosk?hunter2", "must be a folder"),
        ("s3:///kiosk", "names no bucket"),
        ("s3://news/a/../../hunter2", "names no bucket"),
        ("s3://news/../hunter2", "names no bucket"),
        ("gs://news?region=hunter2", "unknown option"),
        ("ftp://hunter2/news", "must be a folder"),
        ("file://hunter2/srv", "file:///absolute/path"),
    ],
)
def test_a_wrong_address_is_refused_and_not_repeated(text: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        parse_artifacts_address(text)
    assert "hunter2" not in refused.value.message
    with pytest.raises(InvalidSetting) as setting:
        Settings(artifacts_url=text)
    assert "hunter2" not in setting.value.message


def test_a_bucket_as_the_data_directory_is_refused_by_the_setting_that_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for place in ("s3://news/kiosk", "gs://news", Path("s3:/news")):
        with pytest.raises(InvalidSetting, match="KIOSK_ARTIFACTS_URL"):
            Settings(data_dir=place)
    monkeypatch.setenv("KIOSK_DATA_DIR", "s3://news/kiosk")
    with pytest.raises(InvalidSetting, match="KIOSK_ARTIFACTS_URL"):
        Settings()


def test_without_an_address_the_store_stands_below_the_data_directory(tmp_path: Path) -> None:
    assert Settings(data_dir=tmp_path).artifacts_address == str(tmp_path / "shelf")
    assert Settings(data_dir=tmp_path, artifacts_url="file:///srv/x").artifacts_address == "/srv/x"
    with pytest.raises(InvalidSetting, match="must be absolute"):
        Settings(data_dir=tmp_path, artifacts_url="shelf")


def test_variables_complete_an_address_and_do_not_override_it() -> None:
    variables = {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "eu-north-1"}
    assert bucket_options(parse_artifacts_address("s3://news"), variables) == {
        "endpoint_override": "minio:9000",
        "scheme": "http",
        "region": "eu-north-1",
    }
    complete = parse_artifacts_address("s3://news?endpoint_override=ceph:8080&region=here")
    assert bucket_options(complete, variables) == {"endpoint_override": "ceph:8080", "region": "here"}


def test_credentials_of_the_shared_file_are_read_by_profile(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b%\n[two]\naws_access_key_id = c\n"
    )
    file = {"AWS_SHARED_CREDENTIALS_FILE": str(path)}
    assert credentials_from_file(file) == {"access_key_id": "a", "secret_access_key": "b%"}
    assert credentials_from_file({**file, "AWS_PROFILE": "two"}) == {"access_key_id": "c"}
    assert credentials_from_file({**file, "AWS_PROFILE": "three"}) == {}
    assert credentials_from_file({**file, "AWS_ACCESS_KEY_ID": "x"}) == {}


def test_a_folder_is_mapped_in_place_unless_it_shall_be_copied(tmp_path: Path) -> None:
    assert open_location(tmp_path, copy="never").in_place
    assert not open_location(tmp_path, copy="always").in_place
    assert open_location(f"file://{tmp_path}").local
