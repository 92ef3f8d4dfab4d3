//! What the endpoints are set up with: the values of kube-controller-manager's
//! flags of the same names.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use crate::metrics::AllowedLabels;

/// The port that is used where none is given.
const DEFAULT_PORT: u16 = 10257;

/// Settings of the endpoints.
#[derive(Clone, Debug)]
pub struct Serving {
    /// `--bind-address`.
    pub bind_address: IpAddr,
    /// `--secure-port`: none given, [`Serving::default_port`]; 0: no endpoints.
    pub secure_port: Option<u16>,
    /// The port where none is given, which may be taken; 0: a free one.
    pub default_port: u16,
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
    /// `--tls-curve-preferences`, by Go's numbers; empty: the library's choice.
    pub tls_curve_preferences: Vec<i32>,
    /// `--tls-sni-cert-key`: certificates for those who ask by other names.
    pub tls_sni_cert_keys: Vec<NamedPair>,
    /// `--disable-http2-serving`.
    pub disable_http2: bool,
    /// `--http2-max-streams-per-connection`; 0: 100, as in Kubernetes.
    pub http2_max_streams: u32,
    /// `--permit-port-sharing`.
    pub permit_port_sharing: bool,
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
    /// `--allow-metric-labels`, `--allow-metric-labels-manifest`.
    pub allowed_labels: AllowedLabels,
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

/// A certificate with its key, for some names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPair {
    /// File of the certificate, with its chain (PEM).
    pub certificate: PathBuf,
    /// File of its key (PEM).
    pub key: PathBuf,
    /// Host names, `*.` at the beginning for any first part, or IP addresses;
    /// none: those in the certificate.
    pub names: Vec<String>,
}

impl std::str::FromStr for NamedPair {
    type Err = &'static str;

    /// Reads `CERT,KEY[:NAME,NAME…]`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (files, names) = match text.split_once(':') {
            Some((_, names)) if names.trim().is_empty() => return Err("there are no names behind the colon"),
            Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_owned()).collect()),
            None => (text, Vec::new()),
        };
        match files.split(',').map(str::trim).collect::<Vec<_>>()[..] {
            [certificate, key] if !certificate.is_empty() && !key.is_empty() => {
                Ok(Self { certificate: certificate.into(), key: key.into(), names })
            }
            _ => Err("expected CERT,KEY or CERT,KEY:NAME,NAME"),
        }
    }
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
            default_port: DEFAULT_PORT,
            cert_dir: None,
            tls_cert_file: None,
            tls_private_key_file: None,
            tls_min_version: TlsVersion::default(),
            tls_cipher_suites: Vec::new(),
            tls_curve_preferences: Vec::new(),
            tls_sni_cert_keys: Vec::new(),
            disable_http2: false,
            http2_max_streams: 0,
            permit_port_sharing: false,
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
            allowed_labels: AllowedLabels::default(),
            configz: serde_json::json!({}),
            flags: BTreeMap::new(),
        }
    }
}
