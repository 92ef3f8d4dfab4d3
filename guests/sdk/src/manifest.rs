//! What a controller says about itself.

use std::any::TypeId;

use crate::contract::{
    ClientLimits, GroupResource, Index, IndexValues, IndexedObjects, KeyKind, KeySource, LookupRule,
    Manifest, MetricKind, MetricSpec, OptionKind, OptionSpec, Read, ResourceRule, WriteRule,
};
use crate::paths::{Fields, fields_of};
use crate::read::FromJson;
use crate::resource::{EVERY, Resource};
use crate::sort::set_of;
use crate::view::View;

/// Builds a manifest; field paths come from the views.
#[derive(Clone, Debug)]
pub struct Declaration {
    manifest: Manifest,
    views: Vec<TypeId>,
}

impl Declaration {
    /// A controller of this name, such as `replicaset-controller`.
    pub fn new(name: &str) -> Self {
        let manifest = Manifest {
            name: name.to_owned(),
            aliases: Vec::new(),
            version: String::new(),
            state_format: 0,
            accepts_state_formats: Vec::new(),
            sources: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            lookups: Vec::new(),
            options: Vec::new(),
            event_component: String::new(),
            concurrency: 0,
            concurrency_flag: String::new(),
            client_limits: ClientLimits { qps: 1, burst: 1 },
            metrics: Vec::new(),
        };
        Self { manifest, views: Vec::new() }
    }

    /// A short name accepted by `--controllers`.
    pub fn alias(mut self, alias: &str) -> Self {
        self.manifest.aliases.push(alias.to_owned());
        self
    }

