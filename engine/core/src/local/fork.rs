//! Forks: a thread that shares the first steps of another one, and continues under the same or an edited definition.
//!
//! Nothing is copied: the fork's row names its base. An edited definition is compared with the past first, by following
//! the stored steps under it.

use std::sync::Arc;

use rondo_agent_kit::redact::Redactor;
use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::event::Visit;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::{FaultKind, KnownCost, Note, Observation, Record, Start, Usage};
use rondo_protocol::workflow::{Policy, Role, Workflow};
use rondo_protocol::{Digest, Value};

use super::past::origin;
use super::{Engine, Error, FileRules, Labels, NewThread, RunConfig, commits, take_files};
use crate::conversation::{Steps, rebuild};
use crate::graph::Graph;
use crate::resolved_roles::{self, BodyReader};
use crate::store::{self, Base, Read, Row, Status, StoredRecord, references};
use crate::thread::{
    Action, Answered, Commit, Definition, Definitions, Input, Machine, Object, Origin, PastStep, VisitEnd,
};

/// A definition and an input to go on with.
#[derive(Debug, Clone)]
pub struct Edited {
    /// The workflow.
    pub workflow: Workflow,
    /// Its policy.
    pub policy: Policy,
    /// The input; `None` for that of the thread.
    pub input: Option<Value>,
    /// The workflow's file, as an absolute path.
    pub file: Option<String>,
}

/// How a thread is forked.
#[derive(Debug, Clone, Default)]
pub struct ForkRequest {
    /// The last step to share; `None` for the last one that the edit leaves as it is, or the last of the thread.
    pub at: Option<u64>,
    /// The definition to go on with, if another.
    pub edited: Option<Edited>,
    /// The answer in place of that of the step after the last shared one, exactly as its role would give it.
    pub answer: Option<String>,
    /// The file of the script that its answers come from.
    pub script: Option<String>,
    /// That of the recording.
    pub recorded: Option<String>,
}

impl ForkRequest {
    /// The fork as a thread of its own, if nothing of the original is shared. `at` is where it is forked.
    pub fn of_its_own(&self, at: u64, origin: Origin) -> Option<NewThread> {
        let edited = self.edited.as_ref().filter(|_| at == 0)?;
        Some(NewThread {
            workflow: edited.workflow.clone(),
            policy: edited.policy.clone(),
            input: edited.input.clone().unwrap_or(Value::Null),
            file: edited.file.clone().or(origin.file),
            script: self.script.clone(),
            recorded: self.recorded.clone(),
            workspace: origin.workspace,
            labels: Labels::default(),
        })
    }
}

/// What a fork would share, change and run again.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkPlan {
    /// The last shared step; 0 if nothing is shared.
    pub at: u64,
    /// The first step that would have been different under the edited definition.
    pub changed: Option<ChangedStep>,
    /// The steps of the thread that the fork does not share.
    pub again: Unshared,
}

/// A step that would have been different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedStep {
    /// Its number.
    pub seq: u64,
    /// Its visit.
    pub visit: Visit,
    /// Why.
    pub why: String,
}

/// Steps that a fork does not share, and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Unshared {
    /// How many.
    pub steps: u64,
    /// Their model replies.
    pub model_calls: u64,
    /// Their tool results.
    pub tool_calls: u64,
    /// Their tokens, if counted.
    pub usage: Option<Usage>,
    /// Their cost.
    pub cost: KnownCost,
}

impl Unshared {
    fn add(&mut self, note: &Note) {
        self.steps += 1;
        self.model_calls += note.model_calls;
        self.tool_calls += note.tool_calls;
        if let Some(usage) = note.usage {
            *self.usage.get_or_insert_default() += usage;
        }
        self.cost += note.cost();
    }
}

