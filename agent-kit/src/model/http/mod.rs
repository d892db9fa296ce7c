//! The HTTP side of every provider: the client, its clocks, bounded streams and refusals. What is sent and how a reply
//! is read is the [`Protocol`]'s.
//!
//! Laws:
//! - One call is one request, but where a server refuses one form of it and takes another. Nothing is retried, no
//!   redirect is followed.
//! - A reply is complete only with a known finish reason; anything else is a fault, and the text so far is discarded.
//!   Unreadable usage figures are no fault.
//! - Whatever a server sends, memory stays within a small multiple of `max_reply_bytes` plus one event of a stream, and
//!   every wait ends.
//! - The key is sent only to `base_url` and appears in no fault.
//!
//! The proxy variables of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`) apply as reqwest
//! defines them, but never to a loopback address.

mod clock;
mod halves;
pub mod local;
mod model_list;
pub(super) mod refusal;
mod retry_after;
pub(super) mod sse;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, ModelCall};
use rondo_protocol::diagnostic::Code;

use super::dialects::Dialect;
use super::prompt_cache::{CacheRetention, PromptCache};
use super::protocol::{Assembly, Form, Outgoing, Protocol, too_large, unreadable};
use super::{Completion, Deltas, Model, NoDeltas, protocol};
use crate::redact::{Redactor, Secret, bare_key};
use crate::web;
use clock::Clock;
use halves::Halves;

pub use refusal::Refusal;

/// The maximum size of a stream, as a multiple of the largest reply. Providers send 200 to 1000 bytes for each token of
/// one to five bytes; only the largest replies come near this limit.
const STREAM_TIMES: usize = 64;

/// The maximum size of a reply as one JSON object, as a multiple of the largest reply: text of non-ASCII letters
/// written as ASCII escapes is three times as long.
const WHOLE_TIMES: usize = 3;

/// The maximum size of the rest of a completion as one JSON object.
const WHOLE_MORE_BYTES: usize = 1 << 20;

/// The maximum size of a list of models. Gateways describe hundreds of them.
const MAX_LIST_BYTES: usize = 8 << 20;

/// How many requests are remembered that a server took in another form.
const MAX_AMENDED: usize = 256;

/// How much of a reply HTTP/2 keeps that is not read yet, because there is no memory for it.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// The replies of one connection share its window: those that wait for memory must not use it up, or the one that has
/// memory would wait for them.
const CONNECTION_WINDOW_BYTES: u32 = 256 * STREAM_WINDOW_BYTES;

/// Where and how a provider is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// The provider's name: what a provider attached to a message goes back to the one of that name.
    pub name: String,
    pub protocol: &'static dyn Protocol,
    /// The address in front of the protocol's own paths.
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

