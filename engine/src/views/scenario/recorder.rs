//! What a scenario repeats of a stored thread: the answers of its roles and tools, and those of its child threads.

use std::collections::{BTreeMap, BTreeSet};

use rondo_agent_kit::conversation::{Position, Round, StepLocation};
use rondo_agent_kit::model::script::{self, Cause};
use rondo_agent_kit::prefix;
use rondo_agent_kit::tool::means;
use rondo_core::conversation::rebuild;
use rondo_core::local::{attempts_of, origin};
use rondo_core::thread::{Ending, Origin};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::FileRef;
use rondo_protocol::object::{Compaction, Entry, Followed, Note, Observation, Outcome, Record, Step, Transcript};
use rondo_protocol::workflow::{Compact, Policy, RoleKind, SelectBy, Workflow, types};
use rondo_protocol::{Digest, Value, canonical};
use rondo_store::{Damage, Error, Read, Row, StoredRecord};

use crate::failure::Failure;
use crate::host::find_thread::child_threads;

/// The most attempts that are repeated of one visit.
const MAX_ATTEMPTS: usize = 100;

/// The script entries of one role, by lane.
type ByLane = BTreeMap<LanePath, Vec<Value>>;

/// Collects what a thread and its children were answered.
pub struct ScenarioRecorder<'s> {
    store: &'s dyn Read,
    /// By the name of the role in scripts without its lane: `writer`, `section/writer`. Each thread with the prefix of its
    /// roles in scripts, lanes included: empty, or `section[1]/` for a child.
    script: BTreeMap<String, Vec<(String, ByLane)>>,
    tools: BTreeMap<String, Vec<Value>>,
    route: Vec<(Position, Value)>,
    /// Visits that wait for a person and have no answer.
    waiting: u64,
    /// What the scenario cannot repeat.
    pub notes: Vec<String>,
}

/// The thread that is read, with what its steps are read by.
struct ThreadReading<'r> {
    workflow: &'r Workflow,
    policy: &'r Policy,
    children: BTreeMap<(RoleName, LanePath, u64), ThreadId>,
    /// The roles that run it, with their lanes, the outermost first; none if it is no child.
    above: Vec<(RoleName, LanePath)>,
    script: BTreeMap<RoleName, ByLane>,
}

impl<'s> ScenarioRecorder<'s> {
    /// Reads a thread with its children.
    pub fn read(store: &'s dyn Read, thread: &ThreadId, row: &Row) -> Result<Self, Failure> {
        let (script, tools) = (BTreeMap::new(), BTreeMap::new());
        let mut recorder = Self { store, script, tools, route: Vec::new(), waiting: 0, notes: Vec::new() };
        recorder.thread(thread, row, Vec::new())?;
        Ok(recorder)
    }

    fn thread(&mut self, thread: &ThreadId, row: &Row, above: Vec<(RoleName, LanePath)>) -> Result<(), Failure> {
        let workflow = rebuild::beginning(self.store, row)?.workflow;
        let policy = rebuild::policy(self.store, row)?;
        let mut reading = ThreadReading {
            workflow: &workflow,
            policy: &policy,
            children: child_threads(self.store, thread, row, &workflow)?,
            above,
            script: BTreeMap::new(),
        };
        let origin = origin(thread, row)?;
        self.waiting += origin.after.iter().map(waits).sum::<u64>();
        let mut outcome = Ok(());
        self.store.scan(thread, 1..=row.seq, &mut |stored, note| {
            outcome = self.record(&mut reading, stored, &note);
            outcome.is_ok()
        })?;
        outcome?;
        // A child that has not ended has no step in its parent.
        for ((role, lane, _), child) in std::mem::take(&mut reading.children) {
            self.child(&reading, (&role, &lane), &child, Some(thread))?;
        }
        if row.seq > 0 && workflow.roles.iter().any(|(role, _)| reading.compacted(role).is_some()) {
            self.refused_compactions(&mut reading, thread, row)?;
        }
        let ThreadReading { above, script, .. } = reading;
        let anywhere: String = above.iter().flat_map(|(role, _)| [role.as_str(), "/"]).collect();
        let within: String = above.iter().flat_map(|(role, lane)| [lane.role_in_lane(role), "/".to_owned()]).collect();
        for (role, lanes) in script {
            self.script.entry(format!("{anywhere}{role}")).or_default().push((within.clone(), lanes));
        }
        Ok(())
    }

