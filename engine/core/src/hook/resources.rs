//! What hooks may know of roles, and what the operator lets them use.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rondo_agent_kit::answer::Contract;
use rondo_agent_kit::pinned::Pinned;
use rondo_agent_kit::redact::Redactor;
use rondo_agent_kit::sandbox::files::Workspace;
use rondo_agent_kit::sandbox::process::{Access, Processes, WorkingDir};
use rondo_agent_kit::tool::{Origin, Spec};
use rondo_protocol::Digest;

/// What a hook may know of a role.
#[derive(Debug, Clone)]
pub struct RoleView {
    /// The name of its workflow.
    pub workflow: String,
    /// The models that it may ask, the first one first.
    pub models: Vec<ModelView>,
    /// The tools that it is offered.
    pub offers: Vec<ToolView>,
    /// Model calls that it may make in one turn.
    pub model_calls: u64,
    /// Tool calls that it may make in one turn.
    pub tool_calls: u64,
    /// The digest of the patterns that are removed from its messages; empty without any.
    pub redaction: String,
    /// What its answers are read by, where a model plays it.
    pub contract: Option<Contract>,
}

/// A model as it is served.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelView {
    /// Its logical name.
    pub name: String,
    /// The id that is sent.
    pub id: String,
    /// The name of its provider.
    pub provider: String,
    /// The base address of its provider; of a script or a recording, its digest. No credential.
    pub address: String,
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
    /// See [`HookResources::definition`].
    pub definition: Digest,
}

/// What the operator lets hooks use.
#[derive(Clone, Default)]
pub struct HookResources {
    /// The files that tools see, to check whether they have changed.
    pub files: Option<Arc<Workspace>>,
    /// The programs that hooks may run, by name.
    pub programs: BTreeMap<String, HookProgram>,
    /// Takes keys out of what these programs say, before it is cut.
    pub redactor: Arc<Redactor>,
    /// A digest of what runs behind each table of tools: the argv of `tool.NAME`, the command or address of `mcp.NAME`.
    pub backends: BTreeMap<String, Digest>,
}

/// A program of the operator that decides what becomes of calls.
#[derive(Clone)]
pub struct HookProgram {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The files that these name, as somebody agreed to them.
    pub pinned: Pinned,
    /// Where it starts.
    pub working_dir: WorkingDir,
    /// What it may write.
    pub access: Access,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// Whether a call fails when the program does, whatever the file says.
    pub is_required: bool,
    /// The sandbox that it runs in.
    pub processes: Arc<Processes>,
}

impl HookResources {
    /// A digest that distinguishes tools of the same name: of the schema and, for a program or a server, of its backend.
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
