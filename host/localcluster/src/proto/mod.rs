//! Bodies in Kubernetes' protobuf form, as some kubectl commands send them and nothing else.
//!
//! In: an envelope with a typed message. Out: the same object as JSON text. Invariant: field numbers come from the same
//! schema that decodes JSON; unknown fields are skipped, broken bytes are an error.

mod wire;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::schema::{StructId, Type, schema};
use wire::{Field, Reader};

/// Nested messages beyond this are an attack.
const DEPTH: usize = 100;

/// Why a body is not a protobuf object.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProtoError {
    /// The four bytes in front are missing.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// Cut short, or lengths that do not fit.
    #[error("unexpected EOF")]
    Truncated,
    /// A kind that the schema does not know.
    #[error(
        "no kind {kind:?} is registered for version {api_version:?} in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
    )]
    Unknown {
        /// As in the envelope.
        api_version: String,
        /// As in the envelope.
        kind: String,
    },
    /// Too many messages in one another.
    #[error("protobuf message is nested too deeply")]
    Depth,
    /// Text that is not UTF-8.
    #[error("string field contains invalid UTF-8")]
    Text,
    /// A raw JSON field that does not hold JSON.
    #[error("raw field does not contain JSON")]
    Raw,
    /// A wire type that its field cannot have.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// Field number.
        field: u32,
        /// What came.
        wire: u8,
    },
}

/// JSON text of an enveloped object.
pub fn to_json(body: &[u8]) -> Result<Vec<u8>, ProtoError> {
    let body = body.strip_prefix(b"k8s\0").ok_or(ProtoError::Prefix)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut envelope = Reader::new(body);
    while let Some((number, field)) = envelope.next()? {
        match number {
            1 => {
                let mut type_meta = Reader::new(field.bytes(number)?);
                while let Some((number, field)) = type_meta.next()? {
                    match number {
                        1 => api_version = field.text(number)?.to_owned(),
                        2 => kind = field.text(number)?.to_owned(),
                        _ => {}
                    }
                }
            }
            2 => raw = field.bytes(number)?,
            _ => {}
        }
    }
    let mut object = match known(&api_version, &kind) {
        Some(id) => structure(id, raw, DEPTH)?,
        None => return Err(ProtoError::Unknown { api_version, kind }),
    };
    object.insert("kind".into(), kind.into());
    object.insert("apiVersion".into(), api_version.into());
    Ok(Value::Object(object).to_string().into_bytes())
}

/// `DeleteOptions` may come under the version of any group.
fn known(api_version: &str, kind: &str) -> Option<StructId> {
    schema().kind(api_version, kind).or_else(|| {
        let options = kind == "DeleteOptions";
        options.then(|| schema().named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"))?
    })
}

fn structure(id: StructId, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, ProtoError> {
    let depth = depth.checked_sub(1).ok_or(ProtoError::Depth)?;
    let ty = schema().get(id);
    let mut object = Map::new();
    let mut reader = Reader::new(bytes);
    while let Some((number, found)) = reader.next()? {
        if let Some(embedded) = ty.embedded.iter().find(|e| e.number == number) {
            object.extend(structure(embedded.id, found.bytes(number)?, depth)?);
            continue;
        }
        let Some(field) = ty.fields.iter().find(|f| f.number == number) else { continue };
        match &field.ty {
            Type::List(item) => {
                let list = object.entry(field.name.as_str()).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    push(list, item, number, found, depth)?;
                }
            }
            Type::Map(item) => {
                let (key, value) = entry(item, found.bytes(number)?, depth)?;
                let map = object.entry(field.name.as_str()).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(key, value);
                }
            }
            other => {
                object.insert(field.name.clone(), value(other, number, found, depth)?);
            }
        }
    }
    Ok(object)
}

/// One element of a repeated field, or several numbers packed into one.
fn push(
    list: &mut Vec<Value>,
    item: &Type,
    number: u32,
    found: Field<'_>,
    depth: usize,
) -> Result<(), ProtoError> {
    if let (Type::I32 | Type::I64 | Type::Bool, Field::Bytes(packed)) = (item, &found) {
        let mut reader = Reader::new(packed);
        while !reader.is_empty() {
            list.push(value(item, number, Field::Varint(reader.varint()?), depth)?);
        }
        return Ok(());
    }
    list.push(value(item, number, found, depth)?);
    Ok(())
}

