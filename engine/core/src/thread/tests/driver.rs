//! A test driver: rows and steps in memory, scripted answers, inputs in an order that the test chooses, and crashes.
//!
//! It checks law `durable_first` for every action: [`StepLookup`] finds the data of a commit only after the commit was
//! carried out, and rows appear only after the sync.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use rondo_agent_kit::conversation::Episode;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::LaneEnd;
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::object::{Followed, Note, Observation, Step, Usage};
use rondo_protocol::{Digest, Value, canonical};

use super::super::lane::{EdgeCount, LanePhase, OwnVisits};
use super::super::*;
use crate::graph::{EdgeId, Graph};

pub const START: Digest = Digest([0; 32]);

pub fn graph(text: &str) -> Arc<Graph> {
    let checked = rondo_protocol::workflow::read("workflow.yaml", text, &BTreeMap::new())
        .unwrap_or_else(|faults| panic!("{faults:?}\n{text}"));
    Arc::new(
        Graph::new(
            &checked.workflow,
            &checked.policy,
            crate::hook::Registry::default().nodes(&checked.workflow, &checked.policy, &[]),
        )
        .unwrap(),
    )
}

pub fn value(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

pub fn path(text: &str) -> LanePath {
    LanePath::new(text).unwrap()
}

pub fn name(text: &str) -> RoleName {
    RoleName::new(text).unwrap()
}

/// The outcome of a visit.
#[derive(Debug, Clone)]
pub enum Reply {
    Says { status: String, body: String, output: Value },
    Faults(Fault),
}

impl Reply {
    /// Reads `status`, `status|body`, `status|body|{fields}`, or `!class` for a fault.
    pub fn read(text: &str) -> Self {
        if let Some(class) = text.strip_prefix('!') {
            let (code, class) = match class {
                "error" => (Code::ProviderFailed, FaultClass::Server),
                "timeout" => (Code::StepTimeout, FaultClass::Timeout),
                "limit" => (Code::ThreadLimit, FaultClass::Limit),
                "store" => (Code::StoreDamaged, FaultClass::Store),
                "doubt" => (Code::StoreDamaged, FaultClass::InDoubt),
                other => panic!("no class {other}"),
            };
            return Self::Faults(Fault::new(code, class, "it broke"));
        }
        let mut parts = text.splitn(3, '|');
        let status = parts.next().unwrap().to_owned();
        let body = parts.next().unwrap_or_default().to_owned();
        Self::Says { status, body, output: parts.next().map_or_else(Value::empty_object, value) }
    }
}

/// Answers by role, lane and visit.
pub type Script = Arc<dyn Fn(&Visit) -> Reply>;

/// A script from lines `role`, `role@lane`, `role#visit` or `role@lane#visit`; the most specific line wins. A visit
/// without a line is answered `done`, with a body that names the role.
pub fn script(lines: &[(&'static str, &'static str)]) -> Script {
    let lines: BTreeMap<&str, &str> = lines.iter().copied().collect();
    Arc::new(move |visit| {
        let (role, lane, number) = (visit.role.as_str(), visit.lane.to_string(), visit.visit);
        let keys =
            [format!("{role}@{lane}#{number}"), format!("{role}@{lane}"), format!("{role}#{number}"), role.to_owned()];
        match keys.iter().find_map(|key| lines.get(key.as_str())) {
            Some(reply) => Reply::read(reply),
            None => Reply::read(&format!("done|{role}@{lane}#{number}")),
        }
    })
}

/// The contents of the store.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    pub steps: Vec<Stored1>,
    pub lanes: BTreeMap<LanePath, LaneState>,
    pub lists: BTreeMap<u64, Arc<Value>>,
    pub checkpoint: Vec<u8>,
    pub version: u64,
    pub ending: Option<Ending>,
    /// Lanes with journal records: a visit started in them and no commit has cleared it.
    pub journals: BTreeSet<LanePath>,
}

/// A step with the data stored beside it.
#[derive(Debug, Clone)]
pub struct Stored1 {
    pub digest: Digest,
    pub step: Step,
    pub note: Note,
    pub visit: u64,
    pub episode: Arc<Episode>,
}

