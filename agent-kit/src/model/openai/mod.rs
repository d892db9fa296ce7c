//! The OpenAI chat completions API, as OpenAI and compatible servers implement it.
//!
//! async-openai provides the configuration: addresses and headers. This module writes requests and reads replies
//! itself, because that client retries by itself, loses the status of unusual errors, drops the end of a cut stream and
//! buffers without a bound.
//!
//! Laws:
//! - One call is one request, but where a server refuses the name of a parameter. Nothing is retried, no redirect is
//!   followed.
//! - A reply is complete only with a known finish reason; anything else is a fault, and the text so far is discarded.
//!   Unreadable usage figures are no fault.
//! - Whatever a server sends, memory stays within a small multiple of `max_reply_bytes` plus one event of a stream, and
//!   every wait ends.
//! - The key is sent only to `base_url` and appears in no fault.
//!
//! The proxy variables of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) apply as reqwest
//! defines them, but never to a loopback address.

mod attached;
mod dialect;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod prompt_cache;
mod refusal;
mod reply;
mod request;
mod response_format;
mod retry_after;
mod think;
mod usage;

use std::net::IpAddr;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_openai::config::{Config, OpenAIConfig};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, ModelCall};
use rondo_protocol::diagnostic::Code;
use tokio::time::Instant;

use super::sse;
use super::{Completion, Deltas, Model};
use crate::redact::{Redactor, Secret, bare_key};
use crate::web;
use dialect::Dialect;
use prompt_cache::CacheRequest;
use reply::{Assembly, too_large, unreadable};
use request::Receiver;

pub use prompt_cache::{CacheRetention, PromptCache};
pub use request::request_body;
pub use response_format::ResponseFormat;

/// A refusal may hold what the model wrote.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// The maximum size of a stream, as a multiple of the largest reply. Providers send 200 to 1000 bytes for each token of
/// one to five bytes; only the largest replies come near this limit.
const STREAM_TIMES: usize = 64;

/// The maximum size of a reply as one JSON object, as a multiple of the largest reply: text of non-ASCII letters
/// written as ASCII escapes is three times as long.
const WHOLE_TIMES: usize = 3;

/// The maximum size of the rest of a completion as one JSON object.
const WHOLE_MORE_BYTES: usize = 1 << 20;

/// How much of a reply HTTP/2 keeps that is not read yet, because there is no memory for it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// The replies of one connection share its window: those that wait for memory must not use it up, or the one that has
/// memory would wait for them.
const CONNECTION_WINDOW_BYTES: u32 = 256 * STREAM_WINDOW_BYTES;

/// Where and how a provider is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiSettings {
    /// The provider's name: what a provider attached to a message goes back to the one of that name.
    pub name: String,
    /// The address before `/chat/completions`; it usually ends in `/v1`.
    pub base_url: String,
    /// The key, with the name of its variable; `None` for a server that needs none.
    pub api_key: Option<Secret>,
    /// Headers of every request, with the names of their variables, or their own; one of these takes the place of a
    /// usual one.
    pub headers: Vec<(String, Secret)>,
    /// What stands behind `?` in the address of every request.
    pub query: Vec<(String, String)>,
    pub connect_timeout: Duration,
    /// The maximum time without data from the server.
    pub idle_timeout: Duration,
    /// The maximum time of a request; `None` for the time that the call has left.
    pub total_timeout: Option<Duration>,
    /// The maximum bytes of a reply: its text, reasoning and tool calls, without the surrounding JSON.
    pub max_reply_bytes: usize,
    /// How the provider is asked to cache the prefix of a request.
    pub prompt_cache: PromptCache,
    /// How long the provider is asked to keep it; `None` = its default.
    pub prompt_cache_retention: Option<CacheRetention>,
}

