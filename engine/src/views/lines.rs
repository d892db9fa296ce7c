//! The JSON lines of a thread and of its steps. Their members are part of the interface (`engine/docs/lines.md`); an
//! unchanged thread always gives the same bytes.

use std::collections::BTreeMap;

use rondo_core::conversation::rebuild;
use rondo_core::local::{VisitInFlight, origin, spent};
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName, Status as Word, ThreadId};
use rondo_protocol::message::FileRef;
use rondo_protocol::object::{
    AnsweredBy, CancelledLane, Compaction, EdgeTaken, HookNote, KnownCost, Note, Observation, Rebind, Record, Step,
    ToolNote, Transcript, Usage,
};
use rondo_protocol::{Digest, Value};
use rondo_store::{Read, Row, Status, StoredRecord, StoredStep};
use schemars::JsonSchema;
use serde::Serialize;

use super::event;
use super::in_flight::{self, InFlightTotals};
use crate::failure::Failure;
use crate::host::store_access::DrivenThreads;
use crate::host::thread_row::status;

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "thread")]
#[schemars(rename = "ThreadLine", transform = event("thread"))]
pub struct ThreadLine {
    pub thread: ThreadId,
    pub workflow: Digest,
    pub name: String,
    /// Whether its past, or a part of it, came with somebody else's export.
    pub imported: bool,
    pub label: Option<String>,
    pub tags: Vec<String>,
    pub head: Option<Digest>,
    pub status: Status,
    /// What its steps used.
    pub totals: Totals,
    /// What visits used that are not committed; `None` if there are none with a call.
    pub in_flight: Option<InFlightTotals>,
}

/// Totals of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Totals {
    pub steps: u64,
    pub model_calls: u64,
    pub tool_calls: u64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    #[serde(flatten)]
    pub cost: KnownCost,
}

impl Totals {
    pub fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            output_tokens: self.output_tokens,
            ..Usage::default()
        }
    }
}

/// The line of a thread.
pub fn thread_line(
    store: &dyn Read,
    driven: &DrivenThreads,
    thread: &ThreadId,
    row: &Row,
) -> Result<ThreadLine, Failure> {
    thread_line_with((store, driven), thread, row, &in_flight::visits(store, thread, row)?)
}

/// Like [`thread_line`], with the visits that are not committed.
pub fn thread_line_with(
    (store, driven): (&dyn Read, &DrivenThreads),
    thread: &ThreadId,
    row: &Row,
    visits: &[VisitInFlight],
) -> Result<ThreadLine, Failure> {
    let (spent, origin) = (spent(store, thread, row)?, origin(thread, row)?);
    Ok(ThreadLine {
        thread: thread.clone(),
        workflow: row.workflow,
        name: origin.name,
        imported: origin.imported.is_some_and(|past| past.seq > 0),
        label: row.label.clone(),
        tags: row.tags.clone(),
        head: row.head,
        status: status(thread, row, driven),
        totals: Totals {
            steps: row.seq,
            model_calls: spent.model_calls,
            tool_calls: spent.tool_calls,
            prompt_tokens: spent.usage.prompt_tokens,
            cached_tokens: spent.usage.cached_tokens,
            output_tokens: spent.usage.output_tokens,
            cost: spent.cost(),
        },
        in_flight: InFlightTotals::of(visits),
    })
}

