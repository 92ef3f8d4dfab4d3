//! Addresses, networks and URLs in expressions.

use std::net::IpAddr;
use std::sync::Arc;

use cel::extractors::This;
use cel::objects::Opaque;
use cel::{Context, DeclarationError, ExecutionError, FunctionContext, Value};

use super::functions::{Answer, no_overload, string};

/// An address of the internet protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

impl Opaque for Ip {
    fn runtime_type_name(&self) -> &str {
        "net.IP"
    }
}

/// A network: an address and how many of its bits name the network.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cidr(IpAddr, u8);

impl Opaque for Cidr {
    fn runtime_type_name(&self) -> &str {
        "net.CIDR"
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: Vec<(String, String)>,
}

impl Opaque for Url {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.URL"
    }
}

pub(super) fn add(context: &mut Context<'_, '_>) -> Vec<Result<(), DeclarationError>> {
    let mut added = vec![
        // `ip("10.0.0.1")` and `cidr("10.0.0.0/8").ip()`.
        context.add_function("ip", |ftx: &FunctionContext<'_, '_>| -> Answer {
            match (&ftx.this, ftx.args.as_slice()) {
                (None, [text]) => match Value::try_from(text.as_ref())? {
                    Value::String(text) => parse_ip(&text).map(|ip| opaque(Ip(ip))),
                    _ => Err(no_overload("ip")),
                },
                (Some(this), []) => {
                    let this = Value::try_from(this.as_ref())?;
                    known::<Cidr>(&this).map(|cidr| opaque(Ip(cidr.0)))
                }
                _ => Err(no_overload("ip")),
            }
        }),
        context.add_function("isIP", |text: Arc<String>| parse_ip(&text).is_ok()),
        context.add_function("family", |This(ip): This<Value>| {
            known::<Ip>(&ip).map(|ip| Value::Int(if ip.0.is_ipv4() { 4 } else { 6 }))
        }),
        context.add_function("cidr", |text: Arc<String>| parse_cidr(&text).map(opaque)),
        context.add_function("isCIDR", |text: Arc<String>| parse_cidr(&text).is_ok()),
        context.add_function("containsIP", |This(cidr): This<Value>, ip: Value| {
            let ip = match &ip {
                Value::String(text) => parse_ip(text)?,
                other => known::<Ip>(other)?.0,
            };
            known::<Cidr>(&cidr).map(|cidr| Value::Bool(contains(&cidr, ip, 0)))
        }),
        context.add_function("containsCIDR", |This(cidr): This<Value>, inner: Value| {
            let inner = match &inner {
                Value::String(text) => parse_cidr(text)?,
                other => known::<Cidr>(other)?,
            };
            known::<Cidr>(&cidr).map(|cidr| Value::Bool(contains(&cidr, inner.0, inner.1)))
        }),
        context.add_function("prefixLength", |This(cidr): This<Value>| {
            known::<Cidr>(&cidr).map(|cidr| Value::Int(cidr.1.into()))
        }),
        context.add_function("masked", |This(cidr): This<Value>| {
            known::<Cidr>(&cidr).map(|cidr| opaque(Cidr(masked(cidr.0, cidr.1), cidr.1)))
        }),
        context.add_function("url", |text: Arc<String>| parse_url(&text).map(opaque)),
        context.add_function("isURL", |text: Arc<String>| parse_url(&text).is_ok()),
        context.add_function("getQuery", |This(url): This<Value>| {
            known::<Url>(&url).map(|url| {
                let mut all: indexmap::IndexMap<String, Vec<Value>> = indexmap::IndexMap::new();
                for (key, value) in url.query {
                    all.entry(key).or_default().push(string(value));
                }
                let all: std::collections::HashMap<String, Value> =
                    all.into_iter().map(|(key, values)| (key, Value::List(Arc::new(values)))).collect();
                Value::from(all)
            })
        }),
    ];
    let of_ip: [(&str, fn(IpAddr) -> bool); 5] = [
        ("isUnspecified", |ip| ip.is_unspecified()),
        ("isLoopback", |ip| ip.is_loopback()),
        ("isLinkLocalMulticast", link_local_multicast),
        ("isLinkLocalUnicast", link_local_unicast),
        ("isGlobalUnicast", global_unicast),
    ];
    for (name, holds) in of_ip {
        added.push(context.add_function(name, move |This(ip): This<Value>| {
            known::<Ip>(&ip).map(|ip| Value::Bool(holds(ip.0)))
        }));
    }
    let of_url: [(&str, fn(&Url) -> String); 5] = [
        ("getScheme", |url| url.scheme.clone()),
        ("getHost", |url| url.host.clone()),
        ("getHostname", |url| split_port(&url.host).0.trim_matches(['[', ']']).to_owned()),
        ("getPort", |url| split_port(&url.host).1.to_owned()),
        ("getEscapedPath", |url| url.path.clone()),
    ];
    for (name, part) in of_url {
        added.push(context.add_function(name, move |This(url): This<Value>| {
            known::<Url>(&url).map(|url| string(part(&url)))
        }));
    }
    added
}

