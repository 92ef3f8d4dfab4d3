//! Whose certificates are believed.
//!
//! In: files, and what the cluster publishes. Out: verifiers, as new as those
//! are. Invariant: what cannot be read does not take the place of what could.

use std::{path::Path, sync::Arc, time::Duration};

use parking_lot::RwLock;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Error, RELOAD,
    config::{RequestHeader, Serving},
    lookup::{self, Published},
};
use crate::{api::ApiClient, manager::Manager};

/// Pause between two looks at what the cluster publishes.
const LOOKUP: Duration = Duration::from_secs(60);

const CLIENT_CA: &str = "--client-ca-file";
const PROXY_CA: &str = "--requestheader-client-ca-file";

/// Authorities, and the headers of proxies.
#[derive(Clone, Default)]
pub(super) struct Trust {
    clients: Option<Bundle>,
    proxies: Option<Bundle>,
    pub(super) headers: RequestHeader,
}

/// Certificates of authorities.
#[derive(Clone)]
struct Bundle {
    pem: Vec<u8>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Bundle {
    fn new(pem: Vec<u8>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|e| format!("not PEM: {e}"))?;
            roots.add(certificate).map_err(|e| format!("a certificate in it cannot be used: {e}"))?;
        }
        if roots.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { pem, verifier: verifier.map_err(|e| e.to_string())? })
    }

    fn believes(&self, chain: &[CertificateDer<'static>], now: jiff::Timestamp) -> Result<(), String> {
        let Some((own, rest)) = chain.split_first() else { return Err("no certificate".to_owned()) };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().unsigned_abs()));
        self.verifier.verify_client_cert(own, rest, now).map(drop).map_err(|e| e.to_string())
    }
}

impl Trust {
    /// Whether the certificate is a client's. None: nobody says whose are.
    pub(super) fn client(
        &self,
        chain: &[CertificateDer<'static>],
        now: jiff::Timestamp,
    ) -> Option<Result<(), String>> {
        self.clients.as_ref().map(|bundle| bundle.believes(chain, now))
    }

    /// Whether the certificate is an authenticating proxy's.
    pub(super) fn proxy(&self, chain: &[CertificateDer<'static>], now: jiff::Timestamp) -> bool {
        self.proxies.as_ref().is_some_and(|bundle| bundle.believes(chain, now).is_ok())
    }
}

/// The authorities as they are now.
pub(super) struct Authorities {
    config: Serving,
    api: ApiClient,
    manager: Arc<Manager>,
    trust: RwLock<Arc<Trust>>,
    published: RwLock<Published>,
}

impl Authorities {
    /// Loads what the flags name and asks the cluster for the rest. A file that
    /// cannot be used is an error. So is a cluster that refuses to say, where a
    /// kubeconfig was given for asking; one that does not answer is asked again.
    pub(super) async fn load(
        config: &Serving,
        api: &ApiClient,
        manager: Arc<Manager>,
    ) -> Result<Arc<Self>, Error> {
        let this = Arc::new(Self {
            config: config.clone(),
            api: api.clone(),
            manager,
            trust: RwLock::default(),
            published: RwLock::default(),
        });
        this.renew().map_err(|(flag, reason)| Error::flag(flag, reason))?;
        if !this.asks() {
            return Ok(this);
        }
        match this.ask().await {
            Ok(()) => {}
            Err(error) => {
                let strict = config.authentication_kubeconfig.is_some() && !config.tolerate_lookup_failure;
                if strict && (400..500).contains(&error.failure.status) && error.failure.status != 429 {
                    return Err(Error::Lookup(error.to_string()));
                }
                tracing::warn!(%error, "the cluster does not say whose client certificates to believe (ConfigMap extension-apiserver-authentication in kube-system); it will be asked again");
            }
        }
        Ok(this)
    }

    /// The authorities as they are now.
    pub(super) fn trust(&self) -> Arc<Trust> {
        self.trust.read().clone()
    }

    /// Follows files and cluster until cancelled.
    pub(super) async fn follow(self: Arc<Self>, cancel: CancellationToken) {
        let mut said = String::new();
        let mut asked = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(RELOAD) => {}
                () = cancel.cancelled() => return,
            }
            let unanswered = *self.published.read() == Published::default();
            if self.asks() && (unanswered || asked.elapsed() >= LOOKUP) {
                asked = Instant::now();
                if let Err(error) = self.ask().await {
                    self.manager.metrics().reviews.reload_failures.with_label_values(&["published"]).inc();
                    tracing::debug!(%error, "the cluster did not say whom to believe");
                }
            }
            match self.renew() {
                Ok(()) => said.clear(),
                Err((what, reason)) => {
                    self.manager.metrics().reviews.reload_failures.with_label_values(&["authorities"]).inc();
                    if said != reason {
                        tracing::error!(
                            what,
                            reason,
                            "authorities cannot be read again; those read before stay in use"
                        );
                        said = reason;
                    }
                }
            }
        }
    }

