//! The laws of the design that need more than one crate, each in a test of its name.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rondo_core::conversation::rebuild;
use rondo_core::{Engine, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::message::{Message, Speaker};
use rondo_store::{MemoryStore, Read};
use rondo_tests::{FnModel, checked, follow, start};

/// Three roles that go round, with any history and context that runs.
fn workflow(history: &str, context: &str, rounds: u32) -> String {
    format!(
        r#"
rondo: 1
name: laws
roles:
  a: {{ system: You are a., history: {history}, context: {context}, output: {{ done: {{ note: string }} }} }}
  b: {{ system: You are b., history: {history}, context: {context}, output: {{ done: {{ note: string }}, again: {{}} }} }}
  c: {{ system: You are c., history: {history}, context: {context}, output: {{ done: {{ note: string }} }} }}
graph:
  start: {{ to: a, prompt: "Begin." }}
  a: {{ done: {{ to: b, prompt: "From a: {{{{ output.note }}}}" }} }}
  b:
    again: {{ to: a, max: {rounds}, on_max: {{ to: end }} }}
    done: {{ to: c, prompt: "From b: {{{{ body }}}}" }}
  c: {{ done: {{ to: a, prompt: "From c.", max: {rounds}, on_max: {{ to: end }} }} }}
"#
    )
}

/// Answers that vary with their place; every fifth attempt breaks the contract, so that there are repairs.
fn varied(call: &ModelCall, seed: u64) -> String {
    let Some(n) = call.ordinal.checked_mul(31).map(|n| n + seed + call.site.visit) else { return String::new() };
    if n % 5 == 0 {
        return "no contract here".to_owned();
    }
    let status = if call.site.role.as_str() == "b" && n % 3 == 0 {
        "status: again"
    } else {
        "status: done\nnote: \"n\u{e9} {}\""
    };
    format!("---\n{}\n---\n\nBody {n} of {}.\n", status.replace("{}", &n.to_string()), call.site.role)
}

/// What was sent in each first request: role, messages.
type Sent = Arc<Mutex<Vec<(String, Vec<Message>)>>>;

fn recorded(workflow_text: &str, seed: u64) -> (Arc<MemoryStore>, rondo_protocol::id::ThreadId, Sent) {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let sent: Sent = Arc::default();
    let keep = Arc::clone(&sent);
    let model = FnModel(move |call: &ModelCall| {
        if call.site.position == 0 {
            let messages = call.conversation.messages().into_iter().cloned().collect::<Vec<_>>();
            keep.lock().unwrap().push((call.site.role.to_string(), messages));
        }
        Ok(varied(call, seed))
    });
    let checked = checked(workflow_text);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let thread = runtime.block_on(async {
        let handle = start(&engine, &checked, Value::empty_object(), Arc::new(model)).await;
        let thread = handle.thread.clone();
        follow(handle).await;
        thread
    });
    (store, thread, sent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Law `prefix`, on what providers were really sent.
    #[test]
    fn prefix(seed in 0_u64..1000, context in prop::sample::select(vec!["none", "outputs", "bodies"]), rounds in 1_u32..6) {
        let (_, _, sent) = recorded(&workflow("condensed", context, rounds), seed);
        let sent = sent.lock().unwrap();
        for role in ["a", "b", "c"] {
            let requests: Vec<&Vec<Message>> = sent.iter().filter(|(who, _)| who == role).map(|(_, m)| m).collect();
            for pair in requests.windows(2) {
                let (before, after) = (pair[0], pair[1]);
                prop_assert_eq!(&after[..before.len()], &before[..]);
                prop_assert_eq!(after.len(), before.len() + 2);
                prop_assert_eq!(after[before.len()].role(), Speaker::Assistant);
            }
        }
    }

    /// Law `rebuild`: every request digest of every transcript equals that of the rebuilt request.
    #[test]
    fn rebuild(
        seed in 0_u64..1000,
        history in prop::sample::select(vec!["condensed", "exact", "none"]),
        context in prop::sample::select(vec!["none", "outputs", "bodies", "{ what: bodies, max_bytes: 60 }"]),
        rounds in 1_u32..6,
    ) {
        let (store, thread, sent) = recorded(&workflow(history, context, rounds), seed);
        let row = store.row(&thread).unwrap().unwrap();
        let mut requests = Vec::new();
        rebuild::requests(&*store, &thread, &row, &|_| true, &mut |request| {
            requests.push(request);
            true
        }).unwrap();
        let mut firsts = Vec::new();
        let mut last_seq = 0;
        for request in &requests {
            prop_assert!(request.is_proven(), "step {} of {}: {:?}", request.seq, request.role, request.fault);
            if request.seq != last_seq {
                firsts.push((request.role.to_string(), request.messages().messages().into_iter().cloned().collect()));
                last_seq = request.seq;
            }
        }
        let mut sent = sent.lock().unwrap().clone();
        // A step that failed for good was asked for and is not in the thread.
        sent.truncate(firsts.len());
        prop_assert_eq!(firsts, sent);
    }
}

/// Law `one_effect`, across a stop: what reached the journal is never asked again. The first answer breaks the
/// contract and is journaled before it is sent back; the run is stopped while the second is on its way.
#[tokio::test]
async fn one_effect() {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let checked = checked(&workflow("condensed", "none", 1));
    let asked: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();

    let first = Waits { asked: Arc::clone(&asked), waits_at: Some(1) };
    let mut handle = start(&engine, &checked, Value::empty_object(), Arc::new(first)).await;
    let thread = handle.thread.clone();
    while asked.lock().unwrap().len() < 2 {
        handle.events.recv().await;
        tokio::task::yield_now().await;
    }
    handle.stopper.stop_at_once();
    follow(handle).await;
    assert_eq!(*asked.lock().unwrap(), [("a".to_owned(), 0), ("a".to_owned(), 1)]);

    let second: Arc<dyn rondo_agent_kit::model::Model> = Arc::new(Waits { asked: Arc::clone(&asked), waits_at: None });
    let run_config = |workflow: &_, _: &_| Ok::<_, rondo_core::Error>(rondo_tests::run_config(workflow, &second));
    let rondo_core::Resumed::Running(handle) = engine.resume(&thread, run_config).await.unwrap() else {
        panic!("it has not ended")
    };
    follow(handle).await;
    let asked = asked.lock().unwrap();
    // The call that was on its way is made again; the one that was answered is not.
    assert_eq!(asked.get(2), Some(&("a".to_owned(), 1)));
    assert_eq!(asked.iter().filter(|call| **call == ("a".to_owned(), 0)).count(), 2, "once for each of its two visits");
}

/// Breaks the contract at position 0 of each turn and never answers at `waits_at`.
struct Waits {
    asked: Arc<Mutex<Vec<(String, u32)>>>,
    waits_at: Option<u32>,
}

impl rondo_agent_kit::model::Model for Waits {
    fn complete<'a>(
        &'a self,
        call: &'a ModelCall,
        _: &'a dyn rondo_agent_kit::model::Deltas,
    ) -> futures_util::future::BoxFuture<'a, Result<rondo_protocol::call::ModelAnswer, rondo_protocol::call::Fault>>
    {
        self.asked.lock().unwrap().push((call.site.role.to_string(), call.site.position));
        if self.waits_at == Some(call.site.position) {
            return Box::pin(std::future::pending());
        }
        let text = if call.site.position == 0 { "broken" } else { "---\nstatus: done\nnote: x\n---\n" };
        Box::pin(std::future::ready(Ok(rondo_tests::answer(text.to_owned()))))
    }
}

/// Law `format`: the digests of fixed objects never change. Key bytes and stored values are held by snapshots beside the
/// code (`store/keys.rs`, `store/codec.rs`), the texts of messages by `engine/docs/layout-1.md`.
#[test]
fn format() {
    let (_, thread, _) = recorded(&workflow("condensed", "outputs", 2), 1);
    let (store, again, _) = recorded(&workflow("condensed", "outputs", 2), 1);
    assert_ne!(thread, again, "two threads");
    let row = store.row(&again).unwrap().unwrap();
    let mut lines =
        vec![format!("workflow {}", row.workflow), format!("policy {}", row.policy), format!("start {}", row.start)];
    store
        .steps(&again, 1..=row.seq, &mut |stored, _| {
            let transcript = stored.step.transcript.map_or_else(String::new, |digest| digest.to_string());
            lines.push(format!("{} {} transcript {transcript}", stored.seq, stored.digest));
            true
        })
        .unwrap();
    insta::assert_snapshot!("format", lines.join("\n"));
}

/// Law `bounded`: what is too much is refused with a typed fault, whoever sends it. Providers, the store and the binary
/// are held to it in `provider.rs`, `binary_bad_input.rs` and the store's contract.
#[test]
fn bounded() {
    use rondo_protocol::canonical;
    use rondo_protocol::workflow::template::Template;

    let files = std::collections::BTreeMap::new();
    let refused = |text: &str| rondo_protocol::workflow::read("w.yaml", text, &files).unwrap_err()[0].code.to_string();
    assert_eq!(refused(&"- ".repeat(100_000)), "RN0103", "levels");
    assert_eq!(refused(&format!("rondo: 1\nx-a: {}", "[1,".repeat(400_000))), "RN0103", "size");
    let bomb: String = (1..9).fold("x-a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n".to_owned(), |text, level| {
        let below = vec![format!("*a{}", level - 1); 10].join(",");
        format!("{text}x-a{level}: &a{level} [{below}]\n")
    });
    assert_eq!(refused(&bomb), "RN0103", "aliases");
    assert_eq!(canonical::parse("[".repeat(100_000).as_bytes()), Err(canonical::Error::ValueTooDeep));
    let scope = Value::from_iter([("input", Value::from_iter([("x", Value::from("xx".repeat(500)))]))]);
    let growing = "{{ input.x | replace('x', input.x) | replace('x', input.x) }}";
    assert!(Template::parse(growing).unwrap().render(&scope, 1 << 20).is_err());
    assert!(Template::parse(&format!("{{{{ {} }}}}", vec!["1"; 2000].join("+"))).is_err());
}
