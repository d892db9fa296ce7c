//! `rondo tools`: the tools that each role of a workflow would have, and why.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rondo_agent_kit::tool::{Origin, Spec, means, wire_name};
use rondo_protocol::id::RoleName;
use serde::Serialize;

use super::consent::{self, ConsentRequest, Subject, by_settings, granted_by};
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, tell};
use super::settings_files::{self, SettingsFiles};
use super::{JsonArgs, StoreArgs, tooling, workflow, working_folder};
use crate::config::Settings;
use crate::resolved_roles;

/// List the tools that each role of a workflow would have, and why
#[derive(Debug, clap::Args)]
pub struct ToolsArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/ [default: every tool there is]
    workflow: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ToolLine {
    event: &'static str,
    /// `None` if it is not about a particular role.
    role: Option<RoleName>,
    /// Its name in workflows, or the name that the role uses if there is no such tool.
    tool: String,
    /// The name that models use for it.
    wire: Option<String>,
    /// `rondo`, `[tool.NAME]` or `[mcp.NAME]`.
    origin: Option<String>,
    granted: bool,
    /// What grants it, or why it is not granted.
    why: String,
    description: Option<String>,
    /// The JSON Schema of its arguments.
    parameters: Option<serde_json::Value>,
}

#[derive(Debug, Serialize)]
struct SandboxLine<'a> {
    event: &'static str,
    on: bool,
    layers: &'a str,
}

pub fn tools(args: &ToolsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let files = settings_files::read(&args.store.flags())?;
    let settings = files.in_force()?;
    let runtime = super::runtime()?;
    runtime.block_on(list(args, &files, &settings, output))
}

async fn list(
    args: &ToolsArgs,
    files: &SettingsFiles,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let lines = match &args.workflow {
        Some(name) => of_workflow(name, files, settings)?,
        None => of_everybody(settings)?,
    };
    let servers = tooling::not_started(settings)?;
    let is_sandboxed = settings.grant.sandbox.unwrap_or(true);
    let sandbox = if is_sandboxed {
        tooling::processes(settings)?.self_test().await.to_string()
    } else {
        "off, by [grant] sandbox".to_owned()
    };
    if output.is_json() {
        for line in &lines {
            output.line(line)?;
        }
        output.line(&SandboxLine { event: "sandbox", on: is_sandboxed, layers: &sandbox })?;
    } else {
        output.text(&text(&lines, &sandbox, settings))?;
    }
    for (name, pinned) in &servers {
        tell(&format!("server {name} is not started; {pinned}\n"));
    }
    Ok(Exit::Done)
}

fn of_workflow(name: &str, files: &SettingsFiles, settings: &Settings) -> Result<Vec<ToolLine>, Failure> {
    let here = working_folder()?;
    let loaded = workflow::load(name, &here)?;
    let definition = &loaded.checked.workflow;
    let tools = tooling::seen(settings)?;
    let file = super::files::absolute(&loaded.path, &here);
    let subject = Subject { workflow: definition, policy: &loaded.checked.policy, file: &file, is_current: true };
    let asked = ConsentRequest::of(files, settings, Some(subject))?;
    let named = consent::named(definition);
    let by = |tool: &str| {
        let ask = named.keys().find(|named| means(named, tool));
        ask.and_then(|named| granted_by(&asked, settings, named))
    };
    let mut lines = Vec::new();
    for (role, toolbox) in resolved_roles::toolboxes(definition, &tools, &asked.grants(settings)) {
        let mut offered = BTreeSet::new();
        for (_, offer) in toolbox.offers() {
            let spec = offer.tool.spec();
            let by = by(&spec.name);
            let not_agreed = || "nobody agreed to it; `rondo trust` shows what is asked for".to_owned();
            let granted = by.filter(|_| offer.denied.is_none());
            let why = granted.map(|by| format!("granted by {by}"));
            let why = why.unwrap_or_else(|| offer.denied.clone().unwrap_or_else(not_agreed));
            lines.push(line(Some(role.clone()), spec, granted.is_some(), why));
            offered.insert(spec.name.clone());
        }
        let missing = toolbox.missing().into_iter().filter(|missing| !offered.contains(&missing.pattern));
        lines.extend(missing.map(|missing| absent(role.clone(), missing.pattern, missing.message)));
    }
    Ok(lines)
}

fn of_everybody(settings: &Settings) -> Result<Vec<ToolLine>, Failure> {
    let tools = tooling::seen(settings)?;
    let grants = by_settings(settings);
    let mut lines = Vec::new();
    for (_, tool) in tools.iter() {
        let denied = grants.denied(None, tool.spec());
        let is_granted = denied.is_none();
        lines.push(line(None, tool.spec(), is_granted, denied.unwrap_or_else(|| "granted".to_owned())));
    }
    Ok(lines)
}

fn line(role: Option<RoleName>, spec: &Spec, granted: bool, why: String) -> ToolLine {
    let origin = match &spec.origin {
        Origin::BuiltIn => "rondo".to_owned(),
        Origin::Program => format!("[tool.{}]", spec.name),
        Origin::Mcp { server } => format!("[mcp.{server}]"),
    };
    ToolLine {
        event: "tool",
        role,
        tool: spec.name.clone(),
        wire: Some(wire_name(&spec.name)),
        origin: Some(origin),
        granted,
        why,
        description: Some(spec.description.clone()),
        parameters: serde_json::from_str(&spec.parameters).ok(),
    }
}

fn absent(role: RoleName, tool: String, why: String) -> ToolLine {
    let (wire, origin, description, parameters) = (None, None, None, None);
    ToolLine { event: "tool", role: Some(role), tool, wire, origin, granted: false, why, description, parameters }
}

fn text(lines: &[ToolLine], sandbox: &str, settings: &Settings) -> String {
    let mut text = String::new();
    let width = lines.iter().map(|line| line.tool.chars().count()).max().unwrap_or(0);
    let mut of = None;
    for line in lines {
        if line.role.is_some() && line.role != of {
            let _ = writeln!(text, "{}", line.role.as_ref().map_or("", RoleName::as_str));
            of.clone_from(&line.role);
        }
        let mark = if line.granted { ' ' } else { '!' };
        let origin = line.origin.as_deref().map_or_else(String::new, |origin| format!("{origin}, "));
        let _ = writeln!(text, "{mark} {:<width$}  {origin}{}", line.tool, line.why);
    }
    if lines.is_empty() {
        text.push_str("no role has tools\n");
    }
    let _ = writeln!(text, "\nworkspace {}", settings.workspace.display());
    let _ = writeln!(text, "sandbox   {sandbox}");
    text
}
