//! Who a controller is to the API server.
//!
//! With `--use-service-account-credentials` each controller has a client of its
//! own: it writes, and looks up, as a service account in `kube-system`, by a
//! token that the API server made for an hour. The account is created if it is
//! absent. Informers, events and leases go on under the manager's own identity.
//!
//! A module says which account it works as by the default of an option named
//! like the flag (an empty one: as the manager), so that the host knows no names;
//! else it is the controller's name. Controllers of kube-controller-manager have its accounts.
//!
//! Rules: kube-controller-manager's `DynamicControllerClientBuilder`.

mod account;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

pub use account::Account;

use crate::{api::ApiClient, clock::SharedClock, contract::Manifest};

/// Name of the flag, and of the option.
pub const FLAG: &str = "use-service-account-credentials";

/// Namespace of the accounts.
pub const NAMESPACE: &str = "kube-system";

/// The service account that a controller works as; none for one that works as
/// the manager.
pub fn account(manifest: &Manifest) -> Option<&str> {
    match manifest.options.iter().find(|option| option.name == FLAG) {
        Some(option) => Some(option.default.as_str()).filter(|name| !name.is_empty()),
        None => Some(&manifest.name),
    }
}

/// Clients of the controllers.
pub struct ServiceAccounts {
    /// Asks for tokens.
    own: ApiClient,
    /// Has no identity.
    anonymous: ApiClient,
    clock: SharedClock,
    accounts: Mutex<HashMap<String, Arc<Account>>>,
}

impl ServiceAccounts {
    /// Makes clients out of one without an identity; `own` is that of the
    /// manager, which asks for tokens.
    pub fn new(own: ApiClient, anonymous: ApiClient, clock: SharedClock) -> Self {
        Self { own, anonymous, clock, accounts: Mutex::default() }
    }

    /// The client of an account. Nothing is sent before it is used.
    pub fn client(&self, name: &str, user_agent: &str) -> ApiClient {
        let mut accounts = self.accounts.lock();
        let account = accounts
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(Account::new(name, self.own.clone(), self.clock.clone())));
        let user_agent = format!("{user_agent} system:serviceaccount:{NAMESPACE}:{name}");
        self.anonymous.with_user_agent(&user_agent).with_account(account.clone())
    }
}
