use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
        let mut list = serializer.serialize_seq(Some(self.ends.len()))?;
        for chunk in self.iter() {
            list.serialize_element(&chunk)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for Chunks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;

        impl<'de> Visitor<'de> for Parts {
            type Value = Chunks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of [milliseconds, text]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Chunks, A::Error> {
                let mut chunks = Chunks::default();
                while let Some((at_ms, text)) = list.next_element::<(u32, String)>()? {
                    let before = chunks.ends.len();
                    chunks.push(at_ms, &text);
                    if chunks.ends.len() == before {
                        return Err(A::Error::custom("the chunks are too long"));
                    }
                }
                Ok(chunks)
            }
        }

        deserializer.deserialize_seq(Parts)
    }
}
