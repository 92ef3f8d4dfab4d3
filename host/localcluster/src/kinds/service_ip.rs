//! Addresses and node ports of services.
//!
//! In: services that come, change and go. Out: an address and ports for each. Invariant: no two services share one.

use std::collections::HashSet;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::value::{child, copy, empty, fill, flag, int, items, items_mut, remove, set, text};
use crate::rest::strategy::Ctx;
use crate::status::{FieldError, Status};

/// First address of the range 10.0.0.0/16.
const BASE: u32 = 0x0a00_0000;
/// Addresses in it.
const SIZE: u32 = 1 << 16;
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

#[derive(Default)]
struct Used {
    /// What was stored before this process began is counted once.
    known: bool,
    addresses: HashSet<u32>,
    ports: HashSet<i64>,
    /// Where to look next, so that values are not handed out again at once.
    cursor: u32,
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
            for service in ctx.lookup.list("", "services", "") {
                used.addresses.extend(addresses(&service));
                used.ports.extend(ports(&service));
            }
        }
    }
}

/// Whether a ServiceCIDR that is ready and not being deleted has the address. One without the condition counts as
/// ready: nothing may be there to say so.
fn in_further_range(ctx: &Ctx<'_>, address: u32) -> bool {
    let ready = |range: &Value| {
        range["metadata"]["deletionTimestamp"].is_null()
            && !items(&range["status"], "conditions")
                .iter()
                .any(|c| text(c, "type") == "Ready" && text(c, "status") != "True")
    };
    let holds = |cidr: &Value| {
        let (base, bits) = cidr.as_str()?.split_once('/')?;
        let (base, bits) = (parse(base)?, bits.parse::<u32>().ok().filter(|bits| *bits <= 32)?);
        let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
        Some(base & mask == address & mask)
    };
    ctx.lookup
        .list("networking.k8s.io", "servicecidrs", "")
        .iter()
        .filter(|range| ready(range))
        .any(|range| items(&range["spec"], "cidrs").iter().any(|cidr| holds(cidr) == Some(true)))
}

fn parse(address: &str) -> Option<u32> {
    address.parse::<Ipv4Addr>().ok().map(u32::from)
}

fn addresses(service: &Value) -> impl Iterator<Item = u32> {
    items(&service["spec"], "clusterIPs").iter().filter_map(|a| parse(a.as_str()?))
}

fn ports(service: &Value) -> impl Iterator<Item = i64> {
    let spec = &service["spec"];
    let health = int(spec, "healthCheckNodePort");
    items(spec, "ports").iter().map(|p| int(p, "nodePort")).chain([health]).filter(|p| *p != 0)
}

