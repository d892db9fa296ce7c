//! What an entry says of a result: its key part by part.

use super::NAME;
use super::key::About;
use crate::cache::explain::{Explained, Origin, Rows, same_parts};

/// How much of a digest is shown: enough to tell two apart.
const SHORT: usize = 16;

impl Explained for About {
    const KIND: &'static str = NAME;
    const IDLE: &'static str = "saw no call in this step";
    const NAME_WIDTH: usize = 10;

    /// Of the same tool; how many parts are the same.
    type Likeness = (bool, usize);

    fn from_about(bytes: &[u8]) -> Option<Self> {
        Self::from_bytes(bytes)
    }

    fn origin(&self) -> Origin<'_> {
        Origin { thread: &self.thread, role: &self.role, visit: self.visit }
    }

    fn parts(&self) -> Rows {
        let Self { fixed, within, effect, excerpt, arguments, .. } = self;
        let or = |text: &str, without: &str| if text.is_empty() { without.to_owned() } else { text.to_owned() };
        vec![
            ("tool", fixed.tool.clone()),
            ("arguments", format!("{excerpt} ({arguments})")),
            ("effect", effect.clone()),
            ("origin", format!("{} {}", fixed.origin, fixed.server).trim_end().to_owned()),
            ("definition", fixed.definition.to_string().chars().take(SHORT).collect()),
            ("root", or(&fixed.root, "(none)")),
            ("scope", format!("{} {within}", fixed.scope).trim_end().to_owned()),
            ("version", fixed.version.to_string()),
        ]
    }

    fn likeness(&self, other: &Self) -> Self::Likeness {
        // Another tool's entry never was meant.
        (other.fixed.tool == self.fixed.tool, same_parts(self, other))
    }
}
