"""The URL and options (credentials included) with which a store is opened, on the driver or in a task.

1. Options are kept under obstore's short names, in whichever spelling the user wrote them; two spellings of one option
   must agree.
2. An unknown option is refused by name, never dropped.
3. No value of an option appears in repr, str or any error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.errors import Invalid
from holdfast.storage.hadoop import is_hadoop, translate


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLIENT = _words(
    "allow_http allow_invalid_certificates connect_timeout pool_idle_timeout pool_max_idle_per_host proxy_url "
    "proxy_ca_certificate proxy_excludes randomize_addresses read_timeout timeout user_agent http1_only http2_only "
    "http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle"
)
# Bucket and container come from the URL. Conditional puts cannot be turned off: commits rely on them.
_KNOWN = {
    "s3": _CLIENT
    | _words(
        "access_key_id secret_access_key session_token region default_region endpoint skip_signature role_arn "
        "role_session_name web_identity_token_file container_credentials_relative_uri container_credentials_full_uri "
        "container_authorization_token_file metadata_endpoint imdsv1_fallback virtual_hosted_style_request s3_express "
        "request_payer unsigned_payload checksum_algorithm disable_tagging server_side_encryption sse_kms_key_id "
        "sse_bucket_key_enabled sse_customer_key_base64"
    ),
    "gs": _CLIENT
    | _words("service_account service_account_key application_credentials bearer_token base_url skip_signature"),
    "abfs": _CLIENT
    | _words(
        "account_name account_key sas_key token client_id client_secret tenant_id authority_host endpoint "
        "credential_type use_emulator use_fabric_endpoint msi_endpoint object_id msi_resource_id federated_token_file "
        "use_azure_cli skip_signature disable_tagging"
    ),
}
_PREFIXES = {"s3": ("aws_",), "gs": ("google_",), "abfs": ("azure_storage_", "azure_")}
_ALIASES = {
    "s3": {"token": "session_token", "endpoint_url": "endpoint", "endpoint_url_s3": "endpoint"},
    "gs": {"service_account_path": "service_account"},
    "abfs": {"sas_token": "sas_key", "bearer_token": "token", "access_key": "account_key", "authority_id": "tenant_id"},
}

# Environment variables that mean the same on any machine; paths of token files and addresses of a machine's own
# identity do not.
_CARRIED = {
    "s3": _words(
        "access_key_id secret_access_key session_token region default_region endpoint allow_http skip_signature "
        "virtual_hosted_style_request request_payer"
    ),
    "gs": _words("service_account_key bearer_token base_url skip_signature"),
    "abfs": _words("account_name account_key sas_key token client_id client_secret tenant_id authority_host endpoint"),
}

# Values that may appear in an error because they say where, not who.
_HARMLESS = _CLIENT - {"proxy_url"} | _words(
    "region default_region endpoint base_url account_name skip_signature virtual_hosted_style_request"
)


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """A store's URL and its options, sorted so that equal configs compare equal."""

    url: str
    pairs: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, url: str, storage_options: Mapping[str, str] | None = None) -> StoreConfig:
        """The config of a store from options of obstore or Hadoop."""
        scheme, _, authority = url.partition("://")
        spelled = dict(storage_options or {})
        hadoop = {name: value for name, value in spelled.items() if is_hadoop(name)}
        options = translate(scheme, authority, hadoop)
        for name, value in spelled.items():
            if name in hadoop:
                continue
            short = _short(scheme, name)
            if options.setdefault(short, value) != value:
                raise Invalid(f"storage option {name} contradicts another spelling of {short}; pass only one")
        if options.get("endpoint", options.get("base_url", "")).startswith("http://"):
            options.setdefault("allow_http", "true")
        return cls(url, tuple(sorted(options.items())))

    def carried(self, environ: Mapping[str, str]) -> StoreConfig:
        """The config for a process on another machine: with the credentials of this process's environment."""
        from_environment: dict[str, str] = {}
        for name, value in environ.items():
            for prefix in _PREFIXES.get(self.scheme, ()):
                short = name.lower().removeprefix(prefix)
                short = _ALIASES[self.scheme].get(short, short)
                if name.lower().startswith(prefix) and short in _CARRIED[self.scheme]:
                    from_environment[short] = value
        return StoreConfig(self.url, tuple(sorted({**from_environment, **self.options}.items())))

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    @property
    def authority(self) -> str:
        return self.url.partition("://")[2]

    @property
    def options(self) -> dict[str, str]:
        """obstore's options, credentials included."""
        return dict(self.pairs)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown, longest first."""
        values = {value for name, value in self.pairs if name not in _HARMLESS and len(value) > 3}
        return tuple(sorted(values, key=len, reverse=True))

    def __repr__(self) -> str:
        return f"StoreConfig({self.url}, options: {', '.join(name for name, _ in self.pairs) or 'none'})"


def _short(scheme: str, name: str) -> str:
    names = _KNOWN.get(scheme)
    if names is None:
        raise Invalid(f"storage option {name}: {scheme}:// takes no storage options")
    lower = name.lower()
    for prefix in ("", *_PREFIXES[scheme]):
        short = lower.removeprefix(prefix)
        short = _ALIASES[scheme].get(short, short)
        if short in names:
            return short
    raise Invalid(f"storage option {name} is not one that {scheme}:// understands; see docs/storage.md")
