//! `rondo trust`: shows what a workflow asks for and records that a person agreed.

use super::asks::{Answer, Asks, ask, asks, is_attended, of_trust};
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::session::settings;
use super::{JsonArgs, StoreArgs, files, tooling, workflow, working_folder};
use crate::config::{Flags, Settings};
use crate::trust::Book;
use rondo_protocol::diagnostic::Code;
use serde::Serialize;

const QUESTION: &str = "Agree to this, until the workflow changes? [y/N]: ";

/// Show what a workflow asks for, and agree to it
#[derive(Debug, clap::Args)]
pub struct TrustArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    #[arg(required_unless_present = "server")]
    workflow: Option<String>,
    /// Agree without being asked
    #[arg(long)]
    yes: bool,
    /// Take back what was agreed to
    #[arg(long, conflicts_with = "yes")]
    revoke: bool,
    /// Agree to the tools that this MCP server of rondo.toml has now
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workflow", "revoke"])]
    server: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

/// What a workflow asks for, for programs.
#[derive(Debug, Serialize)]
struct TrustLine<'a> {
    event: &'static str,
    name: &'a str,
    file: &'a str,
    workflow: rondo_protocol::Digest,
    tools: &'a [super::asks::Ask],
    is_trusted: bool,
    has_changed: bool,
}

/// Shows what a workflow asks for and records the answer.
pub fn trust(args: &TrustArgs, output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings(&Flags { store: args.store.store.clone(), durability: None })?;
    if let Some(server) = &args.server {
        return trust_server(server, args.yes, &settings, output);
    }
    let here = working_folder()?;
    let name = args.workflow.as_deref().unwrap_or_default();
    let loaded = workflow::load(name, &here)?;
    let file = files::absolute(&loaded.path, &here);
    let definition = &loaded.checked.workflow;
    let asked = asks(definition, &file, &settings)?;
    if args.revoke {
        let revoked = Book::update(settings.trust.as_deref(), |book| book.revoke(&file, asked.workflow))
            .map_err(|error| of_trust(&error))?;
        if !output.is_json() {
            output.text(if revoked { "no longer trusted\n" } else { "it was not trusted\n" })?;
        }
        return Ok(Exit::Done);
    }
    if !output.is_json() {
        output.text(&text(&asked, &definition.name, &settings))?;
    }
    let agrees = !asked.tools.is_empty() && (args.yes || is_attended() && !output.is_json() && agrees_to(QUESTION));
    if agrees {
        asked.record(&file, &definition.name, &settings)?;
    }
    if output.is_json() {
        let line = TrustLine {
            event: "trust",
            name: &definition.name,
            file: &file,
            workflow: asked.workflow,
            tools: &asked.tools,
            is_trusted: agrees || asked.tools.iter().all(|ask| ask.granted_by.is_some()),
            has_changed: asked.has_changed,
        };
        output.line(&line)?;
    } else if agrees {
        output.text("trusted until the workflow, or a file that it includes, changes\n")?;
    }
    if agrees || asked.missing().is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure::new(Code::ToolNotGranted, "nothing was agreed to").with_hint("`--yes` agrees without being asked"))
}

fn agrees_to(question: &str) -> bool {
    matches!(ask(question), Answer::Once | Answer::Always)
}

fn text(asked: &Asks, name: &str, settings: &Settings) -> String {
    if asked.tools.is_empty() {
        return format!("{name} asks for no tools\n");
    }
    let changed = if asked.has_changed { ", and has changed since you agreed" } else { "" };
    let grant = &settings.grant;
    let list = |list: Option<&Vec<String>>| match list {
        None => "the workspace".to_owned(),
        Some(list) if list.is_empty() => "nothing".to_owned(),
        Some(list) => list.join(", "),
    };
    let hosts = if grant.hosts.is_empty() { "none".to_owned() } else { grant.hosts.join(", ") };
    format!(
        "{name} asks for these tools{changed}:\n{}\nWithin this, by rondo.toml: workspace {}, reading {}, writing {}, hosts {hosts}, \
         sandbox {}\n",
        asked.text(),
        settings.workspace.display(),
        list(grant.read.as_ref()),
        list(grant.write.as_ref()),
        if grant.sandbox.unwrap_or(true) { "on" } else { "off" },
    )
}

/// A server's tools, for programs.
#[derive(Debug, Serialize)]
struct ServerLine<'a> {
    event: &'static str,
    server: &'a str,
    tools: Vec<&'a str>,
    /// How they differ from those that were agreed to before.
    changed: Option<&'a str>,
    is_trusted: bool,
}

fn trust_server(name: &str, yes: bool, settings: &Settings, output: &mut Output) -> Result<Exit, Failure> {
    let offered = tooling::runtime()?.block_on(tooling::offered(name, settings))?;
    let names: Vec<&str> = offered.pins.keys().map(String::as_str).collect();
    if !output.is_json() {
        let changed =
            offered.changed.as_deref().map_or_else(String::new, |changed| format!("it has changed:\n{changed}\n"));
        output.text(&format!("{name} offers {} tools: {}\n{changed}", names.len(), names.join(", ")))?;
    }
    let is_trusted =
        yes || is_attended() && !output.is_json() && agrees_to("Agree to these tools, until they change? [y/N]: ");
    if output.is_json() {
        let changed = offered.changed.as_deref();
        output.line(&ServerLine { event: "trust", server: name, tools: names, changed, is_trusted })?;
    }
    if !is_trusted {
        return Err(
            Failure::new(Code::NotTrusted, "nothing was agreed to").with_hint("`--yes` agrees without being asked")
        );
    }
    tooling::agree(offered, settings)?;
    Ok(Exit::Done)
}