impl Rows {
    fn apply(&mut self, commit: Commit) {
        assert_eq!(commit.version, self.version + 1, "commits come in order");
        self.version = commit.version;
        self.checkpoint = commit.checkpoint;
        if let Some(NewStep { seq, digest, bytes, visit, note, episode, .. }) = commit.step {
            let step: Step = canonical::from_slice(&bytes).unwrap();
            assert_eq!(seq, self.steps.len() as u64 + 1);
            let earlier = self.steps.iter().filter(|made| made.step.lane == step.lane && made.step.role == step.role);
            assert_eq!(visit, earlier.count() as u64 + 1, "visits of {} in {} are counted", step.role, step.lane);
            self.steps.push(Stored1 { digest, step, note, visit, episode });
        }
        assert_eq!(commit.seq, self.steps.len() as u64);
        for path in commit.closed {
            self.lanes.remove(&path);
        }
        self.lanes.extend(commit.lanes);
        if let Some(opened_by) = commit.closed_list {
            self.lists.remove(&opened_by);
        }
        self.lists.extend(commit.lists);
        for path in commit.clear_journal {
            self.journals.remove(&path);
        }
        self.ending = commit.ending.or(self.ending.take());
    }

    pub fn head(&self) -> Option<Digest> {
        self.steps.iter().rev().find(|made| made.step.lane.is_trunk()).map(|made| made.digest)
    }
}

/// What the driver can look up: stored steps, and the steps of pending commits.
struct View<'a> {
    rows: &'a Rows,
    pending: &'a VecDeque<Commit>,
    recalled: &'a std::cell::Cell<u64>,
}

impl StepLookup for View<'_> {
    fn episode(&self, seq: u64) -> Result<Arc<Episode>, Fault> {
        self.recalled.set(self.recalled.get() + 1);
        let stored = usize::try_from(seq).ok().and_then(|seq| self.rows.steps.get(seq.checked_sub(1)?));
        let pending = || self.pending.iter().filter_map(|commit| commit.step.as_ref()).find(|step| step.seq == seq);
        stored
            .map(|made| Arc::clone(&made.episode))
            .or_else(|| pending().map(|step| Arc::clone(&step.episode)))
            .ok_or_else(|| Fault::new(Code::StoreDamaged, FaultClass::Store, format!("step {seq} is not there")))
    }

    fn past(&self, lane: &LanePath) -> Result<Option<PastLane>, Fault> {
        self.recalled.set(self.recalled.get() + 1);
        let mut past = PastLane::default();
        for (made, seq) in self.rows.steps.iter().zip(1..).filter(|(made, _)| made.step.lane == *lane) {
            if past.own.is_empty() {
                let note = &made.note;
                let first = if note.first_opened_by.is_empty() { &note.opened_by } else { &note.first_opened_by };
                past.first_opened_by.clone_from(first);
            }
            let own: &mut OwnVisits = past.own.entry(made.step.role.clone()).or_default();
            own.visits += 1;
            own.attempts += made.note.attempts;
            own.latest = seq;
            if let Some(left_by) = made.note.left_by {
                past.taken.insert(EdgeId(left_by.edge), EdgeCount { count: left_by.count, mark: left_by.mark });
            }
        }
        Ok(Some(past).filter(|past| !past.own.is_empty()))
    }

    fn visits(&self, role: &RoleName) -> Result<Vec<u64>, Fault> {
        let own =
            self.rows.steps.iter().zip(1..).filter(|(made, _)| made.step.lane.is_trunk() && made.step.role == *role);
        Ok(own.map(|(_, seq)| seq).collect())
    }

    fn list(&self, opened_by: u64) -> Result<Option<Arc<Value>>, Fault> {
        Ok(self.rows.lists.get(&opened_by).cloned())
    }
}

#[derive(Debug, Clone)]
struct UnderWay {
    visit: Visit,
    is_leaving: bool,
}

/// What may happen next.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Synced,
    Ended(LanePath),
}

/// How to rebuild a machine after a crash.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum How {
    /// From the rows, if they are sufficient.
    Restore,
    /// From the steps.
    Follow,
}

/// A thread under test.
pub struct Thread {
    pub definition: Definition,
    pub machine: Machine,
    pub rows: Rows,
    pub pending: VecDeque<Commit>,
    pub script: Script,
    under_way: BTreeMap<LanePath, UnderWay>,
    pub notices: Vec<Notice>,
    pub finished: Option<Ending>,
    pub stopped: Option<Fault>,
    /// Lanes that have to leave, and the version requested at that time.
    leaving: BTreeMap<LanePath, u64>,
    /// Tokens used per visit.
    pub tokens_a_visit: u64,
    /// Cost per visit in US dollars.
    pub cost_a_visit: Option<f64>,
    /// Every visit requested, in order.
    pub asked: Vec<Visit>,
    pub recalled: std::cell::Cell<u64>,
    /// The actions from the last input, as text.
    pub last_actions: Vec<String>,
}

