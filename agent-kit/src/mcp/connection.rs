//! One connection to a server, from its handshake to its end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rmcp::model::{ClientCapabilities, ClientConfig, ErrorData, Implementation, ProtocolVersion};
use rmcp::service::{ClientCacheConfig, ClientInitializeError, Peer, RequestContext, RunningService, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use rondo_protocol::diagnostic::Code;
use tokio::time::{Instant, timeout_at};

use super::guard::{Bounded, Guarded, Watch};
use super::process::{Input, Output, Process};
use super::settings::{ServerProgram, ServerSettings, Transport};
use crate::bound;
use crate::redact::{Redactor, Secret};
use crate::sandbox::process::{Exit, WorkingDir};
use crate::tool::Error;
use crate::web;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a broken event stream is reopened.
const MAX_REOPENINGS: usize = 3;
/// How many characters of a foreign error message are shown.
const MAX_CAUSE_CHARS: usize = 400;

/// Refuses a server's questions: rondo offers it no model, no files and no person.
#[derive(Debug)]
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("rondo", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    // By default rmcp would answer with an empty list; this question is refused like the others.
    #[expect(deprecated, reason = "servers of before the deprecation still ask")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::invalid_request("there are no roots here", None))
    }
}

pub struct Connection {
    service: RunningService<RoleClient, Client>,
    remote: Remote,
    /// No more requests are possible, although the transport is open.
    is_broken: AtomicBool,
    /// The tools that differ from their pins, with a description of the change.
    changed: Mutex<BTreeMap<String, String>>,
}

/// The server, as errors describe it.
struct Remote {
    server: String,
    /// `None` for an address.
    process: Option<Process>,
    watch: Watch,
    redactor: Redactor,
}

impl Connection {
    /// Starts or reaches a server and completes the handshake.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server.
    pub async fn open(settings: &ServerSettings, deadline: Instant) -> Result<Self, Error> {
        let watch = Watch::default();
        let (process, handshake) = match &settings.transport {
            Transport::Stdio(program) => {
                program.pinned.check()?;
                let (process, transport) = over_pipes(settings, program, &watch).await?;
                (Some(process), timeout_at(deadline, Client.serve(transport)).await)
            }
            Transport::Http { url, bearer, headers } => {
                let transport = over_http(settings, url, bearer.as_ref(), headers, &watch)?;
                (None, timeout_at(deadline, Client.serve(transport)).await)
            }
        };
        let remote = Remote { server: settings.name.clone(), process, watch, redactor: settings.redactor() };
        let service = match handshake {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => return Err(remote.not_ready(&error).await),
            Err(_) => {
                let wrote = remote.words(&remote.process.as_ref().map(Process::wrote).unwrap_or_default());
                let limit = settings.start_timeout;
                let message = format!("the MCP server {} was not ready within {limit:?}{wrote}", remote.server);
                return Err(Error::new(Code::McpStart, message));
            }
        };
        // A cached answer must not hide a change.
        service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(Self { service, remote, is_broken: AtomicBool::new(false), changed: Mutex::default() })
    }

    pub fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    pub fn watch(&self) -> &Watch {
        &self.remote.watch
    }

    pub fn is_open(&self) -> bool {
        !self.is_broken.load(Ordering::SeqCst) && !self.peer().is_transport_closed()
    }

    /// Ends the connection, and the server if it is a program.
    pub fn end(&self) -> Option<impl Future<Output = Result<Exit, Error>> + Send + use<>> {
        self.is_broken.store(true, Ordering::SeqCst);
        self.service.cancellation_token().cancel();
        self.remote.process.as_ref().map(Process::end)
    }

    pub fn change_of(&self, tool: &str) -> Option<String> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    pub fn set_changed(&self, changed: BTreeMap<String, String>) {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = changed;
    }

    pub async fn fault(&self, error: &ServiceError) -> Error {
        let server = &self.remote.server;
        match error {
            ServiceError::McpError(error) => {
                let message = self.remote.words(&error.message);
                Error::new(Code::McpToolFailed, format!("the MCP server {server} answered with an error: {message}"))
            }
            ServiceError::TransportClosed => self.ended().await,
            ServiceError::TransportSend(_) if self.peer().is_transport_closed() => self.ended().await,
            ServiceError::TransportSend(error) => {
                // A lost session does not come back; the next call opens another.
                self.is_broken.store(true, Ordering::SeqCst);
                let cause = self.remote.words(&web::root_cause(error));
                let what = match http_error(error) {
                    Some(error) if may_have_effect(error) => {
                        "did not answer, and whether the request had an effect is unknown"
                    }
                    Some(_) | None => "could not be asked",
                };
                Error::new(Code::McpEnded, format!("the MCP server {server} {what}: {cause}"))
            }
            other => {
                let cause = self.remote.words(&other.to_string());
                Error::new(
                    Code::McpUnreadable,
                    format!("the answer of the MCP server {server} cannot be used: {cause}"),
                )
            }
        }
    }

