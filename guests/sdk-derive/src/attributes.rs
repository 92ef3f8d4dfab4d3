//! Attributes of types, fields and variants.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Path, Result, Type};

use crate::case::Case;

/// What stands in for what is absent.
#[derive(Default)]
pub(crate) enum Fallback {
    /// Nothing does.
    #[default]
    None,
    Default,
    Path(Path),
}

#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) fallback: Fallback,
    pub(crate) rename: Option<String>,
    pub(crate) case: Case,
    pub(crate) is_transparent: bool,
    /// Unknown fields are an error.
    pub(crate) is_closed: bool,
    pub(crate) is_whole: bool,
    pub(crate) from: Option<Type>,
    pub(crate) with: Option<Path>,
}

/// What is about writing alone.
const OF_SERIALIZE: [&str; 4] = ["skip_serializing_if", "serialize_with", "skip_serializing", "into"];

impl Attributes {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut read = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("serde") {
                attribute.parse_nested_meta(|meta| read.serde(&meta))?;
            } else if attribute.path().is_ident("json") {
                attribute.parse_nested_meta(|meta| read.json(&meta))?;
            }
        }
        Ok(read)
    }

    fn serde(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "default" if meta.input.peek(syn::Token![=]) => {
                self.fallback = Fallback::Path(text(meta)?.parse()?)
            }
            "default" => self.fallback = Fallback::Default,
            "rename" => self.rename = Some(text(meta)?.value()),
            "rename_all" => {
                let case = text(meta)?;
                self.case = Case::named(&case.value())
                    .ok_or_else(|| syn::Error::new(case.span(), "camelCase, kebab-case or lowercase"))?;
            }
            "transparent" => self.is_transparent = true,
            "deny_unknown_fields" => self.is_closed = true,
            "from" => self.from = Some(text(meta)?.parse()?),
            of_serialize if OF_SERIALIZE.contains(&of_serialize) => drop(text(meta)?),
            "deserialize_with" | "with" => {
                return Err(meta.error("use #[json(with = path)], and serialize_with to write; null needs neither: it reads as the default"));
            }
            _ => return Err(meta.error("not known to FromJson")),
        }
        Ok(())
    }

    fn json(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("whole") {
            self.is_whole = true;
        } else if meta.path.is_ident("with") {
            self.with = Some(meta.value()?.parse()?);
        } else {
            return Err(meta.error("`whole` or `with = path`"));
        }
        Ok(())
    }
}

/// The text after the name.
fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}
