//! Flags of the endpoints, under kube-controller-manager's names.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use coxswain::{
    goflag,
    metrics::AllowedLabels,
    serving::{NamedPair, RequestHeader, Serving, TlsVersion},
};

/// Flags of the endpoints for health, metrics and debugging.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Endpoints")]
pub struct ServingArgs {
    /// Address that the endpoints listen on.
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// Port of the endpoints, over TLS; 0: none. Without the flag it is 10257, and one that is taken is done
    /// without.
    #[arg(long)]
    secure_port: Option<u16>,
    /// Directory for a certificate that is made where none is given; empty: it is kept in memory.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    cert_dir: PathBuf,
    /// Certificate of the endpoints, with its chain (PEM); read again when it changes.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    tls_cert_file: PathBuf,
    /// Its key (PEM).
    #[arg(long, default_value = "", value_parser = maybe_path)]
    tls_private_key_file: PathBuf,
    /// Lowest version of TLS: VersionTLS12 or VersionTLS13.
    #[arg(long, default_value = "VersionTLS12", value_parser = tls_version)]
    tls_min_version: TlsVersion,
    /// Cipher suites of TLS 1.2, by Go's names; empty: all that are safe.
    #[arg(long, value_delimiter = ',')]
    tls_cipher_suites: Vec<String>,
    /// Key exchanges of TLS, by Go's numbers: 23 (P-256), 24 (P-384), 29 (X25519); empty: all of them.
    #[arg(long, value_delimiter = ',')]
    tls_curve_preferences: Vec<i32>,
    /// Certificate and key for those who ask by some other name: CERT,KEY or CERT,KEY:NAME,NAME. Without names those
    /// in the certificate count. May be given again.
    #[arg(long, value_name = "CERT,KEY[:NAMES]")]
    tls_sni_cert_key: Vec<NamedPair>,
    /// Serve HTTP/1.1 alone.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    disable_http2_serving: bool,
    /// Requests at once on one connection of HTTP/2; 0: 100.
    #[arg(long, default_value_t = 0)]
    http2_max_streams_per_connection: u32,
    /// Share the port with other processes that permit it (SO_REUSEPORT).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    permit_port_sharing: bool,
    /// Let 0.0.0.0 and an address of its own be listened on side by side (SO_REUSEADDR); so it is in any case.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    permit_address_sharing: bool,
    /// Authorities of client certificates (PEM). Without it the cluster's
    /// extension-apiserver-authentication says.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    client_ca_file: PathBuf,
    /// Authorities of authenticating proxies (PEM). Without it the cluster says.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    requestheader_client_ca_file: PathBuf,
    /// Headers in which a proxy names the user.
    #[arg(long, value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,
    /// Headers in which a proxy gives the user's uid.
    #[arg(long, value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,
    /// Headers in which a proxy names the user's groups.
    #[arg(long, value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,
    /// Beginnings of headers in which a proxy says more of the user.
    #[arg(long, value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
    /// Common names that a proxy's certificate may have; none: any.
    #[arg(long, value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Kubeconfig for asking the API server who is behind a token; empty: the manager's own.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    authentication_kubeconfig: PathBuf,
    /// Do not ask the cluster whose certificates to believe.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    authentication_skip_lookup: bool,
    /// Start even if the cluster refuses to say whose certificates to believe.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    authentication_tolerate_lookup_failure: bool,
    /// How long an answer about a token is good.
    #[arg(long, default_value = "10s", value_parser = goflag::duration)]
    authentication_token_webhook_cache_ttl: Duration,
    /// Kubeconfig for asking the API server what a user may see; empty: the manager's own.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    authorization_kubeconfig: PathBuf,
    /// Paths that are open to all; a * at the end stands for anything.
    #[arg(long, value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    authorization_always_allow_paths: Vec<String>,
    /// How long a yes about a user is good.
    #[arg(long, default_value = "10s", value_parser = goflag::duration)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// How long a no about a user is good.
    #[arg(long, default_value = "10s", value_parser = goflag::duration)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
    /// Serve /debug/pprof and /debug/controllers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    profiling: bool,
    /// Metrics that are left out, by name.
    #[arg(long, value_delimiter = ',')]
    disabled_metrics: Vec<String>,
    /// Values that a label may have, METRIC,LABEL=VALUE,VALUE; any other becomes "unexpected". May be given again.
    #[arg(long, value_name = "METRIC,LABEL=VALUES")]
    allow_metric_labels: Vec<String>,
    /// The same from a YAML file, which maps METRIC,LABEL to values.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    allow_metric_labels_manifest: PathBuf,
}

