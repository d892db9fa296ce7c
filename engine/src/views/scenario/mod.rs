//! A stored thread as a scenario: its answers become a script, not a recording, which still answers after a prompt is
//! edited.

mod recorder;
mod yaml;

pub use recorder::ScenarioRecorder;
pub use yaml::yaml;
