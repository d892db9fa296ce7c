//! The tools of a workflow's author: tests with recorded or scripted answers ([`scenario`]), a search of every way
//! through a graph ([`simulate`]), what provider caches can keep ([`prefix`]), and warnings ([`lint`]).
//!
//! Everything here returns values. It must never know terminals: `cli` prints what it returns.

pub mod lint;
pub mod prefix;
pub mod scenario;
pub mod simulate;
