//! Threads, steps and rows to fill a store with. Tests of what stands above a store name this file too.

use rondo_core::store::{Commit, Error, NewStep, Read, Row, Status, VisitIndex, VisitKey};
use rondo_protocol::canonical::Value;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{LanePath, RoleName, Status as Word, ThreadId};
use rondo_protocol::object::{EdgeTaken, Note, RecordKind, Step};

pub(crate) fn thread(number: u8) -> ThreadId {
    ThreadId::from_parts(1_700_000_000_000 + u64::from(number), u128::from(number))
}

pub(crate) fn writer() -> RoleName {
    RoleName::new("writer").unwrap()
}

/// The step after `prev`, as the driver would make it.
pub(crate) fn step(prev: Option<Digest>, answer: &str, lane: &LanePath) -> Step {
    Step {
        answer: answer.to_owned(),
        edge: EdgeTaken {
            files: Vec::new(),
            from: "start".to_owned(),
            prompt: "Write about tide pools.".to_owned(),
            status: None,
        },
        kind: RecordKind::Step,
        lane: lane.clone(),
        observations: Vec::new(),
        output: Value::empty_object(),
        prev: prev.into_iter().collect(),
        role: writer(),
        start: Digest([5; 32]),
        status: Word::new("done").unwrap(),
        transcript: None,
    }
}

pub(crate) fn row(version: u64, seq: u64, head: Option<Digest>) -> Row {
    Row {
        version,
        status: Status::Running,
        seq,
        head,
        workflow: Digest([3; 32]),
        policy: Digest([4; 32]),
        start: Digest([5; 32]),
        base: None,
        parent: None,
        label: None,
        tags: Vec::new(),
        raised: Vec::new(),
        checkpoint: br#"{"steps":1}"#.to_vec(),
        origin: br#"{"name":"demo"}"#.to_vec(),
    }
}

/// A thread of trunk steps, commit by commit.
pub(crate) struct Trunk {
    pub(crate) thread: ThreadId,
    pub(crate) head: Option<Digest>,
    pub(crate) seq: u64,
    pub(crate) version: u64,
}

impl Trunk {
    pub(crate) fn new(number: u8) -> Self {
        Self { thread: thread(number), head: None, seq: 0, version: 0 }
    }

    /// The commit of the next step; the trunk continues as if it were stored.
    pub(crate) fn next(&mut self, answer: &str) -> Commit {
        self.with(&step(self.head, answer, &LanePath::trunk()))
    }

    /// A commit that creates the thread without a step.
    pub(crate) fn row_alone(&mut self) -> Commit {
        let made = Self { thread: self.thread.clone(), head: None, seq: 0, version: 0 }.next("");
        self.version += 1;
        Commit { row: row(1, 0, None), step: None, ..made }
    }

    /// The commit of any step.
    pub(crate) fn with(&mut self, step: &Step) -> Commit {
        let (digest, bytes) = Digest::of(Kind::Step, step).unwrap();
        let expected = self.version;
        self.seq += 1;
        self.version += 1;
        if step.lane.is_trunk() {
            self.head = Some(digest);
        }
        Commit {
            thread: self.thread.clone(),
            expected,
            row: row(self.version, self.seq, self.head),
            step: Some(NewStep {
                seq: self.seq,
                digest,
                bytes,
                found_by: Some(VisitKey {
                    index: VisitIndex::Steps,
                    lane: step.lane.clone(),
                    role: step.role.clone(),
                    visit: self.seq,
                }),
                note: Note { model: Some("scripted".to_owned()), started_at_ms: self.seq, ..Note::default() },
            }),
            objects: Vec::new(),
            lanes: Vec::new(),
            lists: Vec::new(),
            clear_journal: Vec::new(),
        }
    }

    /// A commit without a step.
    pub(crate) fn row_only(&mut self) -> Commit {
        self.version += 1;
        Commit {
            thread: self.thread.clone(),
            expected: self.version - 1,
            row: row(self.version, self.seq, self.head),
            step: None,
            objects: Vec::new(),
            lanes: Vec::new(),
            lists: Vec::new(),
            clear_journal: Vec::new(),
        }
    }
}

/// The message of a damage error.
pub(crate) fn damage<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Err(Error::Damaged(damage)) => damage.what,
        other => panic!("no damage: {other:?}"),
    }
}

/// The answers that a scan of a range returns.
pub(crate) fn answers(store: &dyn Read, thread: &ThreadId) -> Result<Vec<String>, Error> {
    let mut answers = Vec::new();
    store.steps(thread, 1..=u64::MAX, &mut |stored, _| {
        answers.push(stored.step.answer);
        true
    })?;
    Ok(answers)
}
