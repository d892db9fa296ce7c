//! What a hook may know of the roles in front of which it stands, and what the operator lends it. None holds the engine.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::redact::Redactor;
use rondo_agent_kit::sandbox::files::Workspace;
use rondo_agent_kit::sandbox::process::Processes;
use rondo_agent_kit::tool::{Origin, Spec};
use rondo_protocol::id::RoleName;
use rondo_protocol::object::Parameters;
use rondo_protocol::{Digest, Value};

use crate::config::HookProgram;
use crate::models::ServedBy;

/// What a hook may know of a role.
#[derive(Debug, Clone)]
pub struct RoleView {
    /// Its name.
    pub role: RoleName,
    /// The name of its workflow.
    pub workflow: String,
    /// What the author wrote for hook kinds in the role's `with`, by kind.
    pub with: BTreeMap<String, Value>,
    /// The tools that it names: names, or `server.*`.
    pub tools: Vec<String>,
    /// The models that it may ask, the first one first. Empty until a run is set up.
    pub models: Vec<ModelView>,
    /// The tools that it is offered. Empty until a run is set up.
    pub offers: Vec<ToolView>,
    /// Model and tool calls that it may make in one turn. 0 until a run is set up.
    pub model_calls: u64,
    /// As [`model_calls`](Self::model_calls).
    pub tool_calls: u64,
    /// The digest of the patterns that are taken out of what it is told; nothing without any, or until a run is set up.
    pub redaction: String,
    /// What its answers are read by, where a model plays it. `None` until a run is set up.
    pub contract: Option<Contract>,
}

/// A model as it is served.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelView {
    /// Its logical name.
    pub name: String,
    /// The id that is sent.
    pub id: String,
    /// The parameters that are sent with it.
    pub parameters: Parameters,
    /// Where it is served.
    pub served_by: ServedBy,
}

/// A tool that a role is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolView {
    /// Its name in workflows.
    pub name: String,
    /// The name by which a model calls it.
    pub wire_name: String,
    /// Whether it may be called at all.
    pub is_granted: bool,
    /// Whether a person is asked before each call.
    pub needs_approval: bool,
    /// Whose it is: as it was set up, never guessed from its name.
    pub origin: Origin,
    /// See [`Ground::definition`].
    pub definition: Digest,
}

/// What the operator lends to hooks.
#[derive(Clone, Default)]
pub struct Ground {
    /// The files that tools see, by which it can be told whether they have changed.
    pub files: Option<Arc<Workspace>>,
    /// The programs that hooks may be, by name.
    pub programs: BTreeMap<String, HookProgram>,
    /// The sandbox that each of these programs runs behind.
    pub processes: BTreeMap<String, Arc<Processes>>,
    /// Takes keys out of what these programs say, before it is cut.
    pub redactor: Arc<Redactor>,
    /// A digest of what runs behind each table of tools: the argv of `tool.NAME`, the command or address of `mcp.NAME`.
    pub backends: BTreeMap<String, Digest>,
}

impl Ground {
    /// A digest of everything but its arguments that tells one tool from another of the same name: its schema and, of a
    /// program or a server, what runs behind it.
    pub fn definition(&self, tool: &Spec) -> Digest {
        let table = match &tool.origin {
            Origin::BuiltIn => String::new(),
            Origin::Program => format!("tool.{}", tool.name),
            Origin::Mcp { server } => format!("mcp.{server}"),
        };
        let backend = self.backends.get(&table).map(Digest::to_string).unwrap_or_default();
        Digest::sha256(format!("{backend}\n{}", tool.parameters).as_bytes())
    }
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ground").field("programs", &self.programs.keys()).finish_non_exhaustive()
    }
}
