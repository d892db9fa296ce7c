//! The OpenAI chat completions interface, as OpenAI and compatible servers speak it.
//!
//! async-openai gives the configuration: addresses and headers. Requests are written and replies read here, because its
//! client retries on its own, loses the status of unusual errors, drops what a cut stream ends with, and buffers without
//! a bound.
//!
//! Laws:
//! - One call is one request. Nothing is retried, no redirect is followed.
//! - A reply is complete only with a finish reason that is known; anything else is a fault, and what had come is not
//!   used. Figures that cannot be read are no fault.
//! - Whatever a server sends, memory stays within a small multiple of `max_reply_bytes` and an event of a stream, and
//!   every wait ends.
//! - The key is sent to `base_url` and stands in no fault.
//!
//! Proxies of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) apply as reqwest reads them, but
//! never to a loopback address.

mod keep_prefix;
mod refusal;
mod reply;
mod request;
mod response_format;
mod retry_after;
mod usage;

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_openai::config::{Config, OpenAIConfig};
use futures_util::future::BoxFuture;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, ModelCall};
use rondo_protocol::diagnostic::Code;
use tokio::time::Instant;

use super::sse;
use super::{Deltas, Model};
use crate::redact::{Redactor, Secret};
use crate::web;
use keep_prefix::CacheRequest;
use reply::{Assembly, too_large, unreadable};

pub use keep_prefix::{KeepFor, KeepPrefix};
pub use request::request_body;
pub use response_format::ResponseFormat;

const MAX_REFUSAL_BYTES: usize = 4096;

/// How many times the bytes of the largest reply a stream may have. Providers send 200 to 1000 bytes for each token of
/// one to five; short of the largest replies nothing comes near it.
const STREAM_TIMES: usize = 64;

/// How many times the bytes of the largest reply it may take as one JSON object: written in ASCII alone, a text of
/// letters beyond it is three times as long.
const WHOLE_TIMES: usize = 3;

/// What a completion as one JSON object may hold beside its reply.
const WHOLE_MORE_BYTES: usize = 1 << 20;

/// Where and how a provider is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiSettings {
    /// The address before `/chat/completions`; it usually ends in `/v1`.
    pub base_url: String,
    /// The key, with the name of the variable that holds it; `None` for a server that needs none.
    pub api_key: Option<Secret>,
    /// How long a connection may take to stand.
    pub connect_timeout: Duration,
    /// How long the server may be silent.
    pub idle_timeout: Duration,
    /// How long a request may take; `None` for what the call has left.
    pub total_timeout: Option<Duration>,
    /// The most bytes of a reply: of its text, its reasoning and its tool calls, without what they are wrapped in.
    pub max_reply_bytes: usize,
    /// How the provider is asked to keep the prefix of a request.
    pub keep_prefix: KeepPrefix,
    /// For how long; `None` = as the provider does without a word.
    pub keep_for: Option<KeepFor>,
}

impl Default for OpenAiSettings {
    fn default() -> Self {
        Self {
            base_url: async_openai::config::OPENAI_API_BASE.to_owned(),
            api_key: None,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(1),
            total_timeout: None,
            max_reply_bytes: 8 << 20,
            keep_prefix: KeepPrefix::default(),
            keep_for: None,
        }
    }
}

/// Why a provider cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The address is none.
    #[error("the base URL is not an http or https address: {0}")]
    Address(String),
    /// The address holds a name, a password or a query, which would be shown with it.
    #[error("the base URL holds a user name, a password or a query; give the key in {KEY_VARIABLE}")]
    Credentials,
    /// The key has characters that no header can hold.
    #[error("the key in {0} holds characters that cannot be sent, such as a line end")]
    Key(String),
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// The variable that usually holds the key.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// A provider that speaks the chat completions interface.
#[derive(Debug, Clone)]
pub struct OpenAi {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    settings: OpenAiSettings,
    redactor: Redactor,
}

