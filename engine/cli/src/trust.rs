//! `rondo trust`: shows what a folder and a workflow ask for, and records that a person agreed.
//!
//! Only `--server` starts anything: that server, after its command was agreed to.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use rondo::protocol::Digest;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::digest::Hasher;
use rondo::settings::trust::Records;
use rondo::settings::{Flags, Settings};
use rondo::store::folder::{self, FolderState};
use rondo::store::rows_after;
use rondo::tell::{one_line, tell};
use serde::Serialize;

use super::consent::{Answer, ConsentRequest, Shown, Subject};
use super::person::{self, consent_by, is_attended};
use super::settings_files::{self, SettingsFiles};
use super::store_access::{is_trusted, sign, view_store_at};
use super::{Exit, Failure, Output, files, json, json_line, tooling, workflow, working_folder};

/// Show what a folder and a workflow ask for, and record your consent
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct TrustArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/ [default: the settings alone]
    workflow: Option<String>,
    /// The workflow is yours: ask again only when it asks for something else
    #[arg(long, requires = "workflow")]
    own: bool,
    /// Make a store yours [default: the one in use here]
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["workflow", "server", "list"])]
    #[expect(clippy::option_option, reason = "absent, without a folder, and with one are three things")]
    store: Option<Option<PathBuf>>,
    /// Start this MCP server, show its tools, and pin them
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workflow", "revoke", "list"])]
    server: Option<String>,
    /// Agree, without being asked, to exactly what has this digest
    #[arg(long, value_name = "DIGEST", value_parser = digest, conflicts_with_all = ["revoke", "list"])]
    yes: Option<Digest>,
    /// List the consents that were given
    #[arg(long, conflicts_with_all = ["workflow", "revoke"])]
    list: bool,
    /// Revoke a consent
    #[arg(long)]
    revoke: bool,
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::from_hex(text)
        .ok_or_else(|| "a digest has 64 lower-case hex digits, as `rondo trust` prints them".to_owned())
}

pub fn trust(args: &TrustArgs, output: &mut Output) -> Result<Exit, Failure> {
    let named = args.store.clone().flatten();
    let settings_files = settings_files::read(&Flags { store: named, ..Flags::default() })?;
    if args.list {
        return list(&settings_files.without_asking()?, output);
    }
    if args.revoke && args.store.is_none() {
        return revoke(args, &settings_files, output);
    }
    settings_files.refuse_unsafe()?;
    if args.store.is_some() {
        // The settings choose the store; parts without consent do not apply.
        return store(args, &settings_files.in_force()?, output);
    }
    let settings = settings_files.whole()?;
    if let Some(server) = &args.server {
        return self::server(server, args, &settings_files, &settings, output);
    }
    let here = working_folder()?;
    let loaded = args.workflow.as_deref().map(|name| workflow::load(name, &here)).transpose()?;
    let file = loaded.as_ref().map(|loaded| files::absolute(&loaded.path, &here));
    let subject = loaded.as_ref().zip(file.as_deref()).map(|(loaded, file)| {
        let checked = &loaded.checked;
        Subject { workflow: &checked.workflow, policy: &checked.policy, file, is_current: true }
    });
    let asked = ConsentRequest::of(&settings_files, &settings, subject)?;
    consider(args, &asked, subject, &settings, output)
}

