//! Shared-memory rings between two processes.
