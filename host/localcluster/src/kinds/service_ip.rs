//! Addresses and node ports of services.
//!
//! In: services that come, change and go. Out: an address and ports for each. Invariant: no two services share one.

use std::collections::HashSet;
use std::net::IpAddr;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::service_family::{self as family, Cidr, Family};
use super::service_validation::is_reachable;
use super::value::{child, copy, empty, int, items, items_mut, remove, set, text};
use crate::rest::strategy::{Consulted, Ctx};
use crate::status::{FieldError, Status};

const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

#[derive(Default)]
struct Used {
    /// What was stored before this process began is counted once.
    known: bool,
    addresses: HashSet<IpAddr>,
    ports: HashSet<i64>,
    /// Where to look next, so that values are not handed out again at once.
    cursor: u128,
}

/// Hands out addresses and node ports.
#[derive(Default)]
pub struct Services {
    used: Mutex<Used>,
}

impl Services {
    fn learn(used: &mut Used, ctx: &Ctx<'_>) {
        if !used.known {
            used.known = true;
            for service in ctx.consult(Consulted::Services).list("") {
                used.addresses.extend(addresses(&service));
                used.ports.extend(ports(&service));
            }
        }
    }
}

fn addresses(service: &Value) -> impl Iterator<Item = IpAddr> {
    items(&service["spec"], "clusterIPs").iter().filter_map(|a| a.as_str()?.parse().ok())
}

fn ports(service: &Value) -> impl Iterator<Item = i64> {
    let spec = &service["spec"];
    let health = int(spec, "healthCheckNodePort");
    items(spec, "ports").iter().map(|p| int(p, "nodePort")).chain([health]).filter(|p| *p != 0)
}

impl Used {
    fn address(&mut self, ranges: &[Cidr], family: Family, reserve: bool) -> Option<IpAddr> {
        for range in ranges.iter().filter(|range| range.family == family) {
            // The last address is the broadcast's.
            let room = range.size.saturating_sub(range.reserved() + 1);
            // One of so many is free, or none is.
            let tries = room.min(self.addresses.len() as u128 + 1);
            for step in 0..tries {
                let at = (self.cursor + step) % room;
                let candidate = family.address(range.base + range.reserved() + at);
                if !self.addresses.contains(&candidate) {
                    if reserve {
                        self.addresses.insert(candidate);
                        self.cursor = at + 1;
                    }
                    return Some(candidate);
                }
            }
        }
        None
    }

    fn port(&mut self, reserve: bool) -> Option<i64> {
        let free = PORTS.clone().find(|p| !self.ports.contains(p))?;
        if reserve {
            self.ports.insert(free);
        }
        Some(free)
    }
}