impl Thread {
    pub fn new(text: &str, script: Script) -> Self {
        Self::with_input(graph(text), script, Value::empty_object())
    }

    pub fn with_input(graph: Arc<Graph>, script: Script, input: Value) -> Self {
        let limits = graph.policy().limits.clone();
        let definition = Definition { graph, start: START, input: Arc::new(input), limits };
        Self {
            machine: Machine::new(definition.clone(), 1),
            definition,
            rows: Rows { version: 1, ..Rows::default() },
            pending: VecDeque::new(),
            script,
            under_way: BTreeMap::new(),
            notices: Vec::new(),
            finished: None,
            stopped: None,
            leaving: BTreeMap::new(),
            tokens_a_visit: 0,
            cost_a_visit: None,
            asked: Vec::new(),
            recalled: std::cell::Cell::default(),
            last_actions: Vec::new(),
        }
    }

    /// Runs a thread until it ends or stops. Pending commits are synced first, then the first lane's visit ends.
    #[track_caller]
    pub fn run(text: &str, lines: &[(&'static str, &'static str)]) -> Self {
        let mut thread = Self::new(text, script(lines));
        thread.begin();
        thread.go(&mut |_| 0);
        thread
    }

    pub fn begin(&mut self) {
        self.on(Input::Begin { at_ms: 0 });
    }

    /// Runs until no event is possible. `choose` gets the number of events and picks one.
    #[track_caller]
    pub fn go(&mut self, choose: &mut dyn FnMut(usize) -> usize) {
        while let Some(event) = self.next(choose) {
            self.happens(&event);
        }
        assert!(
            self.finished.is_some() || self.stopped.is_some(),
            "nothing can happen, and the thread has not ended: {:#?}\n{}",
            self.machine.trunk,
            self.text()
        );
    }

    pub fn next(&self, choose: &mut dyn FnMut(usize) -> usize) -> Option<Event> {
        let mut events = self.events();
        (!events.is_empty()).then(|| events.swap_remove(choose(events.len())))
    }

    /// What may happen now.
    pub fn events(&self) -> Vec<Event> {
        if self.finished.is_some() {
            return Vec::new();
        }
        let synced = (!self.pending.is_empty()).then_some(Event::Synced);
        // A run that stops still commits finished answers, and starts nothing.
        let is_answered = |under_way: &UnderWay| {
            !under_way.is_leaving && matches!((self.script)(&under_way.visit), Reply::Says { .. })
        };
        let lanes = self.under_way.iter().filter(|(_, under_way)| self.stopped.is_none() || is_answered(under_way));
        synced.into_iter().chain(lanes.map(|(lane, _)| Event::Ended(lane.clone()))).collect()
    }

    #[track_caller]
    pub fn happens(&mut self, event: &Event) {
        match event {
            Event::Synced => {
                let commit = self.pending.pop_front().unwrap();
                let version = commit.version;
                self.rows.apply(commit);
                self.on(Input::Synced { version });
            }
            Event::Ended(lane) => {
                let under_way = self.under_way.remove(lane).unwrap();
                let end = self.end_of(&under_way);
                self.on(Input::Ended { lane: lane.clone(), end: Box::new(end) });
            }
        }
    }

    fn end_of(&self, under_way: &UnderWay) -> VisitEnd {
        let usage = Usage { prompt_tokens: self.tokens_a_visit, ..Usage::default() };
        let note =
            Note { attempts: 1, model_calls: 1, usage: Some(usage), cost_usd: self.cost_a_visit, ..Note::default() };
        let outcome = match (self.script)(&under_way.visit) {
            _ if under_way.is_leaving => Err(Fault::new(Code::Interrupted, FaultClass::Cancelled, "not needed")),
            Reply::Faults(fault) => Err(fault),
            Reply::Says { status, body, output } => Ok(Answered {
                status: Status::new(&status).unwrap(),
                output,
                answer: body.clone(),
                body,
                transcript: None,
                observations: Vec::new(),
            }),
        };
        VisitEnd { outcome, note, objects: Vec::new(), waited_ms: 0, effect_unknown: None }
    }

