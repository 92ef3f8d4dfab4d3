//! The garbage-collector controller.
