//! What other programs reach: `rondo serve`, with the API over HTTP, the event streams and the page, and `rondo mcp`.
//!
//! Laws. Every read and write needs the token, see [`access`]. The store is the log: what a stream missed is read from
//! it, also by a server that started later. A client never slows a run: stores are read on threads of their own, each
//! stream has its own bounded queue, and requests, headers, bodies and connections have ceilings. Nothing that a model
//! wrote is ever HTML.

pub mod access;
mod batches;
mod body;
mod changes;
mod events;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod kept;
pub mod mcp;
mod model;
mod openapi;
mod openings;
mod page;
mod params;
mod places;
mod problem;
mod reports;
mod routes;
mod sessions;
mod starting;
mod steps;
mod thread_files;
mod threads;
mod workflows;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::get;
use rondo::core::local::Topic;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::store::{Read, Row};
use rondo::{Rondo, Run, blocking};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use access::Token;
use body::Json;
use openapi::Schemas;
use problem::Problem;
use rondo::failure::Failure;
use rondo::host::Host;
use rondo::host::find_thread::find_thread;
use rondo::settings::Settings;
use routes::GROUPS;
use sessions::Sessions;

pub use openings::listen;

const MAX_RUNNING: usize = 1_000;

/// What pages may load: only what this server sends, and nothing inline.
const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'";

/// A server over one host.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

pub struct Inner {
    rondo: Rondo,
    host: Host,
    settings: Settings,
    token: Token,
    sessions: Sessions,
    /// The host names that requests may name besides addresses and `localhost`.
    names: Vec<String>,
    /// Live events of the threads that run here.
    live: Topic,
    /// Cancelled when the server is told to end.
    ending: CancellationToken,
    /// Cancelled once its runs have ended.
    closed: CancellationToken,
    /// How many values of requests are kept, by the name of their space.
    kept: parking_lot::Mutex<BTreeMap<&'static str, usize>>,
}

impl std::ops::Deref for Server {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Server {
    /// A server over `host`, the open store of `rondo`. Consent for the settings in force was obtained.
    pub fn new(
        rondo: Rondo,
        host: Host,
        settings: Settings,
        token: Token,
        names: Vec<String>,
        ending: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner {
            rondo,
            host,
            settings,
            token,
            sessions: Sessions::default(),
            names,
            live: Topic::default(),
            ending,
            closed: CancellationToken::new(),
            kept: parking_lot::Mutex::default(),
        }))
    }

    /// A code with which a browser begins a session, once.
    pub fn code(&self) -> Result<String, Failure> {
        self.sessions.code(std::time::Instant::now())
    }

    /// Refuses to begin or to continue a thread where too many run.
    fn has_room(&self) -> Result<(), Problem> {
        if self.host.engine().running() < MAX_RUNNING {
            return Ok(());
        }
        let what = format!("{MAX_RUNNING} threads run here, and no more at once");
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, Code::ServerFull, what))
    }

    /// The same for a thread that is to be continued. One that has ended takes no room.
    fn has_room_for(&self, thread: &ThreadId) -> Result<(), Problem> {
        let row = self.host.engine().store().row(thread).map_err(Failure::from)?;
        if row.is_some_and(|row| row.status.has_ended()) { Ok(()) } else { self.has_room() }
    }

    /// Stops the runs of this process, whose threads can be resumed, and then the streams.
    pub async fn close(&self) {
        self.host.engine().stop_all().await;
        self.closed.cancel();
    }

    pub fn router(&self) -> Router {
        let (mut all, mut schemas) = (Router::new(), Schemas::new());
        for (prefix, group) in GROUPS {
            let routes = group(&mut schemas).into_iter();
            let routes = routes.fold(Router::new(), |routes, of| routes.route(of.path, of.route));
            all = all.nest(prefix, routes.fallback(no_route).method_not_allowed_fallback(no_method));
        }
        all.route("/errors/{code}", get(page::error))
            .route("/assets/{name}", get(page::asset))
            .fallback(get(page::index))
            .layer(DefaultBodyLimit::disable())
            .layer(from_fn_with_state(self.clone(), access::guard))
            .layer(from_fn(model::errors))
            .layer(map_response(with_safe_headers))
            .with_state(self.clone())
    }

    /// Runs `read` over the store, on a thread where it may block.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Inner, &dyn Read) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Problem> {
        let server = self.clone();
        Ok(blocking(move || read(&server, &**server.host.engine().store())).await?)
    }

    /// The same, as JSON.
    async fn json<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Inner, &dyn Read) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Json<T>, Problem> {
        self.reading(read).await.map(Json)
    }

    /// Runs `read` over the thread that a word names.
    async fn of_thread<T: Send + 'static>(
        &self,
        word: String,
        read: impl FnOnce(&Inner, &dyn Read, (ThreadId, Row)) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Problem> {
        self.reading(move |server, store| read(server, store, find_thread(store, &word)?)).await
    }

    /// Passes the events of a thread that runs here to those who read the events of all threads. Returns its id.
    fn follow(&self, mut run: Run) -> ThreadId {
        let thread = run.thread().clone();
        if !run.was_over() {
            let server = self.clone();
            tokio::spawn(async move {
                while let Some(event) = run.next().await {
                    server.live.publish_foreign(event);
                }
                run.ended().await
            });
        }
        thread
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

async fn healthz() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

async fn no_route() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, Code::NoSuchRoute, "the API has no such address")
        .with_hint("`GET /api/v1/openapi.json` lists them")
}

async fn no_method() -> Problem {
    let what = "the address does not take this method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, Code::NoSuchRoute, what)
        .with_hint("`GET /api/v1/openapi.json` lists what it takes")
}

async fn with_safe_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let safe = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in safe {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
