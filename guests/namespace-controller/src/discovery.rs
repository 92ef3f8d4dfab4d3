//! Groups whose servers do not answer, so that nobody knows what they keep in a
//! namespace.

use coxswain_sdk::contract::Failure;
use coxswain_sdk::sort::sort_by;
use coxswain_sdk::{Ask, Ctx, Query, Result};

use crate::view::ApiService;

/// Group versions that do not answer. Those that may not are asked.
pub fn failing(ctx: &Ctx<'_>) -> Result<Vec<String>> {
    let services = ctx.list::<ApiService>(Query::all())?;
    let mut doubtful: Vec<String> = services.iter().filter_map(|service| service.doubtful()).collect();
    sort_by(&mut doubtful, Ord::cmp);
    let asks = doubtful.iter().map(|group_version| Ask::Raw(format!("/apis/{group_version}")));
    let answers = ctx.look_up_all(asks)?;
    // One that nobody serves any more has nothing to answer.
    let is_away =
        |answer: &Result<String, Failure>| answer.as_ref().is_err_and(|failure| failure.status != 404);
    Ok(doubtful.into_iter().zip(answers).filter(|(_, answer)| is_away(answer)).map(|(gv, _)| gv).collect())
}

/// What is told about the group versions that do not answer.
pub fn failure(failing: &[String]) -> Option<String> {
    if failing.is_empty() {
        return None;
    }
    let of =
        |group_version: &String| format!("{group_version}: stale GroupVersion discovery: {group_version}");
    let all: Vec<String> = failing.iter().map(of).collect();
    Some(format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        failing.len(),
        all.join(", ")
    ))
}