impl Used {
    fn address(&mut self, reserve: bool) -> Option<u32> {
        for step in 0..SIZE {
            // The lower part is left to those who choose an address themselves.
            let at = 256 + (self.cursor + step) % (SIZE - 257);
            let candidate = BASE + at;
            if !self.addresses.contains(&candidate) {
                if reserve {
                    self.addresses.insert(candidate);
                    self.cursor = at - 255;
                }
                return Some(candidate);
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

impl Services {
    fn refuse(ctx: &Ctx<'_>, object: &Value, error: FieldError) -> Status {
        ctx.kind.invalid(text(&object["metadata"], "name"), vec![error])
    }

    fn give_address(&self, ctx: &Ctx<'_>, object: &mut Value) -> Result<(), Status> {
        if !needs_address(&object["spec"]) {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                remove(&mut object["spec"], key);
            }
            return Ok(());
        }
        let spec = child(object, "spec");
        if text(spec, "clusterIP").is_empty() {
            if let Some(first) = items(spec, "clusterIPs").first().cloned() {
                set(spec, "clusterIP", first);
            }
        }
        let headless = text(spec, "clusterIP") == "None";
        if headless && empty(&spec["selector"]) && empty(&spec["ipFamilies"]) {
            fill(spec, "ipFamilyPolicy", "RequireDualStack");
            set(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
        }
        if empty(&spec["ipFamilies"]) {
            set(spec, "ipFamilies", json!(["IPv4"]));
        }
        fill(spec, "ipFamilyPolicy", "SingleStack");
        let asked = text(spec, "clusterIP").to_owned();
        let address = match asked.as_str() {
            "None" => asked,
            "" => {
                let mut used = self.used.lock();
                Self::learn(&mut used, ctx);
                let Some(free) = used.address(!ctx.dry_run) else {
                    let why = "failed to allocate IP: range is full";
                    return Err(Status::internal(format!("failed to allocate a serviceIP: {why}")));
                };
                Ipv4Addr::from(free).to_string()
            }
            _ => {
                let mut used = self.used.lock();
                Self::learn(&mut used, ctx);
                let refused = match parse(&asked) {
                    Some(n) if (BASE..BASE + SIZE).contains(&n) || in_further_range(ctx, n) => {
                        let taken = used.addresses.contains(&n);
                        if !taken && !ctx.dry_run {
                            used.addresses.insert(n);
                        }
                        taken.then_some("failed to allocate IP ADDRESS: provided IP is already allocated")
                    }
                    Some(_) => Some(
                        "failed to allocate IP ADDRESS: the provided network does not match the current range",
                    ),
                    // Malformed addresses are left to validation.
                    None => None,
                };
                if let Some(why) = refused {
                    let why = why.replace("ADDRESS", &asked);
                    let error = FieldError::invalid("spec.clusterIPs", &json!([asked]), &why);
                    return Err(Self::refuse(ctx, object, error));
                }
                asked
            }
        };
        set(&mut object["spec"], "clusterIPs", vec![json!(address)]);
        set(&mut object["spec"], "clusterIP", address);
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
        for (i, port) in items_mut(&mut object["spec"], "ports").enumerate() {
            match int(port, "nodePort") {
                0 => match used.port(!ctx.dry_run) {
                    Some(free) => set(port, "nodePort", free),
                    None => {
                        return Err(Status::internal("failed to allocate a nodePort: range is full"));
                    }
                },
                n if had.contains(&n) => {}
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
                }
            }
        }
        drop(used);
        match refused {
            Some(error) => Err(Self::refuse(ctx, object, error)),
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
        self.give_address(ctx, object)?;
        self.give_ports(ctx, None, object)?;
        self.give_health_port(ctx, object);
        Ok(())
    }

    fn update(&self, ctx: &Ctx<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        keep_allocated(old, new);
        let (before, after) = (&old["spec"], &new["spec"]);
        let moved = before["clusterIPs"] != after["clusterIPs"] && !empty(&after["clusterIP"]);
        if needs_address(after) && needs_address(before) && !moved {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if empty(&new["spec"][key]) {
                    copy(&old["spec"], &mut new["spec"], key);
                }
            }
        } else if !needs_address(before) || !needs_address(after) {
            self.give_address(ctx, new)?;
        }
        self.give_ports(ctx, Some(old), new)?;
        self.give_health_port(ctx, new);
        if !ctx.dry_run {
            let kept: HashSet<u32> = addresses(new).collect();
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
        let listed = items(spec, "clusterIPs").is_empty();
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
    let type_name = text(spec, "type").to_owned();
    if changed_type && !matches!(type_name.as_str(), "NodePort" | "LoadBalancer") {
        if spec["externalTrafficPolicy"] == before["externalTrafficPolicy"] {
            remove(spec, "externalTrafficPolicy");
        }
        remove(spec, "healthCheckNodePort");
    }
    if changed_type && type_name != "LoadBalancer" && flag(before, "allocateLoadBalancerNodePorts") {
        remove(spec, "allocateLoadBalancerNodePorts");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_handed_out_twice() {
        let mut used = Used { known: true, ..Used::default() };
        let first = used.address(true).expect("free");
        let second = used.address(true).expect("free");
        assert_ne!(first, second);
        assert_eq!(used.address(false), used.address(false), "a dry run reserves nothing");
        let port = used.port(true).expect("free");
        assert_ne!(Some(port), used.port(true));
    }
}
