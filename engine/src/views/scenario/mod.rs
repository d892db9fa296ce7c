//! A stored thread as a scenario: its answers become a script, not a recording, which still answers after a prompt is
//! edited.

mod told;
mod yaml;

pub use told::Told;
pub use yaml::yaml;
