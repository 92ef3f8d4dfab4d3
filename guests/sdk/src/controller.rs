//! The trait that a controller implements, and how it is run.

use std::any::TypeId;
use std::cell::RefCell;
use std::rc::Rc;

use crate::contract::{Manifest, Outcome, Request};
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::manifest::Declaration;
use crate::plan::Plan;
use crate::snapshot::Snapshot;

/// A controller: it says what it is, and it reconciles keys.
pub trait Controller: 'static {
    /// What it is. Asked once.
    fn declare() -> Declaration;

    /// Decides what is to be done for a key. Depends on nothing but the context.
    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan>;
}

thread_local! {
    static DECLARED: RefCell<Vec<(TypeId, Rc<Declaration>)>> = RefCell::default();
}

/// What a controller declares, made once a thread.
pub fn declaration<C: Controller>() -> Rc<Declaration> {
    let known = DECLARED.with_borrow(|declared| {
        let of = declared.iter().find(|(of, _)| *of == TypeId::of::<C>());
        of.map(|(_, known)| Rc::clone(known))
    });
    known.unwrap_or_else(|| {
        let made = Rc::new(C::declare());
        DECLARED.with_borrow_mut(|declared| declared.push((TypeId::of::<C>(), Rc::clone(&made))));
        made
    })
}

/// The manifest of a controller.
pub fn manifest_of<C: Controller>() -> Manifest {
    // Made anew: it is asked for once, and to copy a manifest is 3 KB of code.
    C::declare().into_manifest()
}

/// One round of a reconcile.
pub fn run<C: Controller>(request: &Request, snapshot: &dyn Snapshot) -> Outcome {
    let declaration = declaration::<C>();
    let ctx = Ctx::new(request, snapshot, &declaration);
    match C::reconcile(&ctx).and_then(|plan| plan.into_wire(&ctx)) {
        Ok(plan) => Outcome::Plan(plan),
        Err(Error::Lookups(lookups)) => Outcome::Lookups(lookups),
        Err(Error::Retry(reason)) => Outcome::Retry(reason),
        Err(Error::Terminal(reason)) => Outcome::Terminal(reason),
    }
}

/// A panic is a trap to the host, which has no text; the log has.
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub fn log_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            crate::snapshot::HostSnapshot.log(crate::contract::Level::Error, &info.to_string());
        }));
    });
}

/// Exports a [`Controller`](crate::Controller) as the component. Does nothing
/// in native builds, so the same crate is tested natively.
#[macro_export]
macro_rules! export {
    ($controller:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Component;

            impl $crate::bindings::Guest for Component {
                fn describe() -> $crate::contract::Manifest {
                    $crate::log_panics();
                    $crate::manifest_of::<$controller>()
                }

                fn reconcile(
                    request: $crate::contract::Request,
                ) -> ::std::result::Result<$crate::contract::Outcome, ::std::string::String> {
                    $crate::log_panics();
                    Ok($crate::run::<$controller>(&request, &$crate::snapshot::HostSnapshot))
                }
            }

    $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}