fn consider(
    args: &TrustArgs,
    asked: &ConsentRequest,
    subject: Option<Subject<'_>>,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let digest = asked.digest()?;
    let (asks, changed, text) = (asked.asks(), asked.changed(), asked.text());
    let folder =
        settings.file.as_deref().map_or(settings.workspace.as_path(), rondo::settings::folder_of).to_string_lossy();
    if output.is_json() {
        output.line(&json_line!("trust", folder: &folder, digest, asks: &asks, changed: &changed))?;
    } else if asks.is_empty() {
        let what = subject.map_or_else(|| format!("the settings of {folder}"), |subject| subject.file.to_owned());
        output.text(&format!("{what} asks for nothing that needs your consent\n"))?;
    } else {
        output.text(&format!("{text}digest {digest}\n"))?;
    }
    asked.records_lie_outside(settings)?;
    // A person may mark a workflow as their own even if it asks for nothing yet.
    if asked.is_agreed() && !args.own {
        return Ok(Exit::Done);
    }
    if args.yes.is_some_and(|yes| yes != digest) {
        let message = "what is asked for has another digest than the one that was agreed to";
        return Err(Failure::new(Code::NotTrusted, message).with_hint(format!("it is {digest} now")));
    }
    let shown = if args.yes.is_some() { Shown::Digest(digest) } else { Shown::Text(&text) };
    if args.yes.is_none() && is_attended(output) {
        asked.can_be_read(args.workflow.as_deref().unwrap_or_default())?;
    }
    // The text is on stdout, which may lead elsewhere.
    let before = if std::io::stdout().is_terminal() { "" } else { &text };
    if !agrees(args, digest, &format!("{before}Agree to this, until it changes? [y/N]: "), output) {
        return Err(not_agreed(Code::NotTrusted, digest));
    }
    asked.record(shown, args.own, settings)?;
    output.aside("trusted until something of this changes\n").map(|()| Exit::Done)
}

/// Whether `--yes` names the digest, or the person at the terminal agrees.
fn agrees(args: &TrustArgs, digest: Digest, question: &str, output: &Output) -> bool {
    match args.yes {
        Some(yes) => yes == digest,
        None => is_attended(output) && person::ask(question) != Answer::No,
    }
}

fn not_agreed(code: Code, digest: Digest) -> Failure {
    Failure::new(code, "nothing was agreed to")
        .with_hint(format!("`--yes {digest}` agrees to exactly this without being asked"))
}

/// Revokes an agreement, whatever has become of its subject: only the records are read.
fn revoke(args: &TrustArgs, settings_files: &SettingsFiles, output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings_files.without_asking()?;
    let here = working_folder()?;
    let workflow = args.workflow.as_deref().map(|name| {
        let path = workflow::find(name, &here).unwrap_or_else(|_| name.into());
        // Imported threads have a name that is no path.
        [name.to_owned(), files::absolute(&path, &here)]
    });
    let folder = settings_files.project().map(|project| super::consent::folder_name(&project.path.to_string_lossy()));
    let revoked = Records::update(settings.trust.as_deref(), |records| match (workflow, folder) {
        (Some(names), _) => names.iter().any(|name| records.revoke_workflow(name)),
        (None, Some(folder)) => records.settings.remove(&folder).is_some(),
        (None, None) => false,
    })?;
    output.aside(if revoked { "no longer trusted\n" } else { "it was not trusted\n" }).map(|()| Exit::Done)
}

fn list(settings: &Settings, output: &mut Output) -> Result<Exit, Failure> {
    let records = Records::read(settings.trust.as_deref())?;
    let of_settings = records.settings.iter().map(|(path, agreed)| ("settings", path.as_str(), agreed));
    let of_workflows = records.all_workflows().map(|(path, agreed)| ("workflow", path, agreed));
    let all: Vec<_> = of_settings.chain(of_workflows).collect();
    for (what, path, agreed) in &all {
        let (digest, own, agreed_at_ms) = (agreed.digest, agreed.own, agreed.agreed_at_ms);
        output.show(&json_line!("trusted", what, path, digest, own, agreed_at_ms), || {
            let mut text = format!("{what}  {path}{}\n", if own { ", yours" } else { "" });
            for ask in &agreed.asks {
                let line = format!("    {:<10} {}  {}", ask.kind, one_line(&ask.name), one_line(&ask.shown()));
                let _ = writeln!(text, "{}", line.trim_end());
            }
            text
        })?;
    }
    if all.is_empty() {
        output.aside("nothing was agreed to yet\n")?;
    }
    Ok(Exit::Done)
}

