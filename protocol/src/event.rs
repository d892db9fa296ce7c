//! Events: what a run reports while it runs. A closed list; one JSON object per line with `--json`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::canonical::Value;
use crate::digest::Digest;
use crate::hint::Hint;
use crate::id::{LanePath, RoleName, Status, ThreadId};
use crate::object::{AnsweredBy, Followed, Usage};

pub use crate::object::{LaneEnd, Outcome, Target, Visit};

/// How far an acknowledged step is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Synced to the device: survives power loss.
    #[default]
    Sync,
    /// Written to the operating system: survives a crash of the process, not power loss.
    Log,
    /// Kept in memory only.
    Memory,
}

/// The number of a durable event: the `k`-th, from 1, that follows from step `seq`, which is 0 before the first step.
/// Written `SEQ.K`. Numbers increase within a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId {
    /// The step that it follows from.
    pub seq: u64,
    /// Its index among the events of that step, from 1.
    pub k: u32,
}

impl EventId {
    /// A number before every event of a thread.
    pub const NONE: Self = Self { seq: 0, k: 0 };

    /// The next event that follows from the same step.
    #[must_use]
    pub fn next(self) -> Self {
        Self { k: self.k.saturating_add(1), ..self }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.seq, self.k)
    }
}

/// The text is not an event number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an event's number is SEQ.K, such as 3.1")]
pub struct NoEventId;

impl FromStr for EventId {
    type Err = NoEventId;

    fn from_str(text: &str) -> Result<Self, NoEventId> {
        let (seq, k) = text.split_once('.').ok_or(NoEventId)?;
        let (seq, k) = (seq.parse().map_err(|_| NoEventId)?, k.parse().map_err(|_| NoEventId)?);
        let id = Self { seq, k };
        // Each number has exactly one spelling.
        if id.to_string() == text { Ok(id) } else { Err(NoEventId) }
    }
}

json_text!(EventId);

impl Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One event of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, if it is durable: it then follows from the store and can be read again.
    pub id: Option<EventId>,
    /// The thread.
    pub thread: ThreadId,
    /// The thread whose step this thread belongs to, if any.
    pub parent: Option<ThreadId>,
    /// The durability of this thread's acknowledged steps.
    pub durability: Durability,
    /// Unix milliseconds.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// An event as programs read it: the hint of an error stands there as one text too.
#[derive(Debug, Serialize)]
pub struct EventLine<'e> {
    #[serde(flatten)]
    event: &'e Event,
    /// Left out of other events, and null where an error has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[expect(clippy::option_option, reason = "left out and null are two things")]
    hint: Option<Option<String>>,
}

impl Event {
    /// The event's line of JSON, with hints in the words of who writes it.
    pub fn line(&self, words: impl Fn(&Hint) -> String) -> EventLine<'_> {
        let hint = match &self.what {
            What::Error { hint, .. } => Some(hint.as_ref().map(words)),
            _ => None,
        };
        EventLine { event: self, hint }
    }
}