/// What a fork would do. Reads only.
///
/// # Errors
/// [`Code::ForkRefused`] if the thread cannot be forked so, or any error of the store.
pub fn plan(store: &dyn Read, thread: &ThreadId, request: &ForkRequest) -> Result<ForkPlan, Error> {
    let row = row_of(store, thread)?.0;
    let (mut at, mut changed) = (request.at.unwrap_or(row.seq), None);
    if let Some(edited) = &request.edited {
        let past = Past::of(store, thread, &row)?;
        let compared = past.compare(edited)?;
        changed = compared.changed;
        at = request.at.unwrap_or(compared.shared);
        if at > 0 {
            past.check(at, edited, &compared.closed)?;
        }
    } else if request.answer.is_some() {
        at = request.at.unwrap_or(row.seq).saturating_sub(1);
    }
    // A step that is given its answer asks for none.
    let is_answered = request.edited.is_none() && request.answer.is_some();
    let (first, mut again) = (at + 1 + u64::from(is_answered), Unshared::default());
    store.steps(thread, first..=row.seq, &mut |_, note| {
        again.add(&note);
        true
    })?;
    Ok(ForkPlan { at, changed, again })
}

/// A thread with everything that its records name.
pub(super) struct Past<'a> {
    store: &'a dyn Read,
    thread: ThreadId,
    row: Row,
    workflow: Workflow,
    pub(super) first: Digest,
    pub(super) definitions: Definitions,
}

/// A past under an edited definition.
struct Compared {
    changed: Option<ChangedStep>,
    /// The last step before that after which no lane was open.
    shared: u64,
    /// The steps after which no lane was open.
    closed: Vec<u64>,
}

impl<'a> Past<'a> {
    pub(super) fn of(store: &'a dyn Read, thread: &ThreadId, row: &Row) -> Result<Self, Error> {
        let (first, definitions) = definitions(store, row)?;
        let workflow = rebuild::beginning(store, row)?.workflow;
        Ok(Self { store, thread: thread.clone(), row: row.clone(), workflow, first, definitions })
    }