fn entry(item: &Type, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtoError> {
    let mut key = String::new();
    let mut content = match item {
        Type::List(_) => Value::Array(Vec::new()),
        Type::Struct(_) | Type::Map(_) => Value::Object(Map::new()),
        _ => Value::String(String::new()),
    };
    let mut reader = Reader::new(bytes);
    while let Some((number, found)) = reader.next()? {
        match number {
            1 => key = found.text(number)?.to_owned(),
            2 => content = value(item, number, found, depth)?,
            _ => {}
        }
    }
    Ok((key, content))
}

fn value(ty: &Type, number: u32, found: Field<'_>, depth: usize) -> Result<Value, ProtoError> {
    Ok(match ty {
        Type::String => found.text(number)?.into(),
        Type::Bool => (found.varint(number)? != 0).into(),
        // Negative numbers are sent as 64 bits; the narrower types take the lower half.
        Type::I32 => (found.varint(number)? as i32).into(),
        Type::I64 => (found.varint(number)? as i64).into(),
        Type::F64 => found.double(number)?.into(),
        Type::Bytes => STANDARD.encode(found.bytes(number)?).into(),
        Type::Time => time(found.bytes(number)?, "%Y-%m-%dT%H:%M:%SZ")?,
        Type::MicroTime => time(found.bytes(number)?, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
        Type::Duration => {
            let nanos = scalar(found.bytes(number)?, 1)? as i64;
            format!("{}ns", nanos).into()
        }
        Type::Quantity => inner_text(found.bytes(number)?, 1)?.into(),
        Type::IntOrString => {
            let bytes = found.bytes(number)?;
            if scalar(bytes, 1)? == 0 {
                (scalar(bytes, 2)? as i32).into()
            } else {
                inner_text(bytes, 3)?.into()
            }
        }
        Type::Any => {
            let raw = inner_bytes(found.bytes(number)?, 1)?;
            if raw.is_empty() {
                Value::Null
            } else {
                serde_json::from_slice(raw).map_err(|_| ProtoError::Raw)?
            }
        }
        // A list that is the value of a map is a message with the items in its first field.
        Type::List(item) => {
            let mut list = Vec::new();
            let mut reader = Reader::new(found.bytes(number)?);
            while let Some((number, found)) = reader.next()? {
                if number == 1 {
                    push(&mut list, item, number, found, depth)?;
                }
            }
            Value::Array(list)
        }
        Type::Map(item) => {
            let (key, value) = entry(item, found.bytes(number)?, depth)?;
            Value::Object([(key, value)].into_iter().collect())
        }
        Type::Struct(id) => Value::Object(structure(*id, found.bytes(number)?, depth)?),
    })
}

fn time(bytes: &[u8], format: &str) -> Result<Value, ProtoError> {
    let (seconds, nanos) = (scalar(bytes, 1)? as i64, scalar(bytes, 2)? as i32);
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtoError::Truncated)?;
    Ok(time.strftime(format).to_string().into())
}

fn scalar(bytes: &[u8], wanted: u32) -> Result<u64, ProtoError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, found)) = reader.next()? {
        if number == wanted {
            return found.varint(number);
        }
    }
    Ok(0)
}

fn inner_bytes(bytes: &[u8], wanted: u32) -> Result<&[u8], ProtoError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, found)) = reader.next()? {
        if number == wanted {
            return found.bytes(number);
        }
    }
    Ok(&[])
}

fn inner_text(bytes: &[u8], wanted: u32) -> Result<&str, ProtoError> {
    std::str::from_utf8(inner_bytes(bytes, wanted)?).map_err(|_| ProtoError::Text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, content.len() as u8];
        out.extend_from_slice(content);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [message(1, api_version.as_bytes()), message(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), message(1, &type_meta), message(2, raw)].concat()
    }

    fn decode(body: &[u8]) -> Value {
        serde_json::from_slice(&to_json(body).expect("decodes")).expect("json")
    }

    #[test]
    fn a_config_map_comes_out_as_its_json() {
        let entry = [message(1, b"k"), message(2, b"v")].concat();
        let raw = [message(1, &message(1, b"a")), message(2, &entry)].concat();
        assert_eq!(
            decode(&envelope("v1", "ConfigMap", &raw)),
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}})
        );
    }

    #[test]
    fn numbers_texts_and_negative_values_are_told_apart() {
        // Service.spec.ports[0]: port 80 (3), targetPort (4) as number and as text, and a grace of -1 in DeleteOptions.
        let number = [vec![0x08, 0x00], vec![0x10, 0x50]].concat();
        let text = [vec![0x08, 0x01], message(3, b"web")].concat();
        for (target, expected) in [(number, json!(80)), (text, json!("web"))] {
            let port = [vec![0x18, 0x50], message(4, &target)].concat();
            let raw = message(2, &message(1, &port));
            let service = decode(&envelope("v1", "Service", &raw));
            assert_eq!(service["spec"]["ports"][0]["port"], 80);
            assert_eq!(service["spec"]["ports"][0]["targetPort"], expected);
        }
        let minus_one = [&[0x08][..], &[0xff; 9], &[0x01]].concat();
        let options = decode(&envelope("v1", "DeleteOptions", &minus_one));
        assert_eq!(options["gracePeriodSeconds"], -1);
    }

    #[test]
    fn broken_bytes_are_an_error_at_every_length() {
        let entry = [message(1, b"k"), message(2, b"v")].concat();
        let raw = [message(1, &message(1, b"a")), message(2, &entry)].concat();
        let whole = envelope("v1", "ConfigMap", &raw);
        assert_eq!(to_json(b"{}"), Err(ProtoError::Prefix));
        for length in 4..whole.len() {
            // Cut in places where a message may end, it is a shorter message; it never panics.
            let _ = to_json(&whole[..length]);
        }
        assert_eq!(to_json(&whole[..whole.len() - 1]), Err(ProtoError::Truncated));
        let unknown = to_json(&envelope("v1", "Widget", &[])).expect_err("unknown");
        assert!(unknown.to_string().contains("no kind \"Widget\""));
    }
}
