//! HTTP requests to the hosts that the operator grants, and to no network behind them.
//!
//! Laws:
//! - Only a granted host with its port is contacted. Without grants there is no network.
//! - A name is resolved once, every returned address must be public, and the connection goes to these addresses, so a
//!   different second answer has no effect. An address that is not public requires a grant of this address (or
//!   `localhost`) and port.
//! - A URL is parsed once, and only the parsed form is used.
//! - A redirect is checked as a new request. Headers are not sent to another origin, and https is not downgraded to
//!   http.
//! - The environment has no effect: no proxy, cookies, `.netrc` or referer.
//! - Bytes, headers, redirects and time are limited, and what is cut is marked.
//!
//! It knows nothing of tools; interpreting a body is up to the caller.

mod address;
mod hosts;
mod target;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use reqwest::Url;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION};
use rondo_protocol::diagnostic::Code;
use tokio::net::TcpStream;

use crate::bound;
use crate::error::Error;
use crate::web;

pub use hosts::HostError;

use hosts::{Granted, Host, Hosts};

const MAX_HEADERS: usize = 100;
/// The maximum size of the headers over HTTP/2. Over HTTP/1 hyper allows about 400 KiB.
const MAX_HEADER_BYTES: u32 = 64 << 10;
const MAX_ADDRESSES: usize = 16;
const MAX_REDIRECTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub trait Resolver: Send + Sync {
    /// Every address of `host`, which is a name and no address.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        // The port does not matter to a look-up; it only belongs to what the system is asked.
        Box::pin(async move { Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect()) })
    }
}

#[derive(Clone)]
pub struct GateSettings {
    /// The hosts that the operator grants: `example.com`, `*.example.com`, `example.com:8443`, `127.0.0.1:8080`.
    pub hosts: Vec<String>,
    /// How long a request may take with all its redirects.
    pub total_timeout: Duration,
    pub max_bytes: usize,
    pub resolver: Arc<dyn Resolver>,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            total_timeout: Duration::from_secs(30),
            max_bytes: 1 << 20,
            resolver: Arc::new(SystemResolver),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// The status line, such as `404 Not Found`.
    pub status_line: String,
    pub content_type: Option<String>,
    /// Nothing is decoded here.
    pub content_encoding: Option<String>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    pub cut: bool,
    pub length_bytes: Option<u64>,
    /// The final URL, after redirects.
    pub url: String,
}

#[derive(Clone)]
pub struct Gate {
    settings: GateSettings,
    hosts: Hosts,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("hosts", &self.settings.hosts).finish_non_exhaustive()
    }
}

impl Gate {
    pub fn new(settings: GateSettings) -> Result<Self, HostError> {
        let hosts = Hosts::new(&settings.hosts)?;
        Ok(Self { settings, hosts })
    }