    pub(super) fn steps(&self) -> Result<Steps<'a>, Error> {
        Ok(Steps::new(self.store, self.thread.clone(), self.row.start, &self.workflow)?)
    }

    /// A machine in front of its first step, which follows it through all its definitions.
    pub(super) fn follower(&self) -> Result<Machine, Error> {
        let begun = self.definitions.get(&self.first).cloned().ok_or_else(|| unfit(1))?;
        Ok(self.definitions.values().fold(Machine::new(begun, 0), Machine::keeping))
    }

    /// Has a machine follow a record.
    pub(super) fn goes_on(
        &self,
        machine: &mut Machine,
        stored: &StoredRecord,
        of: PastStep,
        steps: &Steps<'_>,
    ) -> Result<(), Error> {
        let follows = machine.follow_record(&stored.record, of, &self.definitions, steps).map_err(Error::Fault)?;
        if follows { Ok(()) } else { Err(unfit(stored.seq)) }
    }

    /// The machine after step `at`.
    fn machine(&self, steps: &Steps<'_>, at: u64) -> Result<Machine, Error> {
        let mut machine = self.follower()?;
        self.follow(at, &mut |stored, past| self.goes_on(&mut machine, stored, past, steps))?;
        Ok(machine)
    }

    /// Passes every record up to `at` to `each`, until it fails.
    pub(super) fn follow(
        &self,
        at: u64,
        each: &mut dyn FnMut(&StoredRecord, PastStep) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let steps = self.steps()?;
        let mut fault = None;
        self.store.scan(&self.thread, 1..=at, &mut |stored, note| {
            let visited = steps.keep(&stored, &note).map_err(Error::Store).and_then(|past| {
                let body = past.episode.map(|episode| episode.body.clone()).unwrap_or_default();
                each(&stored, PastStep { seq: stored.seq, digest: stored.digest, body, note })
            });
            fault = visited.err();
            fault.is_none()
        })?;
        fault.map_or(Ok(()), Err)
    }

    /// Follows the past under an edited definition up to the first step that would have been different.
    fn compare(&self, edited: &Edited) -> Result<Compared, Error> {
        let steps = self.steps()?;
        let (input, _) = self.input_under(edited, None)?;
        let to = definition(self.row.start, &edited.workflow, &edited.policy, input)?;
        let mut candidate = Some(Machine::new(to.clone(), 0));
        let mut machine = self.follower()?;
        let mut compared = Compared { changed: None, shared: 0, closed: Vec::new() };
        self.follow(self.row.seq, &mut |stored, past| {
            if let Some(other) = &mut candidate
                && let Some((role, lane, why)) = self.difference(other, &stored.record, &past, edited, &steps)
            {
                let visit = Visit { role, visit: stored.visit, lane };
                compared.changed = Some(ChangedStep { seq: stored.seq, visit, why });
                compared.shared = compared.closed.last().copied().unwrap_or(0);
                candidate = None;
            }
            self.goes_on(&mut machine, stored, past, &steps)?;
            if matches!(stored.record, Record::Rebind(_)) {
                // What was kept when the thread moved is kept again: only later steps are compared.
                candidate = machine.moved(to.clone(), &steps).ok();
                compared.changed = None;
            }
            if machine.can_rebind() {
                compared.closed.push(stored.seq);
            }
            Ok(())
        })?;
        if compared.changed.is_none() {
            compared.shared = compared.closed.last().copied().unwrap_or(0);
        }
        Ok(compared)
    }

    /// Whose record would have been different, and why; `None` if it would not. The machine then stands after it.
    fn difference(
        &self,
        candidate: &mut Machine,
        record: &Record,
        past: &PastStep,
        edited: &Edited,
        steps: &Steps<'_>,
    ) -> Option<(RoleName, LanePath, String)> {
        let (role, lane, transcript) = match record {
            Record::Step(step) => (&step.role, &step.lane, step.transcript),
            Record::Compaction(compaction) => (&compaction.role, &compaction.lane, compaction.transcript),
            Record::Rebind(_) => return None,
        };
        let different = |why: String| Some((role.clone(), lane.clone(), why));
        let by = |workflow: &Workflow| {
            let compact = workflow.role(role.as_str())?.kind.model()?.compact.clone()?;
            Some(compact.by)
        };
        let of_text = matches!(record, Record::Compaction(_)).then(|| by(&self.workflow)).flatten();
        for name in [Some(role.clone()), of_text].into_iter().flatten() {
            if let Some(why) = self.redefined(&name, edited) {
                return different(why);
            }
        }
        if self.workflow.hooks != edited.workflow.hooks && transcript.is_some() {
            return different("a hook that changes calls is another one".to_owned());
        }
        let Record::Step(step) = record else {
            let follows = candidate.follow_record(record, past.clone(), &self.definitions, steps);
            return if follows == Ok(true) { None } else { different(format!("{role} is not compacted here")) };
        };
        match candidate.follow(step, past.clone(), steps) {
            Ok(Some(reached)) if reached.prompt == step.edge.prompt => None,
            Ok(Some(_)) => different(format!("the prompt of {role} is another one")),
            Ok(None) => different(format!("no edge leads to {role} here")),
            Err(fault) => different(fault.message),
        }
    }

    /// What is different about a role in the edited definition.
    fn redefined(&self, name: &RoleName, edited: &Edited) -> Option<String> {
        let role = |workflow: &Workflow| workflow.role(name.as_str()).cloned();
        match (role(&self.workflow), role(&edited.workflow)) {
            (_, None) => Some(format!("the role {name} is gone")),
            (Some(old), Some(new)) if old != new => {
                Some(format!("the role {name} has another {}", differing(&old, &new)))
            }
            (Some(old), Some(_)) if !self.has_same_models(&old, edited) => {
                Some(format!("the model of {name} is defined otherwise"))
            }
            _ => None,
        }
    }

    fn has_same_models(&self, role: &Role, edited: &Edited) -> bool {
        let Some(model) = role.kind.model() else { return true };
        self.workflow.models.get(&model.model) == edited.workflow.models.get(&model.model)
    }

    /// The input under an edited definition, and the contents of its new files; those are held to the rules, if any are
    /// given.
    fn input_under(
        &self,
        edited: &Edited,
        rules: Option<(&FileRules, &Redactor)>,
    ) -> Result<(Value, Vec<Object>), Error> {
        let Some(mut input) = edited.input.clone() else {
            return Ok((rebuild::object::<Start>(self.store, Kind::Start, self.row.start)?.input, Vec::new()));
        };
        let files = take_files(&edited.workflow, &mut input, rules, self.store)?;
        Ok((input, files))
    }

    /// The move to an edited definition after step `at`, with its workflow, policy and start.
    fn rebound(&self, at: u64, edited: &Edited, input: Value, now_ms: u64) -> Result<(Commit, [Object; 3]), Error> {
        let (Start { input, .. }, objects) = commits::definition(&edited.workflow, &edited.policy, input)?;
        let [.., (_, start, _)] = &objects;
        let to = definition(*start, &edited.workflow, &edited.policy, input)?;
        let mut machine = self.machine(&self.steps()?, at)?.keeping(&to).resumed(0);
        let steps = Steps::new(self.store, self.thread.clone(), *start, &edited.workflow)?;
        let commit = machine.rebind(to, now_ms, &steps).map_err(|fault| {
            refused(format!("the thread cannot go on from step {at} under the edited file: {}", fault.message))
        })?;
        Ok((commit, objects))
    }

    /// Refuses a fork after step `at` that an edited definition contradicts.
    fn check(&self, at: u64, edited: &Edited, closed: &[u64]) -> Result<(), Error> {
        if !closed.contains(&at) {
            let before = closed.iter().rev().find(|seq| **seq < at);
            let way = before.map_or_else(String::new, |seq| format!("; the last step before it is {seq}"));
            return Err(refused(format!("after step {at} a fan-out is open{way}")));
        }
        let readers = resolved_roles::body_readers(&edited.workflow)?;
        self.follow(at, &mut |stored, _| {
            let Record::Step(step) = &stored.record else { return Ok(()) };
            let Some(BodyReader::Contract(contract)) = readers.get(&step.role) else { return Ok(()) };
            if FaultKind::STATUSES.contains(&step.status.as_str()) {
                return Ok(());
            }
            let checked = contract.check(step.status.as_str(), &step.output);
            checked.map_err(|fault| {
                let (seq, role) = (stored.seq, step.lane.role_in_lane(&step.role));
                refused(format!("step {seq} of {role} contradicts the edited file: {fault}"))
            })
        })?;
        let (input, _) = self.input_under(edited, None)?;
        self.rebound(at, edited, input, 0).map(|_| ())
    }
}

