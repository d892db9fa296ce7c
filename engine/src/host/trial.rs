//! A trial of a provider: up to three tiny requests, and what its answers say of what it supports. They cost a few
//! tokens.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rondo_agent_kit::model::http::HttpModel;
use rondo_agent_kit::model::{Deltas, Model as _, ResponseFormat};
use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, Files, ModelAnswer, ModelCall, Site};
use rondo_protocol::canonical::Value;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::Message;
use rondo_protocol::object::{Finish, Head, Parameters, ToolSpec, Usage};
use rondo_settings::keys::masked_address;
use rondo_settings::{Price, Resolved, Settings, list_price};
use serde::Serialize;

use super::resources::Resources;
use crate::failure::Failure;
use crate::tell::hint;

/// The most tokens of the first answer. No provider refuses as many; OpenAI refuses fewer.
const MAX_HELLO_TOKENS: i64 = 16;
/// The most tokens of each other answer, which may begin with reasoning.
const MAX_OUTPUT_TOKENS: i64 = 256;

const TIMEOUT: Duration = Duration::from_mins(1);

/// The logical model that a role has where it names none.
const DEFAULT_MODEL: &str = "default";

const SCHEMA: &str =
    r#"{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}"#;
const TOOL: &str = "note";
const ARGUMENTS: &str =
    r#"{"type":"object","properties":{"word":{"type":"string"}},"required":["word"],"additionalProperties":false}"#;

/// The members that tell how many tokens a provider had cached, in the words of each protocol.
const CACHED: [&str; 4] =
    ["cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens", "cachedContentTokenCount"];

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Trial {
    pub provider: String,
    pub protocol: &'static str,
    /// Its address without keys.
    pub base_url: String,
    pub model: Option<String>,
    /// Whether no setting names that model: it is the first that the provider lists.
    pub is_model_listed: bool,
    /// Whether anything answered; `None` if nothing was sent.
    pub reachable: Option<bool>,
    pub fault: Option<TrialFault>,
    /// The time to the first event of the first answer.
    pub first_event_ms: Option<u64>,
    pub whole_ms: Option<u64>,
    /// The tokens of all its answers; `None` if the first did not tell them.
    pub usage: Option<Usage>,
    /// Whether it tells how many tokens it had cached, even if that is none.
    pub reports_cached: bool,
    pub response_format: &'static str,
    pub schema: Feature,
    pub tools: Feature,
    /// The US dollars of what it told, if the price is known.
    pub cost_usd: Option<f64>,
}

/// Whether a provider did as it was asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Feature {
    pub verdict: Verdict,
    pub fault: Option<TrialFault>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Yes,
    /// It answered something else.
    No,
    /// Its answer was cut at the ceiling on tokens before it showed.
    Cut,
    Failed,
    #[default]
    NotAsked,
}

/// A fault with what to do about it, without keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialFault {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
}

/// Asks a provider of the settings, whose resources these are.
///
/// # Cancel safety
/// The request that is under way ends; what was answered may have been billed.
pub async fn trial(settings: &Settings, resources: &Resources, name: &str) -> Trial {
    let provider = settings.providers.get(name);
    let format = provider.map(|provider| provider.response_format.value).unwrap_or_default();
    let mut trial = Trial {
        provider: name.to_owned(),
        protocol: provider.map_or("", |provider| provider.protocol.value.name()),
        base_url: provider.map(|provider| masked_address(&provider.base_url.value)).unwrap_or_default(),
        response_format: format.word(),
        ..Trial::default()
    };
    if let Err(fault) = fill(&mut trial, settings, resources, format).await {
        trial.reachable = trial.reachable.or_else(|| fault.answered());
        trial.fault = Some(fault);
    }
    trial
}

