//! Grants: what the operator lets the roles of a workflow do.
//!
//! What a role may call is what the operator grants, the workflow asks for and the role lists. The last two are one
//! thing here, because a workflow asks for what its roles list; this module holds the first.
//!
//! This module knows no file and no terminal: who was asked, and what they said before, is for the command line.

use futures_util::future::BoxFuture;
use rondo_agent_kit::tool::{Spec, means};
use rondo_protocol::call::{Fault, ToolCall};
use serde::{Deserialize, Serialize};

/// What the operator grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// Tools that may be called: names, `server.*`, or `*`.
    pub tools: Vec<String>,
    /// Tools of which each call is shown to a person first.
    pub approve: Vec<String>,
}

impl Grants {
    /// Grants every tool, without asking: for whoever has decided by other means.
    pub fn everything() -> Self {
        Self { tools: vec!["*".to_owned()], approve: Vec::new() }
    }

    /// Why a tool may not be called, in words that name the missing grant; `None` = it may.
    pub fn denied(&self, tool: &Spec) -> Option<String> {
        let name = &tool.name;
        if self.tools.iter().any(|pattern| means(pattern, name)) {
            return None;
        }
        Some(format!(
            "the tool {name} is not granted; add {name:?} to `tools` in [grant] of rondo.toml, or agree with `rondo trust`"
        ))
    }

    /// Whether each call of a tool needs a person's approval.
    pub fn needs_approval(&self, tool: &str) -> bool {
        self.approve.iter().any(|pattern| means(pattern, tool))
    }
}

/// Asks a person about single calls.
pub trait Approver: Send + Sync {
    /// Whether this call may be made.
    ///
    /// # Errors
    /// When there is nobody to ask: a fault of class `Denied`.
    fn approve<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>>;
}
