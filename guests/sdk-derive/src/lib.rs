//! Derives `coxswain_sdk::FromJson`.
//!
//! In: a struct with serde's attributes, as far as they are about reading. Out:
//! its names, and a function that reads the field of a number: a table rather
//! than a visitor, for visitors were a third of a guest. Invariant: an attribute
//! that would change what is read, and is not known here, is a compile error.

mod attributes;
mod case;

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{
    Data, DeriveInput, Error, Fields, FieldsNamed, FieldsUnnamed, GenericParam, Index, Result, Variant,
    parse_macro_input, parse_quote,
};

use crate::attributes::{Attributes, Fallback};

/// Derives `FromJson` and, by way of it, serde's `Deserialize`.
///
/// Takes from `#[serde(…)]`: `default`, `rename`, `rename_all`, `transparent`,
/// `from` and `deny_unknown_fields`. `#[json(whole)]` on a struct: whoever reads
/// one declares all of it. `#[json(with = path)]` on a field: it is read by this
/// function, a `fn(&mut Field, Reader<'_, '_>) -> Result<(), Failed>`.
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
    let attributes = Attributes::of(&input.attrs)?;
    let reading = match &input.data {
        _ if attributes.from.is_some() => from_another(&attributes),
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if attributes.is_transparent => transparent(fields)?,
            Fields::Named(fields) => with_fields(&attributes, fields)?,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => newtype(&attributes),
            Fields::Unnamed(fields) => tuple(fields),
            Fields::Unit => return Err(Error::new_spanned(&input.ident, "it has nothing to read")),
        },
        Data::Enum(data) => {
            with_variants(&attributes, &data.variants.iter().collect::<Vec<_>>(), &input.ident.to_string())?
        }
        Data::Union(data) => return Err(Error::new_spanned(data.union_token, "a union cannot be read")),
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

fn from_another(attributes: &Attributes) -> Reading {
    let other = attributes.from.as_ref();
    Reading {
        blank: quote!(::core::convert::From::from(<#other as ::coxswain_sdk::FromJson>::blank())),
        read: quote! {
            let mut other = <#other as ::coxswain_sdk::FromJson>::blank();
            ::coxswain_sdk::FromJson::read(&mut other, reader)?;
            *self = ::core::convert::From::from(other);
            ::core::result::Result::Ok(())
        },
        is_optional: quote!(<#other as ::coxswain_sdk::FromJson>::IS_OPTIONAL),
    }
}

fn newtype(attributes: &Attributes) -> Reading {
    let read = quote!(::coxswain_sdk::FromJson::read(&mut self.0, reader));
    Reading {
        blank: quote!(Self(::coxswain_sdk::FromJson::blank())),
        read: if attributes.is_whole {
            quote!(reader.or_whole().map_or(::core::result::Result::Ok(()), |reader| #read))
        } else {
            read
        },
        is_optional: quote!(false),
    }
}

fn tuple(fields: &FieldsUnnamed) -> Reading {
    let types = fields.unnamed.iter().map(|field| &field.ty);
    let all = quote!(<(#(#types),*) as ::coxswain_sdk::FromJson>);
    let parts: Vec<_> = (0..fields.unnamed.len()).map(Index::from).collect();
    Reading {
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
    }
}

fn transparent(fields: &FieldsNamed) -> Result<Reading> {
    let Some(field) = fields.named.first().filter(|_| fields.named.len() == 1) else {
        return Err(Error::new_spanned(fields, "what is transparent has one field"));
    };
    let name = &field.ident;
    Ok(Reading {
        blank: quote!(Self { #name: ::coxswain_sdk::FromJson::blank() }),
        read: quote!(::coxswain_sdk::FromJson::read(&mut self.#name, reader)),
        is_optional: quote!(false),
    })
}

fn with_fields(attributes: &Attributes, fields: &FieldsNamed) -> Result<Reading> {
    if fields.named.len() > 64 {
        return Err(Error::new_spanned(fields, "more than 64 fields"));
    }
    let (mut names, mut required, mut reads, mut blanks) = (vec![], vec![], vec![], vec![]);
    for (at, field) in fields.named.iter().enumerate() {
        let own = Attributes::of(&field.attrs)?;
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
    let (is_whole, is_closed) = (attributes.is_whole, attributes.is_closed);
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
                    is_closed: #is_closed,
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
            return Err(Error::new_spanned(variant, "only variants without content"));
        }
        let own = Attributes::of(&variant.attrs)?;
        let name = own.rename.unwrap_or_else(|| attributes.case.of_variant(&variant.ident.to_string()));
        let ident = &variant.ident;
        arms.push(quote!(#name => Self::#ident));
    }
    let Some(first) = variants.first().map(|first| first.ident.to_token_stream()) else {
        return Err(Error::new_spanned(format_ident!("{of}"), "it has no variants"));
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
