//! IP families of services: which one, or both, and from which ranges their addresses come.
//!
//! In: what a service asks for, and the ServiceCIDRs. Out: its policy and families, or why not. Source of the rules:
//! `pkg/registry/core/service/storage/alloc.go` of Kubernetes.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::value::{empty, fill, items, set, text};
use crate::rest::strategy::{Consulted, Ctx};
use crate::status::FieldError;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::V4, Self::V6].into_iter().find(|family| family.name() == text)
    }

    fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    pub(super) fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => IpAddr::from((number as u32).to_be_bytes()),
            Self::V6 => IpAddr::from(number.to_be_bytes()),
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    pub(super) family: Family,
    pub(super) base: u128,
    /// Addresses in it; as many as fit for the widest ones.
    pub(super) size: u128,
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        let base: IpAddr = base.parse().ok()?;
        let family = Family::of(base);
        let width = if family == Family::V4 { 32 } else { 128 };
        let host = width - bits.parse::<u32>().ok().filter(|bits| *bits <= width)?;
        let size = 1u128.checked_shl(host).unwrap_or(u128::MAX);
        Some(Self { family, base: number(base) & !(size - 1), size })
    }

    pub(super) fn holds(&self, address: IpAddr) -> bool {
        let number = number(address);
        Family::of(address) == self.family && number >= self.base && number - self.base < self.size
    }

    /// Its lower part is left to those who choose an address themselves.
    pub(super) fn reserved(&self) -> u128 {
        if self.size < 32 { 1 } else { (self.size / 16).clamp(16, 256) }
    }
}

/// What addresses come from: the range of the cluster first. One without the condition counts as ready: nothing may be
/// there to say so.
pub(super) fn ranges(ctx: &Ctx<'_>) -> Vec<Cidr> {
    let ready = |range: &Value| {
        range["metadata"]["deletionTimestamp"].is_null()
            && !items(&range["status"], "conditions")
                .iter()
                .any(|c| text(c, "type") == "Ready" && text(c, "status") != "True")
    };
    let known = ctx.consult(Consulted::ServiceCidrs).few();
    let mut all: Vec<&Value> = known.iter().collect();
    all.sort_by_key(|range| text(&range["metadata"], "name") != "kubernetes");
    let cidrs = all.into_iter().filter(|range| ready(range)).flat_map(|range| items(&range["spec"], "cidrs"));
    let mut cidrs: Vec<Cidr> = cidrs.filter_map(|cidr| Cidr::parse(cidr.as_str()?)).collect();
    if cidrs.is_empty() {
        cidrs.extend(Cidr::parse("10.0.0.0/16"));
    }
    cidrs
}

/// The families of a service, in order.
pub(super) fn of(spec: &Value) -> Vec<Family> {
    items(spec, "ipFamilies").iter().filter_map(|family| Family::parse(family.as_str()?)).collect()
}

/// Completes policy and families of a service that has addresses; `before` is its spec before an update.
pub(super) fn settle(before: Option<&Value>, spec: &mut Value, ranges: &[Cidr]) -> Vec<FieldError> {
    let mut out = Vec::new();
    let headless = text(spec, "clusterIP") == "None";
    let anywhere = headless && empty(&spec["selector"]);
    if let Some(before) = before {
        inherit(before, spec);
    }
    let given: Vec<String> =
        items(spec, "ipFamilies").iter().filter_map(|f| f.as_str().map(str::to_owned)).collect();
    for (i, family) in given.iter().enumerate() {
        let field = format!("spec.ipFamilies[{i}]");
        match Family::parse(family) {
            None => out.push(FieldError::not_supported(field, &json!(family), &["IPv4", "IPv6"])),
            Some(_) if given[..i].contains(family) => out.push(FieldError::duplicate(field, &json!(family))),
            Some(known) if !anywhere && !ranges.iter().any(|r| r.family == known) => {
                out.push(FieldError::invalid(field, &json!(family), "not configured on this cluster"));
            }
            Some(_) => {}
        }
    }
    if anywhere && empty(&spec["ipFamilyPolicy"]) {
        set(spec, "ipFamilyPolicy", "RequireDualStack");
    }
    fill(spec, "ipFamilyPolicy", "SingleStack");
    let policy = text(spec, "ipFamilyPolicy").to_owned();
    let field = "spec.ipFamilyPolicy";
    let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if !known.contains(&policy.as_str()) {
        out.push(FieldError::not_supported(field, &json!(policy), &known));
        return out;
    }
    let addresses: Vec<IpAddr> =
        items(spec, "clusterIPs").iter().filter_map(|ip| ip.as_str()?.parse().ok()).collect();
    if policy == "SingleStack" {
        let several = [("IP families", given.len()), ("cluster IPs", addresses.len())];
        if let Some((what, _)) = several.into_iter().find(|(_, count)| *count > 1) {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            out.push(FieldError::invalid(field, &json!(policy), &detail));
        }
    }
    let primary = ranges.first().map_or(Family::V4, |range| range.family);
    let dual = ranges.iter().any(|range| range.family == primary.other());
    if policy == "RequireDualStack" && !dual && !anywhere {
        let detail = "this cluster is not configured for dual-stack services";
        out.push(FieldError::invalid(field, &json!(policy), detail));
    }
    let mut families = of(spec);
    for (i, address) in addresses.iter().enumerate() {
        let family = Family::of(*address);
        match families.get(i) {
            None => families.push(family),
            Some(wanted) if *wanted != family => {
                let detail = format!("expected to be {:?} to match `clusterIPs[{i}]`", family.name());
                out.push(FieldError::invalid(
                    format!("spec.ipFamilies[{i}]"),
                    &json!(wanted.name()),
                    &detail,
                ));
            }
            Some(_) => {}
        }
    }
    if !out.is_empty() {
        return out;
    }
    if families.is_empty() {
        families.push(primary);
    }
    if families.len() == 1 && policy != "SingleStack" && (dual || anywhere) {
        families.push(families[0].other());
    }
    let names: Vec<Value> = families.iter().map(|family| json!(family.name())).collect();
    set(spec, "ipFamilies", names);
    out
}