    /// Requests `url` and follows redirects. `max_bytes` can only lower the limit of the settings.
    ///
    /// # Errors
    /// A host that is not granted, an address that is not public, a redirect to such, or a response that does not
    /// arrive or cannot be read. An unsuccessful status is no error.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn get(&self, url: &str, headers: &HeaderMap, max_bytes: usize) -> Result<Response, Error> {
        let limit = self.settings.total_timeout;
        let follow = self.follow(url, headers.clone(), max_bytes.min(self.settings.max_bytes));
        tokio::time::timeout(limit, follow)
            .await
            .unwrap_or_else(|_| Err(Error::new(Code::HttpSilent, format!("the request took longer than {limit:?}"))))
    }

    /// Connects to the host of `url` as a request would; the caller then uses the connection.
    pub async fn connect(&self, url: &str) -> Result<TcpStream, Error> {
        let (url, addresses) = self.check(target::parse(url)?).await?;
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(addresses.as_slice())).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                Err(Error::new(Code::HttpUnreachable, format!("{url} could not be connected to: {error}")))
            }
            Err(_) => Err(Error::new(Code::HttpSilent, format!("{url} did not answer within {CONNECT_TIMEOUT:?}"))),
        }
    }

    async fn follow(&self, url: &str, mut headers: HeaderMap, max_bytes: usize) -> Result<Response, Error> {
        let mut url = target::parse(url)?;
        for _ in 0..=MAX_REDIRECTS {
            let (checked, addresses) = self.check(url).await?;
            let response = self.send(&checked, &addresses, headers.clone()).await?;
            let Some(next) = redirect(&checked, &response)? else {
                return read(checked, response, max_bytes).await;
            };
            if next.origin() != checked.origin() {
                headers.clear();
            }
            url = next;
        }
        let message = format!("there were more than {MAX_REDIRECTS} redirects, the last one to {url}");
        Err(Error::new(Code::HttpRedirect, message))
    }

    /// The addresses of a URL, if everything permits them.
    async fn check(&self, url: Url) -> Result<(Url, Vec<SocketAddr>), Error> {
        let host = Host::of(&url).ok_or_else(|| target::refused(&url, "it names no host"))?;
        let Some(granted) = self.hosts.grant(&host, &url) else {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            let name = url.host_str().unwrap_or_default();
            let message = format!("the host {name}{port} is not granted; the operator grants hosts by `[grant] hosts`");
            return Err(Error::new(Code::HttpHost, message));
        };
        let found = match &host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolve(name).await?,
        };
        for address in &found {
            let objection = match granted {
                Granted::Exact => None,
                Granted::Loopback if address.to_canonical().is_loopback() => None,
                Granted::Loopback => Some("no loopback address"),
                Granted::Public => address::objection(*address),
            };
            if let Some(objection) = objection {
                let name = url.host_str().unwrap_or_default();
                let message = format!("{name} is at {address}, and that is {objection}; it is not reached");
                return Err(Error::new(Code::HttpAddress, message));
            }
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let addresses = found.into_iter().take(MAX_ADDRESSES).map(|address| SocketAddr::new(address, port)).collect();
        Ok((url, addresses))
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let fault =
            |why: String| Error::new(Code::HttpUnreachable, format!("the name {name} cannot be looked up: {why}"));
        let addresses = self.settings.resolver.resolve(name).await.map_err(|error| fault(error.to_string()))?;
        if addresses.is_empty() {
            return Err(fault("it has no address".to_owned()));
        }
        Ok(addresses)
    }

    /// Sends one request to the checked addresses. Each has its own client, so that no connection is reused and no name
    /// is resolved again.
    async fn send(&self, url: &Url, addresses: &[SocketAddr], headers: HeaderMap) -> Result<reqwest::Response, Error> {
        let mut builder = web::client()
            .no_proxy()
            .referer(false)
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_TIMEOUT)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .user_agent(concat!("rondo/", env!("CARGO_PKG_VERSION")));
        if let Some(Host::Name(name)) = Host::of(url) {
            builder = builder.resolve_to_addrs(&name, addresses);
        }
        let fault = |error: &reqwest::Error| {
            let code = if error.is_timeout() { Code::HttpSilent } else { Code::HttpUnreachable };
            Error::new(code, format!("{url} could not be asked: {}", bound::line(&web::root_cause(error), 300)))
        };
        // Building reads the system's root certificates.
        let built = tokio::task::spawn_blocking(move || builder.build()).await;
        let stopped = |error| Error::new(Code::HttpUnreachable, format!("{url} could not be asked: {error}"));
        let client = built.map_err(stopped)?.map_err(|error| fault(&error))?;
        client.get(url.clone()).headers(headers).send().await.map_err(|error| fault(&error))
    }
}

/// The target of a redirect; `None` = no redirect.
fn redirect(from: &Url, response: &reqwest::Response) -> Result<Option<Url>, Error> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION) else { return Ok(None) };
    target::of_redirect(from, location.to_str().unwrap_or("\0")).map(Some)
}

async fn read(url: Url, mut response: reqwest::Response, max_bytes: usize) -> Result<Response, Error> {
    let status = response.status();
    let text_of = |name: HeaderName| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
    let (content_type, content_encoding) = (text_of(CONTENT_TYPE), text_of(CONTENT_ENCODING));
    let length_bytes = response.content_length();
    let (mut body, mut cut) = (Vec::new(), false);
    while !cut {
        let chunk = response.chunk().await.map_err(|error| {
            let read = bound::bytes(body.len() as u64);
            let cause = bound::line(&web::root_cause(&error), 300);
            Error::new(Code::HttpUnreadable, format!("the answer of {url} broke off after {read}: {cause}"))
        })?;
        let Some(chunk) = chunk else { break };
        let room = max_bytes.saturating_sub(body.len());
        cut = chunk.len() > room;
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
    }
    let status_line = match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    };
    let (url, status) = (url.to_string(), status.as_u16());
    Ok(Response { status, status_line, content_type, content_encoding, body, cut, length_bytes, url })
}
