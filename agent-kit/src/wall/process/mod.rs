//! Programs in a sandbox.