impl OpenAi {
    /// Sets a provider up; nothing is sent.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn new(settings: OpenAiSettings) -> Result<Self, SettingsError> {
        let base = settings.base_url.trim_end_matches('/');
        let config = OpenAIConfig::new().with_api_base(base).with_org_id("").with_project_id("");
        let url =
            Url::parse(&config.url("/chat/completions")).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| SettingsError::Address(refusal::excerpt(base)))?;
        let is_bare = url.query().is_none() && url.fragment().is_none();
        if !is_bare || !url.username().is_empty() || url.password().is_some() {
            return Err(SettingsError::Credentials);
        }
        let headers = headers(config, settings.api_key.as_ref())?;

        let mut builder = web::client().connect_timeout(settings.connect_timeout);
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| SettingsError::Client(root_cause(&error)))?;
        let redactor = Redactor::new(settings.api_key.iter().map(|key| (key.name.clone(), key.value.clone())));
        Ok(Self { http, url, headers, settings, redactor })
    }

    async fn ask(&self, call: &ModelCall, deltas: &dyn Deltas) -> Result<ModelAnswer, Fault> {
        let clock = Clock::new(&self.settings, call.time_left);
        let OpenAiSettings { keep_prefix, keep_for, .. } = self.settings;
        let keeping = CacheRequest::of(call, self.url.host_str().unwrap_or_default(), keep_prefix, keep_for);
        let body = request::body_keeping(call, &keeping)?;
        let request = self.http.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = clock.wait(request.send()).await?.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.refused(response, &clock).await);
        }
        match ContentType::of(&response, &self.redactor) {
            ContentType::EventStream => self.read_stream(response, &clock, call.ordinal, deltas).await,
            ContentType::Json => self.read_whole(response, &clock, call.ordinal, deltas).await,
            ContentType::Other(kind) => Err(unreadable(format!(
                "the provider answered with {kind}, not with an event stream; is the base URL right?"
            ))),
        }
    }

    /// Reads a stream of events until its end, or until `[DONE]`.
    async fn read_stream(
        &self,
        mut response: Response,
        clock: &Clock,
        ordinal: u64,
        deltas: &dyn Deltas,
    ) -> Result<ModelAnswer, Fault> {
        let max_bytes = self.settings.max_reply_bytes;
        let mut reader = sse::Reader::new(max_bytes.saturating_mul(STREAM_TIMES));
        let mut assembly = Assembly::new(max_bytes);
        let mut events = Vec::new();
        'stream: loop {
            let chunk = match clock.wait(response.chunk()).await? {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // With its finish reason the reply is complete, however the connection ends.
                Err(_) if assembly.is_finished() => break,
                Err(error) => return Err(cut(reader.read_bytes(), Some(&error))),
            };
            let read = reader.push(&chunk, &mut events);
            for data in events.drain(..) {
                if data == "[DONE]" {
                    break 'stream;
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
        }
        assembly.complete(ordinal).ok_or_else(|| cut(reader.read_bytes(), None))
    }

    /// Reads a completion that was not streamed although it was asked to be. Some servers and proxies do that.
    async fn read_whole(
        &self,
        mut response: Response,
        clock: &Clock,
        ordinal: u64,
        deltas: &dyn Deltas,
    ) -> Result<ModelAnswer, Fault> {
        let max_bytes = self.settings.max_reply_bytes;
        let whole_max_bytes = max_bytes.saturating_mul(WHOLE_TIMES).saturating_add(WHOLE_MORE_BYTES);
        let mut body = Vec::new();
        loop {
            match clock.wait(response.chunk()).await? {
                Ok(Some(chunk)) if body.len() + chunk.len() > whole_max_bytes => {
                    return Err(too_large(format!("the completion is longer than {whole_max_bytes} bytes")));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return Err(cut(body.len(), Some(&error))),
            }
        }
        let body = String::from_utf8(body).map_err(|_| unreadable("the reply is not UTF-8".to_owned()))?;
        let mut assembly = Assembly::new(max_bytes);
        let text = assembly.take(&body, &self.redactor)?;
        let answer = assembly
            .complete(ordinal)
            .ok_or_else(|| unreadable("the provider answered with JSON that is no completion".to_owned()))?;
        if !text.is_empty() {
            deltas.text(&text);
        }
        Ok(answer)
    }

    async fn refused(&self, mut response: Response, clock: &Clock) -> Fault {
        let status = response.status().as_u16();
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let retry_after_ms = retry_after::retry_after_ms(response.headers(), now_s);
        let mut body = Vec::new();
        let mut is_whole = false;
        while body.len() < MAX_REFUSAL_BYTES && !is_whole {
            // The status says the most; a body that does not come changes nothing.
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
            // What could be the beginning of a key is left out.
            body = self.redactor.beginning(&body);
        }
        let mut fault = refusal::of_status(status, &body, &self.redactor);
        if let Some(hint) = self.hint(status) {
            fault.message.push_str("; ");
            fault.message.push_str(&hint);
        }
        Fault { retry_after_ms, ..fault }
    }

    /// What to do about a status.
    fn hint(&self, status: u16) -> Option<String> {
        match (status, &self.settings.api_key) {
            (401 | 403, Some(key)) => Some(format!("check the key in {}", key.name)),
            (401 | 403, None) => Some(format!("no key is set: {KEY_VARIABLE} or key_env in rondo.toml gives it")),
            (404, _) => Some(format!("check the model and the base URL {}", self.settings.base_url)),
            (300..=399, _) => Some("redirects are not followed: give the address that it leads to".to_owned()),
            _ => None,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Fault {
        let url = &self.url;
        if error.is_timeout() {
            let limit = self.settings.connect_timeout;
            let message = format!("no connection to {url} within {limit:?}");
            return Fault::new(Code::ProviderSilent, FaultClass::Timeout, message);
        }
        let message = format!("could not reach {url}: {}", root_cause(error));
        Fault::new(Code::ProviderUnreachable, FaultClass::Network, message)
    }
}

impl Model for OpenAi {
    fn complete<'a>(
        &'a self,
        call: &'a ModelCall,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        Box::pin(async move {
            self.ask(call, deltas).await.map_err(|mut fault| {
                self.redactor.string(&mut fault.message);
                fault
            })
        })
    }
}

