//! What the endpoints are set up with: the values of kube-controller-manager's
//! flags of the same names.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

/// The port that is used where none is given.
pub(super) const DEFAULT_PORT: u16 = 10257;

/// Settings of the endpoints.
#[derive(Clone, Debug)]
pub struct Serving {
    /// `--bind-address`.
    pub bind_address: IpAddr,
    /// `--secure-port`: none given, 10257, which may be taken; 0: no endpoints.
    pub secure_port: Option<u16>,
    /// `--cert-dir`: where the certificate is kept if none is given; none: in
    /// memory.
    pub cert_dir: Option<PathBuf>,
    /// `--tls-cert-file`.
    pub tls_cert_file: Option<PathBuf>,
    /// `--tls-private-key-file`.
    pub tls_private_key_file: Option<PathBuf>,
    /// `--tls-min-version`.
    pub tls_min_version: TlsVersion,
    /// `--tls-cipher-suites`, by Go's names; empty: the library's choice.
    pub tls_cipher_suites: Vec<String>,
    /// `--client-ca-file`.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-…`.
    pub request_header: RequestHeader,
    /// `--authentication-kubeconfig`; none: the manager's own client.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// `--authentication-skip-lookup`.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`.
    pub tolerate_lookup_failure: bool,
    /// `--authentication-token-webhook-cache-ttl`.
    pub token_ttl: Duration,
    /// `--authorization-kubeconfig`; none: the manager's own client.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// `--authorization-always-allow-paths`.
    pub always_allow_paths: Vec<String>,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub authorized_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub unauthorized_ttl: Duration,
    /// `--profiling`.
    pub profiling: bool,
    /// `--disabled-metrics`.
    pub disabled_metrics: Vec<String>,
    /// What `/configz` shows, by the name of the component's configuration.
    pub configz: serde_json::Value,
    /// What `/flagz` shows: each flag and its value.
    pub flags: BTreeMap<String, String>,
}

/// The lowest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// How an authenticating proxy says on whose behalf it asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// `--requestheader-client-ca-file`.
    pub client_ca_file: Option<PathBuf>,
    /// Headers with the name; empty: as the cluster says, or `x-remote-user`.
    pub username_headers: Vec<String>,
    /// Headers with the uid; empty: as the cluster says.
    pub uid_headers: Vec<String>,
    /// Headers with groups; empty: as the cluster says, or `x-remote-group`.
    pub group_headers: Vec<String>,
    /// Beginnings of headers with extra values; empty: as the cluster says, or
    /// `x-remote-extra-`.
    pub extra_headers_prefixes: Vec<String>,
    /// Common names that the proxy's certificate may have; empty: any.
    pub allowed_names: Vec<String>,
}

impl Default for Serving {
    fn default() -> Self {
        let ttl = Duration::from_secs(10);
        Self {
            bind_address: Ipv4Addr::UNSPECIFIED.into(),
            secure_port: None,
            cert_dir: None,
            tls_cert_file: None,
            tls_private_key_file: None,
            tls_min_version: TlsVersion::default(),
            tls_cipher_suites: Vec::new(),
            client_ca_file: None,
            request_header: RequestHeader::default(),
            authentication_kubeconfig: None,
            skip_lookup: false,
            tolerate_lookup_failure: false,
            token_ttl: ttl,
            authorization_kubeconfig: None,
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).into(),
            authorized_ttl: ttl,
            unauthorized_ttl: ttl,
            profiling: true,
            disabled_metrics: Vec::new(),
            configz: serde_json::json!({}),
            flags: BTreeMap::new(),
        }
    }
}
