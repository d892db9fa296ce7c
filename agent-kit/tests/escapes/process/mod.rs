//! Attempts of a program to get past its sandbox. Each is tried with every kind of sandbox that this machine offers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up fails")]

mod attack;
mod calls;
mod endings;
mod files;
mod ground;
mod hosts;
mod limits;
mod others;
mod protected;
mod starts;
mod works;

pub use attack::entered;
pub use works::works;

use super::Attempt;

pub fn attempts() -> Vec<Attempt> {
    let groups = [
        files::attempts(),
        protected::attempts(),
        calls::attempts(),
        others::attempts(),
        endings::attempts(),
        limits::attempts(),
    ];
    groups.into_iter().flatten().collect()
}

/// An attempt by the name of a function that tells whether it got out.
macro_rules! tried {
    ($($name:ident),* $(,)?) => {
        vec![$(crate::Attempt {
            name: concat!("process::", stringify!($name)),
            with_sandbox: || crate::process::ground::held($name),
            without: crate::Without::Succeeds(|| crate::process::ground::succeeds($name)),
        }),*]
    };
}
use tried;
