//! Law `durable_first`: no acknowledgement, non-provisional event or further call that depends on a step precedes its
//! sync. A store that holds every commit back shows what happens before one is let through.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rondo_core::{Engine, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::event::{Durability, Event, What};
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;
use rondo_store::{
    Commit, Deletion, Error, JournalRecord, LaneRow, MemoryStore, Read, Row, StepBytes, StepStore, StoredRecord,
    VisitIndex,
};
use rondo_tests::{FnModel, checked, start};
use tokio::sync::{Semaphore, mpsc};

/// A store whose commits and synced records wait until they are let through, and say that they wait.
pub(crate) struct Gated {
    inner: MemoryStore,
    pub(crate) gate: Semaphore,
    waiting: mpsc::UnboundedSender<&'static str>,
    /// How many commits were submitted.
    submitted: AtomicUsize,
    /// For each commit, how many had been submitted when it was first waited for.
    together: Mutex<Vec<usize>>,
}

impl Gated {
    /// A store that lets so many through, and what waits or has waited.
    pub(crate) fn new(permits: usize) -> (Arc<Self>, mpsc::UnboundedReceiver<&'static str>) {
        let (waiting, waits) = mpsc::unbounded_channel();
        let (inner, gate) = (MemoryStore::default(), Semaphore::new(permits));
        (Arc::new(Self { inner, gate, waiting, submitted: AtomicUsize::new(0), together: Mutex::default() }), waits)
    }

    async fn pass(&self, what: &'static str) {
        let _ = self.waiting.send(what);
        self.gate.acquire().await.unwrap().forget();
    }
}

impl Read for Gated {
    fn row(&self, thread: &ThreadId) -> Result<Option<Row>, Error> {
        self.inner.row(thread)
    }

    fn rows(&self, after: Option<&ThreadId>, limit: usize) -> Result<Vec<(ThreadId, Row)>, Error> {
        self.inner.rows(after, limit)
    }

    fn lanes(
        &self,
        thread: &ThreadId,
        after: Option<&LanePath>,
        limit: usize,
    ) -> Result<Vec<(LanePath, LaneRow)>, Error> {
        self.inner.lanes(thread, after, limit)
    }

    fn list(&self, thread: &ThreadId, opened_by: u64) -> Result<Option<Vec<u8>>, Error> {
        self.inner.list(thread, opened_by)
    }

    fn lists(&self, thread: &ThreadId) -> Result<Vec<u64>, Error> {
        self.inner.lists(thread)
    }

    fn own_records(
        &self,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        visit: &mut dyn FnMut(StepBytes<'_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.inner.own_records(thread, seqs, visit)
    }

    fn own_record(&self, thread: &ThreadId, seq: u64) -> Result<Option<(StoredRecord, Note)>, Error> {
        self.inner.own_record(thread, seq)
    }

    fn own_visits(
        &self,
        thread: &ThreadId,
        index: VisitIndex,
        of: (&LanePath, &RoleName),
        visits: RangeInclusive<u64>,
    ) -> Result<Vec<(u64, u64)>, Error> {
        self.inner.own_visits(thread, index, of, visits)
    }

    fn own_place(&self, thread: &ThreadId, digest: Digest) -> Result<Option<u64>, Error> {
        self.inner.own_place(thread, digest)
    }

    fn locate(&self, digest: Digest) -> Result<Vec<(ThreadId, u64)>, Error> {
        self.inner.locate(digest)
    }

    fn object(&self, kind: Kind, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        self.inner.object(kind, digest)
    }

    fn journal(&self, thread: &ThreadId, lane: &LanePath) -> Result<Vec<JournalRecord>, Error> {
        self.inner.journal(thread, lane)
    }

    fn journaled_lanes(&self, thread: &ThreadId) -> Result<Vec<LanePath>, Error> {
        self.inner.journaled_lanes(thread)
    }

    fn batch(&self, batch: &BatchId) -> Result<Option<Vec<u8>>, Error> {
        self.inner.batch(batch)
    }

    fn batches(&self, after: Option<&BatchId>, limit: usize) -> Result<Vec<BatchId>, Error> {
        self.inner.batches(after, limit)
    }

    fn batch_lines(&self, batch: &BatchId, from: u32, limit: usize) -> Result<Vec<(u32, Vec<u8>)>, Error> {
        self.inner.batch_lines(batch, from, limit)
    }

    fn hook_value(&self, space: &str, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.inner.hook_value(space, key)
    }

    fn hook_values(&self, space: &str, from: &[u8], limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
        self.inner.hook_values(space, from, limit)
    }
}

impl StepStore for Gated {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<(), Error>> {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.together.lock().unwrap().push(self.submitted.load(Ordering::Relaxed));
            self.pass(if commit.step.is_some() { "step" } else { "row" }).await;
            self.inner.commit(commit).await
        })
    }

    fn delete(&self, deletion: Deletion) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.delete(deletion)
    }

    fn record(&self, thread: ThreadId, records: Vec<JournalRecord>, sync: bool) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            if sync {
                self.pass("record").await;
            }
            self.inner.record(thread, records, sync).await
        })
    }

    fn put_hook_value(&self, space: &str, key: Vec<u8>, value: Option<Vec<u8>>) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.put_hook_value(space, key, value)
    }

    fn put_batch(
        &self,
        batch: &BatchId,
        lines: Vec<(u32, Vec<u8>)>,
        record: Option<Vec<u8>>,
    ) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.put_batch(batch, lines, record)
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn has_room(&self) -> bool {
        self.inner.has_room()
    }
}