fn needs_address(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

fn needs_ports(spec: &Value) -> bool {
    match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => spec["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// A service that points elsewhere has no addresses: one that turned away loses them; in a new one they are left to
/// validation, which does not like them.
fn take_addresses(update: bool, object: &mut Value) {
    if update {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            remove(&mut object["spec"], key);
        }
    } else if empty(&object["spec"]["clusterIPs"]) && !text(&object["spec"], "clusterIP").is_empty() {
        let first = object["spec"]["clusterIP"].clone();
        set(&mut object["spec"], "clusterIPs", json!([first]));
    }
}

impl Services {
    fn refuse(ctx: &Ctx<'_>, object: &Value, errors: Vec<FieldError>) -> Status {
        ctx.kind.invalid(text(&object["metadata"], "name"), errors)
    }

    /// `before` is the spec before an update.
    fn give_addresses(
        &self,
        ctx: &Ctx<'_>,
        before: Option<&Value>,
        object: &mut Value,
    ) -> Result<(), Status> {
        if !needs_address(&object["spec"]) {
            take_addresses(before.is_some(), object);
            return Ok(());
        }
        let spec = child(object, "spec");
        let (first, listed) = (text(spec, "clusterIP").to_owned(), items(spec, "clusterIPs").to_vec());
        if listed.is_empty() && !first.is_empty() {
            set(spec, "clusterIPs", json!([first]));
        }
        let mut errors = Vec::new();
        super::service_validation::cluster_addresses(&mut errors, spec);
        if !errors.is_empty() {
            return Err(Self::refuse(ctx, object, errors));
        }
        let ranges = family::ranges(ctx);
        let errors = family::settle(before, spec, &ranges);
        if !errors.is_empty() {
            return Err(Self::refuse(ctx, object, errors));
        }
        if first == "None" {
            set(spec, "clusterIPs", json!(["None"]));
            return Ok(());
        }
        let had: Vec<&Value> = before.map(|b| items(b, "clusterIPs").iter().collect()).unwrap_or_default();
        let mut used = self.used.lock();
        Self::learn(&mut used, ctx);
        let mut given: Vec<Value> = items(spec, "clusterIPs").to_vec();
        let mut fresh: Vec<IpAddr> = Vec::new();
        let mut refused = None;
        for (i, family) in family::of(spec).into_iter().enumerate() {
            match given.get(i) {
                Some(asked) if had.contains(&asked) => {}
                // Malformed addresses are left to validation.
                Some(asked) => {
                    let Some(ip) = asked.as_str().and_then(|ip| ip.parse::<IpAddr>().ok()) else { continue };
                    let why = if !ranges.iter().any(|range| range.holds(ip)) {
                        Some("the provided network does not match the current range")
                    } else if used.addresses.contains(&ip) && !ctx.dry_run {
                        Some("provided IP is already allocated")
                    } else {
                        fresh.push(ip);
                        if !ctx.dry_run {
                            used.addresses.insert(ip);
                        }
                        None
                    };
                    if let Some(why) = why {
                        let why = format!("failed to allocate IP {ip}: {why}");
                        refused = Some(Self::refuse(
                            ctx,
                            object,
                            vec![FieldError::invalid("spec.clusterIPs", &json!(given), &why)],
                        ));
                        break;
                    }
                }
                None => match used.address(&ranges, family, !ctx.dry_run) {
                    Some(free) => {
                        fresh.push(free);
                        given.push(json!(free));
                    }
                    None => {
                        let why = "failed to allocate a serviceIP: failed to allocate IP: range is full";
                        refused = Some(Status::internal(why));
                        break;
                    }
                },
            }
        }
        if let Some(refused) = refused {
            // What was taken for the first family goes back.
            if !ctx.dry_run {
                used.addresses.retain(|ip| !fresh.contains(ip));
            }
            return Err(refused);
        }
        drop(used);
        let spec = child(object, "spec");
        set(spec, "clusterIP", given.first().cloned().unwrap_or_default());
        set(spec, "clusterIPs", given);
        Ok(())
    }

    fn give_ports(&self, ctx: &Ctx<'_>, old: Option<&Value>, object: &mut Value) -> Result<(), Status> {
        if !needs_ports(&object["spec"]) {
            return Ok(());
        }
        let mut used = self.used.lock();
        Self::learn(&mut used, ctx);
        let had: Vec<i64> = old.map(|o| ports(o).collect()).unwrap_or_default();
        let mut refused = None;
        // One number may serve several protocols of a service.
        let mut own: Vec<(i64, String)> = Vec::new();
        let (mut lent, mut full) = (Vec::new(), false);
        for (i, port) in items_mut(&mut object["spec"], "ports").enumerate() {
            match int(port, "nodePort") {
                0 => match used.port(true) {
                    Some(free) => {
                        lent.push(free);
                        set(port, "nodePort", free);
                    }
                    None => {
                        full = true;
                        break;
                    }
                },
                n if had.contains(&n) => {}
                n if own.iter().any(|(o, protocol)| *o == n && protocol != text(port, "protocol")) => {}
                n => {
                    let why = if !PORTS.contains(&n) {
                        Some(
                            "provided port is not in the valid range. The range of valid ports is 30000-32767",
                        )
                    } else if used.ports.contains(&n) {
                        Some("provided port is already allocated")
                    } else {
                        None
                    };
                    match why {
                        Some(why) => {
                            let field = format!("spec.ports[{i}].nodePort");
                            refused = Some(FieldError::invalid(field, &json!(n), why));
                        }
                        None if !ctx.dry_run => {
                            used.ports.insert(n);
                        }
                        None => {}
                    }
                    own.push((n, text(port, "protocol").to_owned()));
                }
            }
        }
        if ctx.dry_run {
            // They only had to differ from each other.
            for port in &lent {
                used.ports.remove(port);
            }
        }
        drop(used);
        if full {
            return Err(Status::internal("failed to allocate a nodePort: range is full"));
        }
        match refused {
            Some(error) => Err(Self::refuse(ctx, object, vec![error])),
            None => Ok(()),
        }
    }

    fn give_health_port(&self, ctx: &Ctx<'_>, object: &mut Value) {
        let spec = &object["spec"];
        let local = text(spec, "externalTrafficPolicy") == "Local";
        if text(spec, "type") == "LoadBalancer" && local && int(spec, "healthCheckNodePort") == 0 {
            if let Some(port) = self.used.lock().port(!ctx.dry_run) {
                set(&mut object["spec"], "healthCheckNodePort", port);
            }
        }
    }
}

/// Hands out values that no two objects may share, such as addresses.
pub trait Allocator: Send + Sync {
    /// Fills in what a new object needs.
    fn create(&self, ctx: &Ctx<'_>, object: &mut Value) -> Result<(), Status>;
    /// Keeps what the old object has, fills in what the change needs.
    fn update(&self, ctx: &Ctx<'_>, old: &Value, new: &mut Value) -> Result<(), Status>;
    /// Takes back what the object has.
    fn release(&self, object: &Value);
}

impl Allocator for Services {
    fn create(&self, ctx: &Ctx<'_>, object: &mut Value) -> Result<(), Status> {
        self.give_addresses(ctx, None, object)?;
        self.give_ports(ctx, None, object)?;
        self.give_health_port(ctx, object);
        Ok(())
    }

    fn update(&self, ctx: &Ctx<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        keep_allocated(old, new);
        let (before, after) = (&old["spec"], &new["spec"]);
        // Whether the first address may change is left to validation.
        let moved = items(before, "clusterIPs").first() != items(after, "clusterIPs").first();
        let both = needs_address(after) && needs_address(before);
        if both && moved && !empty(&after["clusterIP"]) {
            for key in ["ipFamilies", "ipFamilyPolicy"] {
                if empty(&new["spec"][key]) {
                    copy(&old["spec"], &mut new["spec"], key);
                }
            }
        } else {
            let known = both.then(|| old["spec"].clone());
            self.give_addresses(
                ctx,
                known.as_ref().or((!needs_address(after)).then_some(&old["spec"])),
                new,
            )?;
        }
        self.give_ports(ctx, Some(old), new)?;
        self.give_health_port(ctx, new);
        if !ctx.dry_run {
            let kept: HashSet<IpAddr> = addresses(new).collect();
            let kept_ports: HashSet<i64> = ports(new).collect();
            let mut used = self.used.lock();
            for address in addresses(old).filter(|a| !kept.contains(a)) {
                used.addresses.remove(&address);
            }
            for port in ports(old).filter(|p| !kept_ports.contains(p)) {
                used.ports.remove(&port);
            }
        }
        Ok(())
    }

    fn release(&self, object: &Value) {
        let mut used = self.used.lock();
        for address in addresses(object) {
            used.addresses.remove(&address);
        }
        for port in ports(object) {
            used.ports.remove(&port);
        }
    }
}

/// What an update leaves out keeps its allocated value; what the new type cannot have goes.
fn keep_allocated(old: &Value, new: &mut Value) {
    let before = &old["spec"];
    let spec = child(new, "spec");
    if needs_address(spec) && needs_address(before) && text(spec, "clusterIP").is_empty() {
        // Who takes the one address away means the list as well.
        let listed = items(spec, "clusterIPs").is_empty() || spec["clusterIPs"] == before["clusterIPs"];
        if listed {
            copy(before, spec, "clusterIP");
            copy(before, spec, "clusterIPs");
        }
    } else if text(spec, "clusterIP") != text(before, "clusterIP")
        && spec["clusterIPs"] == before["clusterIPs"]
        && !text(spec, "clusterIP").is_empty()
    {
        // Only the older field was changed: the list follows it.
        let address = spec["clusterIP"].clone();
        set(spec, "clusterIPs", vec![address]);
    } else if items(spec, "clusterIPs").is_empty() && !text(spec, "clusterIP").is_empty() {
        let address = spec["clusterIP"].clone();
        set(spec, "clusterIPs", vec![address]);
    }
    let wants = needs_ports(spec);
    let was = items(before, "ports").to_vec();
    let changed_type = text(spec, "type") != text(before, "type");
    for port in items_mut(spec, "ports") {
        let same = was.iter().find(|p| p["port"] == port["port"] && p["protocol"] == port["protocol"]);
        let Some(same) = same else { continue };
        let (had, has) = (int(same, "nodePort"), int(port, "nodePort"));
        if wants && has == 0 && had != 0 {
            set(port, "nodePort", had);
        } else if !wants && changed_type && has == had {
            remove(port, "nodePort");
        }
    }
    // What only another type has goes with that type, unless it was changed as well.
    for (key, needed) in DEPENDENT {
        if needed(before) && !needed(spec) && spec[key] == before[key] {
            remove(spec, key);
        }
    }
    let key = "healthCheckNodePort";
    if needs_health_port(before) && needs_health_port(spec) && int(spec, key) == 0 {
        copy(before, spec, key);
    }
}

fn is_balanced(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer"
}

fn needs_health_port(spec: &Value) -> bool {
    is_balanced(spec) && text(spec, "externalTrafficPolicy") == "Local"
}

/// A field and the services that have it.
type Dependent = (&'static str, fn(&Value) -> bool);

const DEPENDENT: &[Dependent] = &[
    ("healthCheckNodePort", needs_health_port),
    ("allocateLoadBalancerNodePorts", is_balanced),
    ("loadBalancerClass", is_balanced),
    ("externalTrafficPolicy", is_reachable),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_handed_out_twice() {
        let mut used = Used { known: true, ..Used::default() };
        let ranges = [Cidr::parse("10.0.0.0/16").expect("range"), Cidr::parse("fd00::/108").expect("range")];
        let mut next = |family, reserve| used.address(&ranges, family, reserve).expect("free");
        let first = next(Family::V4, true);
        assert_ne!(first, next(Family::V4, true));
        assert_eq!(next(Family::V4, false), next(Family::V4, false), "a dry run reserves nothing");
        assert!(next(Family::V6, true).is_ipv6());
        let port = used.port(true).expect("free");
        assert_ne!(Some(port), used.port(true));
    }
}
