//! The lines of a cassette, version 1, and their seals.
//!
//! The first member of a line gives its kind. The last one is its seal: the SHA-256 of the line without it, which
//! reveals any change to the line.

use std::borrow::Cow;

use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Message;
use rondo_protocol::object::{Head, ModelReply, Usage};
use serde::{Deserialize, Serialize};

use super::chunks::Chunks;

pub const VERSION: u64 = 1;

/// The maximum bytes of a cassette, written or read.
pub const MAX_BYTES: usize = 64 << 20;

pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

/// The maximum bytes of a head's line: its parameters take many times their bytes in memory.
pub(super) const MAX_HEAD_BYTES: usize = 4 << 20;

/// The text before a seal's digest.
const SEAL: &str = ",\"seal\":\"";

/// The length of a seal: `,"seal":"`, 64 digits, `"}`.
const SEAL_BYTES: usize = SEAL.len() + 64 + 2;

/// The first members of the lines, in the order in which they may appear.
pub(super) const TITLE: &str = "rondo_cassette";
pub(super) const HEAD: &str = "head";
pub(super) const MESSAGE: &str = "message";
pub(super) const ATTEMPT: &str = "attempt";
pub(super) const END: &str = "end";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TitleLine {
    pub(super) rondo_cassette: u64,
    pub(super) workflow: String,
    pub(super) start: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeadLine<'a> {
    pub(super) head: Cow<'a, Head>,
    /// The digest of the head as sent.
    pub(super) digest: Digest,
    pub(super) redacted: bool,
}

/// A message and its position after others, written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageLine<'a> {
    pub(super) message: Cow<'a, Message>,
    /// The chain that it extends; `None` = it is the first message.
    pub(super) after: Option<Digest>,
    /// The chain that ends with it, as sent.
    pub(super) chain: Digest,
    pub(super) redacted: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttemptLine {
    pub(super) attempt: u32,
    pub(super) role: RoleName,
    pub(super) lane: LanePath,
    pub(super) visit: u64,
    pub(super) position: u32,
    /// The logical name of the model.
    pub(super) model: String,
    pub(super) head: Digest,
    /// The chain of the messages; `None` = there are none.
    pub(super) chain: Option<Digest>,
    pub(super) request: Digest,
    pub(super) chunks: Chunks,
    pub(super) reply: Option<ModelReply>,
    pub(super) fault: Option<FaultLine>,
    pub(super) usage: Option<Usage>,
    pub(super) cost_usd: Option<f64>,
    pub(super) duration_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultLine {
    pub(super) code: String,
    pub(super) class: FaultClass,
    pub(super) message: String,
    pub(super) retry_after_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EndLine {
    pub(super) end: Count,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Count {
    pub(super) attempts: usize,
}

impl FaultLine {
    /// The written form of the fault, if it is one that a provider can return.
    pub(super) fn of(fault: &Fault) -> Option<Self> {
        let Fault { code, class, message, retry_after_ms, .. } = fault.clone();
        is_of_provider(class).then(|| Self { code: code.to_string(), class, message, retry_after_ms })
    }

    /// The fault, if it is one of a provider and its code is known.
    pub(super) fn into_fault(self) -> Option<Fault> {
        let Self { code, class, message, retry_after_ms } = self;
        let code = Code::ALL.iter().copied().find(|known| known.as_str() == code)?;
        is_of_provider(class).then(|| Fault { retry_after_ms, ..Fault::new(code, class, message) })
    }
}

fn is_of_provider(class: FaultClass) -> bool {
    matches!(
        class,
        FaultClass::RateLimit | FaultClass::Server | FaultClass::Timeout | FaultClass::Network | FaultClass::Refused
    )
}

/// The line of `object` with its seal and line end.
pub(super) fn sealed<T: Serialize>(object: &T) -> Result<String, serde_json::Error> {
    let mut line = serde_json::to_string(object)?;
    let seal = Digest::sha256(line.as_bytes());
    line.pop();
    Ok(line + &format!("{SEAL}{seal}\"}}\n"))
}

/// The line without its seal, or `None` when the seal is missing or wrong.
pub(super) fn unsealed(line: &str) -> Option<String> {
    let at = line.len().checked_sub(SEAL_BYTES)?;
    let (body, seal) = line.split_at_checked(at)?;
    let seal = Digest::from_hex(seal.strip_prefix(SEAL)?.strip_suffix("\"}")?)?;
    let whole = format!("{body}}}");
    (Digest::sha256(whole.as_bytes()) == seal).then_some(whole)
}

/// The first member of a line, as the writer writes it.
pub(super) fn first_member(line: &str) -> Option<&str> {
    line.strip_prefix("{\"")?.split_once("\":").map(|(name, _)| name)
}
