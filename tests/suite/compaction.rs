//! Compaction: a text replaces a role's older visits, and nothing else changes.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_core::conversation::rebuild;
use rondo_core::thread::Checkpoint;
use rondo_core::{Ended, Engine, Resumed, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall};
use rondo_protocol::id::ThreadId;
use rondo_protocol::message::{Message, Speaker};
use rondo_protocol::object::{Record, Usage};
use rondo_store::{MemoryStore, Read, StoredRecord};
use rondo_tests::{checked, follow, run_config, start};

use crate::binary::{Place, fixture};
use crate::kill;

/// A writer and an editor go round. The writer's history is put into one text when its request gets long.
fn workflow(history: &str, at: u64, keep: u64) -> String {
    format!(
        "
rondo: 1
name: long
roles:
  writer: {{ system: You write., history: {history}, compact: {{ at: {at}, keep: {keep}, by: archivist }} }}
  editor: {{ system: You edit., output: {{ revise: {{}}, approved: {{}} }} }}
  archivist: {{ system: You keep what matters. }}
graph:
  start: {{ to: writer, prompt: \"Write about tide pools.\" }}
  writer: {{ done: {{ to: editor, prompt: \"Edit.\" }} }}
  editor:
    revise: {{ to: writer, prompt: \"Again.\", max: 7, on_max: {{ to: end }} }}
    approved: {{ to: end }}
"
    )
}

/// A request as it was sent: role, position in its step, messages.
type Asked = Arc<Mutex<Vec<(String, u32, Vec<Message>)>>>;

/// Answers by role, and never answers call number `waits_at`.
struct Roles {
    asked: Asked,
    summary: String,
    waits_at: Option<usize>,
}

impl Model for Roles {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let role = call.site.role.to_string();
        let mut asked = self.asked.lock().unwrap();
        let messages: Vec<Message> = call.conversation.messages().into_iter().cloned().collect();
        asked.push((role.clone(), call.site.position, messages));
        if self.waits_at == Some(asked.len() - 1) {
            return Box::pin(std::future::pending());
        }
        let text = match role.as_str() {
            "writer" => said(&format!("Pool {}: {}", call.site.visit, "anemone ".repeat(30))),
            "editor" => "---\nstatus: revise\n---\n".to_owned(),
            _ => said(&self.summary),
        };
        let usage = Some(Usage { prompt_tokens: 10, output_tokens: 2, ..Usage::default() });
        let answer = ModelAnswer { usage, ..rondo_tests::answer(text) };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

fn said(body: &str) -> String {
    format!("---\nstatus: done\n---\n\n{body}")
}

struct Ran {
    store: Arc<MemoryStore>,
    engine: Engine,
    thread: ThreadId,
    asked: Asked,
    ended: Ended,
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn run(text: &str, summary: &str, waits_at: Option<usize>) -> Ran {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let asked = Asked::default();
    let model = Roles { asked: Arc::clone(&asked), summary: summary.to_owned(), waits_at };
    let handle = start(&engine, &checked(text), Value::empty_object(), Arc::new(model)).await;
    let (thread, stopper) = (handle.thread.clone(), handle.stopper.clone());
    let waits = Arc::clone(&asked);
    let stops = tokio::spawn(async move {
        while waits_at.is_none_or(|at| waits.lock().unwrap().len() <= at) {
            tokio::task::yield_now().await;
        }
        stopper.stop_at_once();
    });
    let (_, ended) = follow(handle).await;
    stops.abort();
    Ran { store, engine, thread, asked, ended }
}

impl Ran {
    async fn resume(&mut self, summary: &str) {
        let model = Roles { asked: Arc::clone(&self.asked), summary: summary.to_owned(), waits_at: None };
        let model: Arc<dyn Model> = Arc::new(model);
        let config = |workflow: &_, _: &_| Ok::<_, rondo_core::Error>(run_config(workflow, &model));
        let Resumed::Running(handle) = self.engine.resume(&self.thread, config).await.unwrap() else {
            panic!("it has not ended")
        };
        self.ended = follow(handle).await.1;
    }

    fn records(&self) -> Vec<StoredRecord> {
        let mut records = Vec::new();
        let each = &mut |stored, _| {
            records.push(stored);
            true
        };
        self.store.scan(&self.thread, 1..=u64::MAX, each).unwrap();
        records
    }

    fn compactions(&self) -> usize {
        self.records().iter().filter(|stored| matches!(stored.record, Record::Compaction(_))).count()
    }

    fn head(&self) -> Option<rondo_protocol::Digest> {
        self.store.row(&self.thread).unwrap().unwrap().head
    }

    fn assert_proven(&self) {
        let row = self.store.row(&self.thread).unwrap().unwrap();
        let mut proven = 0;
        rebuild::requests(&*self.store, &self.thread, &row, &|_| true, &mut |request| {
            assert!(request.is_proven(), "record {} of {}: {:?}", request.seq, request.role, request.fault);
            proven += 1;
            true
        })
        .unwrap();
        assert_eq!(proven, self.asked.lock().unwrap().len());
    }
}

const SHORT: &str = "Anemones, mostly.";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Law `prefix` across epochs: from one compaction to the next, each request of the writer continues the one
    /// before; after it, the first prompt, the text and the kept visits begin the conversation. Law `rebuild` holds for
    /// the requests of compactions too.
    #[test]
    fn prefix_holds_within_epochs(
        history in prop::sample::select(vec!["condensed", "exact"]), at in 100_u64..600, keep in 1_u64..4,
    ) {
        let ran = block_on(run(&workflow(history, at, keep), SHORT, None));
        ran.assert_proven();
        let mut sent = ran.asked.lock().unwrap().clone().into_iter();
        let mut last: Option<Vec<Message>> = None;
        for stored in ran.records() {
            let (_, _, messages) = sent.next().unwrap();
            match &stored.record {
                Record::Compaction(compaction) => {
                    let kept = stored.visit + keep;
                    let before = last.take().unwrap();
                    prop_assert_eq!(compaction.through_visit, stored.visit);
                    prop_assert!(messages.len() < before.len() + 2, "only what leaves is summed up");
                    let visits = ran.records().iter().filter(|other| other.seq < stored.seq && is_writer(other)).count();
                    prop_assert_eq!(u64::try_from(visits).unwrap(), kept);
                }
                Record::Step(step) if step.role.as_str() == "writer" => {
                    if let Some(before) = &last {
                        prop_assert_eq!(&messages[..before.len()], &before[..]);
                        prop_assert_eq!(messages.len(), before.len() + 2);
                    } else if stored.seq > 1 {
                        prop_assert_eq!(messages[0].text(), "Write about tide pools.\n\nWhat happened so far, in short:\n\nAnemones, mostly.");
                        prop_assert_eq!(messages[1].role(), Speaker::Assistant);
                        prop_assert_eq!(u64::try_from(messages.len()).unwrap(), 2 + 2 * keep + 1);
                    }
                    last = Some(messages);
                }
                _ => {}
            }
        }
    }
}

fn is_writer(stored: &StoredRecord) -> bool {
    matches!(&stored.record, Record::Step(step) if step.role.as_str() == "writer")
}

/// A run that was stopped during any call and resumed has the same head, and no answered call is made again: also
/// during a compaction, after one, and after a refused one.
#[test]
fn a_run_stopped_at_any_call_is_resumed_to_the_same_head() {
    let too_long = "anemone ".repeat(400);
    for summary in [SHORT, &too_long] {
        let text = workflow("condensed", 150, 1);
        let undisturbed = block_on(run(&text, summary, None));
        let calls = undisturbed.asked.lock().unwrap().len();
        assert_eq!(undisturbed.compactions() > 1, summary == SHORT);
        for at in 0..calls {
            let ran = block_on(async {
                let mut ran = run(&text, summary, Some(at)).await;
                assert!(matches!(ran.ended, Ended::Stopped(_)), "call {at}: {:?}", ran.ended);
                ran.resume(summary).await;
                ran
            });
            assert_eq!(ran.head(), undisturbed.head(), "stopped at call {at}");
            assert_eq!(ran.asked.lock().unwrap().len(), calls + 1, "only call {at} is made twice");
        }
    }
}

/// An empty text and one that is longer than what it replaces are refused, counted, and not asked for again in this
/// visit.
#[test]
fn a_text_that_saves_nothing_is_refused_and_the_thread_goes_on() {
    let too_long = "anemone ".repeat(400);
    for summary in ["", &too_long] {
        let ran = block_on(run(&workflow("condensed", 150, 1), summary, None));
        assert!(matches!(ran.ended, Ended::Finished(_)), "{:?}", ran.ended);
        assert_eq!(ran.compactions(), 0);
        let asked = ran.asked.lock().unwrap().len();
        let row = ran.store.row(&ran.thread).unwrap().unwrap();
        let steps = ran.records().len();
        assert!(asked > steps, "texts were asked for: {asked} calls, {steps} steps");
        let spent = Checkpoint::from_bytes(&row.checkpoint).unwrap().spent();
        assert_eq!(spent.usage.output_tokens, 2 * asked as u64, "every call is charged");
    }
}

/// Killed after any line that it wrote, in the middle of a compaction too, a run is resumed to the same head.
#[test]
fn a_run_killed_after_any_line_is_resumed_to_the_same_head() {
    let words = ["run", &fixture("compaction"), "--offline", "-i", "topic=tides", "--json"].map(str::to_owned);
    let undisturbed = Place::new();
    let run = undisturbed.run(&words).exits(0);
    let compactions = |place: &Place| {
        let shown = place.run(["show", "last", "--json"]).exits(0).json();
        shown.iter().filter(|line| line["event"] == "compaction").count()
    };
    assert_eq!(compactions(&undisturbed), 2);
    let prefix = undisturbed.run(["prefix", "last", "--json"]).exits(0).json();
    let broke: Vec<&serde_json::Value> = prefix.iter().filter(|visit| !visit["broke"].is_null()).collect();
    assert_eq!(broke.len(), 2);
    assert!(broke.iter().all(|visit| visit["broke"]["cause"] == "history compacted"), "{broke:?}");
    assert!(broke[0]["broke"]["detail"].as_str().unwrap().contains("pays off after"), "{broke:?}");
    let head = run.event("thread_finished")["head"].clone();
    kill::after_any_line(&words, run.lines.len(), |place, killed| {
        if place.run(["threads", "--json"]).exits(0).lines.is_empty() {
            assert!(!kill::has_started(killed));
            return;
        }
        let resumed = place.run(["resume", "last", "--json"]).exits(0);
        assert_eq!(resumed.event("thread_finished")["head"], head);
        place.run(["verify", "last", "--json"]).exits(0);
    });
}
