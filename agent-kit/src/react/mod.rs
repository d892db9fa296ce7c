//! The loop of one turn: asks the model, runs the tools it asks for and sends back answers that break the contract,
//! until there is an answer or a limit is reached.
//!
//! The pure [`turn::Turn`] decides the next action; this file carries it out, only through [`Effects`].

mod turn;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::call::{
    Call, Effect, Fault, Files, ModelCall, Reply, Site, ToolCall, ToolReply, TurnCall, TurnReply,
};
use rondo_protocol::message::Conversation;

use crate::answer::Contract;
use crate::effects::Effects;
use crate::tool::Toolbox;
use turn::{Next, Turn, mismatched};
use uses::{Plan, Planned};

/// How often an answer that breaks its contract is sent back.
pub const REPAIRS: u32 = 2;
/// The same for a selector's choice, which is short.
pub const SELECTOR_REPAIRS: u32 = 1;

/// The settings of a role's turn.
#[derive(Debug)]
pub struct Agent {
    pub contract: Contract,
    pub repairs: u32,
    /// The logical name of its first model.
    pub model: String,
    /// The maximum number of model calls of one turn.
    pub model_calls: u64,
    /// The maximum number of tool calls of one turn.
    pub tool_calls: u64,
    pub tools: Toolbox,
}

/// Runs a turn. `asked` is the turn as the thread's steps give it; `call` is what reached the loop, which differs when
/// a hook rewrote it.
///
/// # Errors
/// The fault of a failed call, of a limit, or of an answer that broke its contract too often.
///
/// # Cancel safety
/// Dropping the future drops the call in flight; earlier replies are in the journal behind `effects`.
pub async fn run(
    agent: &Agent,
    call: TurnCall,
    asked: &TurnCall,
    effects: &mut dyn Effects,
) -> Result<TurnReply, Fault> {
    let TurnCall { site, head_digest, head, conversation } = call;
    let rewritten = head_digest != asked.head_digest || conversation.chain() != asked.conversation.chain();
    let shadow = rewritten.then(|| (asked.head_digest, Conversation::clone(&asked.conversation)));
    let mut turn = Turn::new(agent, site.role.clone(), conversation, shadow);
    let mut place = Site { position: 0, ..site };
    loop {
        match turn.next()? {
            Next::Ask(conversation) => {
                // The first attempt; a retry sets attempt, ordinal, model, files and time.
                let call = ModelCall {
                    site: next(&mut place),
                    attempt: 0,
                    ordinal: 0,
                    model: agent.model.clone(),
                    head_digest,
                    head: Arc::clone(&head),
                    conversation,
                    files: Files::default(),
                    time_left: Duration::MAX,
                };
                let performed = effects.perform(Call::Model(call)).await?;
                // A reply that ends the visit was paid for like any other.
                let refused = turn.replied(performed);
                effects.settle(refused.as_ref().map_or_else(|fault| Some(fault.message.clone()), Clone::clone)).await;
                refused?;
            }
            Next::Use(uses) => {
                let replies = answers(&uses, &mut place, effects).await?;
                for (planned, reply) in uses.into_iter().zip(replies) {
                    turn.used(planned, reply);
                }
            }
            Next::Done(reply) => return Ok(*reply),
        }
    }
}

/// The site of the next call of a turn.
fn next(place: &mut Site) -> Site {
    let position = place.position.saturating_add(1);
    std::mem::replace(place, Site { position, ..place.clone() })
}

/// Answers the tool calls, in their order; several calls run side by side.
async fn answers(uses: &[Planned], place: &mut Site, effects: &mut dyn Effects) -> Result<Vec<ToolReply>, Fault> {
    let mut answers: Vec<Option<ToolReply>> = Vec::with_capacity(uses.len());
    let mut calls = Vec::new();
    for planned in uses {
        let site = next(place);
        let tool = &planned.tool;
        let call = |name: &str, effect: Effect| ToolCall {
            id: tool.id.clone(),
            name: name.to_owned(),
            arguments: tool.arguments.clone(),
            effect,
            idempotency_key: idempotency_key(&site),
            site: site.clone(),
        };
        match &planned.plan {
            Plan::Call { name, effect, .. } => {
                answers.push(None);
                calls.push(call(name, effect.clone()));
            }
            Plan::Answer(reply) => {
                answers.push(Some(reply.clone()));
                // No call is made, so it has the effect of a pure call.
                effects.answered(call(&tool.name, Effect::Pure), reply.clone()).await;
            }
        }
    }
    let performed = if calls.is_empty() { Vec::new() } else { effects.perform_side_by_side(calls).await? };
    let mut performed = performed.into_iter();
    let mut next = || match performed.next().map(|performed| performed.reply) {
        Some(Reply::Tool(reply)) => Ok(reply),
        _ => Err(mismatched()),
    };
    answers.into_iter().map(|answer| answer.map_or_else(&mut next, Ok)).collect()
}

/// A key from thread, step and call: the same for every execution of one tool call, and different for any other call.
pub fn idempotency_key(site: &Site) -> String {
    let Site { thread, role, lane, visit, position } = site;
    format!("{thread}/{lane}/{role}/{visit}/{position}")
}

#[cfg(test)]
mod tests;
