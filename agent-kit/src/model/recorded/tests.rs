//! Tests of recording and playback.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use proptest::prelude::*;
use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, Site};
use rondo_protocol::diagnostic::{Code, Diagnostic};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::RoleName;
use rondo_protocol::message::{Conversation, Message, Opaque, Part, Parts, ToolUse};
use rondo_protocol::object::{Finish, Head, ModelReply, Parameters, ToolSpec, Usage};
use rondo_protocol::{Digest, Value};

use super::*;
use crate::model::{redacting, test_call};
use crate::redact::Redactor;

const KEY: &str = "sk-secret-0123456789";

#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn into_text(self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8(bytes).unwrap_or_default()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn head() -> Head {
    let temperature = Value::Float(0.1);
    Head {
        model: "fake-1".to_owned(),
        parameters: Parameters([("temperature".to_owned(), temperature)].into()),
        response_format: Some(r#"{"type":"object"}"#.to_owned()),
        system: "You write.\nBe brief.".to_owned(),
        tools: vec![ToolSpec {
            description: "Reads a file".to_owned(),
            name: "read_file".to_owned(),
            parameters: "{}".to_owned(),
        }],
    }
}

fn call(head: Head, messages: impl IntoIterator<Item = Message>) -> ModelCall {
    let (head_digest, _) = Digest::of(Kind::Head, &head).unwrap();
    let conversation = Arc::new(messages.into_iter().collect());
    ModelCall { head_digest, head: Arc::new(head), conversation, ..test_call() }
}

fn at(call: &ModelCall, role: &str, visit: u64, attempt: u32) -> ModelCall {
    let role = RoleName::new(role).unwrap();
    ModelCall { site: Site { role, visit, ..call.site.clone() }, attempt, ..call.clone() }
}

fn said(text: &str) -> ModelAnswer {
    let usage = Usage { prompt_tokens: 10, cached_tokens: 4, output_tokens: 3, ..Usage::default() };
    let reply = ModelReply::said(text);
    ModelAnswer { reply, usage: Some(usage), cost_usd: Some(0.25) }
}

fn busy() -> Fault {
    let fault = Fault::new(Code::ProviderBusy, FaultClass::RateLimit, "the provider answered 429");
    Fault { retry_after_ms: Some(2000), ..fault }
}

/// A provider that gives the same reply each time, in pieces, and counts the requests.
struct Saying {
    pieces: Vec<String>,
    outcome: Result<ModelAnswer, Fault>,
    asked: AtomicUsize,
}

impl Saying {
    fn new(outcome: Result<ModelAnswer, Fault>) -> Self {
        let text = outcome.as_ref().map_or(Cow::Borrowed(""), |answer| answer.reply.parts.text());
        Self { pieces: text.chars().map(String::from).collect(), outcome, asked: AtomicUsize::new(0) }
    }
}

impl Model for Saying {
    fn complete<'a>(&'a self, _: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            self.pieces.iter().for_each(|piece| deltas.text(piece));
            self.outcome.clone()
        })
    }
}

/// The streamed parts.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Deltas for Heard {
    fn text(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Makes one attempt at `model`, recorded as in a run.
fn record(
    recorder: &Recorder,
    model: &dyn Model,
    call: &ModelCall,
    redactor: &Redactor,
    deltas: &dyn Deltas,
) -> Result<ModelAnswer, Fault> {
    let attempt = recorder.attempt(call, redactor, deltas)?;
    let outcome = wait(redacting::complete(model, redactor, call, &attempt));
    attempt.end(&outcome);
    outcome
}

fn title() -> Title {
    Title { workflow: "loop".to_owned(), start: None }
}

/// The text of a recording of these attempts.
fn recording<'a>(attempts: impl IntoIterator<Item = (&'a ModelCall, Result<ModelAnswer, Fault>)>) -> String {
    recording_of(&title(), attempts)
}

