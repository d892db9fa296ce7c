//! Replies that wait for memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};
use tokio::sync::Semaphore;

use super::*;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Has memory for a reply once there is a permit.
struct Waiting {
    permits: Arc<Semaphore>,
    asked: Arc<AtomicUsize>,
}

impl Deltas for Waiting {
    fn text(&self, _: &str) {}

    fn reserve(&self, reply_bytes: usize) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.asked.fetch_max(reply_bytes, Ordering::Relaxed) < reply_bytes {
                drop(self.permits.acquire().await);
            }
        })
    }
}

fn waiting(permits: usize) -> Waiting {
    Waiting { permits: Arc::new(Semaphore::new(permits)), asked: Arc::default() }
}

/// Answers one request with these pieces and keeps the connection open. Returns the address.
async fn serve(pieces: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        for piece in pieces {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::future::pending::<()>().await;
    });
    address
}

#[tokio::test]
async fn a_wait_for_memory_is_neither_the_silence_of_the_provider_nor_its_slowness() {
    let said = chunk(r#"{"content":"One"}"#, "\"stop\"");
    let whole = r#"{"choices":[{"index":0,"message":{"content":"One"},"finish_reason":"stop"}]}"#;
    let whole =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{whole}", whole.len());
    for pieces in [vec![format!("{EVENTS}{said}"), "data: [DONE]\n\n".to_owned()], vec![whole]] {
        let idle_timeout = Duration::from_millis(200);
        let times =
            HttpSettings { idle_timeout, total_timeout: Some(2 * idle_timeout), ..settings(serve(pieces).await) };
        let provider = HttpModel::new(times).unwrap();
        let deltas = waiting(0);
        let permits = Arc::clone(&deltas.permits);
        let later = async {
            tokio::time::sleep(3 * idle_timeout).await;
            permits.add_permits(1);
        };
        let call = test_call();
        let (answer, ()) = tokio::join!(provider.complete(&call, &deltas), later);
        assert_eq!(answer.unwrap().reply.parts.text(), "One");
        assert!(deltas.asked.load(Ordering::Relaxed) >= "One".len());
    }
}

/// The windows of HTTP/2 (RFC 9113, 5.2) are of a stream and of all streams of a connection.
#[tokio::test]
async fn replies_that_wait_do_not_hold_up_another_one_of_their_connection() {
    const WAITING: usize = 24;
    const REPLY_BYTES: usize = 4 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (connections, sent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (Arc::clone(&connections), Arc::clone(&sent));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counters.0.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(over_http2(stream, REPLY_BYTES, Arc::clone(&counters.1)));
        }
    });
    let settings = HttpSettings { max_reply_bytes: 2 * REPLY_BYTES, ..settings(base_url) };
    let http = client(&settings, &Url::parse(&settings.base_url).unwrap()).http2_prior_knowledge().build().unwrap();
    let provider = HttpModel { http, ..HttpModel::new(settings).unwrap() };

    let call = test_call();
    let held: Vec<Waiting> = (0..WAITING).map(|_| waiting(0)).collect();
    let all_wait = join_all(held.iter().map(|deltas| provider.complete(&call, deltas)));
    let one_more = async {
        let mut before = 0;
        loop {
            // Until the server has sent all that their windows take.
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = sent.load(Ordering::Relaxed);
            if now == before && held.iter().all(|deltas| deltas.asked.load(Ordering::Relaxed) > 0) {
                break;
            }
            before = now;
        }
        let answer = provider.complete(&call, &waiting(Semaphore::MAX_PERMITS)).await;
        for deltas in &held {
            deltas.permits.add_permits(REPLY_BYTES);
        }
        answer
    };
    let (answers, answer) =
        tokio::time::timeout(PATIENCE, futures_util::future::join(all_wait, one_more)).await.unwrap();
    for answer in answers.into_iter().chain([answer]) {
        assert!(answer.unwrap().reply.parts.text().len() >= REPLY_BYTES);
    }
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

/// Answers every request of a connection with a reply of so many bytes.
async fn over_http2(stream: TcpStream, reply_bytes: usize, sent: Arc<AtomicUsize>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let sent = Arc::clone(&sent);
        tokio::spawn(async move {
            let head = http::Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
            let mut body = respond.send_response(head, false).unwrap();
            let said = chunk(&format!(r#"{{"content":"{}"}}"#, "x".repeat(10_000)), "null");
            let said = said.repeat(reply_bytes.div_ceil(10_000));
            let end = chunk("{}", "\"stop\"");
            let mut rest = Bytes::from(said + &end + "data: [DONE]\n\n");
            while !rest.is_empty() {
                body.reserve_capacity(rest.len().min(64 << 10));
                let Some(Ok(room)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else { return };
                let piece = rest.split_to(room.min(rest.len()));
                sent.fetch_add(piece.len(), Ordering::Relaxed);
                body.send_data(piece, rest.is_empty()).unwrap();
            }
        });
    }
}