impl Default for HttpSettings {
    fn default() -> Self {
        let protocol = protocol::COMMON;
        Self {
            name: protocol.service().provider.to_owned(),
            protocol,
            base_url: protocol.service().base_url.to_owned(),
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("the base URL is not an http or https address: {0}")]
    Address(String),
    #[error("the base URL holds a user name, a password or a query; give the key in {0}, and a query in `query`")]
    Credentials(&'static str),
    #[error("the key in {0} holds characters that cannot be sent, such as a line end")]
    Key(String),
    #[error("the header {0} holds characters that cannot be sent, such as a line end")]
    Header(String),
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

#[derive(Debug, Clone)]
pub struct HttpModel {
    http: reqwest::Client,
    headers: HeaderMap,
    settings: HttpSettings,
    redactor: Redactor,
    dialect: Dialect,
    /// Whether the server takes the other name for the ceiling on output tokens, having refused that of its dialect.
    has_other_ceiling: Arc<AtomicBool>,
    /// The latest requests that the server took in another form only.
    amended: Arc<Mutex<VecDeque<AmendedRequest>>>,
}

/// A request that the server took in this form only: one that continues it is sent so at once.
#[derive(Debug)]
struct AmendedRequest {
    head: Digest,
    chain: Digest,
    form: Form,
}

impl HttpModel {
    /// Sets up a provider; sends nothing.
    ///
    /// # Errors
    /// When the address, the key or a header cannot be used.
    pub fn new(settings: HttpSettings) -> Result<Self, SettingsError> {
        let url = Url::parse(&settings.base_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| SettingsError::Address(refusal::excerpt(&settings.base_url)))?;
        let is_bare = url.query().is_none() && url.fragment().is_none();
        if !is_bare || !url.username().is_empty() || url.password().is_some() {
            return Err(SettingsError::Credentials(settings.protocol.service().key_env));
        }
        let mut headers = settings.protocol.headers(settings.api_key.as_ref())?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        // Without it a server may pack its replies as it likes (RFC 9110, 12.5.3).
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, secret) in &settings.headers {
            let header = HeaderName::from_str(name).ok().zip(HeaderValue::from_str(&secret.value).ok());
            let (header, value) = header.ok_or_else(|| SettingsError::Header(refusal::excerpt(name)))?;
            insert_key(&mut headers, header, value);
        }
        let http = client(&settings, &url).build().map_err(|error| SettingsError::Client(root_cause(&error)))?;
        let secrets = settings.api_key.iter().chain(settings.headers.iter().map(|(_, secret)| secret));
        let both =
            |key: &Secret| [key.value.as_str(), bare_key(&key.value)].map(|value| (key.name.clone(), value.to_owned()));
        let redactor = Redactor::new(secrets.flat_map(both));
        let dialect = settings.protocol.dialect(&settings.base_url);
        let (has_other_ceiling, amended) = (Arc::default(), Arc::default());
        Ok(Self { http, headers, settings, redactor, dialect, has_other_ceiling, amended })
    }

    /// The form in which a call is sent first: that of the latest request which it continues, if the server took that in
    /// another form only.
    fn first_form(&self, call: &ModelCall) -> Form {
        let amended = self.amended.lock().unwrap_or_else(PoisonError::into_inner);
        let links = if amended.is_empty() { Vec::new() } else { call.conversation.links() };
        let is_continued =
            |request: &&AmendedRequest| request.head == call.head_digest && links.contains(&request.chain);
        let form = amended.iter().rev().find(is_continued).map(|request| request.form).unwrap_or_default();
        Form { has_other_ceiling: self.has_other_ceiling.load(Ordering::Relaxed), ..form }
    }

    /// Remembers the form in which a call was taken, after it was refused in another.
    fn remember(&self, call: &ModelCall, form: Form) {
        self.has_other_ceiling.fetch_or(form.has_other_ceiling, Ordering::Relaxed);
        if form.is_without_reasoning || form.has_empty_reasoning || form.is_without_tool_files {
            let mut amended = self.amended.lock().unwrap_or_else(PoisonError::into_inner);
            if amended.len() == MAX_AMENDED {
                amended.pop_front();
            }
            amended.push_back(AmendedRequest { head: call.head_digest, chain: call.conversation.chain(), form });
        }
    }

    /// The request for `call` in that form.
    fn outgoing<'a>(&'a self, call: &'a ModelCall, form: Form) -> Outgoing<'a> {
        let HttpSettings { name, prompt_cache, prompt_cache_retention, .. } = &self.settings;
        let (prompt_cache, prompt_cache_retention) = (*prompt_cache, *prompt_cache_retention);
        Outgoing { call, provider: name, dialect: &self.dialect, prompt_cache, prompt_cache_retention, form }
    }

    fn base(&self) -> &str {
        self.settings.base_url.trim_end_matches('/')
    }

    /// An address with the query of the settings; `why` tells what makes none.
    fn address(&self, url: &str, why: impl Fn() -> String) -> Result<Url, Fault> {
        let url = Url::parse(url).map_err(|error| protocol::refused(format!("{}: {error}", why())));
        let mut url = url?;
        if !self.settings.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.settings.query);
        }
        Ok(url)
    }

