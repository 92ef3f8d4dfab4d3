//! Generated from `wit/`; nothing else in the crate names the generator.
//!
//! In: the WIT. Out: types and imports, re-exported by hand in [`crate::contract`].

#![allow(missing_docs, reason = "the WIT is the reference")]
#![allow(clippy::all, reason = "generated code")]

wit_bindgen::generate!({
    path: "../../wit",
    world: "controller",
    generate_all,
    additional_derives: [PartialEq],
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "coxswain_sdk::bindings",
});
