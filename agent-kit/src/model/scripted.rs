//! A provider that answers from a script.

use std::sync::Arc;
use std::time::Duration;

use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, ModelCall, Site};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::{Part, Parts, ToolUse};
use rondo_protocol::object::{Finish, ModelReply};

use super::script::{Attempt, Place, Said, Script, ScriptRoles, ToolRequest};
use super::{Completion, Deltas, Model};

const PARTS: usize = 4;

/// Plays a script. It keeps no position: the call says how many attempts preceded it.
#[derive(Debug, Clone)]
pub struct Scripted {
    script: Arc<Script>,
    roles: Arc<ScriptRoles>,
    /// The roles above that run the thread, the outermost first; empty for one that is no child.
    above: Vec<Place>,
}

impl Scripted {
    pub fn new(script: Arc<Script>, roles: Arc<ScriptRoles>) -> Self {
        Self { script, roles, above: Vec::new() }
    }

    /// Plays the same script for the child that `role` runs in a lane.
    #[must_use]
    pub fn within(&self, role: &RoleName, lane: &LanePath) -> Self {
        let above = self.above.iter().cloned().chain([(role.clone(), lane.clone())]);
        Self { above: above.collect(), ..self.clone() }
    }

    /// Whether there is an entry for attempt `ordinal` (from 0) of the role at `site`.
    pub fn has(&self, site: &Site, ordinal: u64) -> bool {
        self.attempt(site, ordinal).is_some()
    }

    /// Whether the script answers for the role at `site`; a tool role without answers runs its tool.
    pub fn speaks_for(&self, site: &Site) -> bool {
        self.script.speaks_for(&self.roles, &self.path(site))
    }

    /// Returns the script's answer to attempt `ordinal` (from 0) of the role at `site`, after its pause. For a person
    /// it is the form as canonical JSON, for a tool its text.
    ///
    /// # Errors
    /// The scripted fault, or class `ScriptEnd` when the script has no entry left.
    ///
    /// # Cancel safety
    /// Dropping the future ends the pause; no state remains.
    pub async fn play(&self, site: &Site, ordinal: u64) -> Result<ModelReply, Fault> {
        let Some(attempt) = self.attempt(site, ordinal) else {
            return Err(self.end(site));
        };
        if attempt.delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(attempt.delay_ms)).await;
        }
        let (parts, finish) = match &attempt.said {
            Said::Structured { status, fields, body } => {
                let name = self.name(site, |(role, _)| role.to_string());
                let part = self.roles.roles.get(&name);
                let text = part.map(|part| part.text(status.as_deref(), fields, body)).unwrap_or_default();
                (Parts::said(text), Finish::Stop)
            }
            Said::Raw(text) => (Parts::said(text.as_str()), Finish::Stop),
            Said::Tools(tools) => (uses(tools, ordinal), Finish::ToolCalls),
            Said::Error(failure) => return Err(failure.fault()),
        };
        Ok(ModelReply { finish, parts })
    }

    fn path(&self, site: &Site) -> Vec<Place> {
        self.above.iter().cloned().chain([(site.role.clone(), site.lane.clone())]).collect()
    }

    fn name(&self, site: &Site, of_above: impl Fn(&Place) -> String) -> String {
        let above = self.above.iter().map(of_above);
        above.chain([site.role.to_string()]).collect::<Vec<_>>().join("/")
    }

    fn attempt(&self, site: &Site, ordinal: u64) -> Option<&Attempt> {
        self.script.attempt(&self.roles, &self.path(site), ordinal)
    }

    fn end(&self, site: &Site) -> Fault {
        let lane = if site.lane.is_trunk() { String::new() } else { format!(" in lane {}", site.lane) };
        let message = format!(
            "the script has no entry left for role `{}`, visit {}{lane}; add one and resume",
            self.name(site, |(role, lane)| lane.role_in_lane(role)),
            site.visit
        );
        Fault::new(Code::ScriptEnd, FaultClass::ScriptEnd, message)
    }
}

impl Model for Scripted {
    fn is_paid(&self) -> bool {
        false
    }

    fn is_script(&self) -> bool {
        true
    }

    fn complete<'a>(&'a self, call: &'a ModelCall, deltas: &'a dyn Deltas) -> Completion<'a> {
        Box::pin(async move {
            let reply = self.play(&call.site, call.ordinal).await?;
            for part in pieces(&reply.parts.text()) {
                deltas.text(part);
            }
            // A script has no token counts.
            Ok(ModelAnswer { reply, usage: None, cost_usd: None })
        })
    }
}

/// The tool calls of one reply. Their ids differ from those of every other reply to the role in that lane.
fn uses(tools: &[ToolRequest], ordinal: u64) -> Parts {
    let use_of = |(at, tool): (usize, &ToolRequest)| {
        Part::ToolCall(ToolUse {
            arguments: tool.arguments.clone(),
            id: format!("call_{ordinal}_{at}"),
            name: tool.name.clone(),
        })
    };
    tools.iter().enumerate().map(use_of).collect()
}

/// Splits a text into a few parts, as in a stream.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let size = text.len().div_ceil(PARTS).max(1);
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = (size..rest.len()).find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(at);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}
