//! Attempts to get past the sandbox around files, by the tools that stand behind it.
#![expect(clippy::unwrap_used, reason = "what sets an attempt up is part of a test, which the harness does not mark")]

mod hidden;
mod links;
mod listings;
mod patches;
mod paths;
mod protected;
mod races;
mod scene;
mod special;

use super::{Attempt, Without};
use scene::Outcome;

/// Why a spelling of another case cannot be tried: file systems on Linux tell case apart.
const CASE: &str = "this file system tells case apart";
const SYSTEM: &str = "the system itself refuses it";

fn attempt(name: &'static str, with_sandbox: fn() -> Outcome, without: fn() -> Outcome) -> Attempt {
    Attempt { name, with_sandbox, without: Without::Succeeds(without) }
}

fn only(name: &'static str, with_sandbox: fn() -> Outcome, why: &'static str) -> Attempt {
    Attempt { name, with_sandbox, without: Without::Cannot(why) }
}

pub fn attempts() -> Vec<Attempt> {
    let groups = [
        paths::dots(),
        paths::grants(),
        links::attempts(),
        hidden::hidden(),
        hidden::settings(),
        special::attempts(),
        protected::attempts(),
        patches::attempts(),
        listings::attempts(),
        races::attempts(),
    ];
    groups.into_iter().flatten().collect()
}