/// The headers of every request. A key that no header can hold is refused here, because the configuration would panic.
fn headers(config: OpenAIConfig, key: Option<&Secret>) -> Result<HeaderMap, SettingsError> {
    let config = match key {
        Some(key) => {
            if HeaderValue::from_str(&format!("Bearer {}", key.value)).is_err() {
                return Err(SettingsError::Key(key.name.clone()));
            }
            config.with_api_key(&key.value)
        }
        // Without a key of its own the configuration would take one from the environment.
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
            // A server that does not say what it sends was asked for a stream.
            "text/event-stream" | "" => Self::EventStream,
            "application/json" => Self::Json,
            _ => Self::Other(refusal::words(kind, redactor)),
        }
    }
}

/// When waiting ends.
struct Clock {
    idle_timeout: Duration,
    total_timeout: Duration,
    /// `None` when it lies farther away than time can be counted.
    deadline: Option<Instant>,
}

impl Clock {
    fn new(settings: &OpenAiSettings, time_left: Duration) -> Self {
        let total_timeout = settings.total_timeout.map_or(time_left, |total| total.min(time_left));
        let deadline = Instant::now().checked_add(total_timeout);
        Self { idle_timeout: settings.idle_timeout, total_timeout, deadline }
    }

    /// Waits for `future`, but no longer than the server may be silent and the request may take.
    async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Fault> {
        let left = self.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = left.min(self.idle_timeout);
        tokio::time::timeout(limit, future).await.map_err(|_| {
            let message = if left < self.idle_timeout {
                format!("the request took longer than {:?}", self.total_timeout)
            } else {
                format!("the provider sent nothing for {:?}", self.idle_timeout)
            };
            Fault::new(Code::ProviderSilent, FaultClass::Timeout, message)
        })
    }
}

fn cut(read_bytes: usize, error: Option<&reqwest::Error>) -> Fault {
    let mut message = format!("the reply was cut after {read_bytes} bytes, before its finish reason");
    if let Some(error) = error {
        message.push_str(": ");
        message.push_str(&root_cause(error));
    }
    Fault::new(Code::ReplyCut, FaultClass::Network, message)
}

/// The last cause of an error, which says more than the first.
fn root_cause(error: &reqwest::Error) -> String {
    refusal::excerpt(&web::root_cause(error))
}

#[cfg(test)]
mod tests;