    /// Reads a child that `role` started in a lane, if it is one of `parent`, or of any thread.
    fn child(
        &mut self,
        reading: &ThreadReading<'_>,
        (role, lane): (&RoleName, &LanePath),
        child: &ThreadId,
        parent: Option<&ThreadId>,
    ) -> Result<(), Failure> {
        let Some(row) = self.store.row(child)? else { return Ok(()) };
        if parent.is_some_and(|parent| row.parent.as_ref().is_none_or(|of| of.thread != *parent)) {
            return Ok(());
        }
        let above = reading.above.iter().cloned().chain([(role.clone(), lane.clone())]);
        self.thread(child, &row, above.collect())
    }

    fn record(&mut self, reading: &mut ThreadReading<'_>, stored: StoredRecord, note: &Note) -> Result<(), Failure> {
        self.waiting += note.after.iter().map(waits).sum::<u64>();
        let (seq, visit) = (stored.seq, stored.visit);
        let step = match stored.record {
            Record::Step(step) => step,
            Record::Compaction(compaction) => return self.compaction(reading, &compaction, note),
            Record::Rebind(_) => return Ok(()),
        };
        if reading.above.is_empty() {
            let round = Round { lane: step.lane.clone(), opened_by: note.opened_by.clone() };
            let position = StepLocation { seq, round }.position();
            self.route.push((position, format!("{}.{}", step.lane.role_in_lane(&step.role), step.status).into()));
        }
        let is_given = step.observations.contains(&Observation::Given {});
        match reading.workflow.role(step.role.as_str()).map(|role| &role.kind) {
            Some(RoleKind::Workflow(_)) => {
                if let Some(child) = reading.children.remove(&(step.role.clone(), step.lane.clone(), visit)) {
                    self.child(reading, (&step.role, &step.lane), &child, None)?;
                }
            }
            Some(kind) if is_of_person(kind) => {
                // A form that nobody answered has none.
                self.waiting = self.waiting.saturating_sub(u64::from(!step.answer.is_empty()));
                match form(&step.answer) {
                    Some(entry) => reading.say(&step.role, &step.lane, entry),
                    None => self.unsaid(seq, "nobody answered the form in time"),
                }
            }
            Some(RoleKind::Rule(_)) => {}
            Some(RoleKind::Selector(selector)) if selector.by != SelectBy::Model => {}
            _ if is_given => reading.say(&step.role, &step.lane, raw(&step.answer)),
            _ => match step.transcript {
                Some(digest) => self.transcript(reading, (&step.role, &step.lane, visit), digest, note)?,
                None => self.fault(reading, &step, seq, note),
            },
        }
        Ok(())
    }

    /// The text of a compaction is an answer of the role that writes it.
    fn compaction(
        &mut self,
        reading: &mut ThreadReading<'_>,
        compaction: &Compaction,
        note: &Note,
    ) -> Result<(), Failure> {
        let Compaction { role, lane, through_visit, transcript, .. } = compaction;
        let Some(Compact { by, .. }) = reading.compacted(role) else { return Ok(()) };
        if let Some(digest) = transcript {
            return self.transcript(reading, (&by, lane, *through_visit), *digest, note);
        }
        self.notes.push(format!("{by}: how it put older visits of {role} together is not known"));
        Ok(())
    }

