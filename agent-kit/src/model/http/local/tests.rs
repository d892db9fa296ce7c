use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;

const LIST: &str = r#"{"object":"list","data":[{"id":"model-a"},{"id":"model-b"}]}"#;

/// What a server does behind a request.
#[derive(Clone)]
enum Act {
    Send(String),
    /// Sends this and then nothing more.
    Hang(&'static str),
    /// Sends the first, then the second for as long as somebody reads.
    Flood(&'static str, &'static str),
}

fn ok(body: &str) -> Act {
    Act::Send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

/// A server that does that, and what it was sent.
async fn serving(act: Act) -> (Place, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            seen.lock().unwrap().push(String::from_utf8(request).unwrap().to_lowercase());
            match &act {
                Act::Send(text) => stream.write_all(text.as_bytes()).await.unwrap(),
                Act::Hang(text) => {
                    stream.write_all(text.as_bytes()).await.unwrap();
                    std::future::pending::<()>().await;
                }
                Act::Flood(head, piece) => {
                    stream.write_all(head.as_bytes()).await.unwrap();
                    while stream.write_all(piece.as_bytes()).await.is_ok() {}
                }
            }
        }
    });
    (("a server", port), requests)
}

/// The models that a server is found to have.
async fn models(act: Act) -> Option<String> {
    let (place, _) = serving(act).await;
    let [found] = &servers_at(&[place]).await[..] else { return None };
    Some(found.models.join(" "))
}

#[tokio::test]
async fn what_lists_models_is_found_and_is_sent_nothing_but_the_question() {
    let (place, requests) = serving(ok(LIST)).await;
    // A port where nobody listens any more.
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let (program, port) = place;
    let found = servers_at(&[("gone", gone), place]).await;
    let models = vec!["model-a".to_owned(), "model-b".to_owned()];
    assert_eq!(found, [LocalServer { program, base_url: format!("http://127.0.0.1:{port}/v1"), models }]);
    let requests = requests.lock().unwrap();
    let mut lines: Vec<&str> = requests[0].trim_end().lines().collect();
    lines.sort_unstable();
    let host = format!("host: 127.0.0.1:{port}");
    assert_eq!((lines, requests.len()), (vec!["accept: application/json", "get /v1/models http/1.1", &host], 1));
}

#[tokio::test]
async fn what_lists_no_models_is_not_shown() {
    assert_eq!(models(ok(LIST)).await.as_deref(), Some("model-a model-b"));
    for other in ["", "<html>hello</html>", "{}", r#"{"data":[]}"#, r#"{"data":[{"name":"x"}]}"#, &LIST[..20]] {
        assert_eq!(models(ok(other)).await, None, "{other}");
    }
    assert_eq!(models(Act::Send("SSH-2.0-OpenSSH\r\n".to_owned())).await, None);
    let refused = format!("HTTP/1.1 401 No\r\ncontent-length: {}\r\n\r\n{LIST}", LIST.len());
    assert_eq!(models(Act::Send(refused)).await, None);
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (there, asked) = serving(ok(LIST)).await;
    let to = format!("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{}/v1/models\r\n\r\n", there.1);
    assert_eq!(models(Act::Send(to)).await, None);
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_endless_body_and_one_that_hangs_end_the_look_for_nobody_else() {
    let since = Instant::now();
    let endless = Act::Flood("HTTP/1.1 200 OK\r\n\r\n{\"data\":[", "{\"id\":\"x\"},");
    let cut = Act::Hang("HTTP/1.1 200 OK\r\ncontent-length: 9000000000\r\n\r\n{");
    let mut places = Vec::new();
    for act in [endless, cut, Act::Hang(""), ok(LIST)] {
        places.push(serving(act).await.0);
    }
    let found = servers_at(&places).await;
    assert_eq!(found.len(), 1, "{found:?}");
    // The rest is for a machine under load.
    assert!(since.elapsed() < WHOLE_TIMEOUT * 5, "{:?}", since.elapsed());
}
