//! The socket: connections and their timeouts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rondo::failure::Failure;
use rondo::protocol::diagnostic::Code;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::places::{Place, Places};
use super::problem::Problem;

/// How long the head of a request may take to arrive, also on a connection that is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

const MAX_HEAD_BYTES: usize = 32 << 10;

/// How long a client may take none of what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How many connections are told at once that there is no place.
const MAX_REFUSALS: usize = 64;

/// How long connections may take to end after the server was told to.
const DRAIN: Duration = Duration::from_secs(2);

/// How long to wait after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub struct Listening {
    listener: TcpListener,
    pub address: SocketAddr,
}

/// Listens on a port of the loopback interface; port 0 takes any that is free.
///
/// # Errors
/// [`Code::PortTaken`] if the port cannot be had.
pub async fn listen(port: u16) -> Result<Listening, Failure> {
    let taken = |error: io::Error| {
        let what = format!("port {port} of 127.0.0.1: {error}");
        Failure::new(Code::PortTaken, what)
            .with_hint("choose another one: `rondo serve --port 0` takes any that is free")
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    Ok(Listening { listener, address })
}

impl Listening {
    /// Answers requests until `ending` is cancelled, at most on `connections` connections at once. Connections that
    /// are open then get a moment to end.
    pub async fn serve(self, router: Router, connections: usize, ending: CancellationToken) {
        let (places, tasks) = (Places::new(connections), TaskTracker::new());
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = ending.cancelled() => break,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(place) = places.enter() else {
                // Beyond that many, connections are closed without a word.
                if let Ok(refusal) = Arc::clone(&refusals).try_acquire_owned() {
                    tasks.spawn(async move {
                        refuse(stream).await;
                        drop(refusal);
                    });
                }
                continue;
            };
            let (router, ending, places) = (router.clone(), ending.clone(), Arc::clone(&places));
            tasks.spawn(async move {
                if let Some(_held) = places.hold().await {
                    serve_one(stream, router, &place, ending).await;
                }
                place.is_settled();
            });
        }
        tasks.close();
        let _ = tokio::time::timeout(DRAIN, tasks.wait()).await;
    }
}

async fn serve_one(stream: TcpStream, router: Router, place: &Place, ending: CancellationToken) {
    // Events are small, and each is wanted at once.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIMEOUT));
    let of_place = place.clone();
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(of_place.clone());
        request
    });
    let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(service));
    tokio::pin!(connection);
    tokio::select! {
        // A client that breaks off is no fault of the server.
        _ = connection.as_mut() => return,
        () = place.gives_way.cancelled() => return,
        () = ending.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Answers a connection beyond the ceiling without reading from it.
async fn refuse(mut stream: TcpStream) {
    let what = "the server has as many connections as it takes";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, Code::ServerFull, what);
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let writing = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(DRAIN, writing).await;
}
