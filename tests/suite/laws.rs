//! The laws of the design that need more than one crate, each in a test of its name.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rondo_engine::store::{MemoryStore, Read};
use rondo_engine::{Engine, SystemEnv, rebuild, registry};
use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::message::{Message, Speaker};
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
    let status = if call.site.role.as_str() == "b" && n % 3 == 0 { "status: again" } else { "status: done\nnote: \"n\u{e9} {}\"" };
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
            let messages = call.conversation.messages().to_vec();
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
                prop_assert_eq!(after[before.len()].role, Speaker::Assistant);
            }
        }
    }

    /// Law `rebuild`: every request digest of every transcript equals that of the rebuilt request.
    #[test]
    fn rebuild(
        seed in 0_u64..1000,
        history in prop::sample::select(vec!["condensed", "none"]),
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
                firsts.push((request.role.to_string(), request.messages.clone()));
                last_seq = request.seq;
            }
        }
        let mut sent = sent.lock().unwrap().clone();
        // A step that failed for good was asked for and is not in the thread.
        sent.truncate(firsts.len());
        prop_assert_eq!(firsts, sent);
    }
}
