use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::bounded::each;

/// The parts of a reply as they arrived: `[[milliseconds, text], ..]`. All texts share one string, so that a reply of a
/// million parts takes little more than its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    text: String,
    /// For each part its arrival, in milliseconds since the attempt started, and its end in `text`.
    ends: Vec<(u32, u32)>,
}

impl Chunks {
    /// Adds a part. Drops text beyond 4 GiB; no provider is allowed to send that much.
    pub(super) fn push(&mut self, at_ms: u32, text: &str) {
        if let Ok(end) = u32::try_from(self.text.len() + text.len()) {
            self.text.push_str(text);
            self.ends.push((at_ms, end));
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        let mut from = 0;
        self.ends.iter().map(move |(at_ms, end)| {
            let end = usize::try_from(*end).unwrap_or(usize::MAX);
            let text = self.text.get(from..end).unwrap_or_default();
            from = end;
            (*at_ms, text)
        })
    }
}

impl Serialize for Chunks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Chunks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut chunks = Self::default();
        each(deserializer, format_args!("a list of [milliseconds, text]"), |(at_ms, text): (u32, String)| {
            let before = chunks.ends.len();
            chunks.push(at_ms, &text);
            if chunks.ends.len() == before { Err("the chunks are too long".to_owned()) } else { Ok(()) }
        })?;
        Ok(chunks)
    }
}
