use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use rondo::agent_kit::tool::{BuiltIn as _, HttpGet, Origin, Spec, Tool, means, wire_name};
use rondo::core::resolved_roles;
use rondo::protocol::call::Effect;
use rondo::protocol::id::RoleName;
use rondo::settings::{Grant, Settings};
use rondo::tell::tell;
use serde::Serialize;

use super::consent::{self, ConsentRequest, Subject, by_settings, granted_by};
use super::settings_files::{self, SettingsFiles};
use super::tooling::granted_paths;
use super::{Exit, Failure, Output, StoreArgs, json, json_line, tooling, workflow, working_folder};

const MAX_REACH: usize = 26;

/// List the tools that each role of a workflow would have, and why
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct ToolsArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/ [default: every tool there is]
    workflow: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename = "tool")]
struct ToolLine {
    /// Behind the roles that lead to it in a child workflow: `section/writer`. `None` if it is not about a particular role.
    role: Option<String>,
    /// Its name in workflows, or the name that the role uses if there is no such tool.
    tool: String,
    wire: Option<String>,
    /// `rondo`, `[tool.NAME]` or `[mcp.NAME]`.
    origin: Option<String>,
    #[serde(flatten)]
    reach: Reach,
    granted: bool,
    why: String,
    description: Option<String>,
    parameters: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Reach {
    /// `pure`, `reads`, `writes` or `external`; `None` if there is no such tool.
    effect: Option<&'static str>,
    /// What it reads if that is its effect, else what it writes; `None` if nothing limits it.
    paths: Option<Vec<String>>,
    /// The hosts that it can reach; `None` if nothing limits it.
    hosts: Option<Vec<String>>,
}

pub fn tools(args: &ToolsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let files = settings_files::read(&args.store.flags())?;
    let settings = files.in_force()?;
    let lines = match &args.workflow {
        Some(name) => of_workflow(name, &files, &settings)?,
        None => of_everybody(&settings)?,
    };
    let servers = tooling::not_started(&settings)?;
    let is_sandboxed = settings.grant.sandbox.unwrap_or(true);
    let sandbox = if is_sandboxed {
        super::runtime()?.block_on(async { tooling::processes(&settings).self_test().await.to_string() })
    } else {
        "off, by [grant] sandbox".to_owned()
    };
    output.show_all(&lines, || text(&lines, &sandbox, &settings))?;
    if output.is_json() {
        output.line(&json_line!("sandbox", on: is_sandboxed, layers: &sandbox))?;
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
    let grants = asked.grants(settings);
    let mut lines = Vec::new();
    for (path, workflow) in definition.tree() {
        for (name, toolbox) in resolved_roles::toolboxes(workflow, &tools, &grants) {
            let role = format!("{path}{name}");
            let mut offered = BTreeSet::new();
            for (_, offer) in toolbox.offers() {
                let spec = offer.tool.spec();
                let not_agreed = || "nobody agreed to it; `rondo trust` shows what is asked for".to_owned();
                let granted = by(&spec.name).filter(|_| offer.denied.is_none());
                let why = granted.map(|by| format!("granted by {by}")).or_else(|| offer.denied.clone());
                let permission = (granted.is_some(), why.unwrap_or_else(not_agreed));
                let reach = Reach::of(&*offer.tool, Some(&name), settings);
                lines.push(line(Some(role.clone()), spec.name.clone(), Some(spec), reach, permission));
                offered.insert(spec.name.clone());
            }
            let missing = toolbox.missing().into_iter().filter(|missing| !offered.contains(&missing.pattern));
            lines.extend(missing.map(|missing| {
                line(Some(role.clone()), missing.pattern, None, Reach::default(), (false, missing.message))
            }));
        }
    }
    Ok(lines)
}

fn of_everybody(settings: &Settings) -> Result<Vec<ToolLine>, Failure> {
    let tools = tooling::seen(settings)?;
    let grants = by_settings(settings);
    let of_tool = |tool: &Arc<dyn Tool>| {
        let denied = grants.denied(None, tool.spec());
        let permission = (denied.is_none(), denied.unwrap_or_else(|| "granted".to_owned()));
        line(None, tool.spec().name.clone(), Some(tool.spec()), Reach::of(&**tool, None, settings), permission)
    };
    Ok(tools.iter().map(|(_, tool)| of_tool(tool)).collect())
}

impl Reach {
    /// Of a tool in the hands of a role; without one, of all roles together.
    fn of(tool: &dyn Tool, role: Option<&RoleName>, settings: &Settings) -> Self {
        let grant = &settings.grant;
        let shown = |granted: Option<&[String]>| -> Vec<String> {
            granted_paths(settings, granted).iter().map(|path| path.display().to_string()).collect()
        };
        let effect = tool.declared_effect();
        let name = Some(effect.name());
        let (paths, hosts) = match (effect, &tool.spec().origin) {
            (Effect::Pure, _) => (Some(Vec::new()), Some(Vec::new())),
            (Effect::Reads(paths) | Effect::Writes(paths), _) if !paths.is_empty() => (Some(paths), Some(Vec::new())),
            (Effect::Reads(_), _) => (Some(shown(grant.read.as_deref())), Some(Vec::new())),
            (Effect::External, Origin::Mcp { server }) => {
                let sandbox = settings.mcp.get(server).and_then(|mcp| mcp.sandbox.as_ref());
                sandbox.map(|sandbox| (shown(Some(&sandbox.write)), sandbox.hosts.clone())).unzip()
            }
            (Effect::External, _) if tool.spec().name == HttpGet::NAME => (Some(Vec::new()), Some(hosts(grant, role))),
            (Effect::External, _) if grant.sandbox == Some(false) => (None, None),
            (Effect::Writes(_) | Effect::External, _) => (Some(shown(grant.write.as_deref())), Some(Vec::new())),
        };
        Self { effect: name, paths, hosts }
    }

    /// Such as `reads .`, `external, writes . and reaches docs.rs`.
    fn text(&self) -> String {
        let Some(effect) = self.effect else { return String::new() };
        let listed = |list: &[String]| list.join(" ");
        let paths = self.paths.as_deref().map(listed).filter(|list| !list.is_empty());
        let hosts = self.hosts.as_deref().map(listed).filter(|list| !list.is_empty());
        if effect != Effect::External.name() {
            return paths.map_or_else(|| effect.to_owned(), |paths| format!("{effect} {paths}"));
        }
        if self.paths.is_none() {
            return format!("{effect}, without a sandbox");
        }
        let parts = [paths.map(|paths| format!("writes {paths}")), hosts.map(|hosts| format!("reaches {hosts}"))];
        let parts = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        format!("{effect}, {}", if parts.is_empty() { "nothing granted" } else { &parts })
    }
}

/// The hosts that are granted to a role; without one, all of them.
fn hosts(grant: &Grant, role: Option<&RoleName>) -> Vec<String> {
    let Some(role) = role else { return grant.hosts.clone() };
    let own = |host: &String| match host.split_once('/') {
        Some((of, host)) => (of == role.as_str()).then(|| host.rsplit('/').next().unwrap_or(host).to_owned()),
        None => Some(host.clone()),
    };
    grant.hosts.iter().filter_map(own).collect()
}

fn line(
    role: Option<String>,
    tool: String,
    spec: Option<&Spec>,
    reach: Reach,
    (granted, why): (bool, String),
) -> ToolLine {
    let origin = |spec: &Spec| match &spec.origin {
        Origin::BuiltIn => "rondo".to_owned(),
        Origin::Program => format!("[tool.{}]", spec.name),
        Origin::Mcp { server } => format!("[mcp.{server}]"),
    };
    ToolLine {
        role,
        wire: spec.map(|spec| wire_name(&spec.name)),
        origin: spec.map(origin),
        tool,
        reach,
        granted,
        why,
        description: spec.map(|spec| spec.description.clone()),
        parameters: spec.and_then(|spec| serde_json::from_str(&spec.parameters).ok()),
    }
}

fn text(lines: &[ToolLine], sandbox: &str, settings: &Settings) -> String {
    let mut text = String::new();
    let widest = |cell: fn(&ToolLine) -> usize| lines.iter().map(cell).max().unwrap_or(0);
    let width = widest(|line| line.tool.chars().count());
    let reach = widest(|line| line.reach.text().chars().count()).min(MAX_REACH);
    let mut of = &None;
    for line in lines {
        if let Some(role) = line.role.as_ref().filter(|_| line.role != *of) {
            let _ = writeln!(text, "{role}");
            of = &line.role;
        }
        let mark = if line.granted { ' ' } else { '!' };
        let origin = line.origin.as_deref().map_or_else(String::new, |origin| format!("{origin}, "));
        let _ = writeln!(text, "{mark} {:<width$}  {:<reach$}  {origin}{}", line.tool, line.reach.text(), line.why);
    }
    if lines.is_empty() {
        text.push_str("no role has tools\n");
    }
    let _ = writeln!(text, "\nworkspace {}", settings.workspace.display());
    let _ = writeln!(text, "sandbox   {sandbox}");
    text
}
