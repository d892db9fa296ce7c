//! Tests against a server on loopback that sends exactly the bytes of the test.

mod waiting;

use std::sync::Mutex;

use rondo_protocol::object::{Finish, Usage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::model::{test_call, test_outgoing};

const KEY: &str = "sk-secret-0123456789";
const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n";
const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
const LIMIT: usize = 64 << 10;

/// What the server does after it has read a request.
enum Act {
    /// Sends these pieces, each with its own flush, and closes.
    Send(Vec<Vec<u8>>),
    /// Sends this and then nothing more.
    Hang(Vec<u8>),
    /// Sends the first piece, then repeats the second for as long as the client reads.
    Flood(&'static str, Vec<u8>),
}

impl Act {
    fn text(text: impl Into<String>) -> Self {
        Self::Send(vec![text.into().into_bytes()])
    }
}

/// Reads a whole request.
async fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) || read == 0 {
                return request;
            }
        }
    }
}

#[derive(Default)]
struct Kept(Mutex<String>);

impl Deltas for Kept {
    fn text(&self, text: &str) {
        self.0.lock().unwrap().push_str(text);
    }
}

struct Asked {
    answer: Result<ModelAnswer, Fault>,
    deltas: String,
    request: String,
    connections: usize,
}

fn settings(base_url: String) -> HttpSettings {
    HttpSettings {
        base_url,
        api_key: Some(Secret { name: "TEST_KEY".to_owned(), value: KEY.to_owned() }),
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(5),
        total_timeout: None,
        max_reply_bytes: LIMIT,
        ..HttpSettings::default()
    }
}

async fn ask_with(act: Act, change: impl FnOnce(&mut HttpSettings)) -> Asked {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = settings(format!("http://{}/v1/", listener.local_addr().unwrap()));
    change(&mut settings);
    let served = std::sync::Arc::new(Mutex::new((String::new(), 0)));
    let seen = std::sync::Arc::clone(&served);
    let listening = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            {
                let mut seen = seen.lock().unwrap();
                seen.0 = String::from_utf8(request).unwrap();
                seen.1 += 1;
            }
            match &act {
                Act::Send(pieces) => {
                    for piece in pieces {
                        stream.write_all(piece).await.unwrap();
                        stream.flush().await.unwrap();
                        tokio::task::yield_now().await;
                    }
                }
                Act::Hang(bytes) => {
                    stream.write_all(bytes).await.unwrap();
                    std::future::pending::<()>().await;
                }
                Act::Flood(head, piece) => {
                    stream.write_all(head.as_bytes()).await.unwrap();
                    while stream.write_all(piece).await.is_ok() {}
                }
            }
        }
    });
    let deltas = Kept::default();
    let answer = HttpModel::new(settings).unwrap().complete(&test_call(), &deltas).await;
    listening.abort();
    let (request, connections) = served.lock().unwrap().clone();
    Asked { answer, deltas: deltas.0.into_inner().unwrap(), request, connections }
}

async fn ask(act: Act) -> Asked {
    ask_with(act, |_| {}).await
}

async fn fault(act: Act) -> Fault {
    let asked = ask(act).await;
    assert_eq!(asked.connections, 1, "one call is one request");
    let fault = asked.answer.unwrap_err();
    assert!(!format!("{fault:?}").contains(KEY), "{fault:?}");
    fault
}

fn told(fault: &Fault) -> (Code, FaultClass, &str) {
    (fault.code, fault.class, fault.message.as_str())
}

fn chunk(delta: &str, finish: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
}

#[tokio::test]
async fn a_query_stands_behind_that_of_the_protocol() {
    let event = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}"#;
    let asked = ask_with(Act::text(format!("{EVENTS}data: {event}\r\n\r\n")), |settings| {
        settings.protocol = protocol::named("gemini").unwrap();
        settings.query = vec![("x y".to_owned(), "1&2".to_owned())];
    })
    .await;
    assert_eq!((asked.answer.unwrap().reply.finish, asked.deltas.as_str()), (Finish::Stop, "a"));
    let line = asked.request.lines().next().unwrap();
    assert_eq!(line, "POST /v1/models/test-model:streamGenerateContent?alt=sse&x+y=1%262 HTTP/1.1");
    assert!(asked.request.contains(&format!("\r\nx-goog-api-key: {KEY}\r\n")), "{}", asked.request);
}

