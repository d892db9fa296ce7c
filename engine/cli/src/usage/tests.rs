//! Sums over stores whose notes are written here, so that every figure is known.

use std::sync::Arc;

use rondo::core::thread::Origin;
use rondo::host::workflow;
use rondo::protocol::call::CallKind;
use rondo::protocol::digest::Kind;
use rondo::protocol::event::Outcome;
use rondo::protocol::id::{LanePath, RoleName, ThreadId};
use rondo::protocol::object::{AnsweredBy, CancelledLane, HookAnswer, HookNote, Note, Observation, Step, Usage};
use rondo::protocol::{Digest, Value, canonical};
use rondo::store::{Base, Commit, MemoryStore, NewStep, Row, StepStore, VisitIndex, VisitKey};

use super::*;
use crate::steps;

/// 2026-11-01T00:00:00Z.
const NOVEMBER_MS: u64 = 1_793_491_200_000;

fn role(name: &str) -> RoleName {
    RoleName::new(name).unwrap()
}

fn counted(prompt: u64, cached: u64, output: u64) -> Usage {
    Usage { prompt_tokens: prompt, cached_tokens: cached, output_tokens: output, ..Usage::default() }
}

/// A note of one call to model `m` in November.
fn note(usage: Option<Usage>, cost_usd: Option<f64>) -> Note {
    let model = Some("m".to_owned());
    Note { usage, cost_usd, model, model_calls: 1, ended_at_ms: NOVEMBER_MS, ..Note::default() }
}

/// A thread to which steps are added.
struct Thread {
    store: Arc<MemoryStore>,
    id: ThreadId,
    row: Row,
}

impl Thread {
    fn new(store: &Arc<MemoryStore>, number: u8) -> Self {
        let origin = Origin { name: "demo".to_owned(), ..Origin::default() }.to_bytes().unwrap();
        let row = Row { origin, ..steps::row(0, 0, None) };
        Self { store: Arc::clone(store), id: steps::thread(number), row }
    }

    /// A fork after the last step.
    fn fork(&self, number: u8) -> Self {
        let base = Some(Base { thread: self.id.clone(), seq: self.row.seq });
        Self {
            row: Row { base, version: 0, ..self.row.clone() },
            id: steps::thread(number),
            ..Self::new(&self.store, 0)
        }
    }

    async fn add(&mut self, name: &str, note: Note) {
        self.add_step(name, note, Vec::new(), Vec::new()).await;
    }

    async fn add_step(
        &mut self,
        name: &str,
        note: Note,
        observations: Vec<Observation>,
        objects: Vec<(Kind, Digest, Vec<u8>)>,
    ) {
        let lane = LanePath::trunk();
        let step = Step { role: role(name), observations, ..steps::step(self.row.head, "text", &lane) };
        let (digest, bytes) = Digest::of(Kind::Step, &step).unwrap();
        let (seq, version) = (self.row.seq + 1, self.row.version + 1);
        self.row = Row { seq, version, head: Some(digest), ..self.row.clone() };
        let found_by = Some(VisitKey { index: VisitIndex::Steps, lane, role: step.role.clone(), visit: seq });
        let step = Some(NewStep { seq, digest, bytes, found_by, note });
        let commit = Commit { step, objects, ..Commit::of_row(self.id.clone(), self.row.clone()) };
        self.store.commit(commit).await.unwrap();
    }
}

fn summed(store: &Arc<MemoryStore>, by: Option<By>) -> Vec<Value> {
    summed_since(store, by, 0)
}

fn summed_since(store: &Arc<MemoryStore>, by: Option<By>, from_ms: u64) -> Vec<Value> {
    let groups = sums(&**store, None, by, from_ms).unwrap();
    let line = |(key, sums): (&Option<String>, &Sums)| UsageLine::new(by, key.clone(), sums);
    groups.iter().map(|group| Value::from_serialize(&line(group)).unwrap()).collect()
}

