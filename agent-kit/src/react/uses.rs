//! The tool calls of a reply: which are made, which are answered without a call, and which may run side by side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_protocol::Digest;
use rondo_protocol::call::{Effect, Fault, ToolReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::ToolUse;

use crate::tool::{Error, Toolbox};

/// How often the same call is made when nothing done in between could change its result.
const IDENTICAL_CALLS: u32 = 3;

pub(super) const SIDE_BY_SIDE: usize = 8;

/// A tool call, ready to be made or answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    /// The call as the model asked for it.
    pub tool: ToolUse,
    pub plan: Plan,
}

/// What the loop does with a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plan {
    /// Calls the tool of this name.
    Call {
        name: String,
        effect: Effect,
        /// Equal calls have equal keys.
        key: Digest,
    },
    Answer(ToolReply),
}

impl Plan {
    fn answer(error: &Error) -> Self {
        Self::Answer(ToolReply::failed(error.to_string(), Some(error.code)))
    }

    fn changes_nothing(&self) -> bool {
        match self {
            Self::Call { effect, .. } => effect.is_repeatable(),
            Self::Answer(_) => true,
        }
    }
}

/// The tool calls of a reply that are not answered yet, and the calls made earlier in the turn.
#[derive(Debug, Default)]
pub(super) struct Uses {
    waiting: VecDeque<Planned>,
    /// How often each call was made since the last change.
    made: BTreeMap<Digest, u32>,
}

impl Uses {
    /// Plans all tool calls of a reply before any is made.
    ///
    /// # Errors
    /// When the reply asks for a tool that the role names and may not use.
    pub(super) fn take(&mut self, uses: &[ToolUse], toolbox: &Toolbox) -> Result<(), Fault> {
        let mut ids = BTreeSet::new();
        for tool in uses {
            let refused = |why: &str| Plan::answer(&Error::new(Code::ToolCallId, why));
            let plan = if tool.id.is_empty() {
                refused("the call has no id, so nothing was done; call again with an id")
            } else if !ids.insert(tool.id.as_str()) {
                refused(
                    "another call of the same reply has this id, so nothing was done; call again with an id of its own",
                )
            } else {
                plan(tool, toolbox)?
            };
            self.waiting.push_back(Planned { tool: tool.clone(), plan });
        }
        Ok(())
    }

    /// Answers the tool calls of a cut reply: none is made.
    pub(super) fn refuse(&mut self, uses: &[ToolUse]) {
        let message = "the reply was cut at its output limit, so none of its calls was made; call again and say less \
                       in one reply";
        let plan = Plan::answer(&Error::new(Code::CallsCut, message));
        self.waiting.extend(uses.iter().map(|tool| Planned { tool: tool.clone(), plan: plan.clone() }));
    }

    /// Returns the next calls: one that changes something, or several that change nothing and may run side by side.
    pub(super) fn next(&mut self) -> Vec<Planned> {
        let mut batch = Vec::new();
        while let Some(mut planned) = self.waiting.pop_front() {
            if !batch.is_empty() && (batch.len() == SIDE_BY_SIDE || !planned.plan.changes_nothing()) {
                self.waiting.push_front(planned);
                break;
            }
            let alone = !planned.plan.changes_nothing();
            if let Plan::Call { name, key, .. } = &planned.plan {
                let made = self.made.entry(*key).or_default();
                if *made >= IDENTICAL_CALLS {
                    planned.plan = Plan::answer(&repeated(name));
                } else {
                    *made += 1;
                }
            }
            batch.push(planned);
            if alone {
                break;
            }
        }
        batch
    }

    /// Records the result of a call: after a change, every other call may be repeated.
    pub(super) fn went(&mut self, plan: &Plan, failed: bool) {
        if let Plan::Call { effect, key, .. } = plan
            && !effect.is_repeatable()
            && !failed
        {
            self.made.retain(|made, _| made == key);
        }
    }
}

fn plan(tool: &ToolUse, toolbox: &Toolbox) -> Result<Plan, Fault> {
    let offer = match toolbox.find(&tool.name)? {
        Ok(offer) => offer,
        Err(error) => return Ok(Plan::answer(&error)),
    };
    let arguments = match offer.read(&tool.arguments) {
        Ok(arguments) => arguments,
        Err(error) => return Ok(Plan::answer(&error)),
    };
    let name = offer.tool.spec().name.clone();
    let key = Digest::sha256(format!("{name}\n{}", arguments.to_text()).as_bytes());
    Ok(Plan::Call { effect: offer.tool.effect(&arguments), name, key })
}

fn repeated(name: &str) -> Error {
    let message = format!(
        "{name} was called with these arguments {IDENTICAL_CALLS} times and nothing has changed since; it was not called \
         again: use what it said, or do something else"
    );
    Error::new(Code::RepeatedCall, message)
}