#[tokio::test]
async fn a_stream_is_read_to_its_usage_and_the_request_is_sent_as_written() {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":29}}}\n\n";
    let text = [
        EVENTS,
        ": hello\n\n",
        &chunk(r#"{"role":"assistant","content":""}"#, "null"),
        &chunk(r#"{"content":"One"}"#, "null"),
        &chunk(r#"{"content":" two"}"#, "\"stop\""),
        usage,
        "data: [DONE]\n\n",
    ];
    let asked = ask(Act::text(text.concat())).await;
    let answer = asked.answer.unwrap();
    assert_eq!((answer.reply.parts.text().as_ref(), answer.reply.finish), ("One two", Finish::Stop));
    assert_eq!(
        answer.usage,
        Some(Usage { prompt_tokens: 30, cached_tokens: 29, output_tokens: 2, ..Usage::default() })
    );
    assert_eq!(asked.deltas, "One two");
    let (head, body) = asked.request.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.as_bytes(), protocol::COMMON.body(&test_outgoing(&test_call())).unwrap());
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: Bearer {KEY}\r\n")), "{head}");
    assert!(head.contains("\r\naccept-encoding: identity"), "{head}");
}

#[tokio::test]
async fn a_key_is_sent_where_the_operator_says_so_and_not_to_a_server_that_may_refuse_it() {
    let answer = || Act::text(format!("{EVENTS}{}", chunk(r#"{"content":"One"}"#, "\"stop\"")));
    let plain = protocol::COMMON.body(&test_outgoing(&test_call())).unwrap();
    let asked = ask_with(answer(), |settings| settings.prompt_cache = PromptCache::Key).await;
    let (_, body) = asked.request.split_once("\r\n\r\n").unwrap();
    assert!(
        body.as_bytes().starts_with(&plain[..plain.len() - 1]) && body.contains(r#","prompt_cache_key":""#),
        "{body}"
    );
    let asked = ask_with(answer(), |settings| settings.prompt_cache_retention = Some(CacheRetention::Day)).await;
    assert_eq!(asked.request.split_once("\r\n\r\n").unwrap().1.as_bytes(), plain);
}

#[tokio::test]
async fn a_reply_may_be_cut_into_any_pieces_and_end_its_lines_as_it_likes() {
    let text = [EVENTS, &chunk(r#"{"content":"é😀"}"#, "\"stop\""), "data: [DONE]\n\n"].concat();
    for text in [text.clone(), text.replacen(EVENTS, "", 1).replace('\n', "\r\n")] {
        let text = if text.starts_with("HTTP") { text } else { format!("{EVENTS}{text}") };
        let pieces = text.as_bytes().iter().map(|byte| vec![*byte]).collect();
        let asked = ask(Act::Send(pieces)).await;
        assert_eq!(asked.answer.unwrap().reply.parts.text(), "é😀");
    }
}

#[tokio::test]
async fn half_a_character_costs_no_text() {
    let said = |protocol: &'static str, stream: String| async move {
        let change = |settings: &mut HttpSettings| settings.protocol = protocol::named(protocol).unwrap();
        let asked = ask_with(Act::text(stream), change).await;
        let text = asked.answer.unwrap().reply.parts.text().into_owned();
        assert_eq!(text, asked.deltas);
        text
    };
    let pieces =
        |end: &str| [r"One \ud83d", end, " two"].map(|piece| chunk(&format!(r#"{{"content":"{piece}"}}"#), "null"));
    for (end, wanted) in [(r"\ude00", "One 😀 two"), ("", "One \u{fffd} two"), (r"\ude00\ude00", "One 😀\u{fffd} two")]
    {
        let stream = [EVENTS, &pieces(end).concat(), &chunk("{}", "\"stop\"")].concat();
        assert_eq!(said("openai_chat", stream).await, wanted);
    }
    let last = [EVENTS, &chunk(r#"{"content":"One \ud83d"}"#, "\"stop\"")].concat();
    assert_eq!(said("openai_chat", last).await, "One \u{fffd}");
    let whole = r#"{"choices":[{"message":{"content":"One \ude00 two"},"finish_reason":"stop"}]}"#;
    assert_eq!(said("openai_chat", format!("{JSON}{whole}")).await, "One \u{fffd} two");
    let delta = |text: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    };
    let blocks = [
        EVENTS,
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
        &delta(r"One \ud83d"),
        &delta(r"\ude00 two"),
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
    ];
    assert_eq!(said("anthropic", blocks.concat()).await, "One 😀 two");
}

#[tokio::test]
async fn a_stream_may_end_without_done_but_not_without_its_finish_reason() {
    let finished = [EVENTS, &chunk(r#"{"content":"x"}"#, "\"length\"")].concat();
    assert_eq!(ask(Act::text(finished)).await.answer.unwrap().reply.finish, Finish::Length);
    for end in ["", "data: [DONE]\n\n", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"st"] {
        let text = [EVENTS, &chunk(r#"{"content":"x"}"#, "null"), end].concat();
        let fault = fault(Act::text(text)).await;
        assert_eq!((fault.code, fault.class), (Code::ReplyCut, FaultClass::Network), "{}", fault.message);
    }
    let short = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\ndata: {}\n\n";
    assert_eq!(fault(Act::text(short)).await.code, Code::ReplyCut);
}

#[tokio::test]
async fn an_empty_answer_is_an_answer() {
    let text = [EVENTS, &chunk("{}", "\"stop\""), "data: [DONE]\n\n"].concat();
    let answer = ask(Act::text(text)).await.answer.unwrap();
    assert_eq!((answer.reply.parts.text().as_ref(), answer.reply.finish, answer.usage), ("", Finish::Stop, None));
}

#[tokio::test]
async fn a_whole_completion_is_taken_and_other_json_is_not() {
    let completion = r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let asked = ask(Act::text(format!("{JSON}{completion}"))).await;
    let answer = asked.answer.unwrap();
    assert_eq!(
        (answer.reply.parts.text().as_ref(), answer.reply.parts.tool_calls().count(), asked.deltas.as_str()),
        ("x", 1, "x")
    );
    for (body, code, class) in [
        (r#"{"error":{"message":"overloaded","type":"server_error"}}"#, Code::ProviderFailed, FaultClass::Server),
        (r#"{"hello":1}"#, Code::ReplyUnreadable, FaultClass::Server),
        ("<html>", Code::ReplyUnreadable, FaultClass::Refused),
        ("", Code::ReplyUnreadable, FaultClass::Refused),
    ] {
        let fault = fault(Act::text(format!("{JSON}{body}"))).await;
        assert_eq!((fault.code, fault.class), (code, class), "{body}");
    }
}

#[tokio::test]
async fn what_is_no_stream_is_a_fault() {
    let page = fault(Act::text("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>")).await;
    let words = "the provider answered with text/html, not with an event stream; is the base URL right?";
    assert_eq!(told(&page), (Code::ReplyUnreadable, FaultClass::Server, words));
    for event in ["data: {\n\n", "data: nonsense\n\n", "data: [1]\n\n", "data: \u{0}\n\n"] {
        assert_eq!(fault(Act::text(format!("{EVENTS}{event}"))).await.code, Code::ReplyUnreadable, "{event}");
    }
    let not_utf8 = [EVENTS.as_bytes(), b"data: \xff\n\n"].concat();
    assert_eq!(fault(Act::Send(vec![not_utf8])).await.code, Code::ReplyUnreadable);
    let error = [
        EVENTS,
        &chunk(r#"{"content":"x"}"#, "null"),
        "data: {\"error\":{\"message\":\"slow down\",\"code\":429}}\n\n",
    ];
    let error = fault(Act::text(error.concat())).await;
    assert_eq!(told(&error), (Code::ProviderBusy, FaultClass::RateLimit, "the provider answered 429: slow down"));
    assert_eq!(fault(Act::text("not HTTP at all\r\n\r\n")).await.code, Code::ProviderUnreachable);
}

#[tokio::test]
async fn an_error_without_a_wrapping_is_told_in_the_provider_s_words() {
    for (error, wanted) in [
        (
            r#"{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}"#,
            (Code::RequestRefused, FaultClass::Refused, "the provider answered 400: too long"),
        ),
        (
            r#"{"code":"InvalidParameter","message":"Range of input","request_id":"x"}"#,
            (Code::RequestRefused, FaultClass::Refused, "the provider answered with an error: Range of input"),
        ),
        (
            r#"{"code":"Throttling.RateQuota","message":"slow"}"#,
            (Code::ProviderBusy, FaultClass::RateLimit, "the provider answered 429: slow"),
        ),
        (
            r#"{"detail":"Model not found"}"#,
            (Code::RequestRefused, FaultClass::Refused, "the provider answered with an error: Model not found"),
        ),
        (
            r#"{"code":"503","message":"later"}"#,
            (Code::ProviderFailed, FaultClass::Server, "the provider answered 503: later"),
        ),
    ] {
        for end in ["", "data: [DONE]\n\n"] {
            let stream = [EVENTS, &chunk(r#"{"content":"x"}"#, "null"), "data: ", error, "\n\n", end].concat();
            assert_eq!(told(&fault(Act::text(stream)).await), wanted, "{error}");
        }
        assert_eq!(told(&fault(Act::text(format!("{JSON}{error}"))).await), wanted, "{error}");
    }
    let finished = [EVENTS, &chunk(r#"{"content":"x"}"#, "\"stop\""), "data: {\"detail\":\"too late\"}\n\n"].concat();
    assert_eq!(ask(Act::text(finished)).await.answer.unwrap().reply.parts.text(), "x");
    let text = fault(Act::text(format!("{EVENTS}event: error\ndata: upstream {KEY} failed\n\n"))).await;
    let words = "an event cannot be read: expected value at line 1 column 1: upstream [redacted:TEST_KEY] failed";
    assert_eq!(told(&text), (Code::ReplyUnreadable, FaultClass::Refused, words));
}

#[tokio::test]
async fn a_packed_reply_is_told_and_not_asked_for_again() {
    for kind in ["text/event-stream", "application/json"] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n");
        let packed = [format!("{head}content-encoding: gzip\r\n\r\n").as_bytes(), b"\x1f\x8b\x08\0\xff"].concat();
        let words = "the provider packed its reply as gzip, although it was asked not to";
        let fault = fault(Act::Send(vec![packed])).await;
        assert_eq!(told(&fault), (Code::ReplyUnreadable, FaultClass::Refused, words));
        let plain = format!("{head}content-encoding: identity\r\n\r\n");
        let reply = if kind == "application/json" {
            r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#.to_owned()
        } else {
            chunk(r#"{"content":"x"}"#, "\"stop\"")
        };
        assert_eq!(ask(Act::text(plain + &reply)).await.answer.unwrap().reply.parts.text(), "x");
    }
    let refused = fault(Act::text("HTTP/1.1 429 Slow\r\ncontent-encoding: br\r\nretry-after: 7\r\n\r\n???")).await;
    assert_eq!((refused.class, refused.retry_after_ms), (FaultClass::RateLimit, Some(7000)));
    assert_eq!(refused.message, "the provider answered 429: its words are packed as br");
}

#[tokio::test]
async fn endless_replies_end_at_the_limit() {
    let event = chunk(r#"{"content":"again and again"}"#, "null").into_bytes();
    let error = fault(Act::Flood(EVENTS, event)).await;
    assert_eq!(told(&error), (Code::ReplyTooLarge, FaultClass::Refused, "the reply is longer than 65536 bytes"));
    let error = fault(Act::Flood(EVENTS, format!(":{}\n", "x".repeat(4096)).into_bytes())).await;
    let words = "the event stream is longer than 4194304 bytes";
    assert_eq!(told(&error), (Code::ReplyTooLarge, FaultClass::Refused, words));
    let error = fault(Act::Flood(JSON, vec![b' '; 4096])).await;
    let words = "the completion is longer than 1245184 bytes";
    assert_eq!(told(&error), (Code::ReplyTooLarge, FaultClass::Refused, words));
    let line = ask_with(Act::Flood(EVENTS, vec![b'x'; 65_536]), |settings| settings.max_reply_bytes = 1 << 20).await;
    let words = "an event of the stream is longer than 4194304 bytes";
    assert_eq!(told(&line.answer.unwrap_err()), (Code::ReplyTooLarge, FaultClass::Refused, words));
    let refusal = fault(Act::Flood("HTTP/1.1 500 No\r\n\r\n", vec![b'x'; 4096])).await;
    assert!(refusal.message.len() < 1000);
}

#[tokio::test]
async fn what_a_reply_is_wrapped_in_does_not_count() {
    // 30,000 tokens of five bytes in events as OpenAI sends them.
    let wrapping = format!("\"id\":\"chatcmpl-{}\",\"object\":\"chat.completion.chunk\"", "x".repeat(250));
    let token = format!("data: {{{wrapping},\"choices\":[{{\"delta\":{{\"content\":\"word \"}}}}]}}\n\n");
    let mut stream = EVENTS.to_owned() + &token.repeat(30_000);
    assert!(stream.len() > 8 << 20, "{}", stream.len());
    stream += &chunk("{}", "\"stop\"");
    let asked = ask_with(Act::text(stream), |settings| settings.max_reply_bytes = 200_000).await;
    assert_eq!(asked.answer.unwrap().reply.parts.text().len(), 150_000);
}

#[tokio::test]
async fn a_finish_reason_that_nobody_knows_is_no_end() {
    let text = [EVENTS, &chunk(r#"{"content":"x"}"#, "\"anything\""), "data: [DONE]\n\n"].concat();
    let words = "the provider ended the reply with `anything`, which is no known finish reason";
    assert_eq!(told(&fault(Act::text(text)).await), (Code::ReplyUnreadable, FaultClass::Server, words));
    let named = [EVENTS, &chunk("{}", &format!("\"{KEY}\""))].concat();
    assert_eq!(fault(Act::text(named)).await.code, Code::ReplyUnreadable);
}

#[tokio::test]
async fn silence_ends_at_the_idle_timeout_or_at_the_deadline() {
    let idle = |settings: &mut HttpSettings| settings.idle_timeout = Duration::from_millis(50);
    for sent in
        [String::new(), EVENTS.to_owned(), [EVENTS, &chunk(r#"{"content":"x"}"#, "null")].concat(), format!("{JSON}{{")]
    {
        let asked = ask_with(Act::Hang(sent.into_bytes()), idle).await;
        let words = "the provider sent nothing for 50ms; `idle_timeout` of [provider.openai] sets how long to wait";
        assert_eq!(told(&asked.answer.unwrap_err()), (Code::ProviderSilent, FaultClass::Timeout, words));
    }
    let finished = [EVENTS, &chunk(r#"{"content":"x"}"#, "\"stop\"")].concat();
    let asked = ask_with(Act::Hang(finished.into_bytes()), idle).await;
    assert_eq!(asked.answer.unwrap().reply.parts.text(), "x");
    let total = |settings: &mut HttpSettings| settings.total_timeout = Some(Duration::from_millis(50));
    let asked = ask_with(Act::Hang(Vec::new()), total).await;
    assert_eq!(
        asked.answer.unwrap_err().message,
        "the request took longer than 50ms; `total_timeout` of [provider.openai] sets how long to wait"
    );
}

#[tokio::test]
async fn a_refusal_keeps_its_status_its_words_and_its_wish_and_never_the_key() {
    let key = fault(Act::text(format!("HTTP/1.1 401 No\r\n\r\n{{\"error\":{{\"message\":\"bad key {KEY}\"}}}}"))).await;
    let words = "the provider answered 401: bad key [redacted:TEST_KEY]; check the key in TEST_KEY";
    assert_eq!(told(&key), (Code::KeyRefused, FaultClass::Refused, words));
    let padded = "x ".repeat(195);
    let cut = fault(Act::text(format!("HTTP/1.1 500 No\r\n\r\n{padded}{KEY}"))).await;
    assert!(!cut.message.contains("sk-secret"), "{}", cut.message);
    let busy = fault(Act::text("HTTP/1.1 429 Slow\r\nretry-after: 7\r\n\r\n{\"error\":\"slow\"}")).await;
    assert_eq!((busy.class, busy.retry_after_ms), (FaultClass::RateLimit, Some(7000)));
    let moved =
        fault(Act::text("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")).await;
    assert_eq!(moved.class, FaultClass::Refused);
    assert!(moved.message.contains("redirects are not followed"), "{}", moved.message);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let model = HttpModel::new(settings(base_url.clone())).unwrap();
    let fault = model.complete(&test_call(), &crate::model::NoDeltas).await.unwrap_err();
    assert_eq!((fault.code, fault.class), (Code::ProviderUnreachable, FaultClass::Network));
    assert!(fault.message.starts_with(&format!("could not reach {base_url}/chat/completions: ")), "{}", fault.message);
}

#[test]
fn settings_that_cannot_work_or_would_leak_are_refused() {
    let with = |base_url: &str, key: &str| {
        let api_key = Some(Secret { name: "TEST_KEY".to_owned(), value: key.to_owned() });
        HttpModel::new(HttpSettings { base_url: base_url.to_owned(), api_key, ..HttpSettings::default() }).unwrap_err()
    };
    assert_eq!(with("localhost:8080", KEY), SettingsError::Address("localhost:8080".to_owned()));
    assert_eq!(with("ftp://x", KEY), SettingsError::Address("ftp://x".to_owned()));
    assert_eq!(with("http://user:password@x/v1", KEY), SettingsError::Credentials("OPENAI_API_KEY"));
    assert_eq!(with("http://x/v1?key=abc", KEY), SettingsError::Credentials("OPENAI_API_KEY"));
    assert_eq!(with("http://x/v1", "two\nlines"), SettingsError::Key("TEST_KEY".to_owned()));
    let model = HttpModel::new(settings("http://x".to_owned())).unwrap();
    assert!(!format!("{model:?}").contains(KEY));
}