/// The part of a role that differs, in words.
fn differing(old: &Role, new: &Role) -> &'static str {
    let model = |role: &Role| role.kind.model().cloned();
    if old.output != new.output {
        return "output";
    }
    match (model(old), model(new)) {
        (Some(old), Some(new)) if old.system != new.system => "system text",
        (Some(old), Some(new)) if old.model != new.model => "model",
        (Some(_), Some(_)) => "history, context, format or set of tools",
        _ => "definition",
    }
}

/// The definitions that a thread has followed, by start, and the start of its first step.
fn definitions(store: &dyn Read, row: &Row) -> Result<(Digest, Definitions), Error> {
    let (mut row, mut definitions) = (row.clone(), Definitions::new());
    loop {
        if let std::collections::btree_map::Entry::Vacant(entry) = definitions.entry(row.start) {
            let rebuild::Beginning { workflow, start } = rebuild::beginning(store, &row)?;
            let policy = rebuild::policy(store, &row)?;
            entry.insert(definition(row.start, &workflow, &policy, start.input)?);
        }
        let Some(base) = row.base else { return Ok((row.start, definitions)) };
        row = row_of(store, &base.thread)?.0;
    }
}

fn definition(start: Digest, workflow: &Workflow, policy: &Policy, input: Value) -> Result<Definition, Error> {
    let graph = Arc::new(Graph::new(workflow, policy, Vec::new())?);
    let limits = policy.limits.clone();
    Ok(Definition { graph, start, input: Arc::new(input), limits })
}

