//! Requests to a Restate cluster: its ingress, which callers use, and its admin interface.
//!
//! <https://docs.restate.dev/services/invocation/http>, <https://docs.restate.dev/references/sql-introspection>

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{StatusCode, Url};
use rondo_core::store::{self, Replica};
use rondo_protocol::id::ThreadId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::entry::{Leaving, Piece, Unfinished, Wake, decode, encode};

/// The object of a tree of threads.
pub(crate) const THREAD: &str = "RondoThread";

/// The object that says whether a tree was told to end.
pub(crate) const CANCEL: &str = "RondoCancel";

/// How long the cluster has to answer a request. Without a majority of its nodes it never does.
const ANSWER: Duration = Duration::from_secs(8);

/// How long the admin interface has: it looks at what it registers, and asks every node for a list.
const ADMIN_ANSWER: Duration = Duration::from_secs(20);

/// The content type of values.
const OCTETS: &str = "application/octet-stream";

/// How often a question to the admin interface is asked again.
const QUERIES: usize = 10;

/// How long a piece may be on its way to where it is read.
const ON_ITS_WAY: Duration = Duration::from_secs(5);

/// Where the admin interface listens unless another place is named.
const ADMIN_PORT: u16 = 9070;

/// Why a cluster did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is none.
    #[error("`{0}` is not the address of a Restate cluster; write one such as http://127.0.0.1:8080")]
    Address(String),
    /// Nobody answered.
    #[error("the Restate cluster at {url} cannot be reached: {what}")]
    Unreachable { url: String, what: String },
    /// It took the request and did not answer.
    #[error(
        "the Restate cluster at {url} did not answer within {} seconds; one without a majority of its nodes never does",
        ANSWER.as_secs()
    )]
    Silent { url: String },
    /// No worker has registered.
    #[error("the Restate cluster at {url} knows no worker of rondo; `rondo worker --restate {url}` is one")]
    NoWorker { url: String },
    /// It answered with an error.
    #[error("the Restate cluster at {url} answered {status}: {what}")]
    Refused {
        url: String,
        /// The status of HTTP.
        status: u16,
        what: String,
    },
    /// What it answered is no answer.
    #[error("the Restate cluster at {url} answered what rondo cannot read: {what}")]
    Unreadable { url: String, what: String },
    /// The log of a thread is not what the store expects.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The end of a thread's log, and a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Log {
    /// How many pieces there are; none of a thread that is not there.
    pub(crate) count: u64,
    /// The threads that its store needs besides: those that it is a fork of.
    pub(crate) needs: Vec<ThreadId>,
    /// The first of them that was asked for, and those after it.
    pub(crate) pieces: Vec<Bytes>,
}

/// Pieces to add to a log, from the number `at` on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Append {
    pub(crate) at: u64,
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) needs: Vec<ThreadId>,
}

/// A cluster.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    nodes: Arc<[Node]>,
    /// The node that answered last.
    current: Arc<AtomicUsize>,
}

/// The addresses of a node.
#[derive(Debug)]
struct Node {
    ingress: Url,
    admin: Url,
}

impl Client {
    /// The cluster with these ingresses, of which one that does not answer is left for the next. The admin interface of
    /// each is on port 9070 of the same host, unless `admin` has an address for each.
    ///
    /// # Errors
    /// If there is none, or one is no address.
    pub fn new(ingress: &[String], admin: &[String]) -> Result<Self, Error> {
        let url = |text: &String| {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
            url.ok_or_else(|| Error::Address(text.clone()))
        };
        let node = |(number, ingress): (usize, &String)| {
            let ingress = url(ingress)?;
            let admin = if let Some(admin) = admin.get(number) {
                url(admin)?
            } else {
                let mut admin = ingress.clone();
                admin.set_port(Some(ADMIN_PORT)).map_err(|()| Error::Address(ingress.to_string()))?;
                admin
            };
            Ok(Node { ingress, admin })
        };
        let nodes: Vec<Node> = ingress.iter().enumerate().map(node).collect::<Result<_, Error>>()?;
        let first = nodes.first().ok_or_else(|| Error::Address(String::new()))?;
        let http = reqwest::Client::builder().connect_timeout(Duration::from_secs(3)).no_proxy().build();
        let http =
            http.map_err(|error| Error::Unreachable { url: first.ingress.to_string(), what: error.to_string() })?;
        Ok(Self { http, nodes: nodes.into(), current: Arc::default() })
    }