fn store(args: &TrustArgs, settings: &Settings, output: &mut Output) -> Result<Exit, Failure> {
    let at = &settings.store.value;
    let FolderState::Store(signed) = folder::look(at)? else {
        let message = format!("there is no store in {}", at.display());
        return Err(Failure::new(Code::ThreadUnknown, message).with_hint("the first run makes one, and it is yours"));
    };
    if args.revoke {
        folder::unsign(at)?;
        return output.aside("the store is no longer known as yours\n").map(|()| Exit::Done);
    }
    let view = view_store_at(at)?;
    let own = is_trusted(signed, settings)?;
    let shown = at.to_string_lossy();
    // The digest covers the contents: another thread makes it another store.
    let mut hasher = Hasher::default();
    hasher.update(format!("rondo/store-consent/v1\n{shown}\n{signed:?}\n").as_bytes());
    let mut threads = 0;
    for row in view.iter().flat_map(|view| rows_after(view.store.as_ref(), None)) {
        let (id, row) = row?;
        hasher.update(format!("{id} {} {}\n", row.version, row.seq).as_bytes());
        threads += 1;
    }
    let digest = hasher.finish();
    output.show(&json_line!("trust", store: &shown, digest, threads, own), || {
        let whose = if own { "yours" } else { "not known as yours" };
        format!(
            "{shown} holds {threads} threads and is {whose}\nWhat it holds can stand in for answers of models and tools.\ndigest {digest}\n"
        )
    })?;
    if own {
        return Ok(Exit::Done);
    }
    if !agrees(args, digest, "Make it yours? [y/N]: ", output) {
        return Err(not_agreed(Code::StoreForeign, digest));
    }
    sign(at, settings)?;
    output.aside("the store is yours\n").map(|()| Exit::Done)
}

#[derive(Debug, Serialize)]
struct ToolLine<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Option<serde_json::Value>,
}

fn server(
    name: &str,
    args: &TrustArgs,
    settings_files: &SettingsFiles,
    settings: &Settings,
    output: &mut Output,
) -> Result<Exit, Failure> {
    // Its command was shown with the settings and must be agreed to before it starts.
    let by = consent_by(false, output);
    ConsentRequest::of(settings_files, settings, None)?.permitted("", by, settings)?;
    let offered = super::runtime()?.block_on(tooling::offered(name, settings))?;
    let digest = offered.digest();
    let tools = offered.pins.iter().map(|(name, pin)| ToolLine {
        name,
        description: &pin.description,
        parameters: serde_json::from_str(&pin.parameters).ok(),
    });
    let tools: Vec<ToolLine<'_>> = tools.collect();
    output.show(&json_line!("trust", server: name, digest, tools: &tools, changed: &offered.changed), || {
        let mut text = format!("{name} offers {} tools\n", tools.len());
        for tool in &tools {
            let parameters = tool.parameters.as_ref().map(ToString::to_string).unwrap_or_default();
            let description = tool.description.replace('\n', "\n      ");
            let _ = writeln!(text, "  {}\n      {description}\n      {parameters}", tool.name);
        }
        if let Some(changed) = &offered.changed {
            let _ = writeln!(text, "it has changed:\n{changed}");
        }
        let _ = writeln!(text, "digest {digest}");
        text
    })?;
    for notice in &offered.left_out {
        tell(&format!("{notice}\n"));
    }
    // Tools that were agreed to and are unchanged need no answer.
    let is_unchanged = offered.is_pinned && offered.changed.is_none() && args.yes.is_none() && !is_attended(output);
    if !is_unchanged && !agrees(args, digest, "Agree to these tools, until they change? [y/N]: ", output) {
        return Err(not_agreed(Code::NotTrusted, digest));
    }
    tooling::agree(offered, settings).map(|()| Exit::Done)
}
