//! Derives `coxswain_sdk::FromJson`.
//!
//! In: a struct with serde's attributes, as far as they are about reading. Out:
//! its names, and a function that reads the field of a number: a table rather
//! than serde's visitors, of which there is one for each type and each field.
//! Invariant: an attribute that is about reading, and that nothing here would
//! heed where it stands, is a compile error.

mod attributes;
mod case;

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{
    Data, DeriveInput, Error, Field, Fields, FieldsNamed, FieldsUnnamed, GenericParam, Index, Result,
    Variant, parse_macro_input, parse_quote,
};

use crate::attributes::{Attributes, Fallback, Place};

/// Derives `FromJson` and, by way of it, serde's `Deserialize`.
///
/// Takes from `#[serde(…)]`: `default` of structs and fields, `rename` of fields
/// and variants, `rename_all` of structs and enums, `transparent` of newtypes,
/// and `from`, beside which nothing else may be. `#[json(whole)]` on a struct:
/// whoever reads one declares all of it. `#[json(with = path)]` on a field: it is
/// read by this function, a
/// `fn(&mut Field, Reader<'_, '_>) -> Result<(), Failed>`.
#[proc_macro_derive(FromJson, attributes(serde, json))]
pub fn from_json(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    derive(input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// What differs from type to type.
struct Reading {
    blank: TokenStream,
    read: TokenStream,
    is_optional: TokenStream,
}

fn derive(mut input: DeriveInput) -> Result<TokenStream> {
    let attributes = Attributes::of(&input.attrs, place_of(&input.data))?;
    let reading = match &input.data {
        _ if attributes.from.is_some() => from_another(&attributes, &input.data)?,
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => with_fields(&attributes, fields)?,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => newtype(&attributes, fields)?,
            Fields::Unnamed(fields) => tuple(fields)?,
            Fields::Unit => {
                return Err(Error::new_spanned(
                    &input.ident,
                    "it has nothing to read; implement FromJson by hand",
                ));
            }
        },
        Data::Enum(data) => {
            with_variants(&attributes, &data.variants.iter().collect::<Vec<_>>(), &input.ident.to_string())?
        }
        Data::Union(data) => {
            return Err(Error::new_spanned(
                data.union_token,
                "a union cannot be read; implement FromJson by hand",
            ));
        }
    };
    let needs_default = matches!(attributes.fallback, Fallback::Default);
    for parameter in &mut input.generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(::coxswain_sdk::FromJson));
            if needs_default {
                parameter.bounds.push(parse_quote!(::core::default::Default));
            }
        }
    }
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let mut with_lifetime = input.generics.clone();
    with_lifetime.params.insert(0, parse_quote!('de));
    let (serde_generics, _, _) = with_lifetime.split_for_impl();
    let Reading { blank, read, is_optional } = reading;
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::coxswain_sdk::FromJson for #name #arguments #bounds {
            const IS_OPTIONAL: bool = #is_optional;

            fn blank() -> Self {
                #blank
            }

            fn read(
                &mut self,
                reader: ::coxswain_sdk::read::Reader<'_, '_>,
            ) -> ::core::result::Result<(), ::coxswain_sdk::read::Failed> {
                #read
            }
        }

        #[automatically_derived]
        impl #serde_generics ::coxswain_sdk::read::serde::Deserialize<'de> for #name #arguments #bounds {
            fn deserialize<D: ::coxswain_sdk::read::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                ::coxswain_sdk::read::through_serde(deserializer)
            }
        }
    })
}

fn place_of(data: &Data) -> Place {
    match data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(_) => Place::Struct,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Place::Newtype,
            Fields::Unnamed(_) | Fields::Unit => Place::Tuple,
        },
        Data::Enum(_) => Place::Enum,
        Data::Union(_) => Place::Tuple,
    }
}

/// Refuses attributes of fields that are not read by name, but for those about
/// writing.
fn refuse_attributes<'a>(fields: impl IntoIterator<Item = &'a Field>) -> Result<()> {
    fields.into_iter().try_for_each(|field| Attributes::of(&field.attrs, Place::Part).map(drop))
}