fn recording_of<'a>(
    title: &Title,
    attempts: impl IntoIterator<Item = (&'a ModelCall, Result<ModelAnswer, Fault>)>,
) -> String {
    let written = Written::default();
    let recorder = Recorder::new(title, written.clone()).unwrap();
    for (call, outcome) in attempts {
        let heard = Heard::default();
        assert_eq!(record(&recorder, &Saying::new(outcome.clone()), call, &Redactor::default(), &heard), outcome);
    }
    recorder.finish().unwrap();
    written.into_text()
}

fn read(text: &str) -> Cassette {
    Cassette::read("a.jsonl", text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn refused(text: &str) -> Vec<Diagnostic> {
    Cassette::read("a.jsonl", text).unwrap_err()
}

/// The played outcome and its streamed parts.
fn play(text: &str, call: &ModelCall) -> (Result<ModelAnswer, Fault>, Vec<String>) {
    let heard = Heard::default();
    let outcome = wait(read(text).complete(call, &heard));
    (outcome, heard.0.into_inner().unwrap())
}

fn miss(text: &str, call: &ModelCall) -> String {
    let fault = play(text, call).0.unwrap_err();
    assert_eq!((fault.code, fault.class, fault.routed_by()), (Code::NotRecorded, FaultClass::ScriptEnd, None));
    assert!(fault.message.len() < 2000, "{}", fault.message);
    fault.message
}

/// Changes a line and seals it again, so that the reported fault is not the seal.
fn reseal(text: &str, line: usize, change: impl Fn(&str) -> String) -> String {
    let lines = text.lines().enumerate().map(|(number, content)| {
        if number + 1 != line {
            return format!("{content}\n");
        }
        let changed = change(&format::unsealed(content).unwrap());
        let value: Box<serde_json::value::RawValue> = serde_json::from_str(&changed).unwrap();
        format::sealed(&value).unwrap()
    });
    lines.collect()
}

#[test]
fn what_was_recorded_is_played_as_it_was() {
    let asked = call(head(), [Message::user("Write.")]);
    let again = at(&asked, "writer", 1, 1);
    let text = recording([(&asked, Err(busy())), (&again, Ok(said("Tide pools.")))]);
    assert_eq!(play(&text, &asked), (Err(busy()), Vec::new()));
    let letters: Vec<String> = "Tide pools.".chars().map(String::from).collect();
    assert_eq!(play(&text, &again), (Ok(said("Tide pools.")), letters));
}

#[test]
fn a_recording_reads_as_one_line_a_thing() {
    let first = call(head(), [Message::user("Write.")]);
    let next = [Message::user("Write."), Message::assistant("x"), Message::user("More.")];
    let second = at(&call(head(), next), "writer", 2, 0);
    let text = recording([(&first, Ok(said("x"))), (&second, Err(busy()))]);
    let text = text.lines().map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(took) = line.get_mut("duration_ms") {
            *took = 7.into();
        }
        if let Some(at) = line.get_mut("chunks").and_then(|chunks| chunks.get_mut(0)).and_then(|chunk| chunk.get_mut(0))
        {
            *at = 3.into();
        }
        line["seal"] = "[seal]".into();
        line.to_string() + "\n"
    });
    insta::assert_snapshot!(text.collect::<String>());
}

#[test]
fn a_conversation_is_written_once_however_often_it_is_sent() {
    let text_of = |turns: usize| {
        let said_before = |turn| [Message::user(format!("{turn} {}", "u".repeat(500))), Message::assistant("a")];
        let calls: Vec<ModelCall> = (0..turns)
            .map(|turn| at(&call(head(), (0..=turn).flat_map(said_before)), "writer", turn as u64 + 1, 0))
            .collect();
        recording(calls.iter().map(|call| (call, Ok(said("a")))))
    };
    let (ten, hundred) = (text_of(10).len(), text_of(100).len());
    assert!(hundred < 11 * ten, "{ten} bytes for 10 turns, {hundred} for 100");
}

