//! Acting as somebody else, by the `Impersonate-*` headers.
//!
//! In: headers and who sent them. Out: the user to be. Invariant: with RBAC, each value that is taken on must be allowed,
//! by one of the constrained modes (`impersonate:user-info` and its like) or by the old verb `impersonate`.

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::attributes::Attributes;
use super::rule::quoted;
use crate::rest::Rest;
use crate::rest::strategy::User;
use crate::status::Status;

const AUTHENTICATION: &str = "authentication.k8s.io";
const EXTRA: &str = "impersonate-extra-";

impl Rest {
    /// The user that the headers ask to be; the sender if they do not.
    pub(crate) fn impersonate(
        &self,
        sender: User,
        headers: &HeaderMap,
        asked: &Attributes,
    ) -> Result<User, Status> {
        let Some(wanted) = wanted(headers)? else { return Ok(sender) };
        let account = service_account(&wanted.name);
        let node = wanted.name.strip_prefix("system:node:").filter(|name| !name.is_empty());
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let constrained = match (node, account) {
            (Some(_), _) => only_name.then_some("arbitrary-node"),
            (_, Some(_)) => only_name.then_some("serviceaccount"),
            _ => Some("user-info"),
        };
        let by_mode = constrained.map(|mode| self.may_act(&sender, &wanted, asked, mode));
        let (mode, refused) = match by_mode {
            Some(Ok(())) => (constrained, None),
            Some(Err(refused)) => (None, Some(refused)),
            None => (None, None),
        };
        if mode.is_none() {
            // The first refusal is the one that is told.
            self.may_be(&sender, &wanted, None).map_err(|status| refused.unwrap_or(status))?;
        }
        let mut user = wanted;
        if user.groups.is_empty() {
            if mode == Some("arbitrary-node") {
                user.groups.push("system:nodes".into());
            } else if let Some((namespace, _)) = service_account(&user.name) {
                let of_namespace = format!("system:serviceaccounts:{namespace}");
                user.groups.extend(["system:serviceaccounts".to_owned(), of_namespace]);
            }
        }
        let everybodys = |group: &str| user.groups.iter().any(|g| g == group);
        let more = match user.name.as_str() {
            "system:anonymous" => Some("system:unauthenticated"),
            _ if everybodys("system:unauthenticated") => None,
            _ => Some("system:authenticated"),
        };
        if let Some(group) = more.filter(|group| !everybodys(group)) {
            user.groups.push(group.to_owned());
        }
        Ok(user)
    }

    /// Whether the sender may do what is asked for while being somebody else, and may be that somebody.
    fn may_act(&self, sender: &User, wanted: &User, asked: &Attributes, mode: &str) -> Result<(), Status> {
        let verb = format!("impersonate-on:{mode}:{}", asked.verb);
        self.authorize(sender, &Attributes { verb, ..asked.clone() })?;
        self.may_be(sender, wanted, Some(mode))
    }

    fn may_be(&self, sender: &User, wanted: &User, mode: Option<&str>) -> Result<(), Status> {
        let verb = mode.map_or_else(|| "impersonate".to_owned(), |mode| format!("impersonate:{mode}"));
        let ask = |group: &str, resource: &str, sub: &str, namespace: &str, name: &str| {
            self.authorize(
                sender,
                &Attributes {
                    verb: verb.clone(),
                    group: group.into(),
                    resource: resource.into(),
                    sub: sub.into(),
                    namespace: namespace.into(),
                    name: name.into(),
                    path: None,
                },
            )
        };
        let group = if mode.is_some() { AUTHENTICATION } else { "" };
        match (service_account(&wanted.name), wanted.name.strip_prefix("system:node:")) {
            (Some((namespace, name)), _) => ask(group, "serviceaccounts", "", namespace, name)?,
            (None, Some(node)) if mode.is_some() => ask(group, "nodes", "", "", node)?,
            _ => ask(group, "users", "", "", &wanted.name)?,
        }
        if !wanted.uid.is_empty() {
            ask(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
        }
        for name in &wanted.groups {
            ask(group, "groups", "", "", name)?;
        }
        for (key, values) in &wanted.extra {
            for value in values {
                ask(AUTHENTICATION, "userextras", key, "", value)?;
            }
        }
        Ok(())
    }
}

/// Namespace and name of a service account's user.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// What the headers say; none if they say nothing.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Status> {
    let text = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let groups = headers.get_all("impersonate-group").iter();
    let mut user = User {
        name: text("impersonate-user"),
        uid: text("impersonate-uid"),
        groups: groups.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect(),
        ..User::default()
    };
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        let key = percent_decode_str(key).decode_utf8_lossy().to_lowercase();
        let value = value.to_str().unwrap_or_default().to_owned();
        user.extra.entry(key).or_default().push(value);
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    let groups = match user.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => {
            format!("[]string{{{}}}", quoted(groups).trim_matches(['[', ']']).replace("\" \"", "\", \""))
        }
    };
    let extra = match user.extra.is_empty() {
        true => "map[string][]string(nil)".to_owned(),
        false => {
            let entries: Vec<String> = user
                .extra
                .iter()
                .map(|(key, values)| {
                    let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
                    format!("{key:?}:[]string{{{}}}", values.join(", "))
                })
                .collect();
            format!("map[string][]string{{{}}}", entries.join(", "))
        }
    };
    Err(Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{groups}, Extra:{extra}}} without impersonating a user name",
        user.uid,
    )))
}
