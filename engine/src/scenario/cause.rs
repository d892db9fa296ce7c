//! Why a snapshot differs from the accepted one, in an author's words.

use std::fmt;

use serde::{Serialize, Serializer};

/// Why a snapshot differs from the accepted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The graph led elsewhere.
    EdgeMoved,
    /// The workflow is the same and the texts around what it says are not: rondo itself writes them otherwise.
    MessageLayout,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 2] = [Self::EdgeMoved, Self::MessageLayout];

    /// Its words, which people script against.
    pub fn words(self) -> &'static str {
        match self {
            Self::EdgeMoved => "edge moved",
            Self::MessageLayout => "message layout",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.words())
    }
}