    fn asks(&self) -> bool {
        let all_given =
            self.config.client_ca_file.is_some() && self.config.request_header.client_ca_file.is_some();
        !self.config.skip_lookup && !all_given
    }

    async fn ask(&self) -> Result<(), crate::api::ApiError> {
        let published = lookup::look_up(&self.api).await?;
        *self.published.write() = published;
        self.renew().map_err(|(_, reason)| crate::api::ApiError::no_answer(reason))
    }

    /// Reads everything again, and changes over if all of it is of use.
    fn renew(&self) -> Result<(), (String, String)> {
        let published = self.published.read().clone();
        let before = self.trust();
        let header = &self.config.request_header;
        let clients = bundle(
            CLIENT_CA,
            self.config.client_ca_file.as_deref(),
            &published.client_ca,
            before.clients.as_ref(),
        )?;
        let proxies =
            bundle(PROXY_CA, header.client_ca_file.as_deref(), &published.proxy_ca, before.proxies.as_ref())?;
        // Names of headers go with the authority: from the flags if that is, else from the cluster.
        let told = if header.client_ca_file.is_some() { header.clone() } else { published.headers };
        let or =
            |told: Vec<String>, default: &str| if told.is_empty() { vec![default.to_owned()] } else { told };
        let headers = RequestHeader {
            client_ca_file: None,
            username_headers: or(told.username_headers, "x-remote-user"),
            uid_headers: told.uid_headers,
            group_headers: or(told.group_headers, "x-remote-group"),
            extra_headers_prefixes: or(told.extra_headers_prefixes, "x-remote-extra-"),
            allowed_names: told.allowed_names,
        };
        *self.trust.write() = Arc::new(Trust { clients, proxies, headers });
        Ok(())
    }
}

/// Judges the files that the flags name.
pub(super) fn judge(config: &Serving) -> Result<(), Error> {
    for (flag, file) in
        [(CLIENT_CA, &config.client_ca_file), (PROXY_CA, &config.request_header.client_ca_file)]
    {
        bundle(flag, file.as_deref(), "", None).map_err(|(flag, reason)| Error::flag(flag, reason))?;
    }
    Ok(())
}

fn bundle(
    flag: &str,
    file: Option<&Path>,
    published: &str,
    before: Option<&Bundle>,
) -> Result<Option<Bundle>, (String, String)> {
    let (what, pem) = match file {
        Some(path) => {
            let given = format!("{flag}={}", path.display());
            let content = std::fs::read(path).map_err(|e| (given.clone(), format!("cannot be read: {e}")))?;
            (given, content)
        }
        None if published.is_empty() => return Ok(None),
        None => ("the cluster's authentication configuration".to_owned(), published.as_bytes().to_vec()),
    };
    match before.filter(|bundle| bundle.pem == pem) {
        Some(same) => Ok(Some(same.clone())),
        None => Bundle::new(pem).map(Some).map_err(|reason| (what, reason)),
    }
}
