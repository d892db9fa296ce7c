//! The tools that a reply asks for: which of them can be called, which are answered without a call, and which may run
//! side by side.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rondo_protocol::Digest;
use rondo_protocol::call::{Effect, Fault, ToolReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::message::ToolUse;

use crate::tool::{Error, Toolbox};

/// The same call, with nothing done in between that could change its result, is made this often.
pub const IDENTICAL_CALLS: u32 = 3;

/// Calls that run side by side.
pub(super) const SIDE_BY_SIDE: usize = 8;

/// A use of a tool, ready to be called or answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    /// As the model asked.
    pub tool: ToolUse,
    /// What comes of it.
    pub plan: Plan,
}

/// What comes of a use.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plan {
    /// The tool of this name is called.
    Call {
        /// Its name in workflows.
        name: String,
        /// What the call does to the world.
        effect: Effect,
        /// Equal calls have equal keys.
        key: Digest,
    },
    /// It is answered without a call.
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

/// What a reply asks for and has not been answered yet, and what was called before in the turn.
#[derive(Debug, Default)]
pub(super) struct Uses {
    waiting: VecDeque<Planned>,
    /// How often each call was made since something was changed.
    made: BTreeMap<Digest, u32>,
}

impl Uses {
    /// Takes in what a reply asks for, all of it before any of it is called.
    ///
    /// # Errors
    /// When it asks for a tool that the role names and may not use.
    pub(super) fn take(&mut self, uses: &[ToolUse], toolbox: &Toolbox) -> Result<(), Fault> {
        let mut ids = BTreeSet::new();
        for tool in uses {
            let plan = if tool.id.is_empty() || !ids.insert(tool.id.as_str()) {
                let message = if tool.id.is_empty() {
                    "the call has no id, so nothing was done; call again with an id"
                } else {
                    "another call of the same reply has this id, so nothing was done; call again with an id of its own"
                };
                Plan::answer(&Error::new(Code::ToolCallId, message))
            } else {
                plan(tool, toolbox)?
            };
            self.waiting.push_back(Planned { tool: tool.clone(), plan });
        }
        Ok(())
    }

    /// Takes in what a reply asks for that was cut: none of it is called.
    pub(super) fn refuse(&mut self, uses: &[ToolUse]) {
        let message = "the reply was cut at its output limit, so none of its calls was made; call again and say less \
                       in one reply";
        let plan = Plan::answer(&Error::new(Code::CallsCut, message));
        self.waiting.extend(uses.iter().map(|tool| Planned { tool: tool.clone(), plan: plan.clone() }));
    }

    /// The next uses: one that changes something, or as many as change nothing and may run side by side.
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

    /// Takes in how a call went: one that changed something makes it worth asking again for everything else.
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
    let key = Digest::sha256(format!("{name}\n{}", arguments.value().to_text()).as_bytes());
    Ok(Plan::Call { effect: offer.tool.effect(arguments.value()), name, key })
}

fn repeated(name: &str) -> Error {
    let message = format!(
        "{name} was called with these arguments {IDENTICAL_CALLS} times and nothing has changed since; it was not called \
         again: use what it said, or do something else"
    );
    Error::new(Code::RepeatedCall, message)
}