async fn fill(
    trial: &mut Trial,
    settings: &Settings,
    resources: &Resources,
    format: ResponseFormat,
) -> Result<(), TrialFault> {
    resources.read_keys(std::iter::once(trial.provider.as_str())).await?;
    let client = resources.client(&trial.provider)?;
    let asked = Asked { client, resources };
    let named = chosen(settings, &trial.provider);
    trial.is_model_listed = named.is_none();
    let (model, price) = match named {
        Some(Resolved { model, price, .. }) => (model, price),
        None => (asked.first_listed(&trial.provider).await?, None),
    };
    let price = price.or_else(|| list_price(&model));
    trial.model = Some(asked.redact(&model));

    let since = Instant::now();
    let head = head(&model, MAX_HELLO_TOKENS, "Answer in one word.");
    let watch = Watch::default();
    let answer = asked.ask(head.clone(), "Hello", &watch).await?;
    trial.reachable = Some(true);
    trial.whole_ms = Some(milliseconds(since.elapsed()));
    trial.first_event_ms = watch.first.get().map(|first| milliseconds(first.duration_since(since)));
    trial.reports_cached = watch.has_cached.load(Ordering::Relaxed);
    trial.add(answer.usage, price.as_ref());

    if let Some(schema) = format.in_head(Some(SCHEMA)) {
        let system = r#"Answer with this JSON object and nothing else: {"ok": true}"#.to_owned();
        let response_format = Some(schema.to_owned());
        let head = Head { response_format, system, ..self::head(&model, MAX_OUTPUT_TOKENS, "") };
        let fits = |answer: &ModelAnswer| fits(&answer.reply.parts.text(), format);
        trial.schema = trial.feature(asked.ask(head, "Answer.", &Watch::default()).await, price.as_ref(), fits);
    }
    let tool =
        ToolSpec { description: "Notes a word.".to_owned(), name: TOOL.to_owned(), parameters: ARGUMENTS.to_owned() };
    let head =
        Head { tools: vec![tool], ..self::head(&model, MAX_OUTPUT_TOKENS, "Call the tool note with the word hello.") };
    let calls = |answer: &ModelAnswer| answer.reply.parts.tool_calls().any(|call| call.name == TOOL);
    trial.tools = trial.feature(asked.ask(head, "Call it.", &Watch::default()).await, price.as_ref(), calls);
    Ok(())
}

impl Trial {
    fn add(&mut self, usage: Option<Usage>, price: Option<&Price>) {
        let Some(usage) = usage else { return };
        *self.usage.get_or_insert_default() += usage;
        if let Some(price) = price {
            *self.cost_usd.get_or_insert_default() += price.dollars.of(usage);
        }
    }

    fn feature(
        &mut self,
        answer: Result<ModelAnswer, TrialFault>,
        price: Option<&Price>,
        is_there: impl Fn(&ModelAnswer) -> bool,
    ) -> Feature {
        match answer {
            Ok(answer) => {
                self.add(answer.usage, price);
                let verdict = match is_there(&answer) {
                    true => Verdict::Yes,
                    false if answer.reply.finish == Finish::Length => Verdict::Cut,
                    false => Verdict::No,
                };
                Feature { verdict, fault: None }
            }
            Err(fault) => Feature { verdict: Verdict::Failed, fault: Some(fault) },
        }
    }
}

/// The model that the settings name for a provider: that of roles which name none, else the first.
fn chosen(settings: &Settings, provider: &str) -> Option<Resolved> {
    let names = std::iter::once(DEFAULT_MODEL).chain(settings.models.keys().map(String::as_str));
    let resolved = names.filter_map(|name| settings.model(name, None, None).ok());
    resolved.into_iter().find(|resolved| resolved.provider == provider)
}

/// A provider that is asked, and what removes keys from its words.
struct Asked<'a> {
    client: Arc<HttpModel>,
    resources: &'a Resources,
}