    /// Adds a refused text for each role that puts older visits together, in each lane where a request was sent that is
    /// longer than allowed. Refused texts are not kept. One is enough: each later try asks for the same entry again.
    fn refused_compactions(
        &self,
        reading: &mut ThreadReading<'_>,
        thread: &ThreadId,
        row: &Row,
    ) -> Result<(), Failure> {
        let is_compacted = |stored: &StoredRecord| match &stored.record {
            Record::Step(step) => reading.compacted(&step.role).is_some(),
            Record::Compaction(_) | Record::Rebind(_) => false,
        };
        let mut refused = BTreeSet::new();
        rebuild::requests(self.store, thread, row, &is_compacted, &mut |request| {
            let bytes = prefix::bytes_of_head(&request.head)
                + request.messages().messages().into_iter().map(prefix::bytes_of_message).sum::<u64>();
            if let Some(compact) = reading.compacted(&request.role).filter(|it| prefix::tokens(bytes) > it.at) {
                refused.insert((compact.by, request.lane));
            }
            true
        })?;
        for (by, lane) in refused {
            reading.fail(&by, &lane, Code::ContractBroken.to_string(), None);
        }
        Ok(())
    }

    fn transcript(
        &mut self,
        reading: &mut ThreadReading<'_>,
        (role, lane, visit): (&RoleName, &LanePath, u64),
        digest: Digest,
        note: &Note,
    ) -> Result<(), Failure> {
        let transcript: Transcript = rebuild::object(self.store, Kind::Transcript, digest)?;
        for entry in &transcript.entries {
            match entry {
                Entry::Model { reply, .. } if !reply.parts.asks_for_tools() => {
                    reading.say(role, lane, raw(&reply.parts.text()));
                }
                Entry::Model { reply, .. } => {
                    if !reply.parts.text().is_empty() {
                        let seat = lane.role_in_lane(role);
                        self.notes.push(format!("{seat} visit {visit}: text beside tool calls is left out"));
                    }
                    let uses = reply.parts.tool_calls();
                    let uses = uses.map(|call| {
                        Value::from_iter([("name", call.name.as_str().into()), ("args", arguments(&call.arguments))])
                    });
                    reading.say(role, lane, Value::from_iter([("tools", Value::List(uses.collect()))]));
                }
                Entry::Tool { arguments: args, failed, files, id, name, text } => {
                    let noted = note.tools.iter().find(|tool| tool.call == *id);
                    let tool = noted.map_or(name, |noted| &noted.tool);
                    // A scenario repeats by itself how the loop refuses what is no call of a known tool. But it grants
                    // everything: of a call that a grant or a person refused, it needs the text.
                    let kind = reading.workflow.role(role.as_str()).map(|role| &role.kind);
                    let has_tool = kind.is_some_and(|kind| kind.tools().iter().any(|pattern| means(pattern, tool)));
                    let args = arguments(args);
                    if !has_tool || args.as_str().is_some() {
                        continue;
                    }
                    if !files.is_empty() {
                        let seat = lane.role_in_lane(role);
                        self.notes.push(format!("{seat} visit {visit}: the files that {tool} returned are left out"));
                    }
                    let mut result = vec![("args", args), ("text", text.as_str().into())];
                    result.extend(failed.then_some(("failed", Value::Bool(true))));
                    self.tools.entry(tool.clone()).or_default().push(result.into_iter().collect());
                }
                Entry::Repair { .. } => {}
            }
        }
        Ok(())
    }

    /// Adds what makes a visit end in the same fault: its answers are not kept.
    fn fault(&mut self, reading: &mut ThreadReading<'_>, step: &Step, seq: u64, note: &Note) {
        let code = step.observations.iter().find_map(|observation| match observation {
            Observation::Error { code } | Observation::Timeout { code } | Observation::Limit { code } => Some(code),
            _ => None,
        });
        let kind = reading.workflow.role(step.role.as_str()).map(|role| &role.kind);
        match code.filter(|_| kind.is_some_and(|kind| kind.model().is_some())) {
            // What kept the model from being asked, such as the limit on its visits, does so again.
            Some(_) if note.attempts == 0 => {}
            Some(code) => {
                let message = step.output.get("message").and_then(Value::as_str).map(str::to_owned);
                reading.fail(&step.role, &step.lane, code.clone(), message);
            }
            None => self.unsaid(seq, "what failed there cannot be said in a script"),
        }
    }

