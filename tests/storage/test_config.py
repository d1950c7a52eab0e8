"""Options in every spelling, and none of their values in sight (storage/config.py, storage/hadoop.py)."""

from __future__ import annotations

import pickle

import pytest

from holdfast.errors import Invalid
from holdfast.storage.config import StoreConfig
from holdfast.storage.remote import RemoteStore

S3, GS, ABFS = "s3://b", "gs://b", "abfs://c@acc.dfs.core.windows.net"
PROVIDER = "fs.s3a.aws.credentials.provider"
S3A = "org.apache.hadoop.fs.s3a."


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        (S3, {}, {}),
        (S3, {"AWS_ACCESS_KEY_ID": "a", "aws_secret_access_key": "s"},
         {"access_key_id": "a", "secret_access_key": "s"}),
        (S3, {"region": "r", "aws_region": "r"}, {"region": "r"}),
        (S3, {"token": "t"}, {"session_token": "t"}),
        (S3, {"endpoint_url": "http://h:1"}, {"endpoint": "http://h:1", "allow_http": "true"}),
        (S3, {"endpoint": "https://h:1"}, {"endpoint": "https://h:1"}),
        (S3, {"fs.s3a.access.key": "a", "spark.hadoop.fs.s3a.secret.key": "s", "fs.s3a.session.token": "t"},
         {"access_key_id": "a", "secret_access_key": "s", "session_token": "t"}),
        (S3, {"fs.s3a.endpoint": "h:1"}, {"endpoint": "https://h:1"}),
        (S3, {"fs.s3a.endpoint": "h:1", "fs.s3a.connection.ssl.enabled": "false"},
         {"endpoint": "http://h:1", "allow_http": "true"}),
        (S3, {"fs.s3a.endpoint": "http://h:1", "fs.s3a.path.style.access": "true"},
         {"endpoint": "http://h:1", "allow_http": "true"}),
        (S3, {"fs.s3a.endpoint": "h.org", "fs.s3a.path.style.access": "false"},
         {"endpoint": "https://b.h.org", "virtual_hosted_style_request": "true"}),
        (S3, {"fs.s3a.endpoint.region": "r"}, {"region": "r"}),
        (S3, {"fs.s3a.access.key": "a", "fs.s3a.bucket.b.access.key": "mine", "fs.s3a.bucket.c.access.key": "other"},
         {"access_key_id": "mine"}),
        (S3, {PROVIDER: f"{S3A}AnonymousAWSCredentialsProvider"}, {"skip_signature": "true"}),
        (S3, {PROVIDER: f"{S3A}TemporaryAWSCredentialsProvider, {S3A}SimpleAWSCredentialsProvider,"
              "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
              f"{S3A}auth.IAMInstanceCredentialsProvider"}, {}),
        (S3, {"fs.s3a.connection.maximum": "5", "fs.s3a.committer.name": "magic", "fs.gs.auth.type": "ODD",
              "fs.azure.account.key.acc.dfs.core.windows.net": "k", "fs.defaultFS": "hdfs://x"}, {}),
        (GS, {"GOOGLE_SERVICE_ACCOUNT": "/k.json"}, {"service_account": "/k.json"}),
        (GS, {"fs.gs.auth.service.account.json.keyfile": "/k.json", "fs.gs.auth.service.account.enable": "true",
              "fs.gs.project.id": "p", "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE"},
         {"service_account": "/k.json"}),
        (GS, {"fs.gs.auth.type": "UNAUTHENTICATED"}, {"skip_signature": "true"}),
        (ABFS, {"azure_storage_account_key": "k"}, {"account_key": "k"}),
        (ABFS, {"fs.azure.account.key.acc.dfs.core.windows.net": "k",
                "fs.azure.account.key.oth.dfs.core.windows.net": "x"},
         {"account_key": "k"}),
        (ABFS, {"fs.azure.account.key": "k"}, {"account_key": "k"}),
        (ABFS, {"fs.azure.sas.fixed.token.acc.dfs.core.windows.net": "t", "fs.azure.account.auth.type": "SAS"},
         {"sas_key": "t"}),
        (ABFS, {"fs.azure.account.auth.type.acc.dfs.core.windows.net": "OAuth",
                "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "fs.azure.account.oauth2.client.id": "i", "fs.azure.account.oauth2.client.secret": "s",
                "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/ten/oauth2/token"},
         {"client_id": "i", "client_secret": "s", "tenant_id": "ten",
          "authority_host": "https://login.microsoftonline.com"}),
    ],
)  # fmt: skip
def test_spellings(url: str, given: dict[str, str], expected: dict[str, str]) -> None:
    assert StoreConfig.of(url, given).options == expected