    /// The ids of the models that the server lists, in its order: at least one.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses, or answers with something else. No message contains the key.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn model_ids(&self, time_left: Duration) -> Result<Vec<String>, Fault> {
        let ids =
            self.listed(&mut Clock::new(&self.settings, time_left)).await.map_err(|fault| self.redacted(fault))?;
        Ok(ids.into_iter().map(|id| self.redactor.text(&id).into_owned()).collect())
    }

    async fn listed(&self, clock: &mut Clock<'_>) -> Result<Vec<String>, Fault> {
        let url = self.address(&self.settings.protocol.models_url(self.base()), || "no address".to_owned())?;
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let request = self.http.get(url.clone()).headers(headers);
        let response = clock.wait(request.send()).await?.map_err(|error| self.unreachable(&url, &error))?;
        if !response.status().is_success() {
            return Err(self.fault(&Refusal::read(response, clock, &self.redactor).await));
        }
        self.check_coding(&response)?;
        let body = whole_body(response, clock, ("list of models", MAX_LIST_BYTES), &NoDeltas).await?;
        model_list::ids(&body).ok_or_else(|| unreadable("the provider lists no models".to_owned()))
    }

    async fn ask(&self, call: &ModelCall, deltas: &dyn Deltas) -> Result<ModelAnswer, Fault> {
        let mut clock = Clock::new(&self.settings, call.time_left);
        let (head, protocol) = (&call.head, self.settings.protocol);
        let no_address = || format!("the model {} makes no address", refusal::excerpt(&head.model));
        let url = self.address(&protocol.url(self.base(), head), no_address)?;
        let first_form = self.first_form(call);
        let mut form = first_form;
        let response = loop {
            let outgoing = self.outgoing(call, form);
            let request = self.http.post(url.clone()).headers(self.headers.clone()).body(protocol.body(&outgoing)?);
            let response = clock.wait(request.send()).await?.map_err(|error| self.unreachable(&url, &error))?;
            if response.status().is_success() {
                if form != first_form {
                    self.remember(call, form);
                }
                break response;
            }
            let refusal = Refusal::read(response, &clock, &self.redactor).await;
            if let Some(slip) = protocol.slip(&refusal) {
                return Ok(slip);
            }
            form = protocol.amended(&outgoing, &refusal).ok_or_else(|| self.fault(&refusal))?;
        };
        self.check_coding(&response)?;
        let outgoing = self.outgoing(call, form);
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_owned();
        match kind.to_ascii_lowercase().as_str() {
            // Without a content type it is a stream, as requested.
            "text/event-stream" | "" => self.read_stream(response, &mut clock, &outgoing, deltas).await,
            "application/json" => self.read_whole(response, &mut clock, &outgoing, deltas).await,
            _ => Err(unreadable(format!(
                "the provider answered with {}, not with an event stream; is the base URL right?",
                refusal::words(&kind, &self.redactor)
            ))),
        }
    }

    /// A reply that is packed is not read. Another attempt would be paid for again, and be packed again.
    fn check_coding(&self, response: &Response) -> Result<(), Fault> {
        refusal::coding(response.headers()).map_or(Ok(()), |coding| {
            let coding = refusal::words(&coding, &self.redactor);
            let message = format!("the provider packed its reply as {coding}, although it was asked not to");
            Err(Fault::new(Code::ReplyUnreadable, FaultClass::Refused, message))
        })
    }

    async fn read_stream(
        &self,
        mut response: Response,
        clock: &mut Clock<'_>,
        request: &Outgoing<'_>,
        deltas: &dyn Deltas,
    ) -> Result<ModelAnswer, Fault> {
        let max_bytes = self.settings.max_reply_bytes;
        let mut reader = sse::Reader::new(max_bytes.saturating_mul(STREAM_TIMES), whole_max_bytes(max_bytes));
        let mut assembly = self.settings.protocol.assembly(max_bytes);
        let mut last = String::new();
        let read = self.read_events(&mut response, clock, (&mut reader, &mut *assembly, &mut last), deltas).await;
        let usage = assembly.progress().usage;
        let told = if assembly.finish().is_none() { refusal::of_bare(&last, &self.redactor) } else { None };
        let answer = told.map_or(read, Err).and_then(|()| assembly.complete(request, cut(reader.read_bytes(), None)));
        answer.map_err(|fault| fault.with_usage(usage))
    }

    /// Keeps the last event, if it is short: where no finish follows, it may tell why.
    async fn read_events(
        &self,
        response: &mut Response,
        clock: &mut Clock<'_>,
        (reader, assembly, last): (&mut sse::Reader, &mut dyn Assembly, &mut String),
        deltas: &dyn Deltas,
    ) -> Result<(), Fault> {
        let (mut events, mut halves) = (Vec::new(), Halves::default());
        let end = loop {
            let chunk = match clock.wait(response.chunk()).await {
                Ok(Ok(Some(chunk))) => chunk,
                Ok(Ok(None)) => break Ok(()),
                Ok(Err(error)) => break Err(cut(reader.read_bytes(), Some(&error))),
                Err(silence) => break Err(silence),
            };
            let read = reader.push(&chunk, &mut events);
            for data in events.drain(..) {
                deltas.event(&data);
                for data in halves.push(data) {
                    if self.take_event(&data, assembly, deltas)? {
                        return Ok(());
                    }
                    *last = if refusal::is_short(&data) { data } else { String::new() };
                }
            }
            read?;
            let pending_bytes = reader.pending_bytes() + halves.pending_bytes();
            clock.pause(deltas.reserve(assembly.progress().said_bytes + pending_bytes)).await;
        };
        if let Some(data) = halves.end() {
            self.take_event(&data, assembly, deltas)?;
            *last = data;
        }
        // With its finish reason the reply is complete, however the connection ends, or if it does not.
        if assembly.finish().is_some() { Ok(()) } else { end }
    }

    /// Whether nothing more is awaited behind this event.
    fn take_event(&self, data: &str, assembly: &mut dyn Assembly, deltas: &dyn Deltas) -> Result<bool, Fault> {
        if data == "[DONE]" {
            return Ok(true);
        }
        let added = assembly.take(data, &self.redactor)?;
        if !added.is_empty() {
            deltas.text(&added);
        }
        Ok(assembly.is_closed())
    }

    /// Reads a completion that the server or a proxy did not stream, although streaming was requested.
    async fn read_whole(
        &self,
        response: Response,
        clock: &mut Clock<'_>,
        request: &Outgoing<'_>,
        deltas: &dyn Deltas,
    ) -> Result<ModelAnswer, Fault> {
        let max_bytes = self.settings.max_reply_bytes;
        let body = whole_body(response, clock, ("completion", whole_max_bytes(max_bytes)), deltas).await?;
        let body = String::from_utf8(body).map_err(|_| unreadable("the reply is not UTF-8".to_owned()))?;
        deltas.event(&body);
        let mut assembly = self.settings.protocol.assembly(max_bytes);
        let body = halves::mended(body);
        let text = assembly.take(&body, &self.redactor);
        let usage = assembly.progress().usage;
        let no_reply = || unreadable("the provider answered with JSON that is no completion".to_owned());
        let no_reply = refusal::of_bare(&body, &self.redactor).unwrap_or_else(no_reply);
        let answer = text.and_then(|text| Ok((text, assembly.complete(request, no_reply)?)));
        let (text, answer) = answer.map_err(|fault| fault.with_usage(usage))?;
        if !text.is_empty() {
            deltas.text(&text);
        }
        Ok(answer)
    }

    fn fault(&self, refusal: &Refusal) -> Fault {
        let mut fault = refusal.fault(&self.redactor);
        if self.settings.protocol.is_out_of_funds(refusal) {
            (fault.code, fault.class) = (Code::QuotaUsedUp, FaultClass::Refused);
        }
        if let Some(hint) = self.hint(refusal.status) {
            fault.message.push_str("; ");
            fault.message.push_str(&hint);
        }
        fault
    }

    fn redacted(&self, mut fault: Fault) -> Fault {
        self.redactor.string(&mut fault.message);
        fault
    }

    fn hint(&self, status: u16) -> Option<String> {
        match (status, &self.settings.api_key) {
            (401 | 403, Some(key)) => Some(format!("check the key in {}", key.name)),
            (401 | 403, None) if !self.settings.headers.is_empty() => {
                let names: Vec<&str> = self.settings.headers.iter().map(|(name, _)| name.as_str()).collect();
                Some(format!("check the headers of the provider: {}", names.join(", ")))
            }
            (401 | 403, None) => {
                let variable = self.settings.protocol.service().key_env;
                Some(format!("no key is set: {variable} or key_env in rondo.toml gives it"))
            }
            (404, _) => Some(format!("check the model and the base URL {}", self.settings.base_url)),
            (300..=399, _) => Some("redirects are not followed: give the address that it leads to".to_owned()),
            _ => None,
        }
    }

    fn unreachable(&self, url: &Url, error: &reqwest::Error) -> Fault {
        // A query may hold a key.
        let mut url = url.clone();
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

/// The maximum size of a reply in one JSON object, a completion or an event, for replies of at most `max_bytes`.
fn whole_max_bytes(max_bytes: usize) -> usize {
    max_bytes.saturating_mul(WHOLE_TIMES).saturating_add(WHOLE_MORE_BYTES)
}

impl Model for HttpModel {
    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        Box::pin(async move { self.ask(call, deltas).await.map_err(|fault| self.redacted(fault)) })
    }
}