impl Default for OpenAiSettings {
    fn default() -> Self {
        Self {
            name: "openai".to_owned(),
            base_url: async_openai::config::OPENAI_API_BASE.to_owned(),
            api_key: None,
            headers: Vec::new(),
            query: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            total_timeout: None,
            max_reply_bytes: 8 << 20,
            prompt_cache: PromptCache::default(),
            prompt_cache_retention: None,
        }
    }
}

/// Why a provider cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("the base URL is not an http or https address: {0}")]
    Address(String),
    #[error(
        "the base URL holds a user name, a password or a query; give the key in {KEY_VARIABLE}, and a query in `query`"
    )]
    Credentials,
    #[error("the key in {0} holds characters that cannot be sent, such as a line end")]
    Key(String),
    #[error("the header {0} holds characters that cannot be sent, such as a line end")]
    Header(String),
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// A provider with the chat completions API.
#[derive(Debug, Clone)]
pub struct OpenAi {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    settings: OpenAiSettings,
    redactor: Redactor,
    dialect: Dialect,
    /// Whether the server takes the other name for the ceiling on output tokens, having refused that of its dialect.
    has_other_ceiling: Arc<AtomicBool>,
}

impl OpenAi {
    /// Sets up a provider; sends nothing.
    pub fn new(settings: OpenAiSettings) -> Result<Self, SettingsError> {
        let base = settings.base_url.trim_end_matches('/');
        let config = OpenAIConfig::new().with_api_base(base).with_org_id("").with_project_id("");
        let url =
            Url::parse(&config.url("/chat/completions")).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let mut url = url.ok_or_else(|| SettingsError::Address(refusal::excerpt(base)))?;
        let is_bare = url.query().is_none() && url.fragment().is_none();
        if !is_bare || !url.username().is_empty() || url.password().is_some() {
            return Err(SettingsError::Credentials);
        }
        let mut headers = headers(config, settings.api_key.as_ref())?;
        for (name, secret) in &settings.headers {
            let header = HeaderName::from_str(name).ok().zip(HeaderValue::from_str(&secret.value).ok());
            let (header, mut value) = header.ok_or_else(|| SettingsError::Header(refusal::excerpt(name)))?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        if !settings.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&settings.query);
        }
        let http = client(&settings, &url).build().map_err(|error| SettingsError::Client(root_cause(&error)))?;
        let secrets = settings.api_key.iter().chain(settings.headers.iter().map(|(_, secret)| secret));
        let both =
            |key: &Secret| [key.value.as_str(), bare_key(&key.value)].map(|value| (key.name.clone(), value.to_owned()));
        let redactor = Redactor::new(secrets.flat_map(both));
        let dialect = Dialect::at(&settings.base_url);
        Ok(Self { http, url, headers, settings, redactor, dialect, has_other_ceiling: Arc::default() })
    }

    async fn ask(&self, call: &ModelCall, deltas: &dyn Deltas) -> Result<ModelAnswer, Fault> {
        let mut clock = Clock::new(&self.settings, call.time_left);
        let mut has_tried_other = false;
        let response = loop {
            let has_other = has_tried_other || self.has_other_ceiling.load(Ordering::Relaxed);
            let dialect = if has_other { self.dialect.with_other_ceiling() } else { self.dialect };
            let request = self.http.post(self.url.clone()).headers(self.headers.clone());
            let request = request.body(self.body(call, &dialect)?);
            let response = clock.wait(request.send()).await?.map_err(|error| self.unreachable(&error))?;
            if response.status().is_success() {
                self.has_other_ceiling.fetch_or(has_tried_other, Ordering::Relaxed);
                break response;
            }
            let refused = Refusal::read(response, &clock, &self.redactor).await;
            if let Some(slip) = refusal::slip(&refused.body) {
                return Ok(slip);
            }
            // Nothing was billed, and only the server knows which name it takes.
            let has_ceiling = call.head.parameters.0.contains_key("max_output_tokens");
            let is_its_name = matches!(refused.status, 400 | 422)
                && refusal::refuses_parameter(&refused.body, dialect.output_ceiling);
            if !(has_ceiling && is_its_name) || has_other {
                return Err(self.fault(&refused));
            }
            has_tried_other = true;
        };
        match ContentType::of(&response, &self.redactor) {
            ContentType::EventStream => self.read_stream(response, &mut clock, call, deltas).await,
            ContentType::Json => self.read_whole(response, &mut clock, call, deltas).await,
            ContentType::Other(kind) => Err(unreadable(format!(
                "the provider answered with {kind}, not with an event stream; is the base URL right?"
            ))),
        }
    }

    fn body(&self, call: &ModelCall, dialect: &Dialect) -> Result<Vec<u8>, Fault> {
        let OpenAiSettings { name, prompt_cache, prompt_cache_retention, .. } = &self.settings;
        let cache = CacheRequest::of(call, dialect, *prompt_cache, *prompt_cache_retention);
        request::body_with_cache(call, &cache, Receiver { dialect, provider: name })
    }

    /// Reads a stream of events until its end or `[DONE]`.
    async fn read_stream(
        &self,
        mut response: Response,
        clock: &mut Clock<'_>,
        call: &ModelCall,
        deltas: &dyn Deltas,
    ) -> Result<ModelAnswer, Fault> {
        let max_bytes = self.settings.max_reply_bytes;
        let mut reader = sse::Reader::new(max_bytes.saturating_mul(STREAM_TIMES), whole_max_bytes(max_bytes));
        let mut assembly = Assembly::new(max_bytes);
        let read = self.read_events(&mut response, clock, (&mut reader, &mut assembly), deltas).await;
        let usage = assembly.usage();
        let answer =
            read.and_then(|()| assembly.complete(call.ordinal, &self.origin(call), || cut(reader.read_bytes(), None)));
        answer.map_err(|fault| fault.with_usage(usage))
    }

    async fn read_events(
        &self,
        response: &mut Response,
        clock: &mut Clock<'_>,
        (reader, assembly): (&mut sse::Reader, &mut Assembly),
        deltas: &dyn Deltas,
    ) -> Result<(), Fault> {
        let mut events = Vec::new();
        loop {
            let chunk = match clock.wait(response.chunk()).await? {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(()),
                // With its finish reason the reply is complete, however the connection ends.
                Err(_) if assembly.is_finished() => return Ok(()),
                Err(error) => return Err(cut(reader.read_bytes(), Some(&error))),
            };
            let read = reader.push(&chunk, &mut events);
            for data in events.drain(..) {
                if data == "[DONE]" {
                    return Ok(());
                }
                let added = assembly.take(&data, &self.redactor)?;
                if !added.is_empty() {
                    deltas.text(&added);
                }
            }
            read.map_err(|error| match error {
                sse::Error::NotUtf8 => unreadable(error.to_string()),
                _ => too_large(error.to_string()),
            })?;
            clock.pause(deltas.reserve(assembly.said_bytes() + reader.pending_bytes())).await;
        }
    }

    /// Reads a completion that the server or a proxy did not stream, although streaming was requested.
    async fn read_whole(
        &self,
        mut response: Response,
        clock: &mut Clock<'_>,
        call: &ModelCall,
        deltas: &dyn Deltas,
    ) -> Result<ModelAnswer, Fault> {
        let max_bytes = self.settings.max_reply_bytes;
        let whole_max_bytes = whole_max_bytes(max_bytes);
        let mut body = Vec::new();
        loop {
            match clock.wait(response.chunk()).await? {
                Ok(Some(chunk)) if body.len() + chunk.len() > whole_max_bytes => {
                    return Err(too_large(format!("the completion is longer than {whole_max_bytes} bytes")));
                }
                Ok(Some(chunk)) => {
                    body.extend_from_slice(&chunk);
                    clock.pause(deltas.reserve(body.len())).await;
                }
                Ok(None) => break,
                Err(error) => return Err(cut(body.len(), Some(&error))),
            }
        }
        let body = String::from_utf8(body).map_err(|_| unreadable("the reply is not UTF-8".to_owned()))?;
        let mut assembly = Assembly::new(max_bytes);
        let text = assembly.take(&body, &self.redactor);
        let usage = assembly.usage();
        let no_completion = || unreadable("the provider answered with JSON that is no completion".to_owned());
        let answer =
            text.and_then(|text| Ok((text, assembly.complete(call.ordinal, &self.origin(call), no_completion)?)));
        let (text, answer) = answer.map_err(|fault| fault.with_usage(usage))?;
        if !text.is_empty() {
            deltas.text(&text);
        }
        Ok(answer)
    }

    /// The model that may have back what comes with a reply.
    fn origin(&self, call: &ModelCall) -> String {
        attached::origin(&self.settings.name, &call.head.model)
    }

    fn fault(&self, refused: &Refusal) -> Fault {
        let Refusal { status, body, retry_after_ms } = refused;
        let mut fault = refusal::of_status(*status, body, &self.redactor).with_usage(usage::of_body(body));
        if let Some(hint) = self.hint(*status) {
            fault.message.push_str("; ");
            fault.message.push_str(&hint);
        }
        Fault { retry_after_ms: *retry_after_ms, ..fault }
    }

    fn hint(&self, status: u16) -> Option<String> {
        match (status, &self.settings.api_key) {
            (401 | 403, Some(key)) => Some(format!("check the key in {}", key.name)),
            (401 | 403, None) if !self.settings.headers.is_empty() => {
                let names: Vec<&str> = self.settings.headers.iter().map(|(name, _)| name.as_str()).collect();
                Some(format!("check the headers of the provider: {}", names.join(", ")))
            }
            (401 | 403, None) => Some(format!("no key is set: {KEY_VARIABLE} or key_env in rondo.toml gives it")),
            (404, _) => Some(format!("check the model and the base URL {}", self.settings.base_url)),
            (300..=399, _) => Some("redirects are not followed: give the address that it leads to".to_owned()),
            _ => None,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Fault {
        // A query may hold a key.
        let mut url = self.url.clone();
        url.set_query(None);
        if error.is_timeout() {
            let limit = self.settings.connect_timeout;
            let message = format!("no connection to {url} within {limit:?}");
            return Fault::new(Code::ProviderSilent, FaultClass::Timeout, message);
        }
        let message = format!("could not reach {url}: {}", root_cause(error));
        Fault::new(Code::ProviderUnreachable, FaultClass::Network, message)
    }
}

/// A response without success.
struct Refusal {
    status: u16,
    /// Its beginning.
    body: String,
    retry_after_ms: Option<u64>,
}

impl Refusal {
    async fn read(mut response: Response, clock: &Clock<'_>, redactor: &Redactor) -> Self {
        let status = response.status().as_u16();
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let retry_after_ms = retry_after::retry_after_ms(response.headers(), now_s);
        let (mut body, mut is_whole) = (Vec::new(), false);
        while body.len() < MAX_REFUSAL_BYTES && !is_whole {
            // The status matters most; a missing body changes nothing.
            match clock.wait(response.chunk()).await {
                Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => is_whole = true,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        is_whole &= body.len() <= MAX_REFUSAL_BYTES;
        body.truncate(MAX_REFUSAL_BYTES);
        let mut body = String::from_utf8_lossy(&body).into_owned();
        if !is_whole {
            // Leaves out an end that could be the beginning of a key.
            body = redactor.beginning(&body);
        }
        Self { status, body, retry_after_ms }
    }
}

/// The maximum size of a reply in one JSON object, a completion or an event, for replies of at most `max_bytes`.
fn whole_max_bytes(max_bytes: usize) -> usize {
    max_bytes.saturating_mul(WHOLE_TIMES).saturating_add(WHOLE_MORE_BYTES)
}

impl Model for OpenAi {
    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        Box::pin(async move {
            self.ask(call, deltas).await.map_err(|mut fault| {
                self.redactor.string(&mut fault.message);
                fault
            })
        })
    }
}

fn client(settings: &OpenAiSettings, url: &Url) -> reqwest::ClientBuilder {
    let builder = web::client()
        .connect_timeout(settings.connect_timeout)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if is_loopback(url) { builder.no_proxy() } else { builder }
}

/// The headers of every request. Refuses a key that no header can contain, because the configuration would panic.
fn headers(config: OpenAIConfig, key: Option<&Secret>) -> Result<HeaderMap, SettingsError> {
    let config = match key {
        Some(key) => {
            if HeaderValue::from_str(&format!("Bearer {}", key.value)).is_err() {
                return Err(SettingsError::Key(key.name.clone()));
            }
            config.with_api_key(&key.value)
        }
        // Without an explicit key the configuration would take one from the environment.
        None => config.with_api_key(""),
    };
    let mut headers = config.headers();
    match headers.get_mut(AUTHORIZATION) {
        Some(authorization) if key.is_some() => authorization.set_sensitive(true),
        _ => {
            headers.remove(AUTHORIZATION);
        }
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    Ok(headers)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

enum ContentType {
    EventStream,
    Json,
    Other(String),
}

impl ContentType {
    fn of(response: &Response, redactor: &Redactor) -> Self {
        let header = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = header.split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            // Without a content type it is a stream, as requested.
            "text/event-stream" | "" => Self::EventStream,
            "application/json" => Self::Json,
            _ => Self::Other(refusal::words(kind, redactor)),
        }
    }
}

/// The time limits of a request.
struct Clock<'a> {
    provider: &'a str,
    idle_timeout: Duration,
    total_timeout: Duration,
    /// `None` when it is too far away to represent.
    deadline: Option<Instant>,
}

impl<'a> Clock<'a> {
    fn new(settings: &'a OpenAiSettings, time_left: Duration) -> Self {
        let total_timeout = settings.total_timeout.map_or(time_left, |total| total.min(time_left));
        let deadline = Instant::now().checked_add(total_timeout);
        Self { provider: &settings.name, idle_timeout: settings.idle_timeout, total_timeout, deadline }
    }

    /// Waits for `future`, up to the idle timeout and the deadline of the request.
    async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Fault> {
        let left = self.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        tokio::time::timeout(left.min(self.idle_timeout), future).await.map_err(|_| {
            let (what, setting) = if left < self.idle_timeout {
                (format!("the request took longer than {:?}", self.total_timeout), "total_timeout")
            } else {
                (format!("the provider sent nothing for {:?}", self.idle_timeout), "idle_timeout")
            };
            silent(format!("{what}; `{setting}` of [provider.{}] sets how long to wait", self.provider))
        })
    }

    /// Waits for what is not the provider's. The deadline moves by as long.
    async fn pause(&mut self, waiting: impl Future<Output = ()>) {
        let since = Instant::now();
        waiting.await;
        self.deadline = self.deadline.and_then(|deadline| deadline.checked_add(since.elapsed()));
    }
}

fn silent(message: String) -> Fault {
    Fault::new(Code::ProviderSilent, FaultClass::Timeout, message)
}

fn cut(read_bytes: usize, error: Option<&reqwest::Error>) -> Fault {
    let mut message = format!("the reply was cut after {read_bytes} bytes, before its finish reason");
    if let Some(error) = error {
        message.push_str(": ");
        message.push_str(&root_cause(error));
    }
    Fault::new(Code::ReplyCut, FaultClass::Network, message)
}

fn root_cause(error: &reqwest::Error) -> String {
    refusal::excerpt(&web::root_cause(error))
}

#[cfg(test)]
mod tests;