impl JsonSchema for EventLine<'_> {
    fn schema_name() -> Cow<'static, str> {
        Event::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Event::json_schema(generator);
        let kinds = schema.get_mut("oneOf").and_then(serde_json::Value::as_array_mut);
        for properties in kinds.into_iter().flatten().filter_map(|kind| kind.get_mut("properties")?.as_object_mut()) {
            if properties.contains_key("hint_parts") {
                properties.insert("hint".to_owned(), generator.subschema_for::<Option<String>>().to_value());
            }
        }
        schema
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, IntoStaticStr, VariantNames)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum What {
    /// The thread's row was synced.
    ThreadStarted {
        /// The checked workflow.
        workflow: Digest,
        /// The digest of the thread's start.
        start: Digest,
    },
    /// An earlier run of the thread continues.
    ThreadResumed {
        /// Its last committed step, 0 before the first.
        seq: u64,
    },
    /// A role starts a visit.
    StepStarted {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
    },
    /// A model streamed some text. Provisional: the attempt may fail.
    ModelDelta {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
        /// The attempt.
        attempt: u32,
        /// The text.
        text: String,
    },
    /// An attempt failed and another follows.
    CallRetried {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
        /// The attempt that failed.
        attempt: u32,
        /// The logical name of the model that failed.
        model: String,
        /// The code of the fault.
        code: String,
        /// What happened.
        message: String,
        /// Milliseconds until the next attempt.
        wait_ms: u64,
    },
    /// A tool call starts.
    ToolStarted {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
        /// The tool.
        tool: String,
        /// The id of the tool call.
        call: String,
        /// Its effect: `pure`, `reads`, `writes`, `external`.
        effect: String,
        /// The path, the command or the query in its arguments, cut; empty if they say nothing.
        #[serde(rename = "gist")]
        argument_preview: String,
    },
    /// A tool call has ended.
    ToolFinished {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
        /// The tool.
        tool: String,
        /// The id of the tool call.
        call: String,
        /// Its effect.
        effect: String,
        /// The size of its result in bytes.
        bytes: u64,
        /// Its duration in milliseconds.
        duration_ms: u64,
        /// Whether it failed.
        failed: bool,
        /// What gave the answer.
        answered_by: AnsweredBy,
    },
    /// A hook answered instead of a port.
    HookAnswered {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
        /// The name of the hook's node.
        node: String,
        /// The key by which the hook found the answer, if any.
        key: Option<String>,
        /// What the port would have cost.
        saved_usd: Option<f64>,
    },
    /// A hook reports its metrics.
    HookReport {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
        /// The name of the hook's node.
        node: String,
        /// The metrics.
        metrics: Value,
    },
    /// A model call was answered and its answer checked.
    CallSettled {
        /// The visit.
        #[serde(flatten)]
        visit: Visit,
        /// The attempt that was answered, from 0.
        attempt: u32,
        /// The resolved model.
        model: String,
        /// The provider that serves it.
        provider: Option<String>,
        /// Why the model stopped.
        finish: String,
        /// The tokens, if counted.
        usage: Option<Usage>,
        /// How many of the prompt's tokens the provider had cached.
        cached_tokens: Option<u64>,
        /// US dollars, if a price is known.
        cost_usd: Option<f64>,
        /// The duration of the attempt in milliseconds.
        duration_ms: u64,
        /// What gave the answer.
        answered_by: AnsweredBy,
        /// Why the answer was refused, if it was.
        refused: Option<String>,
    },
    /// A step was synced.
    StepCommitted {
        /// Its role.
        role: RoleName,
        /// The role's visit in the lane, from 1.
        visit: u64,
        /// Its lane.
        lane: LanePath,
        /// Its number in the thread, from 1.
        seq: u64,
        /// Its digest.
        step: Digest,
        /// The steps that it follows.
        prev: Vec<Digest>,
        /// The status it chose.
        status: Status,
    },
    /// An edge was chosen.
    EdgeTaken {
        /// The visit whose step the edge leaves.
        #[serde(flatten)]
        visit: Visit,
        /// The role of that visit, or `start`.
        from: String,
        /// The status that chose it.
        status: Option<Status>,
        /// The visits it leads to; none at `end` and `fail`.
        to: Vec<Target>,
    },
    /// A lane of a fan-out has ended.
    LaneEnded {
        /// The last visit of the lane.
        #[serde(flatten)]
        visit: Visit,
        /// How it ended.
        how: LaneEnd,
    },
    /// A line for the user.
    Said {
        /// The visit whose step it follows.
        #[serde(flatten)]
        visit: Visit,
        /// The line.
        text: String,
    },
    /// The thread waits for a person.
    ThreadWaiting {
        /// The visit that needs the answer.
        #[serde(flatten)]
        visit: Visit,
        /// The digest by which an answer names the form.
        digest: Digest,
        /// The form to fill in.
        form: Value,
    },
    /// The thread has ended.
    ThreadFinished {
        /// How it ended.
        outcome: Outcome,
        /// The digest of the trunk's last step.
        head: Option<Digest>,
        /// The status of that step.
        status: Option<Status>,
        /// The reason, after `fail`.
        reason: Option<String>,
        /// The workflow's result.
        result: Value,
    },
    /// A run stopped, or could not continue.
    Error {
        /// The code, such as `RN1003`.
        code: String,
        /// What happened.
        message: String,
        /// How the thread continues, and what to change before it; `None` if the message says it.
        #[serde(default, rename = "hint_parts")]
        hint: Option<Hint>,
        /// The location of the error.
        #[serde(rename = "where")]
        place: Option<Location>,
    },
    /// A compaction or a rebind was synced. Its JSON is that of a step, with `null` for what it lacks.
    #[serde(untagged)]
    #[strum(serialize = "step_committed")]
    EpochOpened(EpochOpened),
}

