//! The tools of a workflow's author: tests with recorded or scripted answers ([`scenario`]), a search of every way
//! through a graph ([`simulate`]), the effect of provider caches ([`prefix`]), two threads side by side
//! ([`thread_diff`]), and warnings ([`lint`]).
//!
//! Everything here returns values. It must never know terminals: `cli` prints what it returns.

pub mod lint;
pub mod prefix;
pub mod scenario;
pub mod simulate;
// What tests of what stands above a store name of it.
#[cfg(test)]
#[expect(dead_code, reason = "shared with the store, which uses more of it")]
#[path = "../../core/src/store/tests/steps.rs"]
mod steps;
pub mod thread_diff;

/// The role in `role`, or in `role[2]` or `a[0]/role[2]` with a lane.
pub fn role_of(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or(name);
    last.split_once('[').map_or(last, |(role, _)| role)
}