    fn unsaid(&mut self, seq: u64, why: &str) {
        self.notes.push(format!("step {seq}: {why}"));
    }

    /// The sections of the scenario, in the order of the file. Files of the input stand there with their contents.
    pub fn scenario(
        &mut self,
        thread: &str,
        input: &Value,
        origin: &Origin,
    ) -> Result<Vec<(&'static str, Value)>, Failure> {
        let mut contents = |file: &FileRef| {
            let missing = || Damage::new(format!("the file {} is missing", file.digest)).of_object(file.digest);
            let bytes = self.store.object(Kind::File, file.digest)?;
            bytes.ok_or_else(|| Failure::from(Error::from(missing())))
        };
        let input = types::with_contents(input, &mut contents)?;
        let by_name = |lists: BTreeMap<String, Vec<Value>>| {
            lists.into_iter().map(|(name, list)| (name, Value::List(list))).collect()
        };
        let mut expect: BTreeMap<String, Value> = BTreeMap::new();
        self.route.sort_by(|(a, _), (b, _)| a.cmp(b));
        expect.insert("route".to_owned(), Value::List(self.route.iter().map(|(_, step)| step.clone()).collect()));
        let ending = origin.ending.as_ref().filter(|ending| ending.outcome != Outcome::Cancelled);
        if let Some(Ending { outcome, reason, result, .. }) = ending {
            expect.insert("outcome".to_owned(), outcome.name().into());
            expect.extend(reason.as_ref().map(|reason| ("reason".to_owned(), reason.as_str().into())));
            if !result.is_null() {
                expect.insert("result".to_owned(), Value::clone(result));
            }
        } else {
            // Where the answers end, a person is waited for, or the script has no entry left.
            let outcome = if self.waiting > 0 { "waiting" } else { "stopped" };
            expect.insert("outcome".to_owned(), outcome.into());
        }
        let description = Value::from(format!("The answers of thread {thread}."));
        let (script, tools) = (by_name(self.lists()), by_name(self.tools.clone()));
        let sections = [
            ("description", description),
            ("input", input),
            ("script", script),
            ("tools", tools),
            ("expect", Value::Object(expect)),
        ];
        let is_written =
            |(name, section): &(&str, Value)| !matches!(*name, "input" | "tools") || *section != Value::empty_object();
        Ok(sections.into_iter().filter(is_written).collect())
    }

    /// The lists of a script: one for each role, or one for each lane where lanes were told different things.
    fn lists(&mut self) -> BTreeMap<String, Vec<Value>> {
        let mut lists: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (name, threads) in std::mem::take(&mut self.script) {
            if let Some(same) = common(threads.iter().flat_map(|(_, lanes)| lanes.values())) {
                lists.insert(name, same);
                continue;
            }
            let mut children: BTreeMap<String, ByLane> = BTreeMap::new();
            for (within, lanes) in threads {
                for (lane, said) in lanes {
                    let known = children.entry(within.clone()).or_default().entry(lane).or_default();
                    match longer(known, &said) {
                        Some(merged) => *known = merged.clone(),
                        // A script answers for every child thread of a lane from its first entry.
                        None => self.notes.push(format!("{name}: two child threads had different answers")),
                    }
                }
            }
            let role = name.rsplit_once('/').map_or(name.as_str(), |(_, role)| role);
            lists.extend(children.iter().flat_map(|(within, lanes)| of_lanes((within, role), lanes)));
        }
        lists
    }
}