/// Whether a text is an address in its canonical form.
pub(super) fn is_canonical_ip(text: &str) -> Result<bool, ExecutionError> {
    parse_ip(text).map(|ip| ip.to_string() == text)
}

/// The text of an address or a network.
pub(super) fn text_of(value: &Value) -> Option<String> {
    let ip = known::<Ip>(value).map(|ip| ip.0.to_string());
    ip.or_else(|_| known::<Cidr>(value).map(|cidr| format!("{}/{}", cidr.0, cidr.1))).ok()
}

fn opaque(value: impl Opaque) -> Value {
    Value::Opaque(Arc::new(value))
}

fn known<T: Opaque + Clone>(value: &Value) -> Result<T, ExecutionError> {
    match value {
        Value::Opaque(value) => value.downcast_ref::<T>().cloned(),
        _ => None,
    }
    .ok_or_else(|| no_overload("address"))
}

fn parse_ip(text: &str) -> Result<IpAddr, ExecutionError> {
    let fail = |why: String| ExecutionError::function_error("ip", why);
    if text.contains('%') {
        return Err(fail(format!("IP address {text:?} with zone value is not allowed")));
    }
    let ip: IpAddr = text.parse().map_err(|_| {
        let why = format!("ParseAddr({text:?}): unable to parse IP");
        fail(format!("IP Address {text:?} parse error during conversion from string: {why}"))
    })?;
    if mapped(ip) {
        return Err(fail(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(ip)
}

fn mapped(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn parse_cidr(text: &str) -> Result<Cidr, ExecutionError> {
    let fail = |why: String| ExecutionError::function_error("cidr", why);
    let bad = |why: &str| {
        let text = format!("netip.ParsePrefix({text:?}): {why}");
        fail(format!("network address parse error during conversion from string: {text}"))
    };
    let (ip, bits) = text.rsplit_once('/').ok_or_else(|| bad("no '/'"))?;
    let ip: IpAddr = ip.parse().map_err(|_| bad("unable to parse IP"))?;
    let plain = !bits.is_empty()
        && bits.bytes().all(|b| b.is_ascii_digit())
        && (bits == "0" || !bits.starts_with('0'));
    let number = bits.parse::<u8>().ok().filter(|_| plain);
    let number = number.ok_or_else(|| bad(&format!("bad bits after slash: {bits:?}")))?;
    if number > width(ip) {
        return Err(bad("prefix length out of range"));
    }
    if mapped(ip) {
        return Err(fail(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(Cidr(ip, number))
}

fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn masked(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

/// Whether a network holds an address, and is not narrower than `bits`, if any.
fn contains(cidr: &Cidr, ip: IpAddr, bits: u8) -> bool {
    let narrow = bits > 0 && bits < cidr.1;
    cidr.0.is_ipv4() == ip.is_ipv4() && !narrow && masked(cidr.0, cidr.1) == masked(ip, cidr.1)
}

fn link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local_unicast(ip) || broadcast)
}

/// An absolute URL, or an absolute path.
fn parse_url(text: &str) -> Result<Url, ExecutionError> {
    let fail = |why: &str| {
        let why = format!("parse {text:?}: {why}");
        ExecutionError::function_error("url", format!("URL parse error during conversion from string: {why}"))
    };
    if text.is_empty() {
        return Err(ExecutionError::function_error(
            "url",
            "URL parse error during conversion from string: parse \"\": empty url",
        ));
    }
    if text.bytes().any(|b| b.is_ascii_control()) {
        return Err(fail("net/url: invalid control character in URL"));
    }
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        Some(("", _)) => return Err(fail("missing protocol scheme")),
        _ => (String::new(), text),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !rest.starts_with('/') {
        return Err(fail("invalid URI for request"));
    }
    let (host, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => rest.find('/').map_or((rest, ""), |at| rest.split_at(at)),
        None => ("", rest),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let port = split_port(host).1;
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(fail(&format!("invalid port {:?} after host", format!(":{port}"))));
    }
    if let Some(bad) = host.chars().find(|c| matches!(c, ' ' | '<' | '>' | '"' | '\\')) {
        return Err(fail(&format!("invalid character {:?} in host name", bad.to_string())));
    }
    let decode = |part: &str| {
        let spaced = part.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key), decode(value))
    });
    Ok(Url { scheme, host: host.to_owned(), path: escaped(path), query: query.collect() })
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Host and port; a port after an address in brackets or a plain name.
fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    }
}

/// A path with what may not stand in one escaped.
fn escaped(path: &str) -> String {
    const AS_IS: &percent_encoding::AsciiSet =
        &percent_encoding::CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'{').add(b'}');
    percent_encoding::utf8_percent_encode(path, AS_IS).to_string()
}
