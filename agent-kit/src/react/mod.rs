//! The loop of one turn: ask the model, run the tools it asks for, mend an answer that breaks its contract, until
//! there is an answer or a limit.
//!
//! What comes next is decided by the pure [`turn::Turn`]; this file carries it out through [`Effects`] and nothing
//! else.

mod turn;

use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::Digest;
use rondo_protocol::call::{Call, Effect, Fault, ModelCall, Site, ToolCall, TurnCall, TurnReply};
use rondo_protocol::message::{Conversation, ToolUse};
use rondo_protocol::object::Head;

use crate::answer::Contract;
use crate::effects::Effects;
pub use turn::spoken;
use turn::{Next, Turn};

/// An answer that breaks its contract is sent back this often.
pub const REPAIRS: u32 = 2;

/// What one role needs to take its turn.
#[derive(Debug)]
pub struct Agent {
    /// What its answers must be.
    pub contract: Contract,
    /// The logical name of its first model.
    pub model: String,
    /// Model calls of one turn.
    pub model_calls: u64,
    /// Tool calls of one turn.
    pub tool_calls: u64,
    /// What each tool says it does to the world; a tool that is not here is unknown.
    pub effects: std::collections::BTreeMap<String, Effect>,
}

/// Takes a turn. `asked` is the turn as the thread's steps give it; `call` is what reached the loop, which differs
/// when a hook rewrote it.
///
/// # Errors
/// The fault of a call that could not be had, of a limit, or of an answer that broke its contract too often.
///
/// # Cancel safety
/// Dropping the future drops the call in flight; what was answered before is in the journal behind `effects`.
pub async fn run(
    agent: &Agent,
    call: TurnCall,
    asked: &TurnCall,
    effects: &mut dyn Effects,
) -> Result<TurnReply, Fault> {
    let TurnCall { site, head_digest, head, conversation } = call;
    let rewritten = head_digest != asked.head_digest || conversation.chain() != asked.conversation.chain();
    let shadow = rewritten.then(|| (asked.head_digest, Conversation::clone(&asked.conversation)));
    let mut turn = Turn::new(agent, conversation, shadow);
    let mut place = Place { site, position: 0 };
    loop {
        match turn.next()? {
            Next::Ask(conversation) => {
                let call = model_call(agent, place.next(), head_digest, &head, conversation);
                let performed = effects.perform(Call::Model(call)).await?;
                let verdict = turn.replied(performed)?;
                effects.settle(verdict).await;
            }
            Next::Use(tool) => {
                let call = tool_call(agent, place.next(), &tool);
                let performed = effects.perform(Call::Tool(call)).await?;
                turn.used(tool, performed)?;
            }
            Next::Done(reply) => return Ok(*reply),
        }
    }
}

/// Where the next call stands.
struct Place {
    site: Site,
    position: u32,
}

impl Place {
    fn next(&mut self) -> Site {
        let site = Site { position: self.position, ..self.site.clone() };
        self.position = self.position.saturating_add(1);
        site
    }
}

/// The first attempt of a model call. Whoever retries it sets attempt, ordinal, model and time.
fn model_call(
    agent: &Agent,
    site: Site,
    head_digest: Digest,
    head: &Arc<Head>,
    conversation: Arc<Conversation>,
) -> ModelCall {
    ModelCall {
        site,
        attempt: 0,
        ordinal: 0,
        model: agent.model.clone(),
        head_digest,
        head: Arc::clone(head),
        conversation,
        time_left: Duration::MAX,
    }
}

fn tool_call(agent: &Agent, site: Site, tool: &ToolUse) -> ToolCall {
    let Site { thread, role, lane, visit, position } = &site;
    let idempotency_key = format!("{thread}/{lane}/{role}/{visit}/{position}");
    ToolCall {
        id: tool.id.clone(),
        name: tool.name.clone(),
        arguments: tool.arguments.clone(),
        // What an unknown tool does to the world is nothing: the port answers that there is none.
        effect: agent.effects.get(&tool.name).cloned().unwrap_or(Effect::Pure),
        idempotency_key,
        site,
    }
}

#[cfg(test)]
mod tests;
