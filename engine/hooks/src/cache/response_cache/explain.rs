//! What an entry says of an answer: its key part by part, and where another one differs.

use std::fmt::Write as _;

use rondo_protocol::canonical;

use super::NAME;
use super::key::About;
use crate::cache::explain::{Explained, Origin, Rows, differing, same_parts};

impl Explained for About {
    const KIND: &'static str = NAME;
    const IDLE: &'static str = "looked nothing up in this step";
    const NAME_WIDTH: usize = 12;

    /// Of the same role; on the same visit; how many parts are the same; how many messages.
    type Likeness = (bool, bool, usize, u64);

    fn from_about(bytes: &[u8]) -> Option<Self> {
        canonical::from_slice(bytes).ok()
    }

    fn origin(&self) -> Origin<'_> {
        Origin { thread: &self.thread, role: &self.role, visit: self.visit }
    }

    fn parts(&self) -> Rows {
        let Self { parts, facets, .. } = self;
        let or = |text: &str, without: &str| if text.is_empty() { without.to_owned() } else { text.to_owned() };
        vec![
            ("at", parts.at.name().to_owned()),
            ("scope", format!("{} {}", parts.scope, parts.within).trim_end().to_owned()),
            ("provider", or(&parts.provider, "(none)")),
            ("address", or(&parts.address, "(none)")),
            ("model", facets.model.clone()),
            ("parameters", facets.parameters.clone()),
            ("system", facets.system.clone()),
            ("tools", facets.tools.clone()),
            ("schema", or(&facets.response_format, "(none)")),
            ("messages", format!("{}, the last {}", facets.messages, facets.links.last().map_or("-", String::as_str))),
            ("lane", or(&parts.lane, "(trunk)")),
            ("redaction", or(&parts.redaction, "(none)")),
            ("root", or(&parts.root, "(none)")),
            ("occurrence", parts.occurrence.to_string()),
            ("version", parts.version.to_string()),
        ]
    }

    fn likeness(&self, other: &Self) -> Self::Likeness {
        let alike = self.facets.first_difference(&other.facets).unwrap_or(u64::MAX);
        // A role's own entries come first: another role's never were meant.
        (self.role == other.role, self.visit == other.visit, same_parts(self, other), alike)
    }

    fn differences(&self, other: &Self) -> Rows {
        let mut differences = differing(self, other);
        if let Some((_, messages)) = differences.iter_mut().find(|(name, _)| *name == "messages") {
            let _ = match self.facets.first_difference(&other.facets) {
                Some(0) => write!(messages, "; they differ early on"),
                Some(number) => write!(messages, "; message {number} is the first that differs"),
                None => write!(messages, "; one continues the other"),
            };
        }
        if self.parts.request != other.parts.request && differences.is_empty() {
            differences.push(("messages", "differ".to_owned()));
        }
        differences
    }
}
