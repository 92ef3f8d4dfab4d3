//! One Secret.

use std::time::Duration;

use coxswain_sdk::resource::{SECRETS, SERVICE_ACCOUNTS};
use coxswain_sdk::service_account::{Account, ServiceAccount, TOKEN, names};
use coxswain_sdk::{Action, Ask, Ctx, Error, FromJson, Object, ObjectMeta, Plan, Query, Result, from_json};
use serde::Serialize;
use serde_json::json;

use crate::KEY_FILE;
use crate::fill::fill;
use crate::view::TokenSecret;

/// What is kept of a Secret that its account lists.
#[derive(FromJson, Serialize)]
struct Listed {
    account: String,
    uid: String,
}

pub(crate) fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    if ctx.option(KEY_FILE)?.is_empty() {
        return Ok(Plan::new());
    }
    match ctx.primary::<TokenSecret>()? {
        Some(secret) if secret.kind == TOKEN && !secret.metadata.annotations.name.is_empty() => {
            present(ctx, &secret)
        }
        Some(_) => Ok(Plan::new()),
        None => gone(ctx),
    }
}

fn present(ctx: &Ctx<'_>, secret: &Object<TokenSecret>) -> Result<Plan> {
    let mut plan = Plan::new();
    let meta = &secret.metadata;
    let of = &meta.annotations;
    let account = ctx.get::<ServiceAccount>(&meta.namespace, &of.name)?;
    let listed = account.as_ref().is_some_and(|account| account.lists(&meta.name));
    if listed {
        let listed = Listed { account: of.name.clone(), uid: of.uid.clone() };
        let text = serde_json::to_string(&listed).map_err(|e| Error::Terminal(format!("state: {e}")))?;
        if ctx.state() != Some(&text) {
            plan.keep(text);
        }
    } else if ctx.state().is_some() {
        plan.clear();
    }
    if meta.is_deleting() {
        return Ok(plan);
    }
    let cached = account.map(|account| account.metadata.uid.clone()).filter(|uid| of.is(uid));
    let uid = match cached {
        Some(uid) => Some(uid),
        None => live(ctx, &meta.namespace, of)?,
    };
    match uid {
        Some(uid) => plan.then(fill(ctx, secret, &uid)?),
        None => plan.then(Action::delete(SECRETS, &meta.namespace, &meta.name).uid(&meta.uid).tag("delete")),
    };
    Ok(plan)
}

#[derive(FromJson)]
struct JustMetadata {
    metadata: ObjectMeta,
}

/// The account's uid as the API server has it: a Secret is not deleted because
/// the cache is behind.
fn live(ctx: &Ctx<'_>, namespace: &str, of: &Account) -> Result<Option<String>> {
    let ask = Ask::get_metadata(SERVICE_ACCOUNTS, namespace, &of.name).expecting_uid(&of.uid);
    match ctx.look_up(ask)? {
        Ok(text) => {
            let account: JustMetadata = from_json(&text)
                .map_err(|e| Error::Retry(format!("cannot read ServiceAccount {}: {e}", of.name)))?;
            Ok(Some(account.metadata.uid).filter(|uid| of.is(uid)))
        }
        Err(failure) if failure.status == 404 => Ok(None),
        Err(failure) => {
            Err(Error::Retry(format!("cannot get ServiceAccount {}: {}", of.name, failure.message)))
        }
    }
}

/// State of a Secret that is gone and that no account listed when it was first looked for.
const LOOKED: &str = "looked";
/// An account that was changed shortly before its Secret went is known by then.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Takes a Secret that is gone off its account's list.
fn gone(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let key = ctx.key();
    match ctx.state().and_then(|text| from_json::<Listed>(text).ok()) {
        Some(listed) => {
            let of = Account { name: listed.account, uid: listed.uid };
            let account = ctx.get::<ServiceAccount>(&key.namespace, &of.name)?;
            match account.filter(|account| of.is(&account.metadata.uid) && account.lists(&key.name)) {
                Some(account) => plan.then(unlist(ctx, &account)),
                None => plan.clear(),
            };
        }
        // It was listed and deleted in one breath: no reconcile came in between.
        None => {
            let accounts = ctx.list::<ServiceAccount>(Query::all().namespace(&key.namespace))?;
            match accounts.iter().find(|account| account.lists(&key.name)) {
                Some(account) => plan.then(unlist(ctx, account)),
                None if ctx.state() == Some(LOOKED) => plan.clear(),
                None => plan.keep(LOOKED).come_back(ctx.now() + LOOK_AGAIN),
            };
        }
    }
    Ok(plan)
}

fn unlist(ctx: &Ctx<'_>, account: &Object<ServiceAccount>) -> Action {
    let key = ctx.key();
    let left: Vec<_> = account.secrets.iter().filter(|secret| !names(secret, &key.name)).collect();
    let body = json!({ "secrets": left });
    let unlist = Action::merge(SERVICE_ACCOUNTS, &key.namespace, &account.metadata.name, &body);
    unlist.tag("unlist").as_seen(account)
}