fn client(settings: &HttpSettings, url: &Url) -> reqwest::ClientBuilder {
    let builder = web::client()
        .connect_timeout(settings.connect_timeout)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    if is_loopback(url) { builder.no_proxy() } else { builder }
}

/// Adds the header of a key, which no log shows.
fn insert_key(headers: &mut HeaderMap, name: HeaderName, mut value: HeaderValue) {
    value.set_sensitive(true);
    headers.insert(name, value);
}

/// Adds the header `name` with the key, if there is one.
pub(super) fn with_key(
    mut headers: HeaderMap,
    name: &'static str,
    key: Option<&Secret>,
) -> Result<HeaderMap, SettingsError> {
    if let Some(key) = key {
        let value = HeaderValue::from_str(&key.value).map_err(|_| SettingsError::Key(key.name.clone()))?;
        insert_key(&mut headers, HeaderName::from_static(name), value);
    }
    Ok(headers)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Reads a body that is one piece: `what` it is and the maximum bytes of it are given.
async fn whole_body(
    mut response: Response,
    clock: &mut Clock<'_>,
    (what, max_bytes): (&str, usize),
    deltas: &dyn Deltas,
) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    loop {
        match clock.wait(response.chunk()).await? {
            Ok(Some(chunk)) if body.len() + chunk.len() > max_bytes => {
                return Err(too_large(format!("the {what} is longer than {max_bytes} bytes")));
            }
            Ok(Some(chunk)) => {
                body.extend_from_slice(&chunk);
                clock.pause(deltas.reserve(body.len())).await;
            }
            Ok(None) => return Ok(body),
            Err(error) => return Err(cut(body.len(), Some(&error))),
        }
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

fn root_cause(error: &reqwest::Error) -> String {
    refusal::excerpt(&web::root_cause(error))
}

#[cfg(test)]
mod tests;
