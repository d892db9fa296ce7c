//! What is kept: the text of a result, and what the tool saw.

use rondo_protocol::call::ToolReply;
use rondo_protocol::canonical;
use rondo_protocol::read_set::ReadSet;

use super::dependents::Dependents;
use crate::cache::CacheValue;

/// What one entry holds beside its text, and beside the path of each read entry.
const FIXED_BYTES: usize = 256;
/// The size of the text's length.
const LENGTH_BYTES: usize = 8;

/// A result that can be given again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub text: String,
    /// What it saw of the file system; `None` = it depends on its arguments alone.
    pub seen: Option<ReadSet>,
}

impl ToolResult {
    /// A result as a hook saw it; `None` for a call that failed, or returned files: an entry is small, and files are not.
    pub fn of(reply: &ToolReply) -> Option<Self> {
        (!reply.failed && reply.files.is_empty()).then(|| Self { text: reply.text.clone(), seen: reply.seen.clone() })
    }

    pub fn reply(&self) -> ToolReply {
        ToolReply { seen: self.seen.clone(), ..ToolReply::said(self.text.clone()) }
    }
}

impl CacheValue for ToolResult {
    type Secondary = Dependents;

    /// The text's length, the text, and then canonical JSON of what was seen, or nothing.
    fn encode(&self) -> Result<Vec<u8>, String> {
        let length = u64::try_from(self.text.len()).unwrap_or(u64::MAX);
        let seen = self.seen.as_ref().map(canonical::to_bytes).transpose().map_err(|error| error.to_string())?;
        let mut bytes = Vec::with_capacity(LENGTH_BYTES + self.text.len() + seen.as_ref().map_or(0, Vec::len));
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(self.text.as_bytes());
        bytes.extend(seen.into_iter().flatten());
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let cut = || "it is cut".to_owned();
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (text, seen) = rest.split_at_checked(length).ok_or_else(cut)?;
        let text = str::from_utf8(text).map_err(|error| error.to_string())?.to_owned();
        let seen = (!seen.is_empty()).then(|| canonical::from_slice(seen).map_err(|error| error.to_string()));
        Ok(Self { text, seen: seen.transpose()? })
    }

    fn weight(&self) -> u64 {
        let read_entries =
            self.seen.iter().flat_map(|seen| &seen.read_entries).map(|read_entry| read_entry.path.len() + FIXED_BYTES);
        u64::try_from(read_entries.sum::<usize>() + self.text.len() + FIXED_BYTES).unwrap_or(u64::MAX)
    }
}