    #[track_caller]
    fn on(&mut self, input: Input) {
        let view = View { rows: &self.rows, pending: &self.pending, recalled: &self.recalled };
        let actions = self.machine.on(input, 0, &view);
        self.last_actions = actions.iter().map(in_words).collect();
        let mut asked_for = self.rows.version + self.pending.len() as u64;
        asked_for += actions.iter().filter(|action| matches!(action, Action::Commit(_))).count() as u64;
        for lane in self.machine.lanes() {
            if matches!(lane.phase, LanePhase::Leaving(_)) {
                self.leaving.entry(lane.path.clone()).or_insert(asked_for);
            }
        }
        for action in actions {
            self.is_durable(&action);
            match action {
                Action::Commit(commit) => self.pending.push_back(*commit),
                Action::Visit(visit) => {
                    assert!(self.finished.is_none());
                    if self.stopped.is_some() {
                        continue;
                    }
                    self.rows.journals.insert(visit.lane.clone());
                    self.asked.push((*visit).clone());
                    let lane = visit.lane.clone();
                    let before = self.under_way.insert(lane, UnderWay { visit: *visit, is_leaving: false });
                    assert!(before.is_none(), "two visits in one lane");
                }
                Action::CancelLane(lane) => {
                    self.leaving.remove(&lane);
                    self.under_way.get_mut(&lane).unwrap().is_leaving = true;
                }
                Action::Tell(notices) => self.notices.push(notices),
                Action::Finish(ending) => self.finished = Some(ending),
                Action::Stop(fault) => {
                    self.stopped.get_or_insert(fault);
                }
            }
        }
    }

    /// Law `durable_first`: an action that depends on a step is only emitted after that step was synced.
    #[track_caller]
    fn is_durable(&self, action: &Action) {
        let known = |digest: &Digest| self.rows.steps.iter().any(|made| made.digest == *digest);
        match action {
            Action::Commit(_) | Action::Stop(_) => {}
            Action::Visit(visit) => {
                assert!(visit.prev.iter().all(known), "a visit of {} before its sync", visit.role);
                let stored = self.rows.steps.len() as u64;
                assert!(visit.opened_by.iter().all(|seq| *seq <= stored), "a lane before its fan-out");
            }
            Action::CancelLane(lane) => {
                assert!(self.leaving.get(lane).is_some_and(|asked_for| *asked_for <= self.rows.version), "{lane:?}");
            }
            Action::Tell(Notice::Committed { step, .. }) => assert!(known(step), "told before its sync"),
            Action::Tell(Notice::After { visit, .. }) => {
                let Some(visit) = visit else { return };
                let is_it = |made: &&Stored1| {
                    made.step.lane == visit.lane && made.step.role == visit.role && made.visit == visit.visit
                };
                assert!(self.rows.steps.iter().any(|made| is_it(&made)), "told before its sync");
            }
            Action::Finish(_) => assert!(self.pending.is_empty() && self.rows.ending.is_some(), "finished too early"),
        }
    }

    /// Ends the process. The first `survive` pending commits are durable; a new process continues.
    #[track_caller]
    pub fn crash(&mut self, survive: usize, how: How) {
        for commit in std::mem::take(&mut self.pending).into_iter().take(survive) {
            self.rows.apply(commit);
        }
        self.under_way.clear();
        self.leaving.clear();
        self.stopped = None;
        if let Some(ending) = self.rows.ending.clone() {
            self.finished = Some(ending);
            return;
        }
        self.machine = self.remade(how);
        self.begin();
    }

    /// The machine rebuilt from the store, before it continues.
    #[track_caller]
    pub fn remade(&self, how: How) -> Machine {
        let (rows, nothing) = (&self.rows, VecDeque::new());
        let view = View { rows, pending: &nothing, recalled: &self.recalled };
        let stored = checkpoint::Stored {
            checkpoint: &rows.checkpoint,
            lanes: rows.lanes.iter().map(|(path, state)| (path.clone(), state.clone())).collect(),
            recovered: BTreeMap::new(),
            version: rows.version,
            seq: rows.steps.len() as u64,
        };
        let restored = match how {
            How::Restore => Machine::restore(self.definition.clone(), stored, &view).unwrap(),
            How::Follow => None,
        };
        let machine = restored.unwrap_or_else(|| {
            let mut machine = Machine::new(self.definition.clone(), rows.version);
            for (made, seq) in rows.steps.iter().zip(1..) {
                let past =
                    PastStep { seq, digest: made.digest, body: made.episode.body.clone(), note: made.note.clone() };
                // `follow` only sees what was stored before the step.
                let before = Rows {
                    steps: rows.steps[..rows.steps.len().min(usize::try_from(seq).unwrap() - 1)].to_vec(),
                    ..rows.clone()
                };
                let view = View { rows: &before, pending: &nothing, recalled: &self.recalled };
                let reached = machine.follow(&made.step, past, &view).unwrap();
                assert!(reached.is_some(), "step {seq} does not follow\n{}", self.text());
            }
            machine
        });
        machine.resumed(rows.version)
    }

