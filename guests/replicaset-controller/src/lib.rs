//! The replicaset controller.