#[test]
fn a_recording_that_is_cut_anywhere_is_refused_where_it_is_cut() {
    let asked = call(head(), [Message::user("Wríte.")]);
    let text = recording([(&asked, Ok(said("Tide pools.")))]);
    let whole = text.trim_end().len();
    for length in (0..whole).filter(|length| text.is_char_boundary(*length)) {
        let cut = &text[..length];
        let faults = refused(cut);
        let code = if length < r#"{"rondo_cassette":"#.len() { Code::CassetteShape } else { Code::CassetteCut };
        assert_eq!((faults.len(), faults[0].code), (1, code), "{length}: {faults:?}");
        if code == Code::CassetteCut {
            let (line, column) = rondo_protocol::diagnostic::position(cut, length);
            assert_eq!((faults[0].line, faults[0].column), (line, column), "{length}");
        }
    }
    // A missing newline after the last line is no fault.
    assert_eq!(read(&text[..whole]).attempts(), 1);
}

#[test]
fn the_hint_of_a_cut_recording_makes_it_play() {
    let asked = call(head(), [Message::user("Write.")]);
    let text = recording([(&asked, Ok(said("a"))), (&at(&asked, "writer", 2, 0), Ok(said("b")))]);
    let lines: Vec<&str> = text.lines().collect();
    let last_attempt = lines.len() - 2;
    for (kept, half) in [(last_attempt, ""), (last_attempt, &lines[last_attempt][..40])] {
        let whole = lines[..kept].join("\n") + "\n";
        let faults = refused(&format!("{whole}{half}"));
        let (_, end) = faults[0].hint.as_ref().unwrap().rsplit_once(": ").unwrap();
        assert_eq!(play(&format!("{whole}{end}\n"), &asked).0, Ok(said("a")));
    }
}