pub(super) fn row_of(store: &dyn Read, thread: &ThreadId) -> Result<(Row, Origin), Error> {
    let row = store.row(thread)?.ok_or_else(|| Error::NoThread { thread: thread.clone() })?;
    let origin = origin(thread, &row)?;
    Ok((row, origin))
}

fn refused(why: String) -> Error {
    Error::Fault(Fault::new(Code::ForkRefused, FaultClass::Denied, why))
}

pub(super) fn unfit(seq: u64) -> Error {
    Error::Fault(Fault::new(Code::UnfitThread, FaultClass::Store, format!("step {seq} does not follow")))
}

impl Engine {
    /// Forks a thread: writes the row of a new one, with a rebind or the given answer if there is one. It can be
    /// resumed. A fork that would share nothing is refused; start a new thread instead. An edited input enters as that of
    /// a new thread: its new files are held to the rules, and what must not enter a thread is taken out.
    ///
    /// # Errors
    /// [`Code::ForkRefused`], [`Code::InvalidInput`] for a file, or any error of the store.
    pub async fn fork(
        &self,
        thread: &ThreadId,
        at: u64,
        request: &ForkRequest,
        run_config: &RunConfig,
    ) -> Result<ThreadId, Error> {
        let commit = self.compose_fork(thread, at, request, run_config)?;
        let new = commit.thread.clone();
        self.parts.store.commit(commit).await?;
        Ok(new)
    }

    /// The only commit that makes a fork, which is not stored: see [`fork`](Self::fork).
    pub fn compose_fork(
        &self,
        thread: &ThreadId,
        at: u64,
        request: &ForkRequest,
        run_config: &RunConfig,
    ) -> Result<store::Commit, Error> {
        let store = &*self.parts.store;
        let (row, origin) = row_of(store, thread)?;
        if at == 0 || at > row.seq {
            return Err(refused(format!("the thread has no step {at} to share")));
        }
        let base = base_of(store, thread, &row, at)?;
        let (base_row, _) = row_of(store, &base.thread)?;
        let now_ms = self.parts.env.now_ms();
        let new = self.parts.env.thread_id();
        let is_whole = at == row.seq;
        let origin = Origin {
            started_at_ms: now_ms,
            ending: None,
            stop: None,
            forms: Vec::new(),
            script: request.script.clone(),
            recorded: request.recorded.clone(),
            ..origin
        };
        let mut fork = Row {
            version: 0,
            status: Status::Stopped,
            seq: at,
            head: if is_whole { row.head } else { store.trunk_head(thread, at)? },
            base: Some(base),
            parent: None,
            label: None,
            tags: Vec::new(),
            // Without it, the fold is made from the steps when the thread continues.
            checkpoint: Vec::new(),
            origin: origin.to_bytes()?,
            ..base_row
        };
        if is_whole {
            (fork.workflow, fork.policy, fork.start) = (row.workflow, row.policy, row.start);
            fork.raised.clone_from(&row.raised);
            // It is of use only if the rows of lanes are not needed to read it.
            fork.checkpoint =
                if store.lanes(thread, None, 1)?.is_empty() { row.checkpoint.clone() } else { Vec::new() };
        }
        let commit = match (&request.edited, &request.answer) {
            (Some(edited), _) => self.rebound((thread, &row), fork, (at, edited, origin), run_config, now_ms)?,
            (None, Some(answer)) => self.given(thread, &row, fork, (at, answer), now_ms)?,
            (None, None) => store::Commit::of_row(new.clone(), Row { version: 1, ..fork }),
        };
        let objects = self.objects_of(&commit, (thread, &row))?;
        Ok(store::Commit { thread: new, objects, ..commit })
    }

