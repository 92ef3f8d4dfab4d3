//! A patched object as messages show it: parts that the patch did not step into keep the order of their Go type,
//! the others are sorted by key.

use serde_json::Value;

use crate::schema::{self, StructId, Type, schema};

/// `touched` is a merge patch, or what stands for one.
pub fn patched(id: Option<StructId>, value: &Value, touched: &Value) -> String {
    let mut out = String::new();
    write(id.map(Type::Struct).as_ref().unwrap_or(&Type::Any), value, Some(touched), &mut out);
    out
}

fn write(ty: &Type, value: &Value, touched: Option<&Value>, out: &mut String) {
    match (value, touched) {
        (Value::Object(map), Some(Value::Object(touched))) => {
            out.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                let inner = match ty {
                    Type::Struct(id) => schema().get(*id).field(key).map(|f| &f.ty),
                    Type::Map(item) => Some(item.as_ref()),
                    _ => None,
                };
                write(inner.unwrap_or(&Type::Any), value, touched.get(key), out);
            }
            out.push('}');
        }
        (Value::Array(items), Some(Value::Object(touched))) if !touched.is_empty() => {
            let inner = match ty {
                Type::List(item) => item.as_ref(),
                _ => &Type::Any,
            };
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(inner, item, touched.get(&i.to_string()), out);
            }
            out.push(']');
        }
        _ => out.push_str(&schema::show(ty, value)),
    }
}