    /// Version of the module: usually `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: &str) -> Self {
        self.manifest.version = version.to_owned();
        self
    }

    /// Format number of the state written, and further ones it can read.
    pub fn state_format(mut self, format: u32, accepts: &[u32]) -> Self {
        self.manifest.state_format = format;
        self.manifest.accepts_state_formats = accepts.to_vec();
        self
    }

    /// Source component of its events, where that is not the name.
    pub fn event_component(mut self, component: &str) -> Self {
        self.manifest.event_component = component.to_owned();
        self
    }

    /// How many keys at once, and the flag that says otherwise.
    pub fn concurrency(mut self, keys: u32, flag: &str) -> Self {
        self.manifest.concurrency = keys;
        self.manifest.concurrency_flag = flag.to_owned();
        self
    }

    /// Client limits, as multiples of the default.
    pub fn client_limits(mut self, qps: u32, burst: u32) -> Self {
        self.manifest.client_limits = ClientLimits { qps, burst };
        self
    }

    /// Keys are the objects of these resources.
    pub fn keys_objects(self, name: &str, resources: &[Resource]) -> Self {
        self.keys(name, KeyKind::Objects(resources.iter().map(|r| r.to_wire()).collect()), false)
    }

    /// Keys are the objects that have a value in one of these indexes.
    pub fn keys_indexed(self, name: &str, resources: &[Resource], indexes: &[&str]) -> Self {
        let indexed = IndexedObjects {
            resources: resources.iter().map(|r| r.to_wire()).collect(),
            indexes: indexes.iter().map(|i| (*i).to_owned()).collect(),
        };
        self.keys(name, KeyKind::IndexedObjects(indexed), false)
    }

    /// Keys are the values of an index.
    pub fn keys_index_values(self, name: &str, resource: Resource, index: &str) -> Self {
        let values = IndexValues { resource: resource.to_wire(), index: index.to_owned() };
        self.keys(name, KeyKind::IndexValues(values), false)
    }

    /// One single key.
    pub fn keys_single(self, name: &str) -> Self {
        self.keys(name, KeyKind::Single(name.to_owned()), false)
    }

    /// A key source in full; `serial` means one key of it in flight at a time.
    pub fn keys(mut self, name: &str, keys: KeyKind, serial: bool) -> Self {
        self.manifest.sources.push(KeySource { name: name.to_owned(), keys, serial, queue: String::new() });
        self
    }

    /// Metrics count the keys of the source declared last under this name,
    /// instead of the controller's.
    pub fn queue(mut self, name: &str) -> Self {
        if let Some(source) = self.manifest.sources.last_mut() {
            name.clone_into(&mut source.queue);
        }
        self
    }

    /// Counts something.
    pub fn counter(self, name: &str, labels: &[&str], help: &str) -> Self {
        self.metric(name, MetricKind::Counter, labels, &[], help)
    }

    /// Measures something whose distribution matters; `buckets` are upper
    /// bounds, ascending.
    pub fn histogram(self, name: &str, labels: &[&str], buckets: &[f64], help: &str) -> Self {
        self.metric(name, MetricKind::Histogram, labels, buckets, help)
    }

    /// Tells how much there is of something; each key tells its part.
    pub fn gauge(self, name: &str, labels: &[&str], help: &str) -> Self {
        self.metric(name, MetricKind::Gauge, labels, &[], help)
    }

    fn metric(mut self, name: &str, kind: MetricKind, labels: &[&str], buckets: &[f64], help: &str) -> Self {
        self.manifest.metrics.push(MetricSpec {
            name: name.to_owned(),
            kind,
            help: help.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            buckets: buckets.to_vec(),
        });
        self
    }

    /// Reads a resource through a view. Several views of one resource add up.
    pub fn read<V: View>(self) -> Self {
        self.read_with::<V>(|read| read)
    }

    /// Reads a resource through a view, with more said about it.
    pub fn read_with<V: View>(self, more: impl FnOnce(ReadOptions) -> ReadOptions) -> Self {
        self.read_as::<V>(V::RESOURCE, more)
    }

    /// Reads the metadata of every resource.
    pub fn read_every<V: FromJson + 'static>(self) -> Self {
        self.read_as::<V>(EVERY, |read| read)
    }

    fn read_as<V: FromJson + 'static>(
        mut self,
        resource: Resource,
        more: impl FnOnce(ReadOptions) -> ReadOptions,
    ) -> Self {
        self.views.push(TypeId::of::<V>());
        self.add_read(resource, fields_of::<V>(), more(ReadOptions::default()));
        self
    }

    fn add_read(&mut self, resource: Resource, fields: Fields, options: ReadOptions) {
        let reads = &mut self.manifest.reads;
        let at = reads.iter().position(|read| resource.is(&read.resource)).unwrap_or_else(|| {
            reads.push(Read {
                resource: resource.to_wire(),
                optional: false,
                fields: Vec::new(),
                whole: false,
                sensitive: Vec::new(),
                indexes: Vec::new(),
            });
            reads.len() - 1
        });
        let read = &mut reads[at];
        match fields {
            Fields::Whole => read.whole = true,
            Fields::Paths(paths) => {
                let known = std::mem::take(&mut read.fields);
                read.fields = set_of(known.into_iter().chain(paths)).into_iter().collect();
            }
        }
        read.optional |= options.optional;
        read.sensitive.extend(options.sensitive);
        read.indexes.extend(options.indexes);
    }

    /// May write a resource, or a subresource of it, with these RBAC verbs.
    pub fn write(mut self, resource: Resource, subresource: &str, verbs: &[&str]) -> Self {
        self.manifest.writes.push(WriteRule {
            resource: resource.to_wire(),
            subresource: subresource.to_owned(),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        });
        self
    }

    /// May look up an object past the cache.
    pub fn lookup_get(self, resource: Resource, subresource: &str) -> Self {
        let rule = ResourceRule { resource: resource.to_wire(), subresource: subresource.to_owned() };
        self.lookup(LookupRule::Get(rule))
    }

    /// May list a resource past the cache.
    pub fn lookup_list(self, resource: Resource) -> Self {
        self.lookup(LookupRule::List(resource.to_wire()))
    }

    /// May ask this kind of lookup.
    pub fn lookup(mut self, rule: LookupRule) -> Self {
        self.manifest.lookups.push(rule);
        self
    }

    /// Has an option, which becomes a flag.
    pub fn option(mut self, name: &str, kind: OptionKind, default: &str, help: &str) -> Self {
        self.manifest.options.push(OptionSpec {
            name: name.to_owned(),
            kind,
            default: default.to_owned(),
            help: help.to_owned(),
        });
        self
    }

    /// Runs only where `--controllers` names it; `*` does not. The host reads the
    /// default of this option after what the operator says.
    pub fn off_by_default(self) -> Self {
        let off = format!("-{}", self.manifest.name);
        self.option("controllers", OptionKind::TextList, &off, "this controller runs only where it is named")
    }

    /// The service account in `kube-system` that the controller writes as where
    /// the manager runs with `--use-service-account-credentials`. Without this
    /// it has the controller's name; an empty one is the manager itself. The
    /// host reads the default of this option.
    pub fn service_account(self, name: &str) -> Self {
        let help = "the controller writes as this service account of kube-system";
        self.option("use-service-account-credentials", OptionKind::Text, name, help)
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The manifest, to be given away.
    pub(crate) fn into_manifest(self) -> Manifest {
        self.manifest
    }

    /// Whether the manifest's paths cover this view.
    pub(crate) fn covers(&self, view: TypeId) -> bool {
        self.views.contains(&view)
    }

    /// Where a resource stands in the list of numbers of a request.
    pub(crate) fn position(&self, resource: Resource) -> Option<usize> {
        let names = self.manifest.reads.iter().map(|read| &read.resource);
        let mut names = names.chain(self.manifest.writes.iter().map(|write| &write.resource));
        names.position(|name: &GroupResource| resource.is(name))
    }

    /// Where an option stands.
    pub(crate) fn option_position(&self, name: &str) -> Option<usize> {
        self.manifest.options.iter().position(|option| option.name == name)
    }
}

/// More about a read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    optional: bool,
    sensitive: Vec<String>,
    indexes: Vec<Index>,
}

impl ReadOptions {
    /// The cluster may lack the resource.
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Recordings leave the value of this path out.
    pub fn sensitive(mut self, path: &str) -> Self {
        self.sensitive.push(path.to_owned());
        self
    }

    /// Keeps an index over one or more paths.
    pub fn index(mut self, name: &str, paths: &[&str]) -> Self {
        let paths = paths.iter().map(|path| (*path).to_owned()).collect();
        self.indexes.push(Index { name: name.to_owned(), paths });
        self
    }
}
