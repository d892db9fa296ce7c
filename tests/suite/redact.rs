//! `redact` in a running thread: what its patterns match is nowhere in what the thread holds, tells, keeps or sends on.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_core::conversation::rebuild;
use rondo_core::{Engine, Error, NewThread, RunConfig, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Effect, Fault, ModelAnswer, ModelCall};
use rondo_protocol::digest::Kind;
use rondo_protocol::event::What;
use rondo_protocol::id::ThreadId;
use rondo_protocol::message::{Part, ToolUse};
use rondo_protocol::object::{Finish, ModelReply, Start, Transcript};
use rondo_store::{MemoryStore, Read};
use rondo_tests::{FnTool, answer, checked, equipped, follow};

use crate::recordings::Paper;

const CARD: &str = "4111 1111 1111 1111";

const WORKFLOW: &str = r#"
rondo: 1
name: shop
input: { note: string }
roles:
  clerk: { system: You help., tools: [look], history: exact }
  other: { system: You help too. }
graph:
  start: { to: clerk, prompt: "{{ input.note }}" }
  clerk: { done: { to: other, prompt: "{{ body }}" } }
  other: { done: { to: end } }
hooks:
  - { use: redact, patterns: ['(?<card>\b\d{4}(?: ?\d{4}){3}\b)'] }
  - { use: response_cache }
"#;

/// Says the number wherever it can, in pieces too, and remembers what it was sent.
#[derive(Default)]
struct Leaking {
    sent: Mutex<String>,
}

impl Model for Leaking {
    fn complete<'a>(
        &'a self,
        call: &'a ModelCall,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        Box::pin(async move {
            self.sent.lock().unwrap().extend([format!("{:?}", call.conversation.messages())]);
            for piece in ["charged 4111 11", "11 1111 1", "111 today\nand 41", "11 1111 1111 1111"] {
                deltas.text(piece);
            }
            let is_first = call.site.role.as_str() == "clerk" && call.site.position == 0;
            let text = format!("---\nstatus: done\n---\n\ncharged {CARD} today");
            if !is_first {
                return Ok(answer(text));
            }
            let arguments = format!("{{\"card\":\"{CARD}\"}}");
            let tool = ToolUse { arguments, id: "t1".to_owned(), name: "look".to_owned() };
            let reasoning = Part::Reasoning { opaque: None, text: format!("the card is {CARD}") };
            let parts = [reasoning, Part::Text { text }, Part::ToolCall(tool)].into_iter().collect();
            let reply = ModelReply { finish: Finish::ToolCalls, parts };
            Ok(ModelAnswer { reply, usage: None, cost_usd: None })
        })
    }
}

/// Everything that is stored of a thread, as text.
fn stored(store: &MemoryStore, thread: &ThreadId) -> String {
    let row = store.row(thread).unwrap().unwrap();
    let start: Start = rebuild::object(store, Kind::Start, row.start).unwrap();
    let mut text = format!("{start:?}{:?}", String::from_utf8_lossy(&row.checkpoint));
    for seq in 1..=row.seq {
        let (stored, note) = store.step(thread, seq).unwrap().unwrap();
        text.extend([format!("{stored:?}{note:?}")]);
        let transcript: Transcript = rebuild::object(store, Kind::Transcript, stored.step.transcript.unwrap()).unwrap();
        text.extend([format!("{transcript:?}")]);
    }
    for (key, value) in store.hook_values("response_cache", b"", 1000).unwrap() {
        text.extend([String::from_utf8_lossy(&key), String::from_utf8_lossy(&value)]);
    }
    text
}

fn is_clean(what: &str, text: &str) {
    for part in [CARD, "4111 1111", "1111 1111", "4111111111111111"] {
        assert!(!text.contains(part), "{what} holds {part}: {text}");
    }
    assert!(text.contains("[redacted:card]"), "{what} says nothing of it: {text}");
}

#[tokio::test]
async fn what_a_pattern_matches_never_enters_a_thread() {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let checked = checked(WORKFLOW);
    let look = FnTool::new("look", Effect::Pure, |_: &Value, _: &str| Ok(format!("paid with {CARD}")));
    let leaking = Arc::new(Leaking::default());
    let model: Arc<dyn Model> = leaking.clone();
    let paper = Paper::of(1 << 20);
    let given = equipped(&checked.workflow, &model, vec![Arc::new(look)]);
    let run_config = RunConfig { recorder: Some(paper.recorder()), ..given };
    let input = [("note", Value::from(format!("my card is {CARD}")))].into_iter().collect();
    let (workflow, policy) = (checked.workflow, checked.policy);
    let new = NewThread {
        workflow,
        policy,
        input,
        file: None,
        script: None,
        recorded: None,
        workspace: None,
        labels: rondo_core::Labels::default(),
    };
    let handle = engine.start(new, run_config).await.unwrap();
    let thread = handle.thread.clone();
    let (events, _) = follow(handle).await;

    is_clean("the store", &stored(&store, &thread));
    is_clean("what is told", &format!("{events:?}"));
    is_clean("what is sent", &leaking.sent.lock().unwrap());
    is_clean("the recording", &paper.text());
    let pieces: String = events
        .iter()
        .filter_map(|event| match &event.what {
            What::ModelDelta { visit, text, .. } if visit.role.as_str() == "other" => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(pieces, "charged [redacted:card] today\nand [redacted:card]", "pieces that hold it together");

    // What was sent can be proven: redaction acts on what enters, so that it is what was sent.
    let row = store.row(&thread).unwrap().unwrap();
    let mut requests = 0;
    let mut prove = |request: rebuild::Request| {
        assert!(request.is_proven() && request.asked.is_none(), "{request:?}");
        requests += 1;
        true
    };
    rebuild::requests(&*store, &thread, &row, &|_| true, &mut prove).unwrap();
    assert_eq!(requests, 3);
}

#[tokio::test]
async fn a_pattern_that_cannot_be_used_is_refused_before_anything_is_stored() {
    for pattern in ["(", "x*", "(?<card>"] {
        let store = Arc::new(MemoryStore::default());
        let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
        let checked = checked(&WORKFLOW.replace("(?<card>\\b\\d{4}(?: ?\\d{4}){3}\\b)", pattern));
        let model: Arc<dyn Model> = Arc::new(Leaking::default());
        let run_config = equipped(&checked.workflow, &model, Vec::new());
        let input = [("note", Value::from("x"))].into_iter().collect();
        let (workflow, policy) = (checked.workflow, checked.policy);
        let new = NewThread {
            workflow,
            policy,
            input,
            file: None,
            script: None,
            recorded: None,
            workspace: None,
            labels: rondo_core::Labels::default(),
        };
        let refused = engine.start(new, run_config).await.err().unwrap();
        assert!(
            matches!(&refused, Error::Hook { node, what } if node == "redact" && what.contains(pattern)),
            "{refused}"
        );
        assert!(store.rows(None, usize::MAX).unwrap().is_empty());
    }
}
