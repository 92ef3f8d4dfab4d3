//! Flags that only the loaded modules can explain.
//!
//! Each option of a controller is a flag, whichever module brings it, so flags
//! that the command itself does not know are set aside and looked up once the
//! modules are there. Values may be joined with `=` or follow; a flag without
//! one means `true`, as Go's flag package has it.

use clap::CommandFactory;
use coxswain::manager::Given;

/// Flags of kube-controller-manager that mean nothing here, or not yet. They
/// are accepted, so that its command line can be kept, and said to be without
/// effect.
const WITHOUT_EFFECT: &[&str] = &[
    "allow-metric-labels",
    "allow-metric-labels-manifest",
    "authentication-kubeconfig",
    "authentication-skip-lookup",
    "authentication-token-webhook-cache-ttl",
    "authentication-tolerate-lookup-failure",
    "authorization-always-allow-paths",
    "authorization-kubeconfig",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "cloud-provider",
    "contention-profiling",
    "controller-shutdown-timeout",
    "controller-start-interval",
    "disabled-metrics",
    "emulated-version",
    "feature-gates",
    "http2-max-streams-per-connection",
    "kube-api-content-type",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-json-split-stream",
    "log-text-info-buffer-size",
    "log-text-split-stream",
    "min-resync-period",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-username-headers",
    "secure-port",
    "show-hidden-metrics-for-version",
    "tls-cert-file",
    "tls-cipher-suites",
    "tls-min-version",
    "tls-private-key-file",
    "tls-sni-cert-key",
    "use-service-account-credentials",
    "vmodule",
];

/// Takes the flags out of `args` that the command does not know.
pub fn split_off_unknown(args: &mut Vec<String>) -> Result<Given, String> {
    let command = super::Cli::command();
    let sub = args.get(1).and_then(|name| command.find_subcommand(name)).unwrap_or(&command);
    let known: Vec<String> = sub
        .get_arguments()
        .filter_map(|a| a.get_long())
        .map(str::to_owned)
        .chain(["help".into(), "version".into()])
        .collect();
    let mut given = Given::new();
    let mut kept: Vec<String> = args.drain(..args.len().min(2)).collect();
    let mut rest = std::mem::take(args).into_iter().peekable();
    while let Some(arg) = rest.next() {
        let Some(flag) = arg.strip_prefix("--").filter(|f| !f.is_empty()) else {
            kept.push(arg);
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        // Underscores are dashes, as kube-controller-manager has it.
        let name = &name.replace('_', "-");
        if known.iter().any(|k| k == name) {
            kept.push(match &value {
                Some(value) => format!("--{name}={value}"),
                None => format!("--{name}"),
            });
            if value.is_none() && rest.peek().is_some_and(|next| !next.starts_with('-')) {
                kept.extend(rest.next());
            }
            continue;
        }
        let value =
            value.or_else(|| rest.next_if(|next| !next.starts_with('-'))).unwrap_or_else(|| "true".into());
        if let Some(before) = given.insert(name.to_owned(), value.clone()).filter(|before| *before != value) {
            return Err(format!("--{name} is given twice, as {before:?} and as {value:?}; give it once"));
        }
    }
    *args = kept;
    Ok(given)
}

/// Says of each flag that no loaded module takes what becomes of it.
pub fn report_unused(given: &Given, used: &[String]) {
    for name in given.keys().filter(|name| !used.contains(name)) {
        if WITHOUT_EFFECT.contains(&name.as_str()) {
            tracing::warn!("--{name} is accepted for kube-controller-manager's sake and has no effect");
        } else {
            tracing::warn!(
                "--{name} is neither a flag of the manager nor an option of a loaded controller; it has no effect (see --help, and `coxswain inspect FILE` for the options of a module)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> (Vec<String>, Result<Given, String>) {
        let mut args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let given = split_off_unknown(&mut args);
        (args, given)
    }

    #[test]
    fn flags_of_controllers_are_set_aside_and_the_rest_is_kept() {
        let (args, given) =
            split("coxswain run --kubeconfig k --some-option=7 --other 3s --switch --controllers=*,-x -v 4");
        assert_eq!(args.join(" "), "coxswain run --kubeconfig k --controllers=*,-x -v 4");
        let given = given.unwrap();
        assert_eq!(given["some-option"], "7");
        assert_eq!(given["other"], "3s");
        assert_eq!(given["switch"], "true");
        let (args, given) = split("coxswain run --kube_api_qps=5 --concurrent_rc_syncs=7");
        assert_eq!(args.join(" "), "coxswain run --kube-api-qps=5");
        assert_eq!(given.unwrap()["concurrent-rc-syncs"], "7");
    }

    #[test]
    fn the_same_flag_twice_with_two_values_is_an_error() {
        let (_, given) = split("coxswain run --a=1 --a=2");
        assert!(given.unwrap_err().contains("--a is given twice"));
        assert!(split("coxswain run --a=1 --a=1").1.is_ok());
    }
}
