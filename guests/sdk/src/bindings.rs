//! Generated from `wit/`; nothing else in the crate names the generator.
//!
//! In: the WIT. Out: types and imports, re-exported by hand in [`crate::contract`].

#![allow(missing_docs, reason = "the WIT is the reference")]
#![allow(clippy::all, reason = "generated code")]

#[cfg(target_family = "wasm")]
wit_bindgen::generate!({
    path: "../../wit",
    world: "controller",
    generate_all,
    additional_derives: [PartialEq],
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "coxswain_sdk::bindings",
});

// Outside a component nothing is exported, and a host that plays scenarios
// carries these types over to its own by their serialized form.
#[cfg(not(target_family = "wasm"))]
wit_bindgen::generate!({
    path: "../../wit",
    world: "controller",
    generate_all,
    additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "coxswain_sdk::bindings",
});
