//! How a provider is asked to cache the prefix of a request for the next one.
//!
//! There are three cases. Fields are sent only to servers that accept them, because strict servers refuse requests with
//! unknown fields, and only in protocols that have them ([`Dialect::prompt_caches`]):
//! - `prompt_cache_key` and `prompt_cache_retention`: OpenAI for models before GPT-5.6
//!   (<https://developers.openai.com/api/docs/guides/prompt-caching>), the key also Mistral
//!   (<https://docs.mistral.ai/studio-api/conversations/advanced/prompt-caching>) and xAI in the Responses API
//!   (<https://docs.x.ai/developers/model-capabilities/text/best-practices>);
//! - `cache_control` on content blocks: Anthropic's own protocol
//!   (<https://platform.claude.com/docs/en/build-with-claude/prompt-caching>), and gateways to its models
//!   (<https://openrouter.ai/docs/features/prompt-caching>,
//!   <https://docs.litellm.ai/docs/completion/prompt_caching>);
//! - nothing: DeepSeek (<https://api-docs.deepseek.com/guides/kv_cache>), Gemini from 2.5 on
//!   (<https://ai.google.dev/gemini-api/docs/caching>), llama.cpp and vLLM cache prefixes by themselves; Groq and
//!   Cerebras refuse the key (<https://github.com/zed-industries/zed/issues/36215>).
//!
//! These fields are transport, not content: they are part of no head and no digest, and a request without them is the
//! same request.

use rondo_protocol::call::ModelCall;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::dialects::Dialect;
use super::protocol::Outgoing;

/// How many hexadecimal digits of the head's digest a key contains: 128 bits.
const HEAD_DIGITS: usize = 32;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum PromptCache {
    /// By protocol and address: blocks in Anthropic's protocol; a key for OpenAI's models before GPT-5.6, Mistral and xAI,
    /// blocks for Anthropic's models at OpenRouter, nothing elsewhere.
    #[default]
    Auto,
    /// By `prompt_cache_key`.
    Key,
    /// By `cache_control` on content blocks.
    Blocks,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CacheRetention {
    /// With a key: minutes without use, an hour at most. OpenAI's GPT-5.5 and later refuse it.
    #[serde(rename = "in_memory")]
    InMemory,
    /// With a key: up to a day. OpenAI's GPT-5.6 and later take it and keep to their own time.
    #[serde(rename = "24h")]
    Day,
    /// With blocks: five minutes without use, the default.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// With blocks: an hour without use; writing costs more.
    #[serde(rename = "1h")]
    Hour,
}

impl PromptCache {
    pub const ALL: [Self; 4] = [Self::Auto, Self::Key, Self::Blocks, Self::Off];

    /// The word in settings.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether it can be combined with a time. The result of `auto` is known only with the address.
    pub fn takes(self, time: CacheRetention) -> bool {
        match self {
            Self::Auto => true,
            Self::Key => time.is_for_keys(),
            Self::Blocks => !time.is_for_keys(),
            Self::Off => false,
        }
    }

    /// Whether the protocol of that dialect has this way; if not, it stands for `auto`.
    pub fn is_of(self, dialect: &Dialect) -> bool {
        dialect.prompt_caches.contains(&self)
    }

    /// How a server of that dialect is asked.
    fn at(self, dialect: &Dialect) -> AutoPrefix {
        match self {
            Self::Key if self.is_of(dialect) => AutoPrefix::StatedKey,
            Self::Blocks if self.is_of(dialect) => AutoPrefix::Blocks,
            Self::Off if self.is_of(dialect) => AutoPrefix::Nothing,
            Self::Auto | Self::Key | Self::Blocks | Self::Off => dialect.prefix,
        }
    }

    /// What is sent to a server of that dialect, in words for people.
    pub fn in_force(self, dialect: &Dialect) -> &'static str {
        match self.at(dialect) {
            AutoPrefix::StatedKey | AutoPrefix::Key => "a key for each role of a thread",
            AutoPrefix::KeyWithTime => "a key for each role of a thread, nothing for models from GPT-5.6 on",
            AutoPrefix::Blocks => "marks on blocks of content",
            AutoPrefix::BlocksOfAnthropic => "marks on blocks of content for Anthropic's models, nothing for others",
            AutoPrefix::Nothing => "nothing is sent for it",
        }
    }

    /// Whether that time is sent to a server of that dialect.
    pub fn sends(self, time: CacheRetention, dialect: &Dialect) -> bool {
        match self.at(dialect) {
            AutoPrefix::StatedKey | AutoPrefix::KeyWithTime => time.is_for_keys(),
            AutoPrefix::Blocks | AutoPrefix::BlocksOfAnthropic => !time.is_for_keys(),
            AutoPrefix::Key | AutoPrefix::Nothing => false,
        }
    }
}

