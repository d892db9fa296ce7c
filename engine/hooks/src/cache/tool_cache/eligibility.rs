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

/// Why a result is not kept, in words behind "because".
pub type Refusal = &'static str;

pub const NO_FILES: Refusal = "it reads files, and there is no workspace in which they could be looked at again";
pub const NO_READ_SET: Refusal = "it reads, and has no read set, so what it saw is unknown";
pub const OVERLAPPED: Refusal = "what it read was, or may have been, written to at the same time";

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

impl Eligibility {
    /// What settings say of the tools of roles.
    pub fn new(settings: &Settings, roles: &BTreeMap<RoleName, RoleView>, root: Option<&Path>) -> Self {
        let root_text = root.map(root_text).unwrap_or_default();
        let of_tool = |tool: &ToolView| (tool.name.clone(), known(settings, tool, &root_text));
        let of_role = |view: &RoleView| view.offers.iter().map(of_tool).collect();
        let roles = roles.iter().map(|(role, view)| (role.clone(), of_role(view))).collect();
        Self { roles, has_files: root.is_some() }
    }

    /// Whether the result of a call may be kept: what is known of its tool, and its arguments as canonical JSON.
    pub fn check(&self, call: &ToolCall) -> Result<(&EligibleTool, String), Refusal> {
        let tool = self.roles.get(&call.site.role).and_then(|tools| tools.get(&call.name));
        let known = tool.ok_or("the role is offered no tool of this name")?.as_ref().map_err(|refusal| *refusal)?;
        match &call.effect {
            Effect::Pure => {}
            Effect::Reads(_) if self.has_files => {}
            Effect::Reads(_) => return Err(NO_FILES),
            Effect::Writes(_) => return Err("its effect is writes"),
            // By naming a server's tool the author declares that it depends on its arguments alone.
            Effect::External if known.is_of_server => {}
            Effect::External => return Err("its effect is external"),
        }
        Ok((known, canonical(&call.arguments).ok_or("its arguments have no canonical form")?))
    }
}

fn known(settings: &Settings, tool: &ToolView, root: &str) -> Result<EligibleTool, Refusal> {
    let is_of_server = matches!(tool.origin, Origin::Mcp { .. });
    let refusals = [
        (!tool.is_granted, "the tool is not granted"),
        (tool.needs_approval, "a person is asked before each call of it"),
        (is_denied(&tool.name), "the tool is on the fixed list of those that are never kept"),
        (settings.excludes(tool), "`exclude` names the tool"),
        (
            is_of_server && !settings.names(tool),
            "it is an MCP server's tool, and neither `tools` nor `per_tool` names it",
        ),
        (!settings.lists(tool), "`tools` does not name it"),
    ];
    if let Some((_, refusal)) = refusals.into_iter().find(|(holds, _)| *holds) {
        return Err(refusal);
    }
    let fixed = Fixed::of(tool, settings.common.scope, root.to_owned());
    let digest = fixed.digest().map_err(|_| "the parts of its key have no canonical form")?;
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
