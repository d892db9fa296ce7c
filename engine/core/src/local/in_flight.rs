//! Visits whose step is not committed, as the journal tells them to readers.

use std::collections::BTreeMap;

use rondo_agent_kit::answer::{ContractFault, repair_text};
use rondo_protocol::Digest;
use rondo_protocol::call::ModelAnswer;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::message::ToolUse;
use rondo_protocol::object::{ModelReply, Usage};
use schemars::JsonSchema;
use serde::Serialize;

use super::journal::{Journal, JournalPart, ModelRecord, ToolRecord};
use crate::store::{Error, Read};

/// What a visit that is not committed has been answered so far, or the text of a compaction before it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VisitInFlight {
    /// The role; `None` if no record names it.
    pub role: Option<RoleName>,
    /// The role's visit.
    pub visit: Option<u64>,
    /// The lane.
    pub lane: LanePath,
    /// The child thread that the role runs.
    pub child: Option<ThreadId>,
    /// Its calls, in the order of their positions.
    pub calls: Vec<CallInFlight>,
}

/// A call of such a visit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CallInFlight {
    /// A model answered.
    Model(Box<ModelInFlight>),
    /// A tool was called.
    Tool(ToolInFlight),
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ModelInFlight {
    /// The digest of the request that was sent.
    pub request: Digest,
    /// The digest of the request before a hook rewrote it.
    pub asked: Option<Digest>,
    /// The resolved model.
    pub model: String,
    /// The number of attempts.
    pub attempts: u64,
    /// The tokens, if counted.
    pub usage: Option<Usage>,
    /// US dollars, if a price is known.
    pub cost_usd: Option<f64>,
    /// Why the answer was refused, if it was.
    pub refused: Option<String>,
    /// The message that asks for it again.
    pub repair: Option<String>,
    /// Whether the run stopped with this answer, so that a resumed one asks for it anew.
    pub given_up: bool,
    /// The answer.
    pub reply: ModelReply,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToolInFlight {
    /// The name that the role used; `None` if no answer in the journal asks for the call.
    pub name: Option<String>,
    /// The arguments as the role gave them.
    pub arguments: Option<String>,
    /// The result; `None` if the call was begun and whether it had its effect is not known.
    pub text: Option<String>,
    /// Whether it failed.
    pub failed: bool,
    /// Its duration in milliseconds.
    pub duration_ms: Option<u64>,
}

/// The visits of a thread that are not committed and of which the journal holds something: in path order of
/// their lanes.
pub fn in_flight(store: &dyn Read, thread: &ThreadId) -> Result<Vec<VisitInFlight>, Error> {
    let mut found = Vec::new();
    for lane in store.journaled_lanes(thread)? {
        let visit = Journal::read(store, thread, &lane, JournalPart::Visit)?;
        if visit.has_refused {
            let compaction = Journal::read(store, thread, &lane, JournalPart::Compaction)?;
            found.extend(of_journal(store, &lane, &compaction)?);
        }
        found.extend(of_journal(store, &lane, &visit)?);
    }
    Ok(found)
}

fn of_journal(store: &dyn Read, lane: &LanePath, journal: &Journal) -> Result<Option<VisitInFlight>, Error> {
    let records: Vec<&ModelRecord> = journal.given_up.iter().chain(journal.models.values()).collect();
    let uses: BTreeMap<&str, &ToolUse> = records
        .iter()
        .flat_map(|record| record.answer.reply.parts.tool_calls())
        .map(|asked| (&*asked.id, asked))
        .collect();
    let mut calls: Vec<(u32, CallInFlight)> = Vec::new();
    let given_up = journal.given_up.iter().map(|record| (record.position, model(record, true)));
    calls.extend(given_up.chain(journal.models.values().map(|record| (record.position, model(record, false)))));
    calls.extend(journal.tools.values().map(|record| (record.position, tool(record, uses.get(&*record.id).copied()))));
    calls.extend(journal.open.iter().map(|(position, name)| (*position, begun(name))));
    // An answer that was given up stands before the one that took its place.
    calls.sort_by_key(|(position, _)| *position);
    let child = journal.child.clone();
    if calls.is_empty() && child.is_none() {
        return Ok(None);
    }
    let mut of = records.iter().find_map(|record| record.visit.clone());
    if let (None, Some(child)) = (&of, &child) {
        of = store.row(child)?.and_then(|row| row.parent).map(|parent| (parent.role, parent.visit));
    }
    let (role, visit) = of.unzip();
    let calls = calls.into_iter().map(|(_, call)| call).collect();
    Ok(Some(VisitInFlight { role, visit, lane: lane.clone(), child, calls }))
}

fn model(record: &ModelRecord, given_up: bool) -> CallInFlight {
    let ModelAnswer { reply, usage, cost_usd } = record.answer.clone();
    // Tool calls are refused in their results.
    let is_repaired = !given_up && reply.parts.tool_calls().next().is_none();
    let refused = record.refused.clone();
    let repair = refused.clone().filter(|_| is_repaired).map(|words| repair_text(&ContractFault { words }));
    CallInFlight::Model(Box::new(ModelInFlight {
        request: record.request,
        asked: record.rewritten.then_some(record.asked),
        model: record.model.clone(),
        attempts: record.attempts,
        usage,
        cost_usd,
        refused,
        repair,
        given_up,
        reply,
    }))
}

fn tool(record: &ToolRecord, asked: Option<&ToolUse>) -> CallInFlight {
    CallInFlight::Tool(ToolInFlight {
        name: asked.map(|asked| asked.name.clone()),
        arguments: asked.map(|asked| asked.arguments.clone()),
        text: Some(record.reply.text.clone()),
        failed: record.reply.failed,
        duration_ms: Some(record.duration_ms),
    })
}

fn begun(name: &str) -> CallInFlight {
    let name = Some(name.to_owned());
    CallInFlight::Tool(ToolInFlight { name, arguments: None, text: None, failed: false, duration_ms: None })
}
