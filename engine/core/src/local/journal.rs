//! The journal of a step in flight: the answers it already has, so that a crash repeats nothing.
//!
//! A record is written before the run acts on it. Model replies are synced, as are intents and results of tools with
//! effects. The commit itself stores the reply that ends the step. A record of failed attempts tells how much of a
//! script was used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::effects::Sent;
use rondo_protocol::Digest;
use rondo_protocol::call::{Billed, ModelAnswer, ToolReply};
use rondo_protocol::canonical;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use serde::{Deserialize, Serialize};

use crate::store::{self, JournalRecord, Read};

/// The most bytes of repeatable tool results that wait to be written.
const MOST_PENDING_BYTES: usize = 4 << 20;

/// A record. A `position` is that of a call in the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Record {
    Model(Box<ModelRecord>),
    /// A tool with effects is about to be called.
    Intent {
        position: u32,
        /// The use that it answers.
        id: String,
        /// The tool, by its name in workflows.
        tool: String,
    },
    /// The call of an intent was not made.
    Unmade {
        position: u32,
    },
    Tool(ToolRecord),
    /// A child thread with this id is about to start.
    Child {
        thread: ThreadId,
    },
    /// Failed attempts of a call that was given up, or whose answer was not usable.
    Failed {
        attempts: u64,
        /// That answer, which was paid for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answer: Option<Box<ModelRecord>>,
    },
    /// What a provider billed for a failed attempt.
    Billed(Billed),
    /// A person said whether a tool call may be made.
    #[serde(rename = "decided")]
    Approval {
        position: u32,
        decision: ApprovalDecision,
    },
    /// The text of a compaction was refused. The records before this one are of that text, those after it of the visit.
    Refused,
}

/// A person's decision about a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApprovalDecision {
    /// Whether it may be made.
    pub is_allowed: bool,
    /// Why not.
    pub why: String,
    /// The person's account.
    pub person: String,
}

/// The part of a lane's journal that a visit uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalPart {
    /// What the text of a compaction has.
    Compaction,
    /// What the visit itself has.
    Visit,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ToolRecord {
    pub position: u32,
    /// The use that it answers.
    pub id: String,
    pub reply: ToolReply,
    /// Milliseconds that it took.
    pub duration_ms: u64,
    /// Whether the call can be repeated without effects, so that losing this record loses nothing.
    pub is_repeatable: bool,
}

/// What the journal holds about a tool call.
pub(super) enum JournaledCall {
    /// It was answered.
    Result(ToolRecord),
    /// It was started and may have had its effect.
    Intent,
    /// It was never started.
    Nothing,
}

/// A model's answer and the request that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ModelRecord {
    pub position: u32,
    /// The digest of the request before hooks.
    pub asked: Digest,
    pub attempts: u64,
    pub answer: ModelAnswer,
    pub head: Digest,
    pub request: Digest,
    /// Whether a hook rewrote it.
    pub rewritten: bool,
    /// Objects that no commit has stored yet: the head, with the first answer to it, and the rewritten request.
    pub objects: Vec<JournaledObject>,
    pub model: String,
    /// The logical name of the model, when it is not the role's first.
    pub fallback: Option<String>,
    /// Who was asked: the role and its visit. Earlier versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visit: Option<(RoleName, u64)>,
    /// Why the answer was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournaledObject {
    /// Whether it is a head; otherwise it is a request.
    pub is_head: bool,
    pub digest: Digest,
    /// Its canonical bytes, which are text.
    #[serde(with = "shared_text")]
    pub text: Arc<[u8]>,
}

/// Text as shared bytes: most records are never written, because the commit of their step holds the answer, and copy
/// nothing.
mod shared_text {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer, ser};

    pub(super) fn serialize<S: Serializer>(bytes: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(bytes).map_err(ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
        Ok(String::deserialize(deserializer)?.into_bytes().into())
    }
}