const WORKFLOW: &str = r#"
rondo: 1
name: gated
roles:
  a: { system: x }
  b: { system: y }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: b, prompt: "{{ body }}", say: "a is done" } }
  b: { done: { to: end } }
"#;

fn name(event: &Event) -> &'static str {
    match event.what {
        What::ThreadStarted { .. } => "thread_started",
        What::StepStarted { .. } => "step_started",
        What::StepCommitted { .. } => "step_committed",
        What::EdgeTaken { .. } => "edge_taken",
        What::Said { .. } => "said",
        What::ThreadFinished { .. } => "thread_finished",
        What::CallSettled { .. } => "call_settled",
        _ => "other",
    }
}

#[tokio::test]
async fn durable_first() {
    let (store, mut waits) = Gated::new(0);
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let made = Arc::clone(&calls);
    // The first answer of `b` breaks its contract, so that a record must be synced before it is sent back.
    let model = FnModel(move |call: &ModelCall| {
        made.lock().unwrap().push(format!("{}{}", call.site.role, call.site.position));
        let broken = call.site.role.as_str() == "b" && call.site.position == 0;
        Ok(if broken { "broken".to_owned() } else { "---\nstatus: done\n---\n".to_owned() })
    });
    let starting = tokio::spawn({
        let (engine, checked) = (engine.clone(), checked(WORKFLOW));
        async move { start(&engine, &checked, Value::empty_object(), Arc::new(model)).await }
    });
    assert_eq!(waits.recv().await, Some("row"));
    tokio::task::yield_now().await;
    assert!(!starting.is_finished(), "a thread is acknowledged only when its row is stored");
    store.gate.add_permits(1);
    let mut handle = starting.await.unwrap();

    let mut seen = Vec::new();
    for (wait, calls_by_then, events_by_then) in [
        ("step", vec!["a0"], vec!["thread_started", "edge_taken", "step_started", "call_settled"]),
        ("record", vec!["b0"], vec!["step_committed", "edge_taken", "said", "step_started", "call_settled"]),
        ("step", vec!["b1"], vec!["call_settled"]),
    ] {
        assert_eq!(waits.recv().await, Some(wait));
        // The run waits for the store now: whatever it had to tell or to ask before is there.
        while let Some(event) = handle.events.try_recv() {
            seen.push(name(&event));
        }
        assert_eq!(seen, events_by_then, "before the {wait} is stored");
        assert_eq!(std::mem::take(&mut *calls.lock().unwrap()), calls_by_then, "before the {wait} is stored");
        seen.clear();
        store.gate.add_permits(1);
    }
    let mut last = Vec::new();
    while let Some(event) = handle.events.recv().await {
        last.push(name(&event));
    }
    assert_eq!(last, ["step_committed", "edge_taken", "thread_finished"]);
}

/// A process that ends between such a record and the commit would find a visit that failed without the step that says
/// so, make it again, and come to other steps than a run that is left alone.
#[tokio::test]
async fn a_fault_that_an_edge_takes_up_is_stored_by_its_step_alone() {
    let (store, mut waits) = Gated::new(100);
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let routed = WORKFLOW.replace("say: \"a is done\" }", "say: \"a is done\" }, on_error: { to: b, prompt: go on }");
    let calls: Arc<Mutex<u64>> = Arc::default();
    let made = Arc::clone(&calls);
    let model = FnModel(move |call: &ModelCall| {
        let is_broken = call.site.role.as_str() == "a";
        *made.lock().unwrap() += u64::from(is_broken);
        Ok(if is_broken { "broken".to_owned() } else { "---\nstatus: done\n---\n".to_owned() })
    });
    let mut handle = start(&engine, &checked(&routed), Value::empty_object(), Arc::new(model)).await;
    while handle.events.recv().await.is_some() {}
    let mut stored = Vec::new();
    while let Ok(what) = waits.try_recv() {
        stored.push(what);
    }
    // The records hold the answers that the model was asked to mend, which had to be stored before it was.
    assert_eq!((*calls.lock().unwrap(), stored), (3, vec!["row", "record", "record", "step", "step"]));
}

/// A store writes what waits as one batch with one sync.
#[tokio::test]
async fn commits_of_lanes_that_end_at_the_same_time_are_submitted_before_the_first_is_waited_for() {
    const LANES: usize = 8;
    let (store, _waits) = Gated::new(100);
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let workflow = format!(
        r#"
rondo: 1
name: lanes
input: {{ items: {{ type: array, items: {{ type: integer }} }} }}
roles: {{ a: {{ system: x }}, join: {{ system: y }} }}
graph:
  start:
    each: input.items
    parallel: {LANES}
    to: a
    prompt: "{{{{ item }}}}"
    join: {{ to: join, prompt: all }}
  a: {{ done: {{ to: join }} }}
  join: {{ done: {{ to: end }} }}
"#
    );
    let model = FnModel(|_: &ModelCall| Ok("---\nstatus: done\n---\n".to_owned()));
    let items = (0..LANES).map(|item| Value::from(item as u64)).collect();
    let input = Value::from_iter([("items", Value::List(items))]);
    let mut handle = start(&engine, &checked(&workflow), input, Arc::new(model)).await;
    while handle.events.recv().await.is_some() {}
    let together = store.together.lock().unwrap().clone();
    // The row of the new thread, the steps of the lanes, the step of the join.
    let lanes = [1 + LANES; LANES];
    assert_eq!(together, [&[1][..], &lanes, &[2 + LANES]].concat());
}