impl ServingArgs {
    /// The settings, with the flags of the whole manager for `/configz` and
    /// `/flagz` to show.
    ///
    /// # Errors
    ///
    /// As [`ServingArgs::config`].
    pub fn shown(&self, flags: &serde_json::Map<String, serde_json::Value>) -> anyhow::Result<Serving> {
        let text =
            |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(Serving {
            configz: serde_json::json!({ "kubecontrollermanager.config.k8s.io": flags }),
            flags: flags.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            ..self.config()?
        })
    }

    /// The settings that they come to.
    ///
    /// # Errors
    ///
    /// Flags contradict each other, or name a file of labels that cannot be used.
    pub fn config(&self) -> anyhow::Result<Serving> {
        let path = |path: &PathBuf| Some(path.clone()).filter(|path| !path.as_os_str().is_empty());
        let list = |list: &[String]| -> Vec<String> {
            list.iter().filter(|part| !part.is_empty()).cloned().collect()
        };
        Ok(Serving {
            bind_address: self.bind_address,
            secure_port: self.secure_port,
            cert_dir: path(&self.cert_dir),
            tls_cert_file: path(&self.tls_cert_file),
            tls_private_key_file: path(&self.tls_private_key_file),
            tls_min_version: self.tls_min_version,
            tls_cipher_suites: list(&self.tls_cipher_suites),
            tls_curve_preferences: self.tls_curve_preferences.clone(),
            tls_sni_cert_keys: self.tls_sni_cert_key.clone(),
            disable_http2: self.disable_http2_serving,
            http2_max_streams: self.http2_max_streams_per_connection,
            permit_port_sharing: self.permit_port_sharing,
            client_ca_file: path(&self.client_ca_file),
            request_header: RequestHeader {
                client_ca_file: path(&self.requestheader_client_ca_file),
                username_headers: list(&self.requestheader_username_headers),
                uid_headers: list(&self.requestheader_uid_headers),
                group_headers: list(&self.requestheader_group_headers),
                extra_headers_prefixes: list(&self.requestheader_extra_headers_prefix),
                allowed_names: list(&self.requestheader_allowed_names),
            },
            authentication_kubeconfig: path(&self.authentication_kubeconfig),
            skip_lookup: self.authentication_skip_lookup,
            tolerate_lookup_failure: self.authentication_tolerate_lookup_failure,
            token_ttl: self.authentication_token_webhook_cache_ttl,
            authorization_kubeconfig: path(&self.authorization_kubeconfig),
            always_allow_paths: list(&self.authorization_always_allow_paths),
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl,
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl,
            profiling: self.profiling,
            disabled_metrics: list(&self.disabled_metrics),
            allowed_labels: self.allowed_labels()?,
            ..Serving::default()
        })
    }

    fn allowed_labels(&self) -> anyhow::Result<AllowedLabels> {
        let path = &self.allow_metric_labels_manifest;
        match (self.allow_metric_labels.as_slice(), path.as_os_str().is_empty()) {
            ([_, ..], false) => {
                anyhow::bail!(
                    "--allow-metric-labels and --allow-metric-labels-manifest exclude each other; give one of them"
                )
            }
            (pairs, true) => {
                AllowedLabels::parse(pairs).map_err(|error| anyhow::anyhow!("--allow-metric-labels={error}"))
            }
            ([], false) => AllowedLabels::read(path).map_err(|error| {
                anyhow::anyhow!("--allow-metric-labels-manifest={}: {error}", path.display())
            }),
        }
    }
}

/// A path, which may be empty.
fn maybe_path(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}