/// The lists of a role of the thread with the prefix `within`.
fn of_lanes((within, role): (&str, &str), lanes: &ByLane) -> BTreeMap<String, Vec<Value>> {
    if let Some(same) = common(lanes.values()) {
        return [(format!("{within}{role}"), same)].into();
    }
    let list = |(lane, said): (&LanePath, &Vec<Value>)| {
        let alike = lanes.iter().filter(|(other, _)| other.last_index() == lane.last_index());
        match common(alike.map(|(_, said)| said)) {
            Some(same) => {
                let index = lane.last_index().map_or_else(String::new, |index| format!("[{index}]"));
                (format!("{within}{role}{index}"), same)
            }
            None => (format!("{within}{}", in_lane(lane, role)), said.clone()),
        }
    };
    lanes.iter().map(list).collect()
}

/// The longest of some lists, if it begins with each of the others.
fn common<'l>(lists: impl Iterator<Item = &'l Vec<Value>>) -> Option<Vec<Value>> {
    lists.map(Some).reduce(|known, said| longer(known?, said?)).flatten().cloned()
}

impl ThreadReading<'_> {
    fn compacted(&self, role: &RoleName) -> Option<Compact> {
        self.workflow.role(role.as_str())?.kind.model()?.compact.clone()
    }

    fn say(&mut self, role: &RoleName, lane: &LanePath, entry: Value) {
        self.script.entry(role.clone()).or_default().entry(lane.clone()).or_default().push(entry);
    }

    /// Adds as many failed attempts as end a visit.
    fn fail(&mut self, role: &RoleName, lane: &LanePath, code: String, message: Option<String>) {
        let message_entry = message.as_ref().map(|message| ("message", message.as_str().into()));
        let written = [("code", Value::from(code.as_str()))].into_iter().chain(message_entry);
        let entry = Value::from_iter([("error", written.collect::<Value>())]);
        let policy = self.policy.roles.get(role.as_str()).cloned().unwrap_or_default();
        let fault = script::Failure { cause: Cause::Code(code), message, retry_after_ms: None }.fault();
        for _ in 0..attempts_of(&fault, &policy.retry, policy.fallback.len()).min(MAX_ATTEMPTS) {
            self.say(role, lane, entry.clone());
        }
    }
}

/// 1 for a form that the thread began to wait for.
fn waits(followed: &Followed) -> u64 {
    u64::from(matches!(followed, Followed::Waiting { .. }))
}

fn is_of_person(kind: &RoleKind) -> bool {
    match kind {
        RoleKind::Human => true,
        RoleKind::Selector(selector) => selector.by == SelectBy::Human,
        _ => false,
    }
}

/// The script entry for a completed form, which is canonical JSON of `{status, fields.., body}`.
fn form(answer: &str) -> Option<Value> {
    let Ok(Value::Object(mut members)) = canonical::parse(answer.as_bytes()) else { return None };
    let (status, body) = (members.remove("status")?, members.remove("body"));
    let fields = (!members.is_empty()).then_some(("fields", Value::Object(members)));
    let body = body.filter(|body| body.as_str() != Some("")).map(|body| ("body", body));
    Some([("status", status)].into_iter().chain(fields).chain(body).collect())
}

fn raw(text: &str) -> Value {
    Value::from_iter([("raw", Value::from(text))])
}

/// The longer of two lists, if it begins with the other.
fn longer<'l>(a: &'l Vec<Value>, b: &'l Vec<Value>) -> Option<&'l Vec<Value>> {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    long.starts_with(short).then_some(long)
}

fn in_lane(lane: &LanePath, role: &str) -> String {
    RoleName::new(role).map_or_else(|_| role.to_owned(), |role| lane.role_in_lane(&role))
}

/// Arguments as YAML structure; text that is not an object stays text.
fn arguments(text: &str) -> Value {
    match canonical::parse(text.as_bytes()) {
        Ok(Value::Object(members)) => Value::Object(members),
        _ => Value::from(text),
    }
}
