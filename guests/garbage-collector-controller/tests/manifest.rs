//! What the controller declares: a change here changes what is cached of every
//! object of the cluster, which keys there are, and what may be deleted.

use coxswain_sdk::contract::{KeyKind, LookupRule, OptionKind};
use coxswain_sdk::manifest_of;
use coxswain_sdk::resource::EVERY;
use garbage_collector_controller::GarbageCollector;

#[test]
fn it_is_known_by_the_names_and_flags_of_kubernetes() {
    let manifest = manifest_of::<GarbageCollector>();
    let limits = manifest.client_limits;
    let options: Vec<_> =
        manifest.options.iter().map(|o| (o.name.as_str(), o.kind, o.default.as_str())).collect();
    assert_eq!(manifest.name, "garbage-collector-controller");
    assert_eq!(manifest.aliases, ["garbagecollector"]);
    assert_eq!(manifest.event_component, "", "events bear the controller's name");
    assert_eq!((manifest.concurrency, manifest.concurrency_flag.as_str()), (20, "concurrent-gc-syncs"));
    assert_eq!((limits.qps, limits.burst), (2, 1));
    assert_eq!(
        options,
        [
            ("use-service-account-credentials", OptionKind::Text, "generic-garbage-collector"),
            ("enable-garbage-collector", OptionKind::Boolean, "true"),
        ]
    );
}

#[test]
fn its_keys_are_what_has_owners_and_what_is_being_deleted() {
    let manifest = manifest_of::<GarbageCollector>();
    let [source] = manifest.sources.as_slice() else { panic!("{:?}", manifest.sources) };
    let KeyKind::IndexedObjects(keys) = &source.keys else { panic!("{:?}", source.keys) };
    assert_eq!(keys.resources, [EVERY.to_wire()]);
    assert_eq!(keys.indexes, ["owner", "deleting"]);
    assert!(!source.serial);
}

#[test]
fn it_reads_the_metadata_of_everything_and_nothing_else() {
    let manifest = manifest_of::<GarbageCollector>();
    let [read] = manifest.reads.as_slice() else { panic!("{:?}", manifest.reads) };
    assert_eq!(read.resource, EVERY.to_wire());
    assert_eq!(read.fields, [""; 0], "what is always kept is enough");
    assert!(!read.whole && read.indexes.is_empty());
}

#[test]
fn it_may_delete_and_patch_everything_but_no_subresource() {
    let manifest = manifest_of::<GarbageCollector>();
    let writes: Vec<_> =
        manifest.writes.iter().map(|w| (&w.resource, w.subresource.as_str(), &w.verbs)).collect();
    assert_eq!(writes, [(&EVERY.to_wire(), "", &vec!["delete".to_owned(), "patch".to_owned()])]);
    let [LookupRule::Get(get)] = manifest.lookups.as_slice() else { panic!("{:?}", manifest.lookups) };
    assert_eq!((&get.resource, get.subresource.as_str()), (&EVERY.to_wire(), ""));
}
