//! One request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coxswain_sdk::condition::Condition;
use coxswain_sdk::contract::{SignLookup, SignWhat};
use coxswain_sdk::csr::SigningRequest;
use coxswain_sdk::resource::CERTIFICATE_SIGNING_REQUESTS;
use coxswain_sdk::{Action, Ask, Ctx, Error, Object, Plan, Result, from_json};
use serde_json::{Value, json};

use crate::{certificate, signer};

pub(crate) fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(csr) = ctx.primary::<SigningRequest>()? else { return Ok(plan) };
    let (spec, status, name) = (&csr.spec, &csr.status, &csr.metadata.name);
    if status.is_issued() || !status.is_approved() || status.is_denied() || status.is_failed() {
        return Ok(plan);
    }
    let Some(key) = signer::key(ctx, &spec.signer_name)? else { return Ok(plan) };
    // A request never changes, so what is wrong with it stays wrong.
    let request = spec.parse().map_err(|e| Error::Terminal(format!("unable to parse csr {name:?}: {e}")))?;
    if let Err(why) = signer::check(spec, &request) {
        plan.then(failed(ctx, &csr, &why));
        return Ok(plan);
    }
    let refused = |e: &str| Error::Terminal(format!("error auto signing csr: {e}"));
    let pem = spec.pem().map_err(refused)?;
    let longest = ctx.option_duration("cluster-signing-duration")?;
    let wanted =
        certificate::wanted(&pem, &request, &spec.usages, spec.expiration_seconds, longest, ctx.now())
            .map_err(|e| refused(&e))?;
    let sign = SignLookup { key: key.to_owned(), what: SignWhat::Certificate(wanted) };
    let signed = match ctx.look_up(Ask::Sign(sign))? {
        Ok(answer) => answer,
        Err(failure) if failure.reason == "Invalid" => return Err(refused(&failure.message)),
        Err(failure) => return Err(Error::Retry(format!("error auto signing csr: {}", failure.message))),
    };
    let signed: String = from_json(&signed).map_err(|e| refused(&format!("no certificate: {e}")))?;
    plan.then(write(&csr, &json!({ "certificate": STANDARD.encode(signed) })));
    Ok(plan)
}

/// Only while nobody else has decided otherwise.
fn write(csr: &Object<SigningRequest>, status: &Value) -> Action {
    Action::merge(CERTIFICATE_SIGNING_REQUESTS, "", &csr.metadata.name, &json!({ "status": status }))
        .subresource("status")
        .tag("status")
        .as_seen(csr)
}

fn failed(ctx: &Ctx<'_>, csr: &Object<SigningRequest>, why: &str) -> Action {
    let mut condition = Condition::new("Failed", "True", "SignerValidationFailure", why, ctx.now());
    condition.last_update_time = Some(ctx.now().whole_seconds());
    let mut conditions = csr.status.conditions.clone();
    conditions.push(condition);
    write(csr, &json!({ "conditions": conditions }))
}
