//! Ports of Endpoints and slices: which belong together, and their order.

use serde::Serialize;

use crate::hash::fnv128a;
use crate::read::{Failed, FromJson, Reader};
use crate::sort::sorted_by;

/// A port, as both Endpoints and slices write it. What the API fills in is
/// filled in here as well, so that ports compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Port {
    /// Name; empty for the only port of a service without a name.
    pub name: String,
    /// The number; None is any port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// `TCP`, `UDP` or `SCTP`.
    #[json(with = protocol)]
    pub protocol: String,
    /// What is spoken on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

impl Default for Port {
    fn default() -> Self {
        Self { name: String::new(), port: None, protocol: TCP.to_owned(), app_protocol: None }
    }
}

/// The protocol of ports that do not say.
pub(super) const TCP: &str = "TCP";

/// Reads a protocol; TCP unless there is one.
pub(super) fn protocol(place: &mut String, reader: Reader<'_, '_>) -> Result<(), Failed> {
    let read = reader.text()?;
    *place = if read.is_empty() { TCP.to_owned() } else { read.into_owned() };
    Ok(())
}

/// Which kind of object ports stand in; it decides about their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum In {
    /// A slice.
    Slice,
    /// A subset of an Endpoints object.
    Subset,
}

/// Puts ports into the order in which kube-controller-manager writes them, that
/// of the hashes of their dumps. It means nothing, but another order would show
/// in every object once the manager is replaced.
pub fn in_order(ports: impl IntoIterator<Item = Port>, kind: In) -> Vec<Port> {
    let hashed = ports.into_iter().map(|port| (fnv128a(dump(&port, kind).as_bytes()), port));
    sorted_by(hashed, |(a, _), (b, _)| a.cmp(b)).into_iter().map(|(_, port)| port).collect()
}

fn dump(port: &Port, kind: In) -> String {
    let Port { name, protocol, .. } = port;
    let app = port.app_protocol.as_deref().unwrap_or("<nil>");
    match kind {
        In::Slice => {
            let number = port.port.map_or_else(|| "<nil>".to_owned(), |number| number.to_string());
            format!(
                "(v1.EndpointPort){{Name:(*string){name} Protocol:(*v1.Protocol){protocol} \
                 Port:(*int32){number} AppProtocol:(*string){app}}}"
            )
        }
        In::Subset => {
            let number = port.port.unwrap_or(0);
            format!(
                "(v1.EndpointPort){{Name:(string){name} Port:(int32){number} \
                 Protocol:(v1.Protocol){protocol} AppProtocol:(*string){app}}}"
            )
        }
    }
}

/// What makes ports the same whatever their order: endpoints with the same ports
/// share slices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey(Vec<Port>);

impl PortKey {
    /// The key of these ports.
    pub fn of(ports: &[Port]) -> Self {
        Self(sorted_by(ports.iter().cloned(), Ord::cmp))
    }
}