/// The speaker for people: `judge`; `critic[0]` in the lane that starts with that role; `checker in critic[0]` in
/// another's.
pub fn who(role: &RoleName, lane: &LanePath) -> String {
    match lane.parts().last() {
        None => role.to_string(),
        Some((first, _)) if first == role.as_str() => lane.to_string(),
        Some(_) => format!("{role} in {lane}"),
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StepLine {
    pub seq: u64,
    pub step: Digest,
    prev: Vec<Digest>,
    pub role: RoleName,
    /// The role's visit in the lane, from 1.
    pub visit: u64,
    pub lane: LanePath,
    pub edge: EdgeLine,
    pub status: Word,
    #[schemars(with = "BTreeMap<String, Value>")]
    pub output: Value,
    /// The text of the answer without the fields.
    pub body: String,
    pub answer: String,
    /// Its model and tool calls.
    pub transcript: Option<Transcript>,
    /// What decided a route besides answers. Together with `start` it completes the data of the step's digest.
    pub observations: Vec<Observation>,
    start: Digest,
    /// The child thread of a step of `kind: workflow`.
    pub child: Option<ThreadId>,
    /// Metadata, outside the digest.
    pub note: NoteLine,
}

/// The edge that entered a role.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EdgeLine {
    /// The source role, or `start`.
    pub from: String,
    /// The status that chose the edge.
    pub status: Option<Word>,
    pub prompt: String,
    /// The files that went with the prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
}

/// Metadata of a step, outside its digest.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NoteLine {
    /// Tokens, if counted.
    pub usage: Option<Usage>,
    #[serde(flatten)]
    pub cost: KnownCost,
    pub answered_by: Option<AnsweredBy>,
    /// The person who filled in the form.
    pub person: Option<String>,
    /// The program that filled it in, which is no person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    model: Option<String>,
    /// Its tool calls, in the order asked: `{call, tool, effect, bytes, duration_ms, failed, answered_by}`.
    pub tools: Vec<ToolNote>,
    /// What each hook did: `{node, answered: [{at, position, key, saved_usd, saved}], metrics}`.
    pub hooks: Vec<HookNote>,
    /// For a join: the usage of each cancelled lane, which the totals include.
    pub cancelled: Vec<CancelledLane>,
    pub started_at_ms: u64,
    pub ended_at_ms: u64,
}

/// The line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RecordLine {
    Step(Box<StepLine>),
    Rebind(RebindLine),
    Compaction(Box<CompactionLine>),
}

/// The line of a move to another definition.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RebindLine {
    pub seq: u64,
    step: Digest,
    prev: Vec<Digest>,
    /// The start that the earlier steps name.
    start: Digest,
    /// The start that the later steps name.
    to: Digest,
}

/// The line of a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CompactionLine {
    pub seq: u64,
    step: Digest,
    prev: Vec<Digest>,
    pub role: RoleName,
    pub lane: LanePath,
    start: Digest,
    pub text: String,
    pub through_visit: u64,
    transcript: Option<Transcript>,
    pub note: NoteLine,
}

/// The line of a record. `body` reads the answer of a step.
pub(crate) fn record_line(
    store: &dyn Read,
    stored: StoredRecord,
    note: Note,
    body: &dyn Fn(&Step) -> String,
) -> Result<RecordLine, Failure> {
    let StoredRecord { seq, digest, visit, record } = stored;
    Ok(match record {
        Record::Step(step) => {
            let body = body(&step);
            let stored = StoredStep { seq, digest, visit, step: *step };
            RecordLine::Step(Box::new(step_line(store, stored, note, body)?))
        }
        Record::Rebind(Rebind { prev, start, to, .. }) => {
            RecordLine::Rebind(RebindLine { seq, step: digest, prev, start, to })
        }
        Record::Compaction(compaction) => {
            let Compaction { lane, prev, role, start, text, through_visit, transcript, .. } = *compaction;
            let transcript = transcript.map(|digest| rebuild::object(store, Kind::Transcript, digest)).transpose()?;
            let (step, note) = (digest, note_line(note));
            let line = CompactionLine { seq, step, prev, role, lane, start, text, through_visit, transcript, note };
            RecordLine::Compaction(Box::new(line))
        }
    })
}

/// The line of a step; `body` is the body of its answer.
pub(crate) fn step_line(store: &dyn Read, stored: StoredStep, note: Note, body: String) -> Result<StepLine, Failure> {
    let StoredStep { seq, digest, visit, step } = stored;
    let transcript = step.transcript.map(|digest| rebuild::object(store, Kind::Transcript, digest)).transpose()?;
    let EdgeTaken { files, from, prompt, status } = step.edge;
    Ok(StepLine {
        seq,
        step: digest,
        prev: step.prev,
        role: step.role,
        visit,
        lane: step.lane,
        edge: EdgeLine { from, status, prompt, files },
        status: step.status,
        output: step.output,
        body,
        answer: step.answer,
        transcript,
        observations: step.observations,
        start: step.start,
        child: None,
        note: note_line(note),
    })
}

fn note_line(note: Note) -> NoteLine {
    NoteLine {
        usage: note.usage,
        cost: note.cost(),
        answered_by: note.answered_by,
        person: note.person,
        client: note.client,
        model: note.model,
        tools: note.tools,
        hooks: note.hooks,
        cancelled: note.cancelled,
        started_at_ms: note.started_at_ms,
        ended_at_ms: note.ended_at_ms,
    }
}
