//! Which calls may be answered and kept, and why others may not.

use std::collections::BTreeMap;
use std::path::Path;

use rondo_agent_kit::tool::Origin;
use rondo_core::hook::{RoleView, ToolView};
use rondo_protocol::call::{Effect, ToolCall};
use rondo_protocol::id::RoleName;
use rondo_protocol::{Digest, canonical};

use super::deny_list::is_denied;
use super::key::Fixed;
use super::settings::Settings;

/// Why a result is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NotOffered,
    NotGranted,
    NeedsApproval,
    Denied,
    Excluded,
    NotListed,
    ServerNotNamed,
    Writes,
    External,
    NoFiles,
    Arguments,
    NoKey,
    NoReadSet,
    Overlapped,
}

impl Refusal {
    /// In words, behind "because".
    pub fn why(self) -> &'static str {
        match self {
            Self::NotOffered => "the role is offered no tool of this name",
            Self::NotGranted => "the tool is not granted",
            Self::NeedsApproval => "a person is asked before each call of it",
            Self::Denied => "the tool is on the fixed list of those that are never kept",
            Self::Excluded => "`exclude` names the tool",
            Self::NotListed => "`tools` does not name it",
            Self::ServerNotNamed => "it is an MCP server's tool, and neither `tools` nor `per_tool` names it",
            Self::Writes => "its effect is writes",
            Self::External => "its effect is external",
            Self::NoFiles => "it reads files, and there is no workspace in which they could be looked at again",
            Self::Arguments => "its arguments have no canonical form",
            Self::NoKey => "the parts of its key have no canonical form",
            Self::NoReadSet => "it reads, and has no read set, so what it saw is unknown",
            Self::Overlapped => "what it read was, or may have been, written to at the same time",
        }
    }
}

/// What is known of the tools before any call of them.
#[derive(Debug)]
pub struct Eligibility {
    roles: BTreeMap<RoleName, BTreeMap<String, Result<EligibleTool, Refusal>>>,
    has_files: bool,
}

/// A tool whose results may be kept, as far as its effect lets them.
#[derive(Debug, Clone)]
pub struct EligibleTool {
    pub fixed: Fixed,
    pub digest: Digest,
    pub ttl_ms: Option<u64>,
    is_of_server: bool,
}

/// A call whose result may be kept.
#[derive(Debug)]
pub struct EligibleCall<'a> {
    pub known: &'a EligibleTool,
    /// The arguments as canonical JSON.
    pub arguments: String,
}

impl Eligibility {
    /// What settings say of the tools of roles.
    pub fn new(settings: &Settings, roles: &BTreeMap<RoleName, RoleView>, root: Option<&Path>) -> Self {
        let root_text = root.map(root_text).unwrap_or_default();
        let of_tool = |tool: &ToolView| (tool.name.clone(), known(settings, tool, &root_text));
        let of_role = |view: &RoleView| view.offers.iter().map(of_tool).collect();
        let roles = roles.iter().map(|(role, view)| (role.clone(), of_role(view))).collect();
        Self { roles, has_files: root.is_some() }
    }

    /// Whether the result of a call may be kept.
    pub fn check(&self, call: &ToolCall) -> Result<EligibleCall<'_>, Refusal> {
        let tools = self.roles.get(&call.site.role).ok_or(Refusal::NotOffered)?;
        let known = tools.get(&call.name).ok_or(Refusal::NotOffered)?.as_ref().map_err(|refusal| *refusal)?;
        match &call.effect {
            Effect::Pure => {}
            Effect::Reads(_) if self.has_files => {}
            Effect::Reads(_) => return Err(Refusal::NoFiles),
            Effect::Writes(_) => return Err(Refusal::Writes),
            // By naming a server's tool the author declares that it depends on its arguments alone.
            Effect::External if known.is_of_server => {}
            Effect::External => return Err(Refusal::External),
        }
        let arguments = canonical(&call.arguments).ok_or(Refusal::Arguments)?;
        Ok(EligibleCall { known, arguments })
    }

    /// Whether a result that says what it saw can be looked at again.
    pub fn has_files(&self) -> bool {
        self.has_files
    }
}

fn known(settings: &Settings, tool: &ToolView, root: &str) -> Result<EligibleTool, Refusal> {
    let is_of_server = matches!(tool.origin, Origin::Mcp { .. });
    let refusals = [
        (!tool.is_granted, Refusal::NotGranted),
        (tool.needs_approval, Refusal::NeedsApproval),
        (is_denied(&tool.name), Refusal::Denied),
        (settings.excludes(tool), Refusal::Excluded),
        (is_of_server && !settings.names(tool), Refusal::ServerNotNamed),
        (!settings.lists(tool), Refusal::NotListed),
    ];
    if let Some((_, refusal)) = refusals.into_iter().find(|(holds, _)| *holds) {
        return Err(refusal);
    }
    let fixed = Fixed::of(tool, settings.common.scope, root.to_owned());
    let digest = fixed.digest().map_err(|_| Refusal::NoKey)?;
    Ok(EligibleTool { fixed, digest, ttl_ms: settings.ttl_ms(tool), is_of_server })
}

/// Arguments as tools read them: a blank text is an empty object.
fn canonical(arguments: &str) -> Option<String> {
    if arguments.trim().is_empty() {
        return Some("{}".to_owned());
    }
    canonical::parse_canonical(arguments.as_bytes()).ok().map(|arguments| arguments.to_text())
}

/// A folder as a text that no other folder has.
fn root_text(root: &Path) -> String {
    match root.to_str() {
        Some(root) => root.to_owned(),
        None => format!("{} ({})", root.display(), Digest::sha256(root.as_os_str().as_encoded_bytes())),
    }
}