/// What an update leaves out stays; one that goes back to one family gives up the second.
fn inherit(before: &Value, spec: &mut Value) {
    fill(spec, "ipFamilyPolicy", text(before, "ipFamilyPolicy"));
    if items(spec, "ipFamilies").is_empty() {
        set(spec, "ipFamilies", before["ipFamilies"].clone());
    }
    let single = text(spec, "ipFamilyPolicy") == "SingleStack";
    if !single || text(before, "ipFamilyPolicy") == "SingleStack" {
        return;
    }
    for key in ["ipFamilies", "clusterIPs"] {
        if spec[key] == before[key] {
            let first: Vec<Value> = items(spec, key).iter().take(1).cloned().collect();
            set(spec, key, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(spec: Value, cidrs: &[&str]) -> Result<Value, String> {
        let ranges: Vec<Cidr> = cidrs.iter().filter_map(|cidr| Cidr::parse(cidr)).collect();
        let mut spec = spec;
        let errors = settle(None, &mut spec, &ranges);
        match errors.first() {
            Some(error) => Err(error.to_string()),
            None => Ok(json!([spec["ipFamilies"], spec["ipFamilyPolicy"]])),
        }
    }

    #[test]
    fn families_are_settled_as_the_real_server_settles_them() {
        const ONE: &[&str] = &["10.0.0.0/16"];
        const BOTH: &[&str] = &["10.0.0.0/16", "fd00::/108"];
        let selector = json!({"a": "b"});
        for (spec, cidrs, expected) in [
            (json!({}), ONE, json!([["IPv4"], "SingleStack"])),
            (json!({"ipFamilyPolicy": "PreferDualStack"}), ONE, json!([["IPv4"], "PreferDualStack"])),
            (
                json!({"ipFamilyPolicy": "PreferDualStack"}),
                BOTH,
                json!([["IPv4", "IPv6"], "PreferDualStack"]),
            ),
            (json!({"ipFamilies": ["IPv6"]}), BOTH, json!([["IPv6"], "SingleStack"])),
            (json!({"clusterIP": "None"}), ONE, json!([["IPv4", "IPv6"], "RequireDualStack"])),
            (
                json!({"clusterIP": "None", "ipFamilies": ["IPv6"]}),
                ONE,
                json!([["IPv6", "IPv4"], "RequireDualStack"]),
            ),
            (json!({"clusterIP": "None", "selector": selector}), ONE, json!([["IPv4"], "SingleStack"])),
        ] {
            assert_eq!(settled(spec.clone(), cidrs), Ok(expected), "{spec}");
        }
        for (spec, expected) in [
            (
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
            ),
            (
                json!({"ipFamilies": ["IPv6"]}),
                r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
            ),
            (json!({"ipFamilies": ["IPv4", "IPv4"]}), r#"spec.ipFamilies[1]: Duplicate value: "IPv4""#),
            (
                json!({"ipFamilyPolicy": "Bogus"}),
                r#"spec.ipFamilyPolicy: Unsupported value: "Bogus": supported values: "PreferDualStack", "RequireDualStack", "SingleStack""#,
            ),
        ] {
            assert_eq!(settled(spec.clone(), ONE), Err(expected.to_owned()), "{spec}");
        }
    }

    #[test]
    fn ranges_hold_their_addresses() {
        let range = Cidr::parse("fd00::/108").expect("a range");
        assert!(range.holds("fd00::f:ffff".parse().expect("address")));
        assert!(!range.holds("fd00::10:0".parse().expect("address")));
        assert!(!range.holds("10.0.0.1".parse().expect("address")));
        assert!(Cidr::parse("10.0.0.0/33").is_none());
    }
}