    /// Whether a request was refused because the server has forgotten the session, so that nothing was carried out: a
    /// status 404 (<https://modelcontextprotocol.io/specification/2025-06-18/basic/transports>). The connection is then
    /// of no more use.
    pub fn has_lost_session(&self, error: &ServiceError) -> bool {
        let ServiceError::TransportSend(error) = error else { return false };
        let is_lost = matches!(http_error(error), Some(StreamableHttpError::SessionExpired));
        if is_lost {
            self.is_broken.store(true, Ordering::SeqCst);
        }
        is_lost
    }

    /// The error for a connection that has ended. Also ends what is left of the server.
    pub async fn ended(&self) -> Error {
        let error = self.remote.ended(Code::McpEnded).await;
        drop(self.end());
        error
    }
}

type HttpError = StreamableHttpError<reqwest::Error>;

fn http_error(error: &DynamicTransportError) -> Option<&HttpError> {
    error.error.downcast_ref()
}

/// Whether a request that failed so may have been carried out: it was sent, and not refused.
fn may_have_effect(error: &HttpError) -> bool {
    match error {
        StreamableHttpError::Client(error) => !error.is_connect() && !error.is_builder(),
        StreamableHttpError::HttpStatus(error) => error.status >= 500,
        // So rmcp tells the status of any other refusal.
        StreamableHttpError::UnexpectedServerResponse(words) => !words.starts_with("HTTP 4"),
        StreamableHttpError::AuthRequired(_)
        | StreamableHttpError::InsufficientScope(_)
        | StreamableHttpError::SessionExpired
        | StreamableHttpError::ReservedHeaderConflict(_) => false,
        _ => true,
    }
}

impl Remote {
    fn words(&self, text: &str) -> String {
        bound::line(&self.redactor.text(text), MAX_CAUSE_CHARS)
    }

    async fn not_ready(&self, error: &ClientInitializeError) -> Error {
        let is_closed =
            matches!(error, ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. });
        if self.process.is_some() && is_closed {
            return self.ended(Code::McpStart).await;
        }
        let cause = self.words(&web::root_cause(error));
        Error::new(Code::McpStart, format!("the MCP server {} did not get ready: {cause}", self.server))
    }

    async fn ended(&self, code: Code) -> Error {
        let server = &self.server;
        let words = match (self.watch.fault(), &self.process) {
            (Some(fault), _) => {
                let message = format!("the connection to the MCP server {server} was closed: {fault}");
                return Error::new(Code::McpUnreadable, message);
            }
            (None, Some(process)) => process.last_words().await,
            (None, None) => "closed the connection".to_owned(),
        };
        let words = bound::line(&self.redactor.text(&words), 2 * MAX_CAUSE_CHARS);
        Error::new(code, format!("the MCP server {server} {words}"))
    }
}

type Piped = AsyncRwTransport<RoleClient, Bounded<Output>, Input>;

async fn over_pipes(
    settings: &ServerSettings,
    program: &ServerProgram,
    watch: &Watch,
) -> Result<(Process, Guarded<Piped>), Error> {
    let (process, stdout, stdin) = Process::start(program).await.map_err(|error| {
        let folder = match &program.working_dir {
            WorkingDir::Folder(folder) => format!(" in {}", folder.display()),
            WorkingDir::Private => String::new(),
        };
        let message = format!(
            "the MCP server {} cannot be started: {}{folder}: {}",
            settings.name, program.command, error.message
        );
        Error::new(error.code, message)
    })?;
    let max_bytes = settings.max_line_bytes;
    let stdout = Bounded::new(stdout, max_bytes, watch.clone());
    // Our bound ends the connection before rmcp's own limit, which only drops the line, is reached.
    let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(max_bytes.saturating_add(2));
    Ok((process, Guarded::new(transport, watch.clone())))
}

fn over_http(
    settings: &ServerSettings,
    url: &str,
    bearer: Option<&Secret>,
    headers: &[(String, Secret)],
    watch: &Watch,
) -> Result<Guarded<StreamableHttpClientTransport<reqwest::Client>>, Error> {
    let headers = headers.iter().filter_map(|(name, value)| {
        let mut value = HeaderValue::from_str(&value.value).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, value))
    });
    let client = web::client().no_proxy().referer(false).connect_timeout(CONNECT_TIMEOUT);
    let client = client.default_headers(headers.collect::<HeaderMap>()).build();
    let client = client.map_err(|error| {
        let cause = web::root_cause(&error);
        Error::new(Code::McpStart, format!("the MCP server {} cannot be reached: {cause}", settings.name))
    })?;
    // A new session may have other tools, so we open it ourselves.
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_sse_event_size(settings.max_line_bytes)
        .reinit_on_expired_session(false);
    let mut reopening = ExponentialBackoff::default();
    reopening.max_times = Some(MAX_REOPENINGS);
    config.retry_config = Arc::new(reopening);
    if let Some(bearer) = bearer {
        config = config.auth_header(&bearer.value);
    }
    Ok(Guarded::new(StreamableHttpClientTransport::with_client(client, config), watch.clone()))
}