@pytest.mark.parametrize(
    ("url", "given", "named"),
    [
        (S3, {"aws_nope": "SECRETVALUE"}, "aws_nope"),
        (S3, {"bucket": "SECRETVALUE"}, "bucket"),
        (S3, {"conditional_put": "SECRETVALUE"}, "conditional_put"),
        (S3, {"account_key": "SECRETVALUE"}, "account_key"),
        (S3, {"region": "SECRETVALUE", "aws_region": "other"}, "aws_region"),
        (S3, {"fs.s3a.access.key": "SECRETVALUE", "access_key_id": "other"}, "access_key_id"),
        (S3, {"fs.s3a.assumed.role.arn": "SECRETVALUE"}, "fs.s3a.assumed.role.arn"),
        (S3, {"spark.hadoop.fs.s3a.encryption.key": "SECRETVALUE"}, "fs.s3a.encryption.key"),
        (S3, {PROVIDER: "my.SECRETVALUE.Provider"}, PROVIDER),
        (S3, {PROVIDER: f"{S3A}auth.AssumedRoleCredentialProvider,SECRETVALUE"}, PROVIDER),
        (GS, {"fs.gs.auth.impersonation.service.account": "SECRETVALUE"}, "impersonation"),
        (GS, {"fs.gs.auth.null.enable": "SECRETVALUE"}, "null.enable"),
        (ABFS, {"fs.azure.account.oauth2.client.endpoint": "SECRETVALUE"}, "client.endpoint"),
        (ABFS, {"fs.azure.account.auth.type": "SECRETVALUE"}, "auth.type"),
        ("file://", {"region": "SECRETVALUE"}, "region"),
        ("memory://x", {"region": "SECRETVALUE"}, "region"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(url: str, given: dict[str, str], named: str) -> None:
    with pytest.raises(Invalid, match=named) as caught:
        StoreConfig.of(url, given)
    assert "SECRETVALUE" not in str(caught.value)


def test_a_config_is_a_value_that_travels_and_shows_names_only() -> None:
    config = StoreConfig.of(S3, {"aws_secret_access_key": "SECRETVALUE", "region": "r"})
    assert pickle.loads(pickle.dumps(config)) == config
    assert len({config, StoreConfig.of(S3, {"aws_region": "r", "SECRET_ACCESS_KEY": "SECRETVALUE"})}) == 1
    for shown in (repr(config), str(config), f"{config}", f"{[config]}"):
        assert "SECRETVALUE" not in shown
        assert "secret_access_key" in shown


def test_what_the_environment_says_can_be_carried_to_another_machine() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "theirs",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ENDPOINT_URL": "http://x",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/only/here",
        "AWS_PROFILE": "p",
        "AZURE_STORAGE_ACCOUNT_KEY": "k",
        "HOME": "/h",
    }
    carried = StoreConfig.of(S3, {"access_key_id": "mine"}).carried(environ)
    assert carried.options == {"access_key_id": "mine", "secret_access_key": "s", "endpoint": "http://x"}
    assert carried.secrets == ("mine",)
    assert StoreConfig.of(ABFS).carried(environ).options == {"account_key": "k"}
    assert StoreConfig.of("file://").carried(environ).options == {}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (S3, {"access_key_id": "a", "secret_access_key": "s", "allow_http": "true", "timeout": "5 seconds"}),
        (GS, {"skip_signature": "true", "base_url": "http://localhost:1"}),
        (ABFS, {"account_key": "c2VjcmV0"}),
        (ABFS, {"sas_key": "sv=1&sig=abc"}),
    ],
)
def test_every_kind_of_store_can_be_made(url: str, options: dict[str, str]) -> None:
    store = RemoteStore(StoreConfig.of(url, options))
    assert store.url == url
    assert pickle.loads(pickle.dumps(store)).config == store.config
