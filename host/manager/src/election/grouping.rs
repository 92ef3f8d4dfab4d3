//! Which controllers share a lease.
//!
//! One mechanism, three configurations: one lease for all; two while controllers
//! move from one component to another (leader migration); one for each.

use super::migration::Migration;

/// Which controllers share a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// All share one of this name.
    One(String),
    /// Those that migrate share one, the rest another.
    Migration {
        /// Name of the lease of the rest.
        main: String,
        /// Which migrate, and under which lease.
        migration: Migration,
    },
    /// Each has its own, whose name begins with this.
    PerController(String),
}

/// Where a controller belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under the lease of this name.
    Lease(String),
    /// It runs in another component.
    Elsewhere {
        /// Which.
        component: String,
    },
}

impl Grouping {
    /// Where a controller belongs. Aliases count as names.
    pub fn place(&self, name: &str, aliases: &[String]) -> Place {
        match self {
            Self::One(lease) => Place::Lease(lease.clone()),
            Self::Migration { main, migration } => match migration.component_of(name, aliases) {
                None => Place::Lease(main.clone()),
                Some(component) if Migration::is_ours(component) => {
                    Place::Lease(migration.leader_name.clone())
                }
                Some(component) => Place::Elsewhere { component: component.to_owned() },
            },
            Self::PerController(prefix) => Place::Lease(format!("{prefix}-{name}")),
        }
    }

    /// The lease that is wanted whatever is loaded; none if each controller
    /// brings its own.
    pub fn main(&self) -> Option<&str> {
        match self {
            Self::One(name) | Self::Migration { main: name, .. } => Some(name),
            Self::PerController(_) => None,
        }
    }

    /// Whether there is one lease at most, so that it can be watched alone.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::One(_))
    }

    pub(super) fn names_nothing(&self) -> bool {
        match self {
            Self::One(name) | Self::Migration { main: name, .. } | Self::PerController(name) => {
                name.is_empty()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_for_all_or_one_for_each() {
        let lease = |name: &str| Place::Lease(name.to_owned());
        assert_eq!(Grouping::One("main".into()).place("web", &[]), lease("main"));
        assert_eq!(Grouping::PerController("main".into()).place("web", &[]), lease("main-web"));
    }

    #[test]
    fn those_that_migrate_have_a_lease_of_their_own_or_run_elsewhere() {
        let migration = Migration::parse(
            "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\nleaderName: move\n\
             controllerLeaders:\n- {name: here, component: kube-controller-manager}\n\
             - {name: any, component: '*'}\n- {name: there, component: cloud-controller-manager}\n",
        )
        .unwrap();
        let grouping = Grouping::Migration { main: "main".into(), migration };
        let lease = |name: &str| Place::Lease(name.to_owned());
        assert_eq!(grouping.place("other", &[]), lease("main"));
        assert_eq!(grouping.place("here", &[]), lease("move"));
        assert_eq!(grouping.place("any", &[]), lease("move"));
        assert_eq!(grouping.place("x", &["here".into()]), lease("move"));
        let elsewhere = Place::Elsewhere { component: "cloud-controller-manager".into() };
        assert_eq!(grouping.place("there", &[]), elsewhere);
    }
}