impl What {
    /// The name of the event, as its JSON has it.
    pub fn name(&self) -> &'static str {
        self.into()
    }

    /// Whether it follows from the store, so that it can be read again.
    pub fn is_durable(&self) -> bool {
        matches!(
            self,
            Self::ThreadStarted { .. }
                | Self::StepCommitted { .. }
                | Self::EpochOpened(_)
                | Self::EdgeTaken { .. }
                | Self::Said { .. }
                | Self::LaneEnded { .. }
                | Self::ThreadWaiting { .. }
                | Self::ThreadFinished { .. }
        )
    }

    /// A record was synced.
    pub fn committed(
        CommittedSite { role, visit, lane }: CommittedSite,
        (seq, step, prev): (u64, Digest, Vec<Digest>),
        status: Option<Status>,
    ) -> Self {
        match (role, visit, lane, status) {
            (Some(role), Some(visit), Some(lane), Some(status)) => {
                Self::StepCommitted { role, visit, lane, seq, step, prev, status }
            }
            (role, _, lane, _) => {
                let (event, visit, status) = (CommittedWord::StepCommitted, None, None);
                Self::EpochOpened(EpochOpened { event, role, visit, lane, seq, step, prev, status })
            }
        }
    }

    /// What followed in `thread` from the step of `visit`, which chose `status`. Events that follow from the start have
    /// the visit of `start` and no status.
    pub fn followed(thread: &ThreadId, visit: &Visit, status: Option<&Status>, followed: Followed) -> Self {
        match followed {
            Followed::Edge { to } => {
                Self::EdgeTaken { visit: visit.clone(), from: visit.role.to_string(), status: status.cloned(), to }
            }
            Followed::Said { text } => Self::Said { visit: visit.clone(), text },
            Followed::LaneEnded { visit, how } => Self::LaneEnded { visit, how },
            Followed::Waiting { visit, form } => Self::waiting(thread, visit, form),
        }
    }

    /// A form of `thread` was opened.
    pub fn waiting(thread: &ThreadId, visit: Visit, form: Value) -> Self {
        Self::ThreadWaiting { digest: form_digest(thread, &visit, &form), visit, form }
    }
}

/// The digest by which an answer names a form: of its thread and visit, and of the whole call if it asks for an
/// approval. A visit asks for one form, or for the approval of several calls in sequence.
pub fn form_digest(thread: &ThreadId, visit: &Visit, form: &Value) -> Digest {
    let named = Value::from_iter([
        ("thread", Value::from(thread.as_str())),
        ("role", Value::from(visit.role.as_str())),
        ("lane", Value::from(visit.lane.as_str())),
        ("visit", Value::from(visit.visit)),
        ("approval", form.get("approval").cloned().unwrap_or_default()),
    ]);
    Digest::sha256(format!("rondo/form/v1\n{}", named.to_text()).as_bytes())
}

/// The visit of a committed record. A compaction is of a role and a lane; a rebind has none of the three.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedSite {
    pub role: Option<RoleName>,
    pub visit: Option<u64>,
    pub lane: Option<LanePath>,
}

impl From<Visit> for CommittedSite {
    fn from(Visit { role, visit, lane }: Visit) -> Self {
        Self { role: Some(role), visit: Some(visit), lane: Some(lane) }
    }
}

/// A new epoch in a thread: of a role in a lane by a compaction, of all roles by a rebind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EpochOpened {
    event: CommittedWord,
    /// The role; `None` for a rebind.
    pub role: Option<RoleName>,
    /// Nothing, but a reader takes what is there.
    visit: Option<u64>,
    /// The lane; `None` for a rebind.
    pub lane: Option<LanePath>,
    /// Its number in the thread, from 1.
    pub seq: u64,
    /// Its digest.
    pub step: Digest,
    /// The steps that it follows.
    pub prev: Vec<Digest>,
    status: Option<Status>,
}

/// The name of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CommittedWord {
    StepCommitted,
}

/// The location of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Location {
    /// In a file; lines and columns count from 1, columns in code points.
    File {
        /// The name as given.
        file: String,
        /// From 1.
        line: u32,
        /// From 1.
        column: u32,
    },
    /// In a thread.
    Thread {
        /// The thread.
        thread: ThreadId,
        /// The role, if a visit had started.
        role: Option<RoleName>,
        /// The visit.
        visit: Option<u64>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_number_has_one_spelling_and_grows() {
        let id: EventId = "12.3".parse().unwrap();
        assert_eq!((id, id.to_string()), (EventId { seq: 12, k: 3 }, "12.3".to_owned()));
        assert!(id < id.next() && id.next() < EventId { seq: 13, k: 1 });
        for bad in ["", "1", "1.", ".1", "01.1", "1.01", "1.1.1", "-1.1", "+1.1", "1.4294967296"] {
            assert_eq!(bad.parse::<EventId>(), Err(NoEventId), "{bad}");
        }
    }
}