    /// The address of the first ingress.
    pub fn url(&self) -> &str {
        self.nodes.first().map_or("", |node| node.ingress.as_str()).trim_end_matches('/')
    }

    /// Makes the services at `uri` known, in place of what was known of them before.
    ///
    /// # Errors
    /// If the cluster cannot be reached, or cannot reach `uri`.
    pub async fn register(&self, uri: &str) -> Result<(), Error> {
        let body = serde_json::json!({ "uri": uri, "force": true });
        self.ask(|node| self.post_admin(node, "deployments", &body)).await.map(drop)
    }

    /// Adds the first pieces of a thread's log; nothing, if they are there. `needs` are the threads that it is a fork of.
    ///
    /// # Errors
    /// If other pieces are there.
    pub async fn append(&self, thread: &ThreadId, pieces: &[Bytes], needs: &[ThreadId]) -> Result<(), Error> {
        // Each request holds one, because all together may be more than a message.
        for (at, piece) in (0..).zip(pieces) {
            let request = Append { at, pieces: vec![piece.clone()], needs: needs.to_vec() };
            self.call::<_, ()>(&[THREAD, thread.as_str(), "append"], &request).await?;
        }
        Ok(())
    }

    /// Has a worker continue a thread. Returns the id of the invocation. The same `once` twice is one request.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub async fn wake(&self, thread: &ThreadId, wake: &Wake, once: &str) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Accepted {
            #[serde(rename = "invocationId")]
            invocation_id: String,
        }
        let body = encoded(wake)?;
        let path = [THREAD, thread.as_str(), "drive", "send"];
        let bytes = self.ask(|node| self.post(node, &path, &body).header("idempotency-key", once)).await?;
        let accepted: Accepted = serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&error))?;
        Ok(accepted.invocation_id)
    }

    /// How an invocation left its thread; `None` if it is under way.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub async fn left(&self, invocation: &str) -> Result<Option<Leaving>, Error> {
        let path = ["restate", "invocation", invocation, "output"];
        match self.ask(|node| self.http.get(join(&node.ingress, &path)).timeout(ANSWER)).await {
            Ok(bytes) => self.decoded(&bytes).map(Some),
            // 470: it has not ended.
            Err(Error::Refused { status: 470, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Tells a tree of threads to end for good, wherever it is driven.
    ///
    /// # Errors
    /// If the cluster cannot be asked.
    pub async fn cancel(&self, thread: &ThreadId) -> Result<(), Error> {
        self.call(&[CANCEL, thread.as_str(), "set"], &()).await
    }

    /// Whether it was told so.
    pub(crate) async fn is_cancelled(&self, thread: &ThreadId) -> Result<bool, Error> {
        self.call(&[CANCEL, thread.as_str(), "get"], &()).await
    }

    /// Every thread at the root of a tree, with the number of pieces of its log.
    ///
    /// # Errors
    /// If the admin interface cannot be asked.
    pub async fn threads(&self) -> Result<BTreeMap<ThreadId, u64>, Error> {
        #[derive(Deserialize)]
        struct Rows {
            rows: Vec<Row>,
        }
        #[derive(Deserialize)]
        struct Row {
            service_key: String,
            value_utf8: Option<String>,
        }
        let query = format!("SELECT service_key, value_utf8 FROM state WHERE service_name = '{THREAD}' AND key = 'n'");
        let query = serde_json::json!({ "query": query });
        let ask = |node: &Node| self.post_admin(node, "query", &query).header(ACCEPT, "application/json");
        let mut asked = self.ask(ask).await;
        for _ in 0..QUERIES {
            // A cluster that has just begun, or lost a node, does not know yet who has what.
            if !matches!(asked, Err(Error::Refused { status: 500.., .. })) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            asked = self.ask(ask).await;
        }
        let bytes = asked?;
        let Rows { rows } = serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&error))?;
        let thread = |row: Row| Some((ThreadId::new(&row.service_key).ok()?, row.value_utf8?.parse().ok()?));
        Ok(rows.into_iter().filter_map(thread).collect())
    }

    /// Brings a store up to the log of a thread: to the piece `up_to`, which may not be there yet, or to its end.
    /// Returns the number of pieces that the store holds; 0 if there is no such thread.
    ///
    /// # Errors
    /// If the cluster cannot be asked, or the log does not continue what the store holds.
    pub async fn copy(&self, thread: &ThreadId, up_to: Option<u64>, store: &dyn Replica) -> Result<u64, Error> {
        let (mut position, since) = (store.position(thread)?, Instant::now());
        let (mut from, mut unfinished, mut at) = (position, Unfinished::default(), position);
        loop {
            if up_to.is_some_and(|end| position >= end) {
                return Ok(position);
            }
            let Log { count, needs, pieces } = self.call(&[THREAD, thread.as_str(), "read"], &at).await?;
            if position == 0 {
                for base in needs {
                    Box::pin(self.copy(&base, None, store)).await?;
                }
            }
            if pieces.is_empty() {
                if up_to.is_none_or(|end| at >= end) || count == 0 {
                    return Ok(position);
                }
                if since.elapsed() > ON_ITS_WAY {
                    let what = format!("the log of thread {thread} ends at piece {at}");
                    return Err(Error::Unreadable { url: self.url().to_owned(), what });
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            for bytes in pieces {
                at = at.saturating_add(1);
                let piece: Piece = decode(&bytes).map_err(|error| self.unreadable(&error))?;
                if let Some(writes) = unfinished.add(&piece).map_err(|error| self.unreadable(&error))? {
                    store.apply(thread, Range { start: from, end: at }, writes).await?;
                    (from, position) = (at, at);
                }
            }
        }
    }

    async fn call<I: Serialize, O: DeserializeOwned>(&self, path: &[&str], input: &I) -> Result<O, Error> {
        let body = encoded(input)?;
        self.decoded(&self.ask(|node| self.post(node, path, &body)).await?)
    }

    /// A request to an ingress.
    fn post(&self, node: &Node, path: &[&str], body: &Bytes) -> reqwest::RequestBuilder {
        let request = self.http.post(join(&node.ingress, path)).header(CONTENT_TYPE, OCTETS);
        request.body(body.clone()).timeout(ANSWER)
    }

    /// A request to an admin interface.
    fn post_admin(&self, node: &Node, path: &str, body: &serde_json::Value) -> reqwest::RequestBuilder {
        self.http.post(join(&node.admin, &[path])).json(body).timeout(ADMIN_ANSWER)
    }

    /// Asks one node after the other until one answers. What is asked can be asked again.
    async fn ask(&self, request: impl Fn(&Node) -> reqwest::RequestBuilder) -> Result<Bytes, Error> {
        let first = self.current.load(Ordering::Relaxed);
        let mut unanswered = None;
        for (at, node) in self.nodes.iter().enumerate().cycle().skip(first).take(self.nodes.len()) {
            match self.answer(node, request(node).send().await).await {
                Err(error @ (Error::Unreachable { .. } | Error::Silent { .. })) => {
                    // That a node is silent says more than that another one is gone.
                    if !matches!(unanswered, Some(Error::Silent { .. })) {
                        unanswered = Some(error);
                    }
                }
                answered => {
                    self.current.store(at, Ordering::Relaxed);
                    return answered;
                }
            }
        }
        Err(unanswered.unwrap_or_else(|| Error::Address(String::new())))
    }

    async fn answer(&self, by: &Node, sent: Result<reqwest::Response, reqwest::Error>) -> Result<Bytes, Error> {
        let url = by.ingress.as_str().trim_end_matches('/').to_owned();
        let failed = |error: reqwest::Error| {
            let (url, is_silent) = (url.clone(), error.is_timeout() && !error.is_connect());
            if is_silent { Error::Silent { url } } else { Error::Unreachable { url, what: innermost(&error) } }
        };
        let response = sent.map_err(failed)?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(failed)?;
        if status.is_success() {
            return Ok(bytes);
        }
        let what = String::from_utf8_lossy(&bytes).chars().take(600).collect::<String>();
        if status == StatusCode::NOT_FOUND && [THREAD, CANCEL].iter().any(|object| what.contains(object)) {
            return Err(Error::NoWorker { url });
        }
        Err(Error::Refused { url, status: status.as_u16(), what })
    }

    fn decoded<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Error> {
        decode(bytes).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &dyn std::error::Error) -> Error {
        Error::Unreadable { url: self.url().to_owned(), what: error.to_string() }
    }
}

fn encoded<T: Serialize>(value: &T) -> Result<Bytes, Error> {
    encode(value).map_err(|error| store::Error::Malformed { what: error.to_string() }.into())
}

fn join(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// The cause at the bottom, which says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}