    /// All objects that the row of a new fork names, and the files of its input. The rows that it was made from may
    /// change before it is committed, and a collection of garbage may then delete what they named.
    fn objects_of(&self, commit: &store::Commit, original: (&ThreadId, &Row)) -> Result<Vec<Object>, Error> {
        let (store, mut objects) = (&*self.parts.store, commit.objects.clone());
        let (mut named, mut at) = (references::of_row(&commit.row).to_vec(), 0);
        while let Some((kind, digest)) = named.get(at).copied() {
            at += 1;
            if objects.iter().any(|(_, written, _)| *written == digest) {
                continue;
            }
            let Some(bytes) = store.object(kind, digest)? else {
                let (thread, row) = original;
                let has_changed = store.row(thread)?.as_ref() != Some(row);
                let missing = store::Damage::new(format!("the {} object {digest} is missing", kind.name()));
                return Err(Error::Store(if has_changed {
                    store::Error::Conflict { thread: thread.clone() }
                } else {
                    missing.of_object(digest).into()
                }));
            };
            if kind == Kind::Start {
                let unreadable = |error| store::Damage::new(format!("the start {digest} cannot be read: {error}"));
                let of_start = references::of_object(kind, &bytes);
                let of_start = of_start.map_err(|error| store::Error::from(unreadable(error).of_object(digest)))?;
                named.extend(of_start.into_iter().filter(|(kind, _)| *kind == Kind::File));
            }
            objects.push((kind, digest, bytes));
        }
        Ok(objects)
    }

    /// The commit of a fork that continues under another definition.
    fn rebound(
        &self,
        (thread, row): (&ThreadId, &Row),
        fork: Row,
        (at, edited, origin): (u64, &Edited, Origin),
        run_config: &RunConfig,
        now_ms: u64,
    ) -> Result<store::Commit, Error> {
        let past = Past::of(&*self.parts.store, thread, row)?;
        let (mut input, files) = past.input_under(edited, Some((&run_config.files, &run_config.redactor)))?;
        if edited.input.is_some() {
            input = self.redacted((&edited.workflow, &edited.policy), run_config, input)?;
        }
        let (mut commit, objects) = past.rebound(at, edited, input, now_ms)?;
        let [workflow, policy, start] = objects.each_ref().map(|(_, digest, _)| *digest);
        let origin = Origin {
            name: edited.workflow.name.clone(),
            file: edited.file.clone().or_else(|| origin.file.clone()),
            ..origin
        };
        let row = Row { workflow, policy, start, raised: Vec::new(), origin: origin.to_bytes()?, ..fork };
        let record = commit.epoch.take().map(commits::epoch);
        let objects = objects.into_iter().chain(files).collect();
        Ok(store::Commit { objects, ..commits::stored(thread.clone(), commit, row, record) })
    }

    /// The commit of a fork in which a step has another answer.
    fn given(
        &self,
        thread: &ThreadId,
        row: &Row,
        fork: Row,
        (at, answer): (u64, &str),
        now_ms: u64,
    ) -> Result<store::Commit, Error> {
        let past = Past::of(&*self.parts.store, thread, row)?;
        let steps = past.steps()?;
        let replaced = self.parts.store.step(thread, at + 1)?;
        let (replaced, _) = replaced.ok_or_else(|| refused(format!("number {} is no step with an answer", at + 1)))?;
        let mut machine = past.machine(&steps, at)?.resumed(0);
        let answered = read_answer(&past.workflow, &replaced.step.role, answer)?;
        // The visits that begin here are made when the thread continues.
        let begun = machine.on(Input::Begin { at_ms: now_ms }, 0, &steps);
        if begun.iter().any(|action| matches!(action, Action::Commit(_))) {
            return Err(refused(format!("at step {at} another lane continues by itself")));
        }
        let note = Note { started_at_ms: now_ms, ended_at_ms: now_ms, ..Note::default() };
        let end = Box::new(VisitEnd::of(Ok(answered), note));
        let actions = machine.on(Input::Ended { lane: replaced.step.lane, end }, 0, &steps);
        let mut commit = None;
        for action in actions {
            match action {
                Action::Commit(made) if commit.is_none() => commit = Some(*made),
                Action::Stop(fault) => return Err(Error::Fault(fault)),
                _ => {}
            }
        }
        let mut commit = commit.ok_or_else(|| unfit(at + 1))?;
        let step = commit.step.take().map(commits::step);
        Ok(commits::stored(thread.clone(), commit, fork, step))
    }
}

