//! Attributes of types, fields and variants.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitStr, Path, Result, Type};

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

/// Where attributes stand, which says what they can mean.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// A struct with named fields.
    Struct,
    /// A struct with one field that has no name.
    Newtype,
    /// A struct with other fields that have no names, or without fields.
    Tuple,
    Enum,
    /// A type that is made `from` another.
    From,
    /// A named field.
    Field,
    /// A field without a name, or what is in a type that is made `from` another.
    Part,
    Variant,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Struct => "a struct with named fields",
            Self::Newtype => "a struct with one unnamed field",
            Self::Tuple => "a struct without named fields",
            Self::Enum => "an enum",
            Self::From => "a type that is made `from` another",
            Self::Field => "a named field",
            Self::Part => "what is not read by name",
            Self::Variant => "a variant",
        }
    }

    /// What is known here: serde's, and what is `json`'s.
    fn known(self) -> &'static [&'static str] {
        match self {
            Self::Struct => &["default", "rename_all", "from", "json(whole)"],
            Self::Newtype => &["transparent", "from", "json(whole)"],
            Self::Tuple | Self::From => &["from"],
            Self::Enum => &["rename_all", "from"],
            Self::Field => &["default", "rename", "json(with)"],
            Self::Part => &[],
            Self::Variant => &["rename"],
        }
    }

    /// Why this attribute may not stand here.
    fn refusal(self, name: &str) -> String {
        let known: Vec<_> = self.known().iter().map(|known| format!("`{known}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        match (self, name) {
            (Self::Field, "deserialize_with" | "with") => {
                "use #[json(with = path)], and serialize_with to write; null needs neither: it reads as the default"
                    .to_owned()
            }
            _ => format!(
                "FromJson would not heed `{name}` on {} (it knows {known} there): \
                 leave it out, or implement FromJson by hand",
                self.name()
            ),
        }
    }
}

#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) fallback: Fallback,
    pub(crate) rename: Option<String>,
    pub(crate) case: Case,
    pub(crate) is_whole: bool,
    pub(crate) from: Option<Type>,
    pub(crate) with: Option<Path>,
    /// What was given.
    given: Vec<(String, Path)>,
}

/// What is about writing alone, and has a value.
const OF_SERIALIZE: [&str; 3] = ["skip_serializing_if", "serialize_with", "into"];

impl Attributes {
    pub(crate) fn of(attributes: &[Attribute], place: Place) -> Result<Self> {
        let mut read = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("serde") {
                attribute.parse_nested_meta(|meta| read.serde(&meta, place))?;
            } else if attribute.path().is_ident("json") {
                attribute.parse_nested_meta(|meta| read.json(&meta, place))?;
            }
        }
        // Whatever else there is would be about fields that are not read.
        match read.given.iter().find(|(name, _)| name != "from") {
            Some((name, path)) if read.from.is_some() => {
                Err(Error::new_spanned(path, Place::From.refusal(name)))
            }
            _ => Ok(read),
        }
    }

    fn serde(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        if name == "skip_serializing" {
            return Ok(());
        }
        if OF_SERIALIZE.contains(&name.as_str()) {
            return text(meta).map(drop);
        }
        self.admit(&name, meta, place)?;
        match name.as_str() {
            "default" if meta.input.peek(syn::Token![=]) => {
                self.fallback = Fallback::Path(text(meta)?.parse()?);
            }
            "default" => self.fallback = Fallback::Default,
            "rename" => self.rename = Some(text(meta)?.value()),
            "rename_all" => {
                let case = text(meta)?;
                self.case = Case::named(&case.value())
                    .ok_or_else(|| Error::new(case.span(), "use camelCase, kebab-case or lowercase"))?;
            }
            "from" => self.from = Some(text(meta)?.parse()?),
            // A newtype is read as what it holds, said or not.
            _ => {}
        }
        Ok(())
    }

    fn json(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        self.admit(&format!("json({name})"), meta, place)?;
        if name == "with" {
            self.with = Some(meta.value()?.parse()?);
        } else {
            self.is_whole = true;
        }
        Ok(())
    }

    /// Notes what is known in this place, once.
    fn admit(&mut self, name: &str, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        if !place.known().contains(&name) {
            return Err(meta.error(place.refusal(name)));
        }
        if self.given.iter().any(|(given, _)| given == name) {
            return Err(meta.error(format!("`{name}` is given twice: leave one out")));
        }
        self.given.push((name.to_owned(), meta.path.clone()));
        Ok(())
    }
}

/// The text after the name.
fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    meta.value()?.parse()
}