    /// How the thread ended, as text.
    pub fn end(&self) -> String {
        match (&self.finished, &self.stopped) {
            (Some(ending), _) => {
                let reason = ending.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                format!("{}{reason} {}", ending.outcome.name(), ending.result.to_text())
            }
            (None, Some(fault)) => format!("stopped: {fault}"),
            (None, None) => "under way".to_owned(),
        }
    }

    /// The steps and the end, one line each.
    pub fn text(&self) -> String {
        let number = |digest: &Digest| {
            let at = self.rows.steps.iter().position(|made| made.digest == *digest);
            at.map_or_else(|| "?".to_owned(), |at| (at + 1).to_string())
        };
        let mut text = String::new();
        for (made, seq) in self.rows.steps.iter().zip(1..) {
            let Stored1 { step, visit, .. } = made;
            let at = if step.lane.is_trunk() { String::new() } else { format!("{}: ", step.lane) };
            let prev: Vec<String> = step.prev.iter().map(number).collect();
            let chosen = step.edge.status.as_ref().map(|status| format!(".{status}")).unwrap_or_default();
            let _ = write!(text, "{seq} {at}{}#{visit}.{} <{}", step.role, step.status, prev.join(","));
            let _ = write!(text, " from {}{chosen} {:?}", step.edge.from, step.edge.prompt);
            for observation in &step.observations {
                let _ = write!(text, " {}", observed(observation));
            }
            text.push('\n');
        }
        text + &self.end()
    }

    /// How lanes ended, according to the notices.
    pub fn lanes_ended(&self) -> Vec<String> {
        let ended = self.notices.iter().filter_map(|notices| match notices {
            Notice::After { followed: Followed::LaneEnded { visit, how }, .. } => Some((visit, how)),
            _ => None,
        });
        ended
            .map(|(visit, how)| {
                let how = match how {
                    LaneEnd::Arrived => "arrived",
                    LaneEnd::Failed => "failed",
                    LaneEnd::Cancelled => "cancelled",
                };
                format!("{} {how}", visit.lane)
            })
            .collect()
    }

    #[track_caller]
    pub fn step(&self, seq: usize) -> &Stored1 {
        &self.rows.steps[seq - 1]
    }

    /// The last step of a role.
    #[track_caller]
    pub fn last_of(&self, role: &str) -> &Stored1 {
        self.rows.steps.iter().rev().find(|made| made.step.role.as_str() == role).unwrap()
    }
}

fn observed(observation: &Observation) -> String {
    let list = |lanes: &[LanePath]| lanes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    match observation {
        Observation::Join { arrived, cancelled } => format!("join[{}; {}]", list(arrived), list(cancelled)),
        Observation::Error { code } => format!("error {code}"),
        Observation::Limit { code } => format!("limit {code}"),
        Observation::Timeout { code } => format!("timeout {code}"),
        other => format!("{other:?}"),
    }
}

/// An action as text, without counters that are local to a process.
pub fn in_words(action: &Action) -> String {
    match action {
        Action::Commit(commit) => {
            let step = commit.step.as_ref().map(|step| format!("{} {}", step.seq, step.digest));
            // The first commit after steps were followed has the rows of other lanes too.
            let is_own = |path: &LanePath| commit.step.as_ref().is_some_and(|made| made.episode.lane == *path);
            let lanes = commit.lanes.iter().filter(|(path, _)| is_own(path));
            let lanes: Vec<_> = lanes.map(|(path, state)| (path.to_string(), state.clone())).collect();
            format!("commit {step:?} {lanes:?} closed {:?} {:?}", commit.closed, commit.ending)
        }
        other => format!("{other:?}"),
    }
}

/// A small generator (splitmix64), reproducible from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count).unwrap()).unwrap()
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

pub fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
