//! A server: started at once or at its first call, restarted when it crashes, used through one connection at a time.
//!
//! A call in flight when a server ended is not repeated, because it may have had its effect; its error says so. One that
//! a server refused, because it has forgotten the session, is. The
//! next call restarts the server and compares its tools with the pins, so that a crash is no way to change them. After
//! [`MAX_RESTARTS`] without an answer in between it stays down.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{MetaObject, RequestMetaObject};
use rmcp::service::ServiceError;
use rondo_protocol::diagnostic::Code;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::catalogue::Catalogue;
use super::connection::Connection;
use super::pins::{self, Pin};
use super::settings::ServerSettings;
use super::tool::{LIST_RESOURCES, McpTool, READ_RESOURCE};
use crate::sandbox::process::Exit;
use crate::tool::{Error, Invocation, Tool};

/// How often a server is restarted without an answer in between.
const MAX_RESTARTS: usize = 3;
/// The field of a request's `_meta` by which a server can recognize a repetition.
const IDEMPOTENCY_KEY: &str = "rondo/idempotencyKey";
/// The maximum wait for a start, whatever the settings say.
const MAX_START: Duration = Duration::from_hours(1);
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A server of the operator. Dropping it ends it, even while its tools are in use.
pub struct Server {
    shared: Arc<Shared>,
}

pub struct Shared {
    settings: ServerSettings,
    /// Once it was started.
    connection: Mutex<Option<Arc<Connection>>>,
    /// As it was agreed to.
    catalogue: Catalogue,
    /// Held while opening or checking the connection. Closed once the server is dropped.
    turn: Semaphore,
    restarts: AtomicUsize,
}

impl Server {
    /// Starts or reaches a server and asks for its tools.
    ///
    /// # Errors
    /// When the settings are invalid, the server is not ready in time, or its tools are unusable.
    ///
    /// # Cancel safety
    /// Dropping the future ends the server.
    pub async fn start(settings: ServerSettings) -> Result<Self, Error> {
        settings.check()?;
        let (connection, catalogue) = open(&settings).await?;
        Ok(Self::of(settings, Some(Arc::new(connection)), catalogue))
    }

    /// Creates a server with pinned tools. It is started or reached at the first call of one of its tools; its tools
    /// are then compared with the pins, and a tool that differs from its pin is refused. Tools that are
    /// [left out](Self::left_out) are not known.
    pub fn pinned(settings: ServerSettings, pins: BTreeMap<String, Pin>) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self::of(settings, None, Catalogue { pins, left_out: Vec::new() }))
    }

    fn of(settings: ServerSettings, connection: Option<Arc<Connection>>, catalogue: Catalogue) -> Self {
        let shared = Shared {
            settings,
            connection: Mutex::new(connection),
            catalogue,
            turn: Semaphore::new(1),
            restarts: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// Its tools, and two for its resources if it has any and no tools of these names.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let catalogue = &self.shared.catalogue;
        let pinned = catalogue.tools().map(|(name, pin)| McpTool::pinned(name, pin, &self.shared));
        let mut tools: Vec<Arc<dyn Tool>> = pinned.map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect();
        if catalogue.has_resources() {
            if !catalogue.pins.contains_key(LIST_RESOURCES) {
                tools.push(Arc::new(McpTool::list_resources(&self.shared)));
            }
            if !catalogue.pins.contains_key(READ_RESOURCE) {
                tools.push(Arc::new(McpTool::read_resource(&self.shared)));
            }
        }
        tools
    }

    pub fn left_out(&self) -> &[String] {
        &self.shared.catalogue.left_out
    }

    /// The current pins, by the server's name for each tool.
    pub fn pins(&self) -> BTreeMap<String, Pin> {
        self.shared.catalogue.pins.clone()
    }

    /// Ends it and waits until its processes are dead, which a drop does not.
    pub async fn stop(self) {
        if let Some(over) = self.shared.end() {
            let _ = tokio::time::timeout(STOP_TIMEOUT, over).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.shared.end());
    }
}

impl Shared {
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    fn end(&self) -> Option<impl Future<Output = Result<Exit, Error>> + Send + use<>> {
        self.turn.close();
        self.started().take()?.end()
    }

