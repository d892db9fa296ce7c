//! What a workflow asks for, what of it is granted and by whom, and the question to a person where something is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, IsTerminal as _};

use rondo_agent_kit::tool::means;
use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{RoleKind, Workflow};
use serde::Serialize;

use super::failure::Failure;
use super::output::tell;
use crate::config::{Grant, Settings};
use crate::env::{Env as _, SystemEnv};
use crate::grant::Grants;
use crate::trust::{self, Agreement, Book, Standing};

/// Tools that only read below the workspace: granted where `[grant]` does not say otherwise.
const READING: [&str; 3] = ["list_files", "read_file", "search_files"];

/// A tool that a workflow asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ask {
    /// As the workflow names it: a name or `server.*`.
    pub tool: String,
    /// Who would use it.
    pub roles: Vec<RoleName>,
    /// Who grants it; `None` = nobody.
    pub granted_by: Option<&'static str>,
}

/// What a workflow asks for and what of it is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asks {
    /// Every tool that it asks for, by name.
    pub tools: Vec<Ask>,
    /// What is granted.
    pub grants: Grants,
    /// Whether it has changed since somebody agreed to it.
    pub has_changed: bool,
    /// The digest of its definition.
    pub workflow: Digest,
}

/// Looks at what a workflow asks for.
///
/// # Errors
/// When the trust records cannot be read.
pub fn asks(workflow: &Workflow, file: &str, settings: &Settings) -> Result<Asks, Failure> {
    let (digest, _) =
        Digest::of(Kind::Workflow, workflow).map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
    let named = named(workflow);
    // A workflow that asks for nothing needs no records, whatever is wrong with them.
    let records = settings.trust.as_deref().filter(|_| !named.is_empty());
    let book = Book::read(records).map_err(|error| of_trust(&error))?;
    let standing = book.standing(file, digest);
    let agreed = match standing {
        Standing::Agreed(agreement) => agreement.tools.clone(),
        Standing::Unknown | Standing::Changed(_) => BTreeSet::new(),
    };
    let has_changed = matches!(standing, Standing::Changed(_)) && !named.is_empty();
    let granted = granted_by_settings(&settings.grant);
    let by_settings = if settings.grant.tools.is_some() { "[grant] in rondo.toml" } else { "default" };
    let tools = named.into_iter().map(|(tool, roles)| {
        let granted_by = if has_changed {
            None
        } else if covers(&granted, &tool) {
            Some(by_settings)
        } else {
            agreed.contains(&tool).then_some("trust")
        };
        Ask { tool, roles, granted_by }
    });
    let tools: Vec<Ask> = tools.collect();
    let approve = settings.grant.approve.clone();
    let tools_granted = if has_changed { Vec::new() } else { granted.into_iter().chain(agreed).collect() };
    let grants = Grants { tools: tools_granted, approve };
    Ok(Asks { tools, grants, has_changed, workflow: digest })
}

/// The tools that the roles of a workflow name, with the roles.
pub fn named(workflow: &Workflow) -> BTreeMap<String, Vec<RoleName>> {
    let mut named: BTreeMap<String, Vec<RoleName>> = BTreeMap::new();
    for (name, role) in &workflow.roles {
        let tools = match &role.kind {
            RoleKind::Model(model) => model.tools.as_slice(),
            RoleKind::Tool(tool) => std::slice::from_ref(&tool.tool),
            RoleKind::Selector(_) | RoleKind::Human | RoleKind::Rule(_) | RoleKind::Workflow(_) => &[],
        };
        for tool in tools {
            named.entry(tool.clone()).or_default().push(name.clone());
        }
    }
    named
}

fn granted_by_settings(grant: &Grant) -> Vec<String> {
    grant.tools.clone().unwrap_or_else(|| READING.map(str::to_owned).to_vec())
}

/// Whether `granted` has anything of what `asked` means. Of several tools a role has those that are granted.
fn covers(granted: &[String], asked: &str) -> bool {
    granted.iter().any(|pattern| {
        means(pattern, asked) || asked.strip_suffix('*').is_some_and(|server| pattern.starts_with(server))
    })
}

impl Asks {
    /// What nobody grants.
    pub fn missing(&self) -> Vec<&Ask> {
        self.tools.iter().filter(|ask| ask.granted_by.is_none()).collect()
    }

