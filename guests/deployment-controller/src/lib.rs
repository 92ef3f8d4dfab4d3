//! The deployment controller.
