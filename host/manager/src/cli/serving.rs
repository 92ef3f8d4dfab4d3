//! Flags of the endpoints, under kube-controller-manager's names.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use coxswain::serving::{RequestHeader, Serving, TlsVersion};

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
    #[arg(long, default_value = "10s", value_parser = duration)]
    authentication_token_webhook_cache_ttl: Duration,
    /// Kubeconfig for asking the API server what a user may see; empty: the manager's own.
    #[arg(long, default_value = "", value_parser = maybe_path)]
    authorization_kubeconfig: PathBuf,
    /// Paths that are open to all; a * at the end stands for anything.
    #[arg(long, value_delimiter = ',', default_value = "/healthz,/readyz,/livez")]
    authorization_always_allow_paths: Vec<String>,
    /// How long a yes about a user is good.
    #[arg(long, default_value = "10s", value_parser = duration)]
    authorization_webhook_cache_authorized_ttl: Duration,
    /// How long a no about a user is good.
    #[arg(long, default_value = "10s", value_parser = duration)]
    authorization_webhook_cache_unauthorized_ttl: Duration,
    /// Serve /debug/pprof and /debug/controllers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    profiling: bool,
    /// Metrics that are left out, by name.
    #[arg(long, value_delimiter = ',')]
    disabled_metrics: Vec<String>,
}

impl ServingArgs {
    /// The settings, with the flags of the whole manager for `/configz` and
    /// `/flagz` to show.
    pub fn shown(&self, flags: &serde_json::Map<String, serde_json::Value>) -> Serving {
        let text =
            |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Serving {
            configz: serde_json::json!({ "kubecontrollermanager.config.k8s.io": flags }),
            flags: flags.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
            ..self.config()
        }
    }

    /// The settings that they come to.
    pub fn config(&self) -> Serving {
        let path = |path: &PathBuf| Some(path.clone()).filter(|path| !path.as_os_str().is_empty());
        let list = |list: &[String]| -> Vec<String> {
            list.iter().filter(|part| !part.is_empty()).cloned().collect()
        };
        Serving {
            bind_address: self.bind_address,
            secure_port: self.secure_port,
            cert_dir: path(&self.cert_dir),
            tls_cert_file: path(&self.tls_cert_file),
            tls_private_key_file: path(&self.tls_private_key_file),
            tls_min_version: self.tls_min_version,
            tls_cipher_suites: list(&self.tls_cipher_suites),
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
            ..Serving::default()
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

fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a duration such as 10s or 1m30s".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| expected())?;
    Duration::try_from(parsed).map_err(|_| expected())
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
        Line::try_parse_from(line.split_whitespace()).map(|line| line.serving.config())
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
