//! Embedded cluster.
