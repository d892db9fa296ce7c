//! Warnings about tools that a workflow names and that a run would lack.

use std::collections::BTreeSet;

use rondo::agent_kit::tool::ToolSet;
use rondo::protocol::diagnostic::{Code, Diagnostic, did_you_mean};
use rondo::protocol::workflow::{RoleKind, SourceMap, Workflow};
use rondo::settings::Settings;

use super::settings_files::SettingsFiles;
use super::{Failure, tooling};

pub struct KnownTools {
    tools: ToolSet,
    /// The servers of the settings, and whether their tools are known.
    servers: Vec<(String, bool)>,
    /// What the project's settings would add once somebody agreed to them: tools by name, servers as `NAME.*`.
    waiting: BTreeSet<String>,
}

impl KnownTools {
    pub fn new(files: &SettingsFiles, settings: &Settings) -> Result<Self, Failure> {
        let tools = tooling::seen(settings)?;
        let is_seen = |server: &String| tools.iter().any(|(name, _)| is_of(server, name));
        let servers = settings.mcp.keys().map(|server| (server.clone(), is_seen(server))).collect();
        let waiting = files.whole().map(|whole| {
            let servers = whole.mcp.keys().map(|server| format!("{server}.*"));
            whole.tools.keys().cloned().chain(servers).collect()
        });
        Ok(Self { tools, servers, waiting: waiting.unwrap_or_default() })
    }

    /// A warning for each tool that neither rondo nor the settings have, where the workflow or a child names it.
    pub fn missing(&self, workflow: &Workflow, places: &SourceMap) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (name, role) in &workflow.roles {
            let path = format!("roles.{name}");
            for (position, tool) in role.kind.tools().iter().enumerate() {
                if !self.is_known(tool) {
                    let path = match role.kind {
                        RoleKind::Tool(_) => format!("{path}.tool"),
                        _ => format!("{path}.tools[{position}]"),
                    };
                    let message = format!("neither rondo nor the settings have a tool `{tool}`");
                    let fault = places.fault(Code::UndeclaredTool, &path, None, message);
                    found.push(fault.with_hint(self.hint(tool)));
                }
            }
            if let (RoleKind::Workflow(child), Some(places)) = (&role.kind, places.child(name.as_str())) {
                found.extend(self.missing(&child.workflow, places));
            }
        }
        found
    }

    fn is_known(&self, tool: &str) -> bool {
        let unseen = |(server, is_seen): &(String, bool)| is_of(server, tool) && (!is_seen || tool.ends_with(".*"));
        self.tools.matching(tool).next().is_some() || self.servers.iter().any(unseen)
    }

    fn hint(&self, tool: &str) -> String {
        let server = tool.split_once('.').map(|(server, _)| server);
        let wanted = server.map_or_else(|| tool.to_owned(), |server| format!("{server}.*"));
        if self.waiting.contains(&wanted) {
            return "rondo.toml declares it, and nobody has agreed to that file yet: `rondo trust`".to_owned();
        }
        let servers = self.servers.iter().map(|(server, _)| format!("{server}.*")).collect::<Vec<_>>();
        let names = self.tools.iter().map(|(name, _)| name);
        let meant = did_you_mean(tool, names.chain(servers.iter().map(String::as_str)));
        meant.unwrap_or_else(|| match server {
            Some(server) => format!("declare its server as [mcp.{server}] in rondo.toml"),
            None => format!("`rondo tools` lists what there is; declare others as [tool.{tool}] in rondo.toml"),
        })
    }
}

fn is_of(server: &str, tool: &str) -> bool {
    tool.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'))
}