impl Asked<'_> {
    fn redact(&self, text: &str) -> String {
        self.resources.redactor().text(text).into_owned()
    }

    async fn ask(&self, head: Head, user: &str, watch: &Watch) -> Result<ModelAnswer, TrialFault> {
        let call = call(head, user)?;
        self.client.complete(&call, watch).await.map_err(|fault| self.fault(&fault))
    }

    async fn first_listed(&self, provider: &str) -> Result<String, TrialFault> {
        let listed = self.client.model_ids(TIMEOUT).await;
        let why = match listed.map(|ids| ids.into_iter().next()) {
            Ok(Some(id)) => return Ok(id),
            Ok(None) => String::new(),
            // Whoever lists no models may still answer.
            Err(fault) if matches!(fault.code, Code::RequestRefused | Code::ReplyUnreadable) => {
                format!(", and it lists none: {}", self.redact(&fault.message))
            }
            Err(fault) => return Err(self.fault(&fault)),
        };
        let setting = if provider == rondo_settings::DEFAULT_PROVIDER {
            "set RONDO_MODEL, or `model` in [model.default] of rondo.toml".to_owned()
        } else {
            format!("set RONDO_MODEL={provider}/MODEL, or `provider` and `model` in a [model.NAME] of rondo.toml")
        };
        let message = format!("no setting names a model of it{why}");
        Err(TrialFault { code: Code::NoProvider, message, hint: Some(setting) })
    }

    fn fault(&self, fault: &Fault) -> TrialFault {
        let told = fault.hint.as_ref().map(|told| self.redact(&hint(told)));
        TrialFault { code: fault.code, message: self.redact(&fault.message), hint: told }
    }
}

impl TrialFault {
    /// Whether it says that something answered; `None` if nothing was sent.
    fn answered(&self) -> Option<bool> {
        match self.code {
            Code::NoProvider => None,
            Code::ProviderUnreachable | Code::ProviderSilent => Some(false),
            _ => Some(true),
        }
    }
}

impl From<Failure> for TrialFault {
    fn from(failure: Failure) -> Self {
        Self { code: failure.code(), message: failure.message(), hint: failure.hint().as_ref().map(hint) }
    }
}

fn head(model: &str, max_output_tokens: i64, system: &str) -> Head {
    let ceiling = ("max_output_tokens".to_owned(), Value::from(max_output_tokens));
    Head {
        model: model.to_owned(),
        parameters: Parameters([ceiling].into()),
        response_format: None,
        system: system.to_owned(),
        tools: Vec::new(),
    }
}

fn call(head: Head, user: &str) -> Result<ModelCall, Failure> {
    let (head_digest, _) = Digest::of(Kind::Head, &head)?;
    let role = RoleName::new("doctor").map_err(Failure::internal)?;
    let site = Site { thread: ThreadId::from_parts(0, 0), role, lane: LanePath::trunk(), visit: 1, position: 0 };
    Ok(ModelCall {
        site,
        attempt: 0,
        ordinal: 0,
        model: DEFAULT_MODEL.to_owned(),
        head_digest,
        head: Arc::new(head),
        conversation: Arc::new([Message::user(user)].into_iter().collect()),
        files: Files::default(),
        time_left: TIMEOUT,
    })
}

fn fits(text: &str, format: ResponseFormat) -> bool {
    let Ok(serde_json::Value::Object(members)) = serde_json::from_str(text.trim()) else { return false };
    match format {
        ResponseFormat::JsonSchema => {
            members.len() == 1 && members.get("ok").is_some_and(serde_json::Value::is_boolean)
        }
        ResponseFormat::JsonObject | ResponseFormat::Off => true,
    }
}

/// Looks at an answer while it arrives.
#[derive(Default)]
struct Watch {
    first: OnceLock<Instant>,
    has_cached: AtomicBool,
}

impl Deltas for Watch {
    fn text(&self, _text: &str) {}

    fn event(&self, json: &str) {
        self.first.get_or_init(Instant::now);
        if serde_json::from_str(json).is_ok_and(|event| has_cached(&event)) {
            self.has_cached.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether a count of cached tokens stands somewhere in an event.
fn has_cached(value: &serde_json::Value) -> bool {
    let is_cached = |(name, value): (&String, &serde_json::Value)| {
        value.is_number() && CACHED.contains(&name.as_str()) || has_cached(value)
    };
    match value {
        serde_json::Value::Object(members) => members.iter().any(is_cached),
        serde_json::Value::Array(values) => values.iter().any(has_cached),
        _ => false,
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