#[test]
fn faults_of_a_recording_have_their_places() {
    let asked = call(head(), [Message::user("Write.")]);
    let text = recording([(&asked, Ok(said("Tide pools.")))]);
    let fault = |text: &str| {
        let faults = refused(text);
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults[0].to_string()
    };
    let lines: Vec<&str> = text.lines().collect();
    let twice = format!("{}\n{}\n{}\n{}\n{}\n", lines[0], lines[1], lines[1], lines[2], lines[3]);
    let headless = [lines[0], lines[2], lines[3], lines[4], ""].join("\n");
    let fewer = [lines[0], lines[1], lines[2], lines[4], ""].join("\n");
    let failed = recording([(&asked, Err(busy()))]);
    let reply = format!("\"reply\":{}", serde_json::to_string(&said("a").reply).unwrap());
    let found = [
        fault(""),
        fault("hello\n"),
        fault("{\"a\":1}\n"),
        fault(&text.replacen("\"rondo_cassette\":1", "\"rondo_cassette\":2", 1)),
        fault(&text.replacen("Tide pools.", "Rock pools.", 1)),
        fault(&text.replacen("\"chunks\":[[", "\"chunks\":[{[", 1)),
        fault(&reseal(&text, 2, |line| line.replace("You write.", "You sing."))),
        fault(&reseal(&text, 3, |line| line.replace("Write.", "Sing."))),
        fault(&reseal(&text, 4, |line| line.replace("\"chunks\"", "\"bits\""))),
        fault(&reseal(&text, 4, |line| line.replace("\"visit\":1", "\"visit\":-1"))),
        fault(&reseal(&failed, 4, |line| line.replace("RN1004", "RN9999"))),
        fault(&reseal(&failed, 4, |line| line.replace("rate_limit", "denied"))),
        fault(&reseal(&failed, 4, |line| line.replace("\"usage\":null", "\"usage\":7"))),
        fault(&reseal(&failed, 4, |line| line.replace("\"reply\":null", &reply))),
        fault(&reseal(&text, 1, |line| line.replace("\"start\"", "\"begin\""))),
        fault(&reseal(&text, 5, |_| r#"{"other":1}"#.to_owned())),
        fault(&twice),
        fault(&headless),
        fault(&fewer),
        fault(&format!("{text}{}\n", lines[1])),
    ];
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn an_attempt_that_stands_twice_is_refused() {
    let asked = call(head(), [Message::user("Write.")]);
    let text = recording([(&asked, Ok(said("a"))), (&asked, Ok(said("b")))]);
    assert_eq!(refused(&text)[0].to_string(), "a.jsonl:5:1: RN1801: the attempt stands twice");
}

#[test]
fn equal_requests_are_told_apart_by_their_places() {
    let asked = call(head(), [Message::user("Vote.")]);
    let (first, second, third) = (at(&asked, "writer", 1, 0), at(&asked, "writer", 2, 0), at(&asked, "voter", 1, 0));
    let text = recording([(&third, Ok(said("c"))), (&first, Ok(said("a"))), (&second, Ok(said("b")))]);
    // In any order, in any process.
    for (call, text_said) in [(&second, "b"), (&first, "a"), (&third, "c"), (&second, "b")] {
        assert_eq!(play(&text, call).0, Ok(said(text_said)));
    }
    // At an unrecorded site: the first of the role, else the first of all.
    assert_eq!(play(&text, &at(&asked, "writer", 9, 0)).0, Ok(said("a")));
    assert_eq!(play(&text, &at(&asked, "other", 1, 0)).0, Ok(said("c")));
}

#[test]
fn attempts_follow_each_other_and_end() {
    let asked = call(head(), [Message::user("Write.")]);
    // A hook failed attempt 1 before it was made.
    let text = recording([(&asked, Err(busy())), (&at(&asked, "writer", 1, 2), Err(busy()))]);
    assert_eq!(play(&text, &at(&asked, "writer", 1, 1)).0, Err(busy()));
    insta::assert_snapshot!(miss(&text, &at(&asked, "writer", 1, 3)));
}

#[test]
fn a_request_that_is_not_there_is_told_with_the_nearest_and_its_first_difference() {
    let messages = || [Message::user("About tide pools.\nTwo lines.\nNo more."), Message::assistant("Pools.")];
    let asked = call(head(), messages());
    let second = at(&call(head(), messages().into_iter().chain([Message::user("Shorter.")])), "writer", 2, 0);
    let text = recording([(&asked, Ok(said("Pools."))), (&second, Ok(said("P.")))]);
    let with = |change: &dyn Fn(&mut Head)| {
        let mut changed = head();
        change(&mut changed);
        miss(&text, &call(changed, messages()))
    };
    let used = ToolUse { arguments: "{}".to_owned(), id: "c".to_owned(), name: "read_file".to_owned() };
    let tool = Message::from(Parts::asking("Pools.", [used]));
    let long = |word: &str| format!("{}{word}{}", "x".repeat(500), "y".repeat(500));
    let far = recording([(&call(head(), [Message::user(long("old"))]), Ok(said("a")))]);
    let found = [
        with(&|head| head.model = "fake-2".to_owned()),
        with(&|head| head.parameters.0.clear()),
        with(&|head| head.system.push_str("\nBe kind.")),
        with(&|head| head.tools.clear()),
        with(&|head| head.tools.push(ToolSpec { name: "write_file".to_owned(), ..head.tools[0].clone() })),
        with(&|head| head.tools[0].description = "Reads".to_owned()),
        with(&|head| head.response_format = None),
        miss(&text, &call(head(), [Message::user("About tide pools.\nThree lines.\nNo more."), tool.clone()])),
        miss(&text, &call(head(), [messages()[0].clone(), tool])),
        miss(&text, &at(&call(head(), messages()), "writer", 2, 0).clone_with(Message::user("Longer."))),
        miss(&text, &at(&call(head(), messages()[..1].to_vec()), "editor", 7, 0)),
        miss(&far, &call(head(), [Message::user(long("new"))])),
        miss(&recording([]), &asked),
    ];
    insta::assert_snapshot!(found.join("\n\n"));
}

trait CloneWith {
    fn clone_with(&self, message: Message) -> Self;
}

impl CloneWith for ModelCall {
    /// The same call with one more message.
    fn clone_with(&self, message: Message) -> Self {
        let mut conversation = Conversation::clone(&self.conversation);
        conversation.push(message);
        Self { conversation: Arc::new(conversation), ..self.clone() }
    }
}

/// Law `no_secret`, for recordings: what is sent and what comes back, also in pieces.
#[test]
fn no_secret_is_recorded() {
    let spelt = KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect::<Vec<_>>().concat();
    let mut secret_head = head();
    secret_head.model = KEY.to_owned();
    secret_head.system = format!("Use {KEY} and \"{spelt}\".");
    secret_head.response_format = Some(format!("{{\"const\":\"{KEY}\"}}"));
    secret_head.parameters.0.insert(KEY.to_owned(), Value::Str(KEY.to_owned()));
    secret_head.tools[0] =
        ToolSpec { description: KEY.to_owned(), name: KEY.to_owned(), parameters: format!("{{\"x\":\"{spelt}\"}}") };
    let uses = || {
        Part::ToolCall(ToolUse { arguments: format!("{{\"k\":\"{KEY}\"}}"), id: KEY.to_owned(), name: KEY.to_owned() })
    };
    let opaque = || Some(Opaque { data: KEY.to_owned(), provider: KEY.to_owned() });
    let reasoning = || Part::Reasoning { opaque: opaque(), text: KEY.to_owned() };
    let parts =
        |text: &str| -> Parts { [reasoning(), Part::Text { text: text.to_owned() }, uses()].into_iter().collect() };
    let message = Message::from(parts(KEY));
    let asked = call(secret_head, [Message::user(format!("My {KEY}.")), message, Message::tool(KEY, KEY, false)]);
    let mut answer = said(&format!("It is {KEY}, {KEY}!"));
    answer.reply.finish = Finish::Other(KEY.to_owned());
    answer.reply.parts = parts(&format!("It is {KEY}, {KEY}!"));
    let fault = Fault::new(Code::KeyRefused, FaultClass::Refused, format!("bad key {KEY}"));
    let redactor = Redactor::new([("KEY".to_owned(), KEY.to_owned())]);
    let written = Written::default();
    let recorder = Recorder::new(&title(), written.clone()).unwrap();
    let (heard, failing) = (Heard::default(), at(&asked, "writer", 2, 0));
    let told = record(&recorder, &Saying::new(Ok(answer)), &asked, &redactor, &heard);
    let failed = record(&recorder, &Saying::new(Err(fault)), &failing, &redactor, &heard);
    recorder.finish().unwrap();
    let text = written.into_text();
    for part in KEY.as_bytes().windows(10) {
        let part = std::str::from_utf8(part).unwrap();
        assert!(!text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains(&spelt[..30]));
    // The request is still found, because its digest is that of the request as sent.
    assert_eq!(play(&text, &asked).0, told);
    assert_eq!(play(&text, &failing).0, failed);
    // The error for a missing request does not reveal what was sent.
    let message = miss(&text, &asked.clone_with(Message::user("More.")));
    assert!(!message.contains(KEY), "{message}");
}

/// A file on a disk that is full after this many bytes.
struct Full {
    left: usize,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_stops_the_run_before_a_provider_is_asked_again() {
    let model = Saying::new(Ok(said("Tide pools.")));
    let recorder = Recorder::new(&title(), Full { left: 200 }).unwrap();
    let asked = call(head(), [Message::user("Write.")]);
    // The answer that was paid for is not lost.
    let first = record(&recorder, &model, &asked, &Redactor::default(), &Heard::default());
    assert_eq!(first, Ok(said("Tide pools.")));
    let fault = record(&recorder, &model, &asked, &Redactor::default(), &Heard::default()).unwrap_err();
    assert_eq!((fault.code, fault.class, fault.routed_by()), (Code::RecordingFailed, FaultClass::Recording, None));
    assert_eq!(model.asked.load(Ordering::SeqCst), 1);
    assert_eq!(recorder.finish().unwrap_err(), fault);
}

#[test]
fn a_reply_in_very_many_parts_is_recorded_without_them() {
    let asked = call(head(), [Message::user("Write.")]);
    let text = recording([(&asked, Ok(said(&"a".repeat(2 << 20))))]);
    assert!(text.len() < 3 << 20, "{}", text.len());
    assert_eq!(play(&text, &asked), (Ok(said(&"a".repeat(2 << 20))), Vec::new()));
}

#[test]
fn what_no_provider_said_is_not_recorded() {
    let asked = call(head(), [Message::user("Write.")]);
    let ended = Fault::new(Code::ScriptEnd, FaultClass::ScriptEnd, "the script has run out");
    let text = recording([(&asked, Err(ended))]);
    assert_eq!(read(&text).attempts(), 0);
}

#[test]
fn a_cassette_holds_its_models() {
    let asked = call(head(), [Message::user("Write.")]);
    let start = Some(Digest::sha256(b"start"));
    let title = Title { workflow: "loop".to_owned(), start };
    let text = recording_of(&title, [(&asked, Ok(said("Tide pools.")))]);
    assert_eq!(play(&text, &asked).0, Ok(said("Tide pools.")));
    let cassette = read(&text);
    assert_eq!((cassette.model("default"), cassette.model("x")), (Some("fake-1"), None));
}

fn any_text() -> impl Strategy<Value = String> {
    "[a-z\\\\\"\n\u{0}é😀\u{2028} ]{0,12}"
}

fn any_number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<f64>().prop_filter_map("finite", |number| Value::number(number).ok()),
        (-rondo_protocol::canonical::MAX_INTEGER..=rondo_protocol::canonical::MAX_INTEGER).prop_map(Value::Int),
    ]
}

prop_compose! {
    fn any_call()(
        system in any_text(),
        number in any_number(),
        texts in prop::collection::vec(any_text(), 0..4),
        visit in 1..4_u64,
    ) -> ModelCall {
        let parameters = Parameters(BTreeMap::from([("seed".to_owned(), number)]));
        let head = Head { system, parameters, ..head() };
        at(&call(head, texts.into_iter().map(Message::user)), "writer", visit, 0)
    }
}

proptest! {
    #[test]
    fn whatever_is_recorded_is_played(calls in prop::collection::vec((any_call(), any_text()), 0..6)) {
        let mut calls = calls;
        calls.sort_by_key(|(call, _)| (call.request(), call.site.visit));
        calls.dedup_by_key(|(call, _)| (call.request(), call.site.visit));
        let text = recording(calls.iter().map(|(call, text)| (call, Ok(said(text)))));
        for (call, answer) in &calls {
            prop_assert_eq!(play(&text, call).0, Ok(said(answer)));
        }
    }

    #[test]
    fn no_change_of_a_byte_is_played(at in 0..10_000_usize, byte in 0_u8..128) {
        let asked = call(head(), [Message::user("Write.")]);
        let mut bytes = recording([(&asked, Ok(said("Tide pools.")))]).into_bytes();
        let at = at % (bytes.len() - 1);
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        let faults = refused(&String::from_utf8(bytes).unwrap());
        prop_assert!(!faults.is_empty() && faults.iter().all(|fault| fault.line > 0 && fault.column > 0));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(\\{\"(rondo_cassette|head|message|attempt|end)\":[0-9a-z\\{\\}\",:]{0,40}\n?){0,5}") {
        let _ = Cassette::read("a.jsonl", &text);
    }
}