/// Reads an answer as its role gives it.
fn read_answer(workflow: &Workflow, role: &RoleName, answer: &str) -> Result<Answered, Error> {
    let readers = resolved_roles::body_readers(workflow)?;
    let reader = readers.get(role).ok_or_else(|| refused(format!("{role} gives no answer of its own")))?;
    let invalid = |what: String| refused(format!("the answer for {role}: {what}"));
    let (status, output, body) = match reader {
        BodyReader::Contract(contract) => {
            let read = contract.parse(answer).map_err(|fault| invalid(fault.to_string()))?;
            (read.status, read.output, read.body)
        }
        BodyReader::Text => return Err(invalid("it does not answer in a declared form".to_owned())),
    };
    let observations = vec![Observation::Given {}];
    Ok(Answered { status, output, answer: answer.to_owned(), body, transcript: None, observations })
}

/// Where a fork after step `at` begins: at the thread that stores that step itself.
fn base_of(store: &dyn Read, thread: &ThreadId, row: &Row, at: u64) -> Result<Base, Error> {
    let (mut thread, mut row) = (thread.clone(), row.clone());
    while let Some(base) = row.base.take_if(|base| at <= base.seq) {
        row = row_of(store, &base.thread)?.0;
        thread = base.thread;
    }
    Ok(Base { thread, seq: at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::SystemEnv;
    use crate::store::tests::steps::{row, thread};
    use crate::store::{MemoryStore, StepStore as _};

    #[tokio::test]
    async fn a_fork_brings_all_that_its_row_names() {
        let store = Arc::new(MemoryStore::new());
        let engine =
            Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), crate::hook::Registry::default());
        let object = |kind, text: &str| (kind, Digest::of_bytes(kind, text.as_bytes()), text.as_bytes().to_vec());
        let (picture, workflow) = (object(Kind::File, "picture"), object(Kind::Workflow, "1"));
        let start = format!(
            "{{\"input\":{{\"photo\":{{\"digest\":\"{}\",\"media_type\":\"image/png\",\"name\":\"a\",\"size\":7}}}},\
             \"layout\":1,\"workflow\":\"{}\"}}",
            picture.1, workflow.1
        );
        let objects = vec![workflow, object(Kind::Policy, "2"), object(Kind::Start, &start), picture];
        let (workflow, policy, start) = (objects[0].1, objects[1].1, objects[2].1);
        let original = Row { workflow, policy, start, ..row(1, 0, None) };
        let commit = store::Commit::of_row(thread(1), original.clone());
        store.commit(store::Commit { objects: objects.clone(), ..commit }).await.unwrap();

        let fork = store::Commit::of_row(thread(2), original.clone());
        assert_eq!(engine.objects_of(&fork, (&thread(1), &original)), Ok(objects.clone()));
        let edited = store::Commit { objects: vec![object(Kind::Policy, "2")], ..fork.clone() };
        let brought = engine.objects_of(&edited, (&thread(1), &original)).unwrap();
        assert_eq!(brought, [1, 0, 2, 3].map(|at| objects[at].clone()));
        // What the row named when it was read has been collected.
        let old = Row { policy: Digest([9; 32]), ..original.clone() };
        let fork = store::Commit::of_row(thread(2), old.clone());
        let conflict = Error::Store(store::Error::Conflict { thread: thread(1) });
        assert_eq!(engine.objects_of(&fork, (&thread(1), &old)), Err(conflict));
        let damaged = engine.objects_of(&fork, (&thread(1), &original)).unwrap_err();
        assert!(matches!(damaged, Error::Store(store::Error::Damaged(_))), "{damaged}");
    }
}