/// The keys and one figure of each line.
fn figures(lines: &[Value], member: &str) -> Vec<String> {
    let of = |name: &str, line: &Value| line.get(name).map(Value::to_text).unwrap_or_default();
    lines.iter().map(|line| format!("{} {}", of("key", line), of(member, line))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_has_what_is_known_and_counts_what_is_not() {
    let store = Arc::new(MemoryStore::default());
    let mut thread = Thread::new(&store, 1);
    thread.add("writer", Note { tool_calls: 3, ..note(Some(counted(100, 40, 7)), Some(0.5)) }).await;
    thread.add("editor", note(Some(counted(100, 20, 3)), None)).await;
    thread.add("editor", Note { model_calls: 2, ..note(None, None) }).await;
    let lines = summed(&store, None);
    let expected = r#"{"by":null,"cache_write_tokens":0,"cached_share":0.3,"cached_tokens":60,"cost_usd":0.5,"event":"usage","key":null,"model_calls":4,"output_tokens":10,"prompt_tokens":200,"saved":{"cached_tokens":0,"calls":0,"cost_usd":0,"output_tokens":0,"prompt_tokens":0,"unpriced_calls":0},"steps":3,"threads":1,"tool_calls":3,"uncounted_calls":2,"unpriced_calls":3}"#;
    assert_eq!(lines.iter().map(canonical_text).collect::<Vec<_>>(), [expected]);
    let shown = table::text(None, &sums(&*store, None, None, 0).unwrap());
    assert!(shown.contains("≥ $0.5000") && shown.contains("3 of 4 model calls have no known price"), "{shown}");
}

fn canonical_text(value: &Value) -> String {
    String::from_utf8(canonical::to_bytes(value).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_is_null_and_not_zero() {
    let store = Arc::new(MemoryStore::default());
    assert_eq!(figures(&summed(&store, None), "cost_usd"), ["null 0"], "without a call nothing is unknown");
    let mut thread = Thread::new(&store, 1);
    thread.add("writer", note(None, None)).await;
    thread.add("tester", Note { tool_calls: 1, model_calls: 0, model: None, ..note(None, None) }).await;
    let lines = summed(&store, Some(By::Model));
    for member in ["prompt_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "cost_usd"] {
        assert_eq!(figures(&lines, member), ["null 0", "\"m\" null"], "{member}");
    }
    assert_eq!(figures(&lines, "cached_share"), ["null null", "\"m\" null"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn free_answers_of_hooks_do_not_make_unknown_costs_zero() {
    let store = Arc::new(MemoryStore::default());
    let mut thread = Thread::new(&store, 1);
    thread.add("writer", note(Some(Usage::default()), Some(0.0))).await;
    assert_eq!(figures(&summed(&store, None), "cost_usd"), ["null 0"]);
    assert_eq!(figures(&summed(&store, None), "prompt_tokens"), ["null 0"]);
    thread.add("writer", note(None, None)).await;
    assert_eq!(figures(&summed(&store, None), "cost_usd"), ["null null"]);
    assert_eq!(figures(&summed(&store, None), "prompt_tokens"), ["null null"]);
    thread.add("writer", note(Some(counted(8, 0, 1)), Some(0.5))).await;
    assert_eq!(figures(&summed(&store, None), "cost_usd"), ["null 0.5"]);
    assert_eq!(figures(&summed(&store, None), "prompt_tokens"), ["null 8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_counts_only_its_own_steps() {
    let store = Arc::new(MemoryStore::default());
    let mut thread = Thread::new(&store, 1);
    thread.add("writer", note(Some(counted(10, 0, 1)), Some(1.0))).await;
    thread.add("writer", note(Some(counted(10, 0, 1)), Some(1.0))).await;
    let mut fork = thread.fork(2);
    fork.add("writer", note(Some(counted(10, 0, 1)), Some(1.0))).await;
    let mut fork_of_fork = fork.fork(3);
    fork_of_fork.add("writer", note(Some(counted(10, 0, 1)), Some(1.0))).await;
    thread.add("writer", note(Some(counted(10, 0, 1)), Some(1.0))).await;
    let lines = summed(&store, None);
    for (member, expected) in [("steps", 5), ("model_calls", 5), ("prompt_tokens", 50), ("cost_usd", 5), ("threads", 3)]
    {
        assert_eq!(figures(&lines, member), [format!("null {expected}")], "{member}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_child_are_counted_in_its_own_thread() {
    let store = Arc::new(MemoryStore::default());
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/children");
    let parent = workflow::load(fixture, std::path::Path::new("/")).unwrap().checked.workflow;
    let (digest, bytes) = Digest::of(Kind::Workflow, &parent).unwrap();
    let mut thread = Thread::new(&store, 1);
    thread.row.workflow = digest;
    let child = Observation::Child { head: None, outcome: Outcome::Done, start: digest };
    let of_child = Note { tool_calls: 4, ..note(Some(counted(70, 0, 7)), Some(7.0)) };
    thread.add_step("section", of_child, vec![child], vec![(Kind::Workflow, digest, bytes)]).await;
    let lost = |role_name: &str| CancelledLane {
        lane: LanePath::trunk(),
        role: role(role_name),
        usage: Some(counted(5, 0, 1)),
        cost_usd: Some(0.5),
        unpriced_calls: 0,
        model_calls: 1,
        tool_calls: 1,
        effect_unknown: None,
    };
    let cancelled = vec![lost("section"), lost("planner")];
    thread.add("assemble", Note { cancelled, ..note(Some(counted(10, 0, 1)), Some(1.0)) }).await;
    let lines = summed(&store, Some(By::Role));
    assert_eq!(figures(&lines, "steps"), ["\"assemble\" 1", "\"planner\" 0", "\"section\" 1"]);
    assert_eq!(figures(&lines, "model_calls"), ["\"assemble\" 1", "\"planner\" 1", "\"section\" 0"]);
    assert_eq!(figures(&lines, "tool_calls"), ["\"assemble\" 0", "\"planner\" 1", "\"section\" 0"]);
    assert_eq!(figures(&lines, "cost_usd"), ["\"assemble\" 1", "\"planner\" 0.5", "\"section\" 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_belong_to_the_day_on_which_they_ended() {
    let store = Arc::new(MemoryStore::default());
    for number in [1, 2] {
        let mut thread = Thread::new(&store, number);
        thread.add("writer", Note { ended_at_ms: NOVEMBER_MS - 1, ..note(None, None) }).await;
        thread.add("writer", note(None, None)).await;
        thread.add("writer", note(None, None)).await;
    }
    let lines = summed(&store, Some(By::Day));
    assert_eq!(figures(&lines, "steps"), ["\"2026-10-31\" 2", "\"2026-11-01\" 4"]);
    assert_eq!(figures(&lines, "threads"), ["\"2026-10-31\" 2", "\"2026-11-01\" 2"]);
    assert_eq!(figures(&summed_since(&store, Some(By::Day), NOVEMBER_MS), "steps"), ["\"2026-11-01\" 4"]);
    assert_eq!(figures(&summed_since(&store, Some(By::Workflow), NOVEMBER_MS), "steps"), ["\"demo\" 4"]);
    assert_eq!(summed_since(&store, Some(By::Day), NOVEMBER_MS + 1), []);
    assert_eq!(figures(&summed_since(&store, None, NOVEMBER_MS + 1), "threads"), ["null 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_hooks_saved_is_a_sum_of_its_own() {
    let store = Arc::new(MemoryStore::default());
    let mut thread = Thread::new(&store, 1);
    let answer = |at, saved, saved_usd| HookAnswer { at, position: 0, key: None, saved_usd, saved };
    let answered =
        vec![answer(CallKind::Model, Some(counted(90, 30, 9)), Some(0.25)), answer(CallKind::Tool, None, None)];
    let hooks = vec![HookNote { node: "response_cache".to_owned(), answered, metrics: Value::Null }];
    let answered_by = Some(AnsweredBy::Hook("response_cache".to_owned()));
    let free = Note { answered_by, hooks, ..note(Some(Usage::default()), Some(0.0)) };
    thread.add("writer", free).await;
    thread.add("writer", note(Some(counted(10, 5, 1)), Some(0.125))).await;
    let groups = sums(&*store, None, Some(By::Workflow), 0).unwrap();
    insta::assert_snapshot!(table::text(Some("workflow"), &groups));
    let saved =
        r#"{"cached_tokens":30,"calls":2,"cost_usd":0.25,"output_tokens":9,"prompt_tokens":90,"unpriced_calls":0}"#;
    assert_eq!(figures(&summed(&store, None), "saved"), [format!("null {saved}")]);

    let answered = vec![answer(CallKind::Model, None, None)];
    let hooks = vec![HookNote { node: "response_cache".to_owned(), answered, metrics: Value::Null }];
    thread.add("writer", Note { hooks, ..note(Some(Usage::default()), Some(0.0)) }).await;
    let shown = table::text(None, &sums(&*store, None, None, 0).unwrap());
    assert!(shown.contains("≥ $0.2500"), "{shown}");
}
