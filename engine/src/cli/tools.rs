//! `rondo tools`: which tools each role of a workflow would have, and why.

use std::fmt::Write as _;

use rondo_agent_kit::tool::{Origin, Spec, Tool, wire_name};
use rondo_agent_kit::wall::process::Wall;
use rondo_protocol::id::RoleName;
use serde::Serialize;

use super::asks::asks;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Output, tell};
use super::session::settings;
use super::tooling::{self, Tooling};
use super::{JsonArgs, StoreArgs, files, workflow, working_folder};
use crate::cast;
use crate::config::{Flags, Settings};

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

/// A tool, as far as a role has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct ToolLine {
    event: &'static str,
    /// `None` = of no role in particular.
    role: Option<RoleName>,
    /// Its name in workflows; what the role names where there is no such tool.
    tool: String,
    /// The name by which a model calls it.
    wire: Option<String>,
    /// `rondo`, `[tool.NAME]` or `[mcp.NAME]`.
    origin: Option<String>,
    /// Whether it may be called.
    granted: bool,
    /// Who grants it, or why not.
    why: String,
    description: Option<String>,
    /// The JSON Schema of its arguments.
    parameters: Option<serde_json::Value>,
}

/// Lists tools.
pub fn tools(args: &ToolsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings(&Flags { store: args.store.store.clone(), durability: None })?;
    let runtime = tooling::runtime()?;
    runtime.block_on(list(args, &settings, output))
}

async fn list(args: &ToolsArgs, settings: &Settings, output: &mut Output) -> Result<Exit, Failure> {
    let here = working_folder()?;
    let (lines, tooling) = match &args.workflow {
        Some(name) => {
            let loaded = workflow::load(name, &here)?;
            let tooling = tooling::of_run(&loaded.checked.workflow, settings).await?;
            let file = files::absolute(&loaded.path, &here);
            let asked = asks(&loaded.checked.workflow, &file, settings)?;
            let by = |tool: &str| {
                let means = |ask: &&super::asks::Ask| rondo_agent_kit::tool::means(&ask.tool, tool);
                asked.tools.iter().find(means).and_then(|ask| ask.granted_by).unwrap_or("[grant] in rondo.toml")
            };
            let mut lines = Vec::new();
            for (role, toolbox) in cast::toolboxes(&loaded.checked.workflow, &tooling.tools, &asked.grants) {
                for (_, offer) in toolbox.offers() {
                    let spec = offer.tool.spec();
                    let why = offer.denied.clone().unwrap_or_else(|| format!("granted by {}", by(&spec.name)));
                    lines.push(line(Some(role.clone()), spec, offer.denied.is_none(), why));
                }
                let offered: Vec<String> = toolbox.offers().map(|(_, offer)| offer.tool.spec().name.clone()).collect();
                for lacking in toolbox.missing().into_iter().filter(|lacking| !offered.contains(&lacking.pattern)) {
                    lines.push(absent(role.clone(), lacking.pattern, lacking.message));
                }
            }
            (lines, tooling)
        }
        None => {
            let servers: Vec<&str> = settings.mcp.keys().map(String::as_str).collect();
            let tooling = tooling::with_servers(&servers, settings).await?;
            let grants = super::asks::by_settings(settings);
            let line = |(_, tool): (&str, &std::sync::Arc<dyn Tool>)| {
                let denied = grants.denied(tool.spec());
                let why = denied.clone().unwrap_or_else(|| "granted".to_owned());
                line(None, tool.spec(), denied.is_none(), why)
            };
            (tooling.tools.iter().map(line).collect(), tooling)
        }
    };
    let Tooling { servers, unusable, .. } = tooling;
    let wall = tooling::processes(settings)?.self_test().await.clone();
    if output.is_json() {
        for line in &lines {
            output.line(line)?;
        }
        output.line(&serde_json::json!({ "event": "wall", "sandbox": settings.grant.sandbox.unwrap_or(true), "wall": wall.to_string() }))?;
    } else {
        output.text(&text(&lines, &wall, settings))?;
    }
    for (name, failure) in &unusable {
        if let Failure::Fault(fault) = failure {
            tell(&format!("server {name}: {}: {}\n", fault.code, fault.message));
        }
    }
    for server in servers {
        if let Some(server) = std::sync::Arc::into_inner(server) {
            server.stop().await;
        }
    }
    Ok(Exit::Done)
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

fn text(lines: &[ToolLine], wall: &Wall, settings: &Settings) -> String {
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
    let sandbox =
        if settings.grant.sandbox.unwrap_or(true) { wall.to_string() } else { "off, by [grant] sandbox".to_owned() };
    let _ = writeln!(text, "sandbox   {sandbox}");
    text
}