    /// Returns an open connection with every change of the tools noticed: the current one, or a new one if that ended.
    pub async fn connection(&self) -> Result<Arc<Connection>, Error> {
        let _turn = self.turn.acquire().await.map_err(|_| self.stopped())?;
        let started = self.started().clone();
        let connection = match started {
            Some(connection) if connection.is_open() => connection,
            ended => self.opened(ended.as_deref()).await?,
        };
        if connection.watch().take_tools_changed() {
            let asked = Catalogue::ask(self.name(), &connection);
            match self.within(asked, self.settings.call_timeout).await.flatten() {
                Ok(catalogue) => self.notice(&connection, &catalogue),
                Err(error) => {
                    // The tools count as changed until they have been checked.
                    connection.watch().set_tools_changed();
                    return Err(error);
                }
            }
        }
        Ok(connection)
    }

    fn started(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts or reaches the server, for the first time or because its connection has ended.
    async fn opened(&self, ended: Option<&Connection>) -> Result<Arc<Connection>, Error> {
        let most = if ended.is_some() { MAX_RESTARTS } else { MAX_RESTARTS + 1 };
        if self.restarts.fetch_add(1, Ordering::SeqCst) >= most {
            let mut error = match ended {
                Some(ended) => ended.ended().await,
                None => Error::new(Code::McpStart, format!("the MCP server {} could not be started", self.name())),
            };
            error.message.push_str("; it was started again too often and stays down");
            return Err(error);
        }
        let (connection, catalogue) = open(&self.settings).await?;
        self.notice(&connection, &catalogue);
        if ended.is_none() {
            self.restarts.store(0, Ordering::SeqCst);
        }
        let mut started = self.started();
        // The server may have been dropped meanwhile.
        if self.turn.is_closed() {
            return Err(self.stopped());
        }
        Ok(Arc::clone(started.insert(Arc::new(connection))))
    }

    /// Compares a server's current tools with the pins.
    fn notice(&self, connection: &Connection, now: &Catalogue) {
        let changed = pins::compare(&self.catalogue.pins, &now.pins).err().unwrap_or_default();
        connection.set_changed(changed.0);
    }

    /// Asks, and waits for the answer up to the call timeout; a request that takes longer is cancelled at the server. One
    /// that met the end of its session is made again in the next, because nothing was carried out. `check` sees each
    /// connection first.
    pub async fn ask<T, F: Future<Output = Result<T, ServiceError>>>(
        &self,
        check: impl Fn(&Connection) -> Result<(), Error>,
        request: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, Error> {
        let mut is_again = false;
        loop {
            let connection = self.connection().await?;
            check(&connection)?;
            match self.within(request(Arc::clone(&connection)), self.settings.call_timeout).await? {
                Ok(answer) => {
                    self.restarts.store(0, Ordering::SeqCst);
                    return Ok(answer);
                }
                Err(error) if connection.has_lost_session(&error) && !is_again => is_again = true,
                Err(error) => return Err(connection.fault(&error).await),
            }
        }
    }

    async fn within<T>(&self, asked: impl Future<Output = T>, limit: Duration) -> Result<T, Error> {
        tokio::time::timeout(limit, asked).await.map_err(|_| {
            let message =
                format!("the MCP server {} did not answer within {limit:?}; the call was cancelled", self.name());
            Error::new(Code::McpSilent, message)
        })
    }

    pub fn meta(invocation: &Invocation) -> RequestMetaObject {
        let mut meta = MetaObject::new();
        meta.insert(IDEMPOTENCY_KEY.to_owned(), invocation.idempotency_key.clone().into());
        RequestMetaObject(meta)
    }

    /// The error for a server that answers with a question or a promise.
    pub fn asks_back(&self) -> Error {
        let message = format!("the MCP server {} asks back instead of answering, which is not supported", self.name());
        Error::new(Code::McpUnreadable, message)
    }

    fn stopped(&self) -> Error {
        Error::new(Code::McpEnded, format!("the MCP server {} was stopped", self.name()))
    }
}

async fn open(settings: &ServerSettings) -> Result<(Connection, Catalogue), Error> {
    let limit = settings.start_timeout;
    let deadline = Instant::now() + limit.min(MAX_START);
    let connection = Connection::open(settings, deadline).await?;
    let asked = timeout_at(deadline, Catalogue::ask(&settings.name, &connection)).await;
    let catalogue = asked.unwrap_or_else(|_| {
        let message = format!("the MCP server {} did not list its tools within {limit:?}", settings.name);
        Err(Error::new(Code::McpStart, message))
    })?;
    Ok((connection, catalogue))
}
