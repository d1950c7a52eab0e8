"""Translates Hadoop's settings for credentials and endpoints into obstore's options.

Users keep these in their Spark settings; with them a table opens without a second set of secrets.

1. A setting that says where to connect or as whom is translated.
2. One that says so in a way obstore lacks (an assumed role, a custom provider, encryption keys) is refused by name:
   ignoring it would connect as somebody else.
3. Any other tunes Hadoop's own client (pools, buffers, committers) and is ignored, as are those of other stores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.errors import Invalid

_S3 = {
    "access.key": "access_key_id",
    "secret.key": "secret_access_key",
    "session.token": "session_token",
    "endpoint": "endpoint",
    "endpoint.region": "region",
}
_GS = {
    "auth.service.account.json.keyfile": "service_account",
    "storage.root.url": "base_url",
}
_ABFS = {
    "account.key": "account_key",
    "sas.fixed.token": "sas_key",
    "account.oauth2.client.id": "client_id",
    "account.oauth2.client.secret": "client_secret",
    "account.oauth2.msi.tenant": "tenant_id",
}

# Settings with values that obstore supports by itself or with the keys above.
_PROVIDERS = {
    "aws.credentials.provider": re.compile(
        r"\.(?:(?:Simple|Temporary|Default)AWS|IAMInstance|InstanceProfile|EnvironmentVariable|(?:EC2)?Container"
        r"|WebIdentityToken(?:File)?|Default)CredentialsProvider(?:Chain|Wrapper)?$"
    ),
    "auth.type": re.compile(r"^(SERVICE_ACCOUNT_JSON_KEYFILE|APPLICATION_DEFAULT|COMPUTE_ENGINE)$"),
    "account.auth.type": re.compile(r"^(SharedKey|OAuth|SAS)$"),
    "account.oauth.provider.type": re.compile(r"\.(ClientCreds|Msi)TokenProvider$"),
    "sas.token.provider.type": re.compile(r"\.FixedSASTokenProvider$"),
}
_ANONYMOUS = {"aws.credentials.provider": "AnonymousAWSCredentialsProvider", "auth.type": "UNAUTHENTICATED"}
_TENANT = re.compile(r"^(https://[^/]+)/([^/]+)/oauth2/(?:v2\.0/)?token$")

_ABOUT_IDENTITY = re.compile(r"key|secret|token|credential|password|role|auth|oauth|sas|encryption|signing|impersonat")


def translate(scheme: str, authority: str, settings: Mapping[str, str]) -> dict[str, str]:
    """obstore's options for Hadoop's settings about one store."""
    relative = _settings_of(scheme, authority, settings)
    match scheme:
        case "s3":
            return _s3_address(authority, _translate(scheme, _S3, relative), relative)
        case "gs":
            return _translate(scheme, _GS, relative)
        case "abfs":
            return _translate(scheme, _ABFS, relative)
        case _:
            return {}


def is_hadoop(name: str) -> bool:
    """Whether an option is spelled as Hadoop or Spark spell theirs."""
    return name.startswith(("fs.", "spark.hadoop."))


def _settings_of(scheme: str, authority: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of this store by the part of their name that says what they set; the most specific wins."""
    prefix = {"s3": "fs.s3a.", "gs": "fs.gs.", "abfs": "fs.azure."}.get(scheme)
    general: dict[str, str] = {}
    specific: dict[str, str] = {}
    for name, value in settings.items():
        rest = name.removeprefix("spark.hadoop.")
        if prefix is None or not rest.startswith(prefix):
            continue
        rest = rest.removeprefix(prefix)
        if scheme == "s3" and rest.startswith("bucket."):
            own = f"bucket.{authority}."
            if rest.startswith(own):
                specific[rest.removeprefix(own)] = value
        elif scheme == "abfs" and (host := re.search(r"\.(\w+\.(?:dfs|blob)\..+)$", rest)):
            account = authority.rpartition("@")[2].partition(".")[0]
            if host[1].partition(".")[0] == account:
                specific[rest[: host.start()]] = value
        else:
            general[rest] = value
    return {**general, **specific}


def _translate(scheme: str, names: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in settings.items():
        if name in names:
            options[names[name]] = value
        elif name == "account.oauth2.client.endpoint" and (tenant := _TENANT.match(value)):
            options |= {"authority_host": tenant[1], "tenant_id": tenant[2]}
        elif name in _PROVIDERS:
            if value.strip().endswith(_ANONYMOUS.get(name, "\x00")):
                options["skip_signature"] = "true"
            elif not all(_PROVIDERS[name].search(one.strip()) for one in value.split(",")):
                raise _refused(scheme, name)
        elif _ABOUT_IDENTITY.search(name) and name != "auth.service.account.enable":
            raise _refused(scheme, name)
    return options


def _s3_address(bucket: str, options: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Hadoop splits the address over three settings; obstore wants one URL, with the bucket in it unless path style."""
    address = dict(options)
    endpoint = address.get("endpoint")
    if endpoint is None:
        return address
    if "://" not in endpoint:
        plain = settings.get("connection.ssl.enabled", "true").lower() == "false"
        endpoint = f"{'http' if plain else 'https'}://{endpoint}"
    path_style = settings.get("path.style.access")
    if path_style is not None and path_style.lower() == "false":
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
        address["virtual_hosted_style_request"] = "true"
    return {**address, "endpoint": endpoint}


def _refused(scheme: str, name: str) -> Invalid:
    full = {"s3": "fs.s3a.", "gs": "fs.gs.", "abfs": "fs.azure."}[scheme] + name
    return Invalid(
        f"storage option {full} decides who connects, and its value cannot be carried over; "
        "pass the credentials themselves, or leave the option out to use those of the environment"
    )