impl ModelRecord {
    pub(super) fn sent(&self) -> Sent {
        Sent {
            head: self.head,
            request: self.request,
            asked: self.rewritten.then_some(self.asked),
            model: self.model.clone(),
            fallback: self.fallback.clone(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    /// The answers that an earlier process left.
    pub(super) models: BTreeMap<u32, ModelRecord>,
    /// The answers that ended an earlier run of the visit: paid for, and not given again.
    pub(super) given_up: Vec<ModelRecord>,
    /// What an earlier process was billed for failed attempts.
    pub(super) billed: Vec<Billed>,
    /// The results that an earlier process left.
    pub(super) tools: BTreeMap<u32, ToolRecord>,
    /// Calls that an earlier process started: position and use.
    intents: BTreeMap<u32, String>,
    /// Calls without a result, by this and earlier processes: position and tool. It is unknown whether they had their
    /// effect.
    pub(super) open: BTreeMap<u32, String>,
    /// Heads stored with an answer.
    heads: BTreeSet<Digest>,
    /// What people said of calls, by position.
    decided: BTreeMap<u32, ApprovalDecision>,
    /// The child thread of the step.
    pub(super) child: Option<ThreadId>,
    /// Whether the text of a compaction was refused in it, before the visit.
    pub(super) has_refused: bool,
    /// Attempts in all records.
    pub(super) attempts: u64,
    /// The number of the next record.
    next: u32,
    /// Records to write, and whether one of them must be synced before the run acts on it.
    pending: Vec<Record>,
    pending_bytes: usize,
    must_sync: bool,
}

impl Journal {
    /// Reads what the store has kept of the step in flight in `lane`. A caller that knows there is nothing uses an
    /// empty journal.
    pub(super) fn read(
        store: &dyn Read,
        thread: &ThreadId,
        lane: &LanePath,
        part: JournalPart,
    ) -> Result<Self, store::Error> {
        let mut journal = Self::default();
        for stored in store.journal(thread, lane)? {
            journal.next = stored.position.saturating_add(1);
            if journal.has_refused && part == JournalPart::Compaction {
                continue;
            }
            let record: Record = canonical::from_slice(&stored.bytes).map_err(|error| {
                let what = format!("record {} of the journal of thread {thread}: {error}", stored.position);
                store::Damage::new(what).of_thread(thread)
            })?;
            match record {
                Record::Model(record) => {
                    journal.attempts += record.attempts;
                    journal.models.insert(record.position, *record);
                }
                Record::Intent { position, id, tool } => {
                    journal.intents.insert(position, id);
                    journal.open.insert(position, tool);
                }
                Record::Unmade { position } => {
                    journal.intents.remove(&position);
                    journal.open.remove(&position);
                }
                Record::Tool(record) => {
                    journal.open.remove(&record.position);
                    journal.tools.insert(record.position, record);
                }
                Record::Approval { position, decision } => {
                    journal.decided.insert(position, decision);
                }
                Record::Child { thread } => journal.child = Some(thread),
                Record::Failed { attempts, answer } => {
                    journal.attempts += attempts;
                    journal.given_up.extend(answer.map(|answer| *answer));
                }
                Record::Billed(billed) => journal.billed.push(billed),
                Record::Refused if part == JournalPart::Visit => {
                    journal = Self { has_refused: true, next: journal.next, ..Self::default() };
                }
                Record::Refused => journal.has_refused = true,
            }
        }
        Ok(journal)
    }

    /// The answer that the model call at `position` already has. It is valid even if the model or the description of a
    /// tool has changed since: a call that was acted on is not repeated.
    pub(super) fn model(&mut self, position: u32) -> Option<ModelRecord> {
        let record = self.models.remove(&position)?;
        self.heads.insert(record.head);
        Some(record)
    }

    /// Whether an earlier process left records of this step.
    pub(super) fn has_begun(&self) -> bool {
        self.attempts > 0
            || !self.billed.is_empty()
            || !(self.models.is_empty() && self.tools.is_empty() && self.intents.is_empty())
    }

    /// Marks the answer at `position` as refused, unless an earlier process wrote it.
    pub(super) fn refuse(&mut self, position: u32, why: &str) {
        for record in &mut self.pending {
            if let Record::Model(model) = record
                && model.position == position
            {
                model.refused = Some(why.to_owned());
            }
        }
    }

    /// Whether a head has to be stored with the next answer, because no commit has stored it yet.
    pub(super) fn lacks_head(&mut self, head: Digest) -> bool {
        self.heads.insert(head)
    }

    /// What the journal holds about the tool call at `position`.
    pub(super) fn tool(&mut self, position: u32, id: &str) -> JournaledCall {
        if let Some(record) = self.tools.remove(&position).filter(|record| record.id == id) {
            return JournaledCall::Result(record);
        }
        match self.intents.remove(&position) {
            Some(intended) if intended == id => JournaledCall::Intent,
            _ => JournaledCall::Nothing,
        }
    }

    /// Adds a record, to be written before the run acts on it.
    pub(super) fn add(&mut self, record: Record) {
        if let Record::Tool(ToolRecord { reply, is_repeatable: true, .. }) = &record {
            // These results can be obtained again, so they wait for the next record that must be synced, up to a limit
            // of memory.
            self.pending_bytes = self.pending_bytes.saturating_add(reply.size_bytes());
            self.must_sync |= self.pending_bytes > MOST_PENDING_BYTES;
        } else {
            self.must_sync = true;
        }
        match &record {
            Record::Intent { position, tool, .. } => {
                self.open.insert(*position, tool.clone());
            }
            Record::Unmade { position } | Record::Tool(ToolRecord { position, .. }) => {
                self.open.remove(position);
            }
            Record::Approval { position, decision } => {
                self.decided.insert(*position, decision.clone());
            }
            Record::Model(_) | Record::Child { .. } | Record::Failed { .. } | Record::Billed(_) | Record::Refused => {}
        }
        self.pending.push(record);
    }

    /// Ends the records of a compaction whose text may be refused: a resumed run does not ask for it again.
    pub(super) fn end_compaction(&mut self) {
        if !self.has_refused {
            self.has_refused = true;
            self.add(Record::Refused);
        }
    }

    /// What a person said of the call at `position`.
    pub(super) fn decided(&self, position: u32) -> Option<&ApprovalDecision> {
        self.decided.get(&position)
    }

    /// The person who decided about the last of the calls.
    pub(super) fn decided_by(&self) -> Option<&str> {
        self.decided.last_key_value().map(|(_, decided)| decided.person.as_str())
    }

    /// Counts a call that failed for good.
    pub(super) fn failed_attempt(&mut self) {
        self.attempts += 1;
        self.add(Record::Failed { attempts: 1, answer: None });
    }

    /// Turns an answer that is not written yet into a failed one: it must not be given again.
    pub(super) fn give_up_pending(&mut self) {
        for record in &mut self.pending {
            if let Record::Model(model) = record {
                *record = Record::Failed { attempts: model.attempts, answer: Some(model.clone()) };
            }
        }
    }

    /// Every record that is not written yet, for a visit that no step follows.
    pub(super) fn take_rest(&mut self, lane: &LanePath) -> Result<Vec<JournalRecord>, store::Error> {
        self.must_sync = !self.pending.is_empty();
        self.take_pending(lane)
    }

    /// The records to write and sync now. Results of repeatable tools wait for the next record that must be synced.
    /// What the step's own commit stores is never written.
    ///
    /// # Errors
    /// [`store::Error::Malformed`] when a record has no canonical form; none is taken then.
    pub(super) fn take_pending(&mut self, lane: &LanePath) -> Result<Vec<JournalRecord>, store::Error> {
        if !self.must_sync {
            return Ok(Vec::new());
        }
        let written = self.pending.iter().zip(self.next..).map(|(record, position)| {
            let malformed =
                |error| store::Error::Malformed { what: format!("record {position} of a journal: {error}") };
            let bytes = canonical::to_bytes(record).map_err(malformed)?;
            Ok(JournalRecord { lane: lane.clone(), position, bytes })
        });
        let records: Vec<JournalRecord> = written.collect::<Result<_, store::Error>>()?;
        self.must_sync = false;
        self.pending.clear();
        self.pending_bytes = 0;
        self.next = self.next.saturating_add(u32::try_from(records.len()).unwrap_or(u32::MAX));
        Ok(records)
    }
}
