//! The servers that speak OpenAI's APIs in a way of their own, recognized by address: a row each. Every other
//! server is taken to speak it as OpenAI documents it.

use std::borrow::Cow;

use rondo_protocol::Digest;

use super::prompt_cache::{AutoPrefix, PromptCache};
use super::response_format::ResponseFormat;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// Its hosts, and those below them: OpenAI's regions stand before its host, as in `eu.api.openai.com`.
    pub(super) hosts: &'static [&'static str],
    /// How it is asked to cache a prefix, unless the settings say.
    pub prefix: AutoPrefix,
    /// The ways that its protocol has. Any other stands for `auto`.
    pub prompt_caches: &'static [PromptCache],
    /// How it is asked to constrain answers, unless the settings say.
    pub response_format: ResponseFormat,
    pub output_ceiling: &'static str,
    pub seed: &'static str,
    /// The role of the system text in the Responses API. OpenAI's word is `developer`, which many chat templates behind
    /// other servers do not know.
    pub system_role: &'static str,
    /// Whether it returns encrypted reasoning only if asked to, in the Responses API.
    pub asks_for_reasoning: bool,
    /// Whether it takes `stream_options`; without them it counts by itself.
    pub takes_stream_options: bool,
    /// Whether empty reasoning of a reply with calls has to go back too.
    pub keeps_empty_reasoning: bool,
    pub call_ids: CallIds,
    /// Stands in for what the server attached to a call, where another one asked for the call.
    pub foreign_call: Option<&'static str>,
}

/// Which ids of tool calls a server takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallIds {
    Any,
    /// Nine ASCII letters and digits.
    Nine,
    /// ASCII letters, digits, `_` and `-`.
    Word,
}

/// The length of an id at Mistral.
const NINE: usize = 9;

const MAX_WORD: usize = 64;

impl CallIds {
    /// The id as it is sent: the same for a call and its result.
    pub(super) fn fit(self, id: &str) -> Cow<'_, str> {
        let is_nine = id.len() == NINE && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_word = (1..=MAX_WORD).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let replaced =
            |length: usize| Cow::Owned(Digest::sha256(id.as_bytes()).to_string().chars().take(length).collect());
        match self {
            Self::Nine if !is_nine => replaced(NINE),
            Self::Word if !is_word => replaced(MAX_WORD),
            Self::Any | Self::Nine | Self::Word => Cow::Borrowed(id),
        }
    }
}

/// The newer name and the older.
const OUTPUT_CEILINGS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

pub(super) const COMMON: Dialect = Dialect {
    hosts: &[],
    prefix: AutoPrefix::Nothing,
    prompt_caches: &PromptCache::ALL,
    response_format: ResponseFormat::JsonSchema,
    output_ceiling: OUTPUT_CEILINGS[0],
    seed: "seed",
    system_role: "system",
    asks_for_reasoning: false,
    takes_stream_options: true,
    keeps_empty_reasoning: false,
    call_ids: CallIds::Any,
    foreign_call: None,
};

const DIALECTS: [Dialect; 8] = [
    Dialect { hosts: &["api.openai.com"], prefix: AutoPrefix::KeyWithTime, system_role: "developer", ..COMMON },
    // <https://docs.mistral.ai/api/endpoint/chat>: anything else in a request is refused.
    Dialect {
        hosts: &["api.mistral.ai"],
        prefix: AutoPrefix::Key,
        output_ceiling: OUTPUT_CEILINGS[1],
        seed: "random_seed",
        takes_stream_options: false,
        call_ids: CallIds::Nine,
        ..COMMON
    },
    Dialect { hosts: &["openrouter.ai"], prefix: AutoPrefix::BlocksOfAnthropic, ..COMMON },
    // <https://api-docs.deepseek.com/guides/json_mode>, <https://api-docs.deepseek.com/guides/thinking_mode>
    Dialect {
        hosts: &["api.deepseek.com"],
        response_format: ResponseFormat::JsonObject,
        output_ceiling: OUTPUT_CEILINGS[1],
        keeps_empty_reasoning: true,
        ..COMMON
    },
    // <https://platform.moonshot.ai/docs/guide/use-json-mode-feature-of-kimi-api>
    Dialect {
        hosts: &["api.moonshot.ai", "api.moonshot.cn"],
        response_format: ResponseFormat::JsonObject,
        output_ceiling: OUTPUT_CEILINGS[1],
        ..COMMON
    },
    // No format with streaming (<https://console.groq.com/docs/structured-outputs>).
    Dialect { hosts: &["api.groq.com"], response_format: ResponseFormat::Off, ..COMMON },
    // It ignores formats (<https://docs.claude.com/en/api/openai-sdk>).
    Dialect { hosts: &["api.anthropic.com"], response_format: ResponseFormat::Off, ..COMMON },
    // <https://ai.google.dev/gemini-api/docs/thought-signatures>
    Dialect {
        hosts: &["generativelanguage.googleapis.com"],
        foreign_call: Some(r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#),
        ..COMMON
    },
];

impl Dialect {
    pub(super) fn at(base_url: &str) -> Self {
        DIALECTS.iter().find(|dialect| is_at(base_url, dialect.hosts)).copied().unwrap_or(COMMON)
    }

    /// The same with the other name of the ceiling on output tokens.
    #[must_use]
    pub(super) fn with_other_ceiling(self) -> Self {
        let other = OUTPUT_CEILINGS.into_iter().find(|name| *name != self.output_ceiling);
        Self { output_ceiling: other.unwrap_or(self.output_ceiling), ..self }
    }
}

/// Whether an address is at one of these hosts, or below it.
pub(super) fn is_at(base_url: &str, hosts: &[&str]) -> bool {
    let url = reqwest::Url::parse(base_url).ok();
    let host = url.as_ref().and_then(|url| url.host_str()).unwrap_or_default();
    let rest = |name: &&str| host.strip_suffix(*name);
    hosts.iter().filter_map(rest).any(|rest| rest.is_empty() || rest.ends_with('.'))
}