    /// What the workflow asks for, a line a tool.
    pub fn text(&self) -> String {
        let width = self.tools.iter().map(|ask| ask.tool.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for ask in &self.tools {
            let roles = ask.roles.iter().map(RoleName::as_str).collect::<Vec<_>>().join(", ");
            let by = ask.granted_by.map_or_else(|| "not granted".to_owned(), |by| format!("granted by {by}"));
            let _ = writeln!(text, "  {:<width$}  for {roles}: {by}", ask.tool);
        }
        text
    }

    /// The failure that what is missing is.
    pub fn denied(&self, workflow: &str) -> Failure {
        if self.has_changed {
            return Failure::new(
                Code::NotTrusted,
                format!("{workflow} has changed since you agreed to what it asks for"),
            )
            .with_hint(format!("`rondo trust {workflow}` shows what it asks for now"));
        }
        let missing = self.missing();
        let names = missing.iter().map(|ask| {
            format!("{} (for {})", ask.tool, ask.roles.iter().map(RoleName::as_str).collect::<Vec<_>>().join(", "))
        });
        let names = names.collect::<Vec<_>>().join(", ");
        Failure::new(Code::ToolNotGranted, format!("{workflow} asks for tools that are not granted: {names}"))
            .with_hint(format!(
                "add them to `tools` in [grant] of rondo.toml, or look and agree with `rondo trust {workflow}`"
            ))
    }

    /// Takes everything that is missing for granted: a person has agreed.
    pub fn grant_missing(&mut self) {
        // After a change nothing counts as granted any more, so everything that is asked for is missing.
        self.grants.tools.extend(self.tools.iter().map(|ask| ask.tool.clone()));
        self.has_changed = false;
        for ask in &mut self.tools {
            ask.granted_by.get_or_insert("you");
        }
    }

    /// Records that a person agreed to everything that the workflow asks for.
    ///
    /// # Errors
    /// When the trust records cannot be written.
    pub fn record(&self, file: &str, name: &str, settings: &Settings) -> Result<(), Failure> {
        let agreement = Agreement {
            name: name.to_owned(),
            workflow: self.workflow,
            tools: self.tools.iter().map(|ask| ask.tool.clone()).collect(),
            agreed_at_ms: SystemEnv::default().now_ms(),
        };
        Book::update(settings.trust.as_deref(), |book| book.agree(file.to_owned(), agreement))
            .map_err(|error| of_trust(&error))
    }
}

/// Trust records that cannot be used, as it is told.
pub fn of_trust(error: &trust::Error) -> Failure {
    Failure::new(Code::NotTrusted, error.to_string())
}

/// What a person answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This time.
    Once,
    /// Until the workflow changes.
    Always,
    /// No.
    No,
}

/// Whether there is a person to ask.
pub fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks the person at the terminal. Anything but a clear yes is a no.
pub fn ask(question: &str) -> Answer {
    tell(question);
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).is_err() {
        return Answer::No;
    }
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" | "o" | "once" => Answer::Once,
        "a" | "always" => Answer::Always,
        _ => Answer::No,
    }
}

/// Who asks, for whom.
pub struct Asked<'a> {
    /// The workflow's file, as an absolute path.
    pub file: &'a str,
    /// What the person calls it.
    pub shown: &'a str,
    /// Whether answers come from a script.
    pub is_scripted: bool,
    /// Whether there is a person to ask.
    pub is_attended: bool,
}

/// What a run of a workflow is granted, after a person was asked about what is missing, where there is one.
///
/// # Errors
/// What is not granted, unless answers come from a script: then it is missed when it is called.
pub fn permitted(workflow: &Workflow, asked: &Asked<'_>, settings: &Settings) -> Result<Grants, Failure> {
    let mut asks = asks(workflow, asked.file, settings)?;
    if asks.missing().is_empty() {
        return Ok(asks.grants);
    }
    if asked.is_attended {
        let changed = if asks.has_changed { " has changed and" } else { "" };
        let question = format!(
            "{}{changed} asks for these tools:\n{}Allow them? [y] this time, [a] until the workflow changes, [N] no: ",
            asked.shown,
            asks.text()
        );
        match ask(&question) {
            Answer::No => return Err(asks.denied(asked.shown)),
            Answer::Once => {}
            Answer::Always => asks.record(asked.file, &workflow.name, settings)?,
        }
        asks.grant_missing();
        return Ok(asks.grants);
    }
    if asks.has_changed || !asked.is_scripted {
        return Err(asks.denied(asked.shown));
    }
    Ok(asks.grants)
}

/// What `rondo.toml` alone grants.
pub fn by_settings(settings: &Settings) -> Grants {
    Grants { tools: granted_by_settings(&settings.grant), approve: settings.grant.approve.clone() }
}