fn from_another(attributes: &Attributes, data: &Data) -> Result<Reading> {
    match data {
        Data::Struct(data) => refuse_attributes(&data.fields)?,
        Data::Enum(data) => {
            for variant in &data.variants {
                Attributes::of(&variant.attrs, Place::Part)?;
                refuse_attributes(&variant.fields)?;
            }
        }
        Data::Union(data) => refuse_attributes(&data.fields.named)?,
    }
    let other = attributes.from.as_ref();
    Ok(Reading {
        blank: quote!(::core::convert::From::from(<#other as ::coxswain_sdk::FromJson>::blank())),
        read: quote! {
            let mut other = <#other as ::coxswain_sdk::FromJson>::blank();
            ::coxswain_sdk::FromJson::read(&mut other, reader)?;
            *self = ::core::convert::From::from(other);
            ::core::result::Result::Ok(())
        },
        is_optional: quote!(<#other as ::coxswain_sdk::FromJson>::IS_OPTIONAL),
    })
}

fn newtype(attributes: &Attributes, fields: &FieldsUnnamed) -> Result<Reading> {
    refuse_attributes(&fields.unnamed)?;
    let read = quote!(::coxswain_sdk::FromJson::read(&mut self.0, reader));
    Ok(Reading {
        blank: quote!(Self(::coxswain_sdk::FromJson::blank())),
        read: if attributes.is_whole {
            quote!(reader.or_whole().map_or(::core::result::Result::Ok(()), |reader| #read))
        } else {
            read
        },
        is_optional: quote!(false),
    })
}

fn tuple(fields: &FieldsUnnamed) -> Result<Reading> {
    refuse_attributes(&fields.unnamed)?;
    let types = fields.unnamed.iter().map(|field| &field.ty);
    let all = quote!(<(#(#types),*) as ::coxswain_sdk::FromJson>);
    let parts: Vec<_> = (0..fields.unnamed.len()).map(Index::from).collect();
    Ok(Reading {
        blank: quote! {
            let parts = #all::blank();
            Self(#(parts.#parts),*)
        },
        read: quote! {
            let mut parts = #all::blank();
            ::coxswain_sdk::FromJson::read(&mut parts, reader)?;
            *self = Self(#(parts.#parts),*);
            ::core::result::Result::Ok(())
        },
        is_optional: quote!(false),
    })
}

fn with_fields(attributes: &Attributes, fields: &FieldsNamed) -> Result<Reading> {
    if fields.named.len() > 64 {
        return Err(Error::new_spanned(fields, "more than 64 fields; split the struct"));
    }
    let (mut names, mut required, mut reads, mut blanks) = (vec![], vec![], vec![], vec![]);
    for (at, field) in fields.named.iter().enumerate() {
        let own = Attributes::of(&field.attrs, Place::Field)?;
        let (ident, of) = (&field.ident, &field.ty);
        let plain = ident.as_ref().map(|ident| ident.to_string()).unwrap_or_default();
        names.push(
            own.rename.clone().unwrap_or_else(|| attributes.case.of_field(plain.trim_start_matches("r#"))),
        );
        let read = match &own.with {
            Some(with) => quote!(#with(&mut self.#ident, reader)),
            None => quote!(::coxswain_sdk::FromJson::read(&mut self.#ident, reader)),
        };
        // The last one takes what there cannot be, so that there is no panic.
        reads.push(if at + 1 == fields.named.len() { quote!(_ => #read) } else { quote!(#at => #read) });
        let is_default = !matches!(attributes.fallback, Fallback::None);
        match &own.fallback {
            Fallback::None if is_default => {}
            Fallback::None => {
                required.push(quote!(::coxswain_sdk::read::required(#at, <#of as ::coxswain_sdk::FromJson>::IS_OPTIONAL)));
                blanks.push((ident, quote!(::coxswain_sdk::FromJson::blank())));
            }
            Fallback::Default => blanks.push((ident, quote!(::core::default::Default::default()))),
            Fallback::Path(path) => blanks.push((ident, quote!(#path()))),
        }
    }
    let values = blanks.iter().map(|(name, value)| quote!(#name: #value));
    let blank = match &attributes.fallback {
        Fallback::None => quote!(Self { #(#values),* }),
        Fallback::Default if blanks.is_empty() => quote!(<Self as ::core::default::Default>::default()),
        Fallback::Default => quote!(Self { #(#values,)* ..<Self as ::core::default::Default>::default() }),
        Fallback::Path(path) => quote!(Self { #(#values,)* ..#path() }),
    };
    let is_whole = attributes.is_whole;
    if reads.is_empty() {
        reads.push(quote!(_ => ::core::result::Result::Ok(())));
    }
    Ok(Reading {
        blank,
        read: quote! {
            let fields = const {
                &::coxswain_sdk::read::Fields {
                    names: &[#(#names),*],
                    required: 0 #(| #required)*,
                    is_whole: #is_whole,
                }
            };
            reader.object(fields, &mut |at, reader| match at { #(#reads),* })
        },
        is_optional: quote!(false),
    })
}

fn with_variants(attributes: &Attributes, variants: &[&Variant], of: &str) -> Result<Reading> {
    let mut arms = Vec::new();
    for variant in variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(
                variant,
                "only variants without content can be read; implement FromJson by hand",
            ));
        }
        let own = Attributes::of(&variant.attrs, Place::Variant)?;
        let name = own.rename.unwrap_or_else(|| attributes.case.of_variant(&variant.ident.to_string()));
        let ident = &variant.ident;
        arms.push(quote!(#name => Self::#ident));
    }
    let Some(first) = variants.first().map(|first| first.ident.to_token_stream()) else {
        return Err(Error::new_spanned(
            format_ident!("{of}"),
            "it has no variants to be read as; implement FromJson by hand",
        ));
    };
    Ok(Reading {
        blank: quote!(Self::#first),
        read: quote! {
            *self = match &*reader.text()? {
                #(#arms,)*
                other => return ::core::result::Result::Err(::coxswain_sdk::read::Failed::unknown(other, #of)),
            };
            ::core::result::Result::Ok(())
        },
        is_optional: quote!(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Result<TokenStream> {
        derive(syn::parse_str(text)?)
    }

    #[test]
    fn what_would_be_misread_does_not_compile() {
        let many = (0..65).map(|at| format!("f{at}: u8,")).collect::<String>();
        let unheeded = |name: &str| format!("would not heed `{name}` on ");
        let by_hand = "by hand".to_owned();
        for (text, wanted) in [
            // Named structs and their fields.
            ("#[serde(deny_unknown_fields)] struct A { a: u8 }", unheeded("deny_unknown_fields")),
            ("#[serde(transparent)] struct A { a: u8 }", unheeded("transparent")),
            ("#[serde(bound = \"\")] struct A { a: u8 }", unheeded("bound")),
            ("#[serde(rename = \"B\")] struct A { a: u8 }", unheeded("rename")),
            ("#[serde(try_from = \"B\")] struct A { a: u8 }", unheeded("try_from")),
            ("#[json(with = f)] struct A { a: u8 }", unheeded("json(with)")),
            ("#[serde(rename_all = \"UPPERCASE\")] struct A { a: u8 }", "use camelCase".to_owned()),
            ("#[serde(rename_all(serialize = \"camelCase\"))] struct A { a: u8 }", "expected `=`".to_owned()),
            ("#[serde(default)] #[serde(default = \"f\")] struct A { a: u8 }", "given twice".to_owned()),
            ("struct A { #[serde(flatten)] a: B }", unheeded("flatten")),
            ("struct A { #[serde(alias = \"b\")] a: u8 }", unheeded("alias")),
            ("struct A { #[serde(skip)] a: u8 }", unheeded("skip")),
            ("struct A { #[serde(skip_deserializing)] a: u8 }", unheeded("skip_deserializing")),
            ("struct A { #[serde(rename_all = \"camelCase\")] a: u8 }", unheeded("rename_all")),
            ("struct A { #[serde(deserialize_with = \"f\")] a: u8 }", "use #[json(with = path)]".to_owned()),
            ("struct A { #[serde(with = \"f\")] a: u8 }", "use #[json(with = path)]".to_owned()),
            ("struct A { #[json(whole)] a: u8 }", unheeded("json(whole)")),
            ("struct A { #[json(wide)] a: u8 }", unheeded("json(wide)")),
            (&format!("struct A {{ {many} }}"), "split the struct".to_owned()),
            // Those whose fields have no names, and what has no fields.
            ("#[serde(default)] struct A(u8);", unheeded("default")),
            ("#[serde(rename_all = \"camelCase\")] struct A(u8);", unheeded("rename_all")),
            ("struct A(#[serde(deserialize_with = \"f\")] u8);", unheeded("deserialize_with")),
            ("struct A(#[json(with = f)] u8);", unheeded("json(with)")),
            ("struct A(#[serde(flatten)] u8);", unheeded("flatten")),
            ("#[serde(transparent)] struct A(u8, u8);", unheeded("transparent")),
            ("#[json(whole)] struct A(u8, u8);", unheeded("json(whole)")),
            ("struct A(u8, #[serde(default)] u8);", unheeded("default")),
            ("struct A;", by_hand.clone()),
            // Enums.
            ("#[serde(tag = \"type\")] enum A { B }", unheeded("tag")),
            ("#[serde(untagged)] enum A { B }", unheeded("untagged")),
            ("#[serde(transparent)] enum A { B }", unheeded("transparent")),
            ("#[serde(default)] enum A { B }", unheeded("default")),
            ("#[json(whole)] enum A { B }", unheeded("json(whole)")),
            ("enum A { #[serde(default)] B }", unheeded("default")),
            ("enum A { B, #[serde(other)] C }", unheeded("other")),
            ("enum A { #[serde(alias = \"b\")] B }", unheeded("alias")),
            ("enum A { B(u8) }", by_hand.clone()),
            ("enum A { B, C { c: u8 } }", by_hand.clone()),
            ("enum A {}", by_hand.clone()),
            ("union A { a: u8 }", by_hand),
            // What is made from another.
            ("#[serde(from = \"B\", rename_all = \"camelCase\")] struct A { a: u8 }", unheeded("rename_all")),
            ("#[serde(default, from = \"B\")] struct A { a: u8 }", unheeded("default")),
            ("#[serde(from = \"B\")] struct A { #[serde(default)] a: u8 }", unheeded("default")),
            ("#[serde(from = \"B\")] struct A(#[json(with = f)] u8);", unheeded("json(with)")),
            ("#[serde(from = \"B\")] enum A { #[serde(rename = \"d\")] C }", unheeded("rename")),
            ("#[serde(from = \"B\")] enum A { C { #[serde(flatten)] c: D } }", unheeded("flatten")),
        ] {
            match outcome(text) {
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains(&wanted), "{text}: {error}");
                }
                Ok(_) => panic!("it compiles: {text}"),
            }
        }
    }

    #[test]
    fn what_is_heeded_or_about_writing_compiles() {
        for text in [
            "#[serde(rename_all = \"camelCase\", default)] #[json(whole)] struct A { #[serde(rename = \"b\")] a: u8 }",
            "#[serde(default = \"f\")] struct A { #[serde(default)] a: u8, #[json(with = f)] b: u8 }",
            "#[serde(transparent)] #[json(whole)] struct A(#[serde(serialize_with = \"f\")] u8);",
            "struct A(u8, u8);",
            "#[serde(rename_all = \"kebab-case\")] enum A { #[serde(rename = \"c\")] B, #[serde(skip_serializing)] D }",
            "#[serde(from = \"B\", into = \"B\")] struct A { a: u8 }",
            "struct A { #[serde(skip_serializing, default)] a: u8, #[serde(skip_serializing_if = \"f\")] b: u8 }",
        ] {
            if let Err(error) = outcome(text) {
                panic!("{text}: {error}");
            }
        }
    }
}
