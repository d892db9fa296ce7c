//! Grants: what the operator lets the roles of a workflow do.
//!
//! A role may make calls that the operator grants, the workflow asks for and the role lists. The last two are the
//! same, because a workflow asks for what its roles list; this module handles the first. Each entry is a [`Rule`].
//! `deny` takes precedence over `approve`, and `approve` over `tools`.

mod ceilings;
mod rule;
mod words;

use futures_util::future::BoxFuture;
use rondo_agent_kit::tool::Spec;
use rondo_protocol::call::{Fault, ToolCall};
use rondo_protocol::id::RoleName;
use serde::{Deserialize, Serialize};

pub use ceilings::Ceilings;
pub use rule::{InvalidRule, Rule};

/// What the operator grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Calls that are allowed.
    pub tools: Vec<Rule>,
    /// Calls that are never made.
    pub deny: Vec<Rule>,
    /// Calls that a person has to approve first.
    pub approve: Vec<Rule>,
}

/// The decision on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is allowed.
    Granted,
    /// A person has to approve it.
    Asked,
    /// It is not allowed, with the reason.
    Denied(String),
}

impl Grants {
    /// Grants every tool without approval: for a caller that decides by other means.
    pub fn everything() -> Self {
        Self { tools: vec![Rule::of_tool("*")], deny: Vec::new(), approve: Vec::new() }
    }

    /// The reason why no call of a tool by a role may be made, which names the missing grant; `None` if some calls
    /// may. Without `role` the role is unknown.
    pub fn denied(&self, role: Option<&RoleName>, tool: &Spec) -> Option<String> {
        let name = &tool.name;
        if let Some(rule) = self.deny.iter().find(|rule| rule.is_of(role, name) && rule.covers_all()) {
            return Some(format!("the tool {name} is denied by {:?} in `deny` of [grant]", rule.as_str()));
        }
        if self.tools.iter().any(|rule| rule.is_of(role, name)) {
            return None;
        }
        Some(format!(
            "the tool {name} is not granted; add {name:?} to `tools` in [grant], or agree to what the workflow asks for"
        ))
    }

    /// Whether some calls of a tool by a role need approval.
    pub(crate) fn asks_about(&self, role: &RoleName, tool: &str) -> bool {
        self.approve.iter().any(|rule| rule.is_of(Some(role), tool))
    }

    /// Decides on a call. A rule that the arguments do not decide applies for `deny` and `approve`, and does not apply
    /// for `tools`.
    pub fn decide(&self, call: &ToolCall) -> Decision {
        let (role, name) = (&call.site.role, call.name.as_str());
        let is_of = |rule: &&Rule| rule.is_of(Some(role), name);
        let may_cover = |rule: &&Rule| is_of(rule) && rule.covers(call) != Some(false);
        if let Some(rule) = self.deny.iter().find(may_cover) {
            let message = format!("this call of {name} is denied by {:?} in `deny` of [grant]", rule.as_str());
            return Decision::Denied(message);
        }
        let granted = self.tools.iter().filter(is_of);
        if !granted.clone().any(|rule| rule.covers(call) == Some(true)) {
            let rules = granted.map(|rule| format!("{:?}", rule.as_str())).collect::<Vec<_>>().join(", ");
            return Decision::Denied(format!("this call of {name} is not granted: [grant] has {rules} of it"));
        }
        if self.approve.iter().any(|rule| may_cover(&rule)) { Decision::Asked } else { Decision::Granted }
    }
}

/// Asks a person to approve single calls.
pub trait Approver: Send + Sync {
    /// Whether this call may be made.
    ///
    /// # Errors
    /// If no person can be asked: a fault of class `Denied`.
    fn approve<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>>;
}

#[cfg(test)]
mod tests;
