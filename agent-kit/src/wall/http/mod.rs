//! HTTP to named hosts.