fn tls_version(text: &str) -> Result<TlsVersion, String> {
    match text {
        // Go's library has them; they are broken, and nobody need speak them.
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(TlsVersion::Tls12),
        "VersionTLS13" => Ok(TlsVersion::Tls13),
        _ => Err("expected VersionTLS12 or VersionTLS13".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        serving: ServingArgs,
    }

    fn parse(line: &str) -> Result<Serving, clap::Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.serving.config().unwrap())
    }

    #[test]
    fn what_kubeadm_passes_is_taken() {
        let config = parse(
            "x --bind-address=127.0.0.1 --authentication-kubeconfig=/k --authorization-kubeconfig=/k \
             --client-ca-file=/ca.crt --requestheader-client-ca-file=/proxy.crt --profiling=false",
        )
        .unwrap();
        assert_eq!(config.bind_address.to_string(), "127.0.0.1");
        assert_eq!(config.secure_port, None);
        assert_eq!(config.client_ca_file, Some(PathBuf::from("/ca.crt")));
        assert_eq!(config.request_header.client_ca_file, Some(PathBuf::from("/proxy.crt")));
        assert!(!config.profiling);
        assert_eq!(config.always_allow_paths, ["/healthz", "/readyz", "/livez"]);
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        let config = parse(
            "x --cert-dir=/c --requestheader-uid-headers=X-Uid,X-Other --authentication-skip-lookup \
             --authentication-tolerate-lookup-failure --authorization-webhook-cache-unauthorized-ttl=7s \
             --disable-http2-serving --permit-port-sharing --permit-address-sharing=true",
        )
        .unwrap();
        assert_eq!(config.cert_dir, Some(PathBuf::from("/c")));
        assert_eq!(config.request_header.uid_headers, ["X-Uid", "X-Other"]);
        assert!(config.skip_lookup && config.tolerate_lookup_failure);
        assert_eq!(config.unauthorized_ttl, Duration::from_secs(7));
        assert!(config.disable_http2 && config.permit_port_sharing);
    }

    #[test]
    fn certificates_for_other_names_are_pairs_with_or_without_names() {
        let config = parse("x --tls-sni-cert-key=a.crt,a.key --tls-sni-cert-key=b.crt,b.key:*.b,c").unwrap();
        let pair = |certificate: &str, key: &str, names: &[&str]| NamedPair {
            certificate: certificate.into(),
            key: key.into(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(
            config.tls_sni_cert_keys,
            [pair("a.crt", "a.key", &[]), pair("b.crt", "b.key", &["*.b", "c"])]
        );
    }

    #[test]
    fn labels_come_from_the_line_or_from_a_file() {
        let both = "x --allow-metric-labels=a,b=c --allow-metric-labels-manifest=/f";
        let line = Line::try_parse_from(both.split_whitespace()).unwrap();
        let error = line.serving.config().unwrap_err().to_string();
        assert!(error.contains("exclude each other"), "{error}");
        let line = Line::try_parse_from(["x", "--allow-metric-labels-manifest=/nowhere/f"]).unwrap();
        let error = line.serving.config().unwrap_err().to_string();
        assert!(error.contains("/nowhere/f: cannot read it"), "{error}");
    }

    #[test]
    fn defaults_are_those_of_the_library() {
        let (flags, library) = (parse("x").unwrap(), Serving::default());
        assert_eq!(format!("{flags:?}"), format!("{library:?}"));
    }

    #[test]
    fn bad_values_are_refused() {
        for line in [
            "x --secure-port=70000",
            "x --tls-min-version=TLS1",
            "x --bind-address=here",
            "x --authentication-token-webhook-cache-ttl=10",
            "x --tls-sni-cert-key=a.crt",
            "x --tls-sni-cert-key=a.crt,a.key:",
            "x --http2-max-streams-per-connection=-1",
            "x --tls-curve-preferences=P256",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let config =
            parse("x --authorization-always-allow-paths= --authorization-webhook-cache-authorized-ttl=5m0s")
                .unwrap();
        assert!(config.always_allow_paths.is_empty());
        assert_eq!(config.authorized_ttl, Duration::from_secs(300));
    }
}