impl CacheRetention {
    pub const ALL: [Self; 4] = [Self::InMemory, Self::Day, Self::FiveMinutes, Self::Hour];

    /// The word in settings and requests.
    pub fn word(self) -> &'static str {
        match self {
            Self::InMemory => "in_memory",
            Self::Day => "24h",
            Self::FiveMinutes => "5m",
            Self::Hour => "1h",
        }
    }

    /// Whether the time applies to keys, else to blocks.
    fn is_for_keys(self) -> bool {
        matches!(self, Self::InMemory | Self::Day)
    }
}

/// How a server is asked for a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoPrefix {
    /// By a key that the settings ask for, also for models that need none.
    StatedKey,
    KeyWithTime,
    Key,
    Blocks,
    /// By blocks, for Anthropic's models. Gemini accepts blocks too, but needs none, and uses only the last one, which
    /// moves with every request.
    BlocksOfAnthropic,
    Nothing,
}

fn is_of_anthropic(model: &str) -> bool {
    // `~anthropic/..` names the newest model of a family.
    model.trim_start_matches('~').starts_with("anthropic/")
}

/// Whether OpenAI keeps a prefix of that model for requests with the same key only, as it does from GPT-5.6 on. A key of
/// each thread would keep threads from sharing the system text, and no key is needed to find a prefix.
fn is_separated_by_key(model: &str) -> bool {
    let Some((_, version)) = model.split_once("gpt-") else { return false };
    let numbers = version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 6)
}

/// What one request asks of the provider's cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CacheRequest {
    pub key: Option<String>,
    /// For a request with a key, if the operator sets it.
    pub retention: Option<CacheRetention>,
    pub mark: Option<CacheControl>,
}

impl CacheRequest {
    pub fn of(request: &Outgoing<'_>) -> Self {
        let Outgoing { call, dialect, prompt_cache, prompt_cache_retention, .. } = request;
        let (model, retention) =
            (&call.head.model, prompt_cache_retention.filter(|time| prompt_cache.sends(*time, dialect)));
        match prompt_cache.at(dialect) {
            AutoPrefix::KeyWithTime if is_separated_by_key(model) => Self::default(),
            AutoPrefix::BlocksOfAnthropic if !is_of_anthropic(model) => Self::default(),
            AutoPrefix::Nothing => Self::default(),
            AutoPrefix::StatedKey | AutoPrefix::KeyWithTime | AutoPrefix::Key => {
                Self { key: Some(key(call)), retention, mark: None }
            }
            AutoPrefix::Blocks | AutoPrefix::BlocksOfAnthropic => {
                let mark = CacheControl { r#type: "ephemeral", ttl: retention.map(CacheRetention::word) };
                Self { mark: Some(mark), ..Self::default() }
            }
        }
    }
}

/// Marks a block as the end of a prefix to cache. All marks of a request are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct CacheControl {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

/// The key by which OpenAI routes a request: thread and head, so that all visits of a role in a thread share one key,
/// and no two roles do.
///
/// OpenAI combines the key with the hash of a prompt's beginning to pick a machine; beyond about 15 requests a minute
/// for one pair, some go to other machines, which have nothing cached. The conversation of a role in its thread is the
/// part that grows and is worth most, and its visits stay below that rate; with a key of the head alone, many
/// concurrent threads would not. The cost: a thread's first request may miss the system text that another thread left
/// in the cache. The lane is left out, because a lane begins with the conversation of its trunk.
///
/// Neither part reveals content: one is random, the other a digest. Both are in the store, so every process that
/// continues the thread uses the same key.
fn key(call: &ModelCall) -> String {
    let mut key = format!("{}-", call.site.thread);
    key.extend(call.head_digest.to_string().chars().take(HEAD_DIGITS));
    key
}

#[cfg(test)]
mod tests;
