//! Consent: what a project's settings and a workflow ask for, which of it was agreed to, and the question to a person
//! about the rest.
//!
//! Nothing here starts or reads a program. A verb uses exactly what was shown: settings and workflow files are read
//! once.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rondo_agent_kit::pinned::{Pinned, digest as digest_of};
use rondo_agent_kit::tool::means;
use rondo_core::env::{Env as _, SystemEnv};
use rondo_core::grant::{Grants, Rule};
use rondo_core::thread::ImportedPast;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind as ObjectKind;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::workflow::{Policy, Workflow};
use rondo_protocol::{Digest, Value};
use rondo_settings::folder_of;
use rondo_settings::trust::{self, Agreement, Ask, Consent, Kind, Records, digest, lasting};
use rondo_settings::{Grant, Mcp, Settings, Stated, keys};
use rondo_workflows::shipped;

use super::settings_files::SettingsFiles;
use super::tooling::granted_paths;
pub use super::tooling::named;
use crate::failure::Failure;
use crate::tell::{one_line, plural};

/// Tools that only read below the workspace: granted unless `[grant]` changes it.
pub(crate) const READING: [&str; 3] = ["list_files", "read_file", "search_files"];

/// Precedes the names of the roles that ask for a tool.
const FOR_ROLES: &str = "for ";

/// What stands before the id of an imported thread in the trust records, where others have a path.
const THREAD: &str = "thread ";

/// How many harmless asks of a kind are shown; the others are counted.
const MAX_QUIET: usize = 10;
/// How many other asks a person is asked about at once.
const MAX_LOUD: usize = 50;
/// The most bytes of the name and value of one of these.
const MAX_LOUD_BYTES: usize = 2_000;

const REACHES_HOSTS: &str = "http_get";

/// The hook kind that is an outside program, and the key that names it.
const HOOK_PROGRAM: (&str, &str) = ("command", "name");

#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub workflow: &'a Workflow,
    pub policy: &'a Policy,
    /// Its file: an absolute path, or the name of one that ships with rondo.
    pub file: &'a str,
    /// Whether the file now holds this definition: a thread may have started with another.
    pub is_current: bool,
}

/// What the settings and the workflow ask for, and which of it was agreed to.
#[derive(Debug, Clone, Default)]
pub struct ConsentRequest {
    /// The project's settings; `None` if they ask for nothing.
    pub settings: Option<FileAsks>,
    /// The workflow; `None` if it asks for nothing.
    pub workflow: Option<FileAsks>,
    /// A workflow that asks for nothing: a person can still say that it is theirs.
    pub harmless: Option<FileAsks>,
    /// The past that a thread would go on from, if it was imported.
    pub past: Option<FileAsks>,
}

/// What one file asks for.
#[derive(Debug, Clone)]
pub struct FileAsks {
    pub file: String,
    pub asks: Vec<Ask>,
    /// Identifies it in the trust records.
    digest: Digest,
    /// Identifies it in the trust records when the workflow is the person's own.
    own_digest: Digest,
    /// Whether a person agreed to it in this form.
    pub is_agreed: bool,
    /// The asks that a person agreed to, for this or an earlier form.
    agreed: Option<Vec<Ask>>,
}

/// How a person knows what they agree to.
#[derive(Debug, Clone, Copy)]
pub enum Shown<'a> {
    /// They read this text.
    Text(&'a str),
    /// They name the digest of what they read.
    Digest(Digest),
    /// They had rondo write the workflow just now.
    Written,
}

/// Who can agree to the rest.
#[derive(Debug, Clone, Copy)]
pub enum ConsentSource {
    /// `--trust`: everything is agreed to for this process.
    Flag,
    /// A person, who answers what this function asks.
    Person(fn(&str) -> Answer),
    Nobody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Once,
    /// Until it changes.
    Always,
    Own,
    No,
}

impl ConsentRequest {
    /// Collects the asks. `whole` are the settings with everything in the project's file.
    pub fn of(files: &SettingsFiles, whole: &Settings, subject: Option<Subject<'_>>) -> Result<Self, Failure> {
        let asks = files.asks();
        let of_workflow = subject.as_ref().map_or(Ok(Vec::new()), |subject| of_workflow(subject, whole))?;
        let has_asks = of_workflow.iter().any(|ask| ask.kind != Kind::Limits);
        // If nothing is asked for, defective records do not matter.
        let records = Records::read(whole.trust.as_deref().filter(|_| !asks.is_empty() || has_asks))?;
        let mut request = Self::default();
        if !asks.is_empty() {
            let file = whole.file.as_deref().map_or_else(String::new, |file| file.to_string_lossy().into_owned());
            let digest = digest(&asks)?;
            let consent = records.settings(&folder_name(&file), digest);
            request.settings = Some(FileAsks::new(file, asks, digest, digest, &consent));
        }
        if let Some(subject) = subject {
            let (definition, own) = (definition(&subject)?, lasting(&of_workflow)?);
            let consent = records.workflow(subject.file, definition, own, subject.is_current);
            let place = if has_asks { &mut request.workflow } else { &mut request.harmless };
            *place = Some(FileAsks::new(subject.file.to_owned(), of_workflow, definition, own, &consent));
        }
        Ok(request)
    }

    /// Adds the past that a thread continues from, if it was imported.
    pub fn with_past(self, imported: Option<&ImportedPast>, whole: &Settings) -> Result<Self, Failure> {
        let Some(ImportedPast { thread, seq, step }) = imported else { return Ok(self) };
        let last = step.map_or_else(String::new, |step| format!("the last of them {step}"));
        let steps = if *seq == 0 { "steps that a repair found".to_owned() } else { plural(*seq, "step") };
        let asks = vec![Ask::new(Kind::Import, steps, last)];
        let (file, digest) = (format!("{THREAD}{thread}"), digest(&asks)?);
        let records = Records::read(whole.trust.as_deref())?;
        let consent = records.workflow(&file, digest, digest, false);
        let past = FileAsks::new(file, asks, digest, digest, &consent);
        Ok(Self { past: Some(past), ..self })
    }

    fn files(&self) -> impl Iterator<Item = &FileAsks> {
        self.settings.iter().chain(&self.workflow).chain(&self.past)
    }

    pub fn asks(&self) -> Vec<Ask> {
        self.files().flat_map(|file| file.asks.clone()).collect()
    }

    pub fn is_agreed(&self) -> bool {
        self.files().all(|file| file.is_agreed)
    }

    /// Identifies all of it: `--yes` agrees to exactly this.
    pub fn digest(&self) -> Result<Digest, Failure> {
        let digests = self.files().flat_map(|file| [file.file.as_bytes().to_vec(), file.digest.as_bytes().to_vec()]);
        let asks = digest(&self.asks())?;
        let mut bytes = b"rondo/consent/v1\n".to_vec();
        bytes.extend(digests.flatten());
        bytes.extend(asks.as_bytes());
        Ok(Digest::sha256(&bytes))
    }

    /// The changes since the agreement, one line each.
    pub fn changed(&self) -> Vec<String> {
        let line =
            |sign: char, ask: &Ask| format!("{sign} {} {}: {}", ask.kind, one_line(&ask.name), one_line(&ask.shown()));
        let mut lines = Vec::new();
        for file in self.files().filter(|file| !file.is_agreed) {
            let Some(before) = &file.agreed else { continue };
            lines.extend(before.iter().filter(|ask| !file.asks.contains(ask)).map(|ask| line('-', ask)));
            lines.extend(file.asks.iter().filter(|ask| !before.contains(ask)).map(|ask| line('+', ask)));
            if lines.is_empty() {
                lines.push(format!("~ {}: its texts, limits or retries", one_line(&file.file)));
            }
        }
        lines
    }

    /// All of it for a person, of each file the harmless asks first: they are counted where they are many, so that they
    /// cannot hide the others.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let changed = self.changed();
        for line in changed.iter().take(MAX_QUIET) {
            let _ = writeln!(text, "  changed  {line}");
        }
        if changed.len() > MAX_QUIET {
            let _ = writeln!(text, "  changed  {} more", changed.len() - MAX_QUIET);
        }
        for file in self.files() {
            let consent = match (file.is_agreed, &file.agreed) {
                (true, _) => ", which you agreed to",
                (false, Some(_)) => ", and has changed since you agreed",
                (false, None) => "",
            };
            let _ = match (one_line(&file.file), file.is_past()) {
                (file, true) => writeln!(text, "{file} was imported or repaired{consent}; who made it is not known:"),
                (file, false) if file.is_empty() => writeln!(text, "the workflow asks for{consent}:"),
                (file, false) => writeln!(text, "{file} asks for{consent}:"),
            };
            let width = file.asks.iter().map(|ask| ask.name.chars().count()).max().unwrap_or(0).min(40);
            let (quiet, loud): (Vec<&Ask>, Vec<&Ask>) = file.asks.iter().partition(|ask| is_quiet(ask));
            for asks in quiet.chunk_by(|a, b| a.kind == b.kind) {
                let shown = asks.len().min(MAX_QUIET);
                asks.iter().take(shown).for_each(|ask| line(&mut text, ask, width));
                if let Some(ask) = asks.get(shown) {
                    let _ = writeln!(text, "  {:<10} {} more; --json shows them", ask.kind, asks.len() - shown);
                }
            }
            for ask in loud {
                line(&mut text, ask, width);
            }
        }
        text
    }

    /// Refuses to ask about more than a person would read.
    pub fn can_be_read(&self, shown: &str) -> Result<(), Failure> {
        let loud =
            || self.files().filter(|file| !file.is_agreed).flat_map(|file| &file.asks).filter(|ask| !is_quiet(ask));
        let longest = loud().map(|ask| ask.name.len() + ask.shown().len()).max().unwrap_or(0);
        let message = if loud().count() > MAX_LOUD {
            format!("{} things are asked for, more than can be read at once", loud().count())
        } else if longest > MAX_LOUD_BYTES {
            format!("something of {longest} bytes is asked for, more than can be read at once")
        } else {
            return Ok(());
        };
        let hint = Hint::from(self.agreeing(shown).choosing("json"))
            .words(" shows all of it, and ")
            .operation(Operation::new(Verb::Again).with("yes", "DIGEST"))
            .words(" agrees to that");
        Err(Failure::new(Code::NotTrusted, message).with_hint(hint))
    }

    /// What a run may use: the grants of the settings, and what a person agreed to for the workflow.
    pub fn grants(&self, whole: &Settings) -> Grants {
        let asked = self.workflow.iter().flat_map(|file| &file.asks).filter(|ask| ask.kind == Kind::Tool);
        let mut grants = by_settings(whole);
        let granted = grants.tools.clone();
        // Where settings name calls of a tool, only those are allowed: agreeing to a workflow lifts no rule.
        let ungranted = asked.filter(|ask| !covers(&granted, &ask.name));
        let of_roles = ungranted.flat_map(|ask| {
            let roles = ask.value.as_str().and_then(|value| value.strip_prefix(FOR_ROLES)).unwrap_or_default();
            // A role of a child workflow stands behind those that lead to it; in its own thread it has its name alone. Every
            // role of that name that lists the tool is among those that were agreed to.
            let names = roles.split(", ").map(|role| role.rsplit('/').next().unwrap_or(role));
            names.filter_map(|role| format!("{role}/{}", ask.name).parse::<Rule>().ok()).collect::<Vec<_>>()
        });
        grants.tools.extend(of_roles);
        grants
    }

    /// What a run may use, after asking a person about the rest.
    pub fn permitted(&self, shown: &str, by: ConsentSource, whole: &Settings) -> Result<Grants, Failure> {
        if matches!(by, ConsentSource::Flag) {
            return Ok(self.grants(whole));
        }
        // Records that came with the folder do not count.
        self.records_lie_outside(whole)?;
        if self.is_agreed() {
            return Ok(self.grants(whole));
        }
        let ConsentSource::Person(ask) = by else { return Err(self.denied(shown)) };
        let text = self.text();
        self.can_be_read(shown)?;
        let own = if self.lacks_workflow() { ", [o] it is mine: until it asks for more" } else { "" };
        let question = format!("{text}Allow this? [y] this time, [a] until it changes{own}, [N] no: ");
        match ask(&question) {
            Answer::No => return Err(self.denied(shown)),
            Answer::Once => {}
            answer => self.record(Shown::Text(&text), answer == Answer::Own, whole)?,
        }
        Ok(self.grants(whole))
    }

    /// Records that a person agreed to what they were shown; with `own` the workflow is theirs. Nothing else in the
    /// program records consent.
    ///
    /// # Errors
    /// [`Code::NotTrusted`] if that is not what is asked for; any error of the records.
    pub fn record(&self, shown: Shown<'_>, own: bool, whole: &Settings) -> Result<(), Failure> {
        let is_this = match shown {
            Shown::Text(text) => text == self.text(),
            Shown::Digest(digest) => digest == self.digest()?,
            Shown::Written => self.settings.is_none(),
        };
        if !is_this {
            return Err(Failure::new(Code::NotTrusted, "what is asked for is not what was shown"));
        }
        self.records_lie_outside(whole)?;
        let agreed_at_ms = SystemEnv::default().now_ms();
        let agreement = |file: &FileAsks, own: bool| {
            let digest = if own { file.own_digest } else { file.digest };
            Agreement { digest, own, asks: file.asks.clone(), agreed_at_ms }
        };
        Records::update(whole.trust.as_deref(), |records| {
            if let Some(file) = &self.settings {
                records.settings.insert(folder_name(&file.file), agreement(file, false));
            }
            if let Some(file) = self.workflow.as_ref().or(self.harmless.as_ref().filter(|_| own)) {
                records.agree_to_workflow(file.file.clone(), agreement(file, own));
            }
            if let Some(file) = &self.past {
                records.agree_to_workflow(file.file.clone(), agreement(file, false));
            }
        })
        .map_err(Failure::from)
    }

    /// Records and the secret define what is trusted: a folder under question must not be able to contain them.
    pub fn records_lie_outside(&self, whole: &Settings) -> Result<(), Failure> {
        let asking = self.files().filter(|file| !shipped::is_one(&file.file) && !file.is_past());
        let folders: Vec<PathBuf> = asking.map(|file| folder_name(&file.file).into()).collect();
        let kept = [("trust records", &whole.trust), ("secret", &whole.secret_file)];
        for (what, file) in kept.into_iter().filter_map(|(what, file)| Some((what, file.as_ref()?))) {
            let real = real(file);
            let within = folders.iter().find(|folder| file.starts_with(folder) || real.starts_with(self::real(folder)));
            if let Some(folder) = within {
                let message = format!(
                    "the user's {what} would lie in {}, which is in the folder that is asked about, {}",
                    file.display(),
                    folder.display()
                );
                let hint = Hint::from("set XDG_DATA_HOME to a folder outside it; ").operation(trusting());
                let hint = hint.words(" agrees for one run without records");
                return Err(Failure::new(Code::NotTrusted, message).with_hint(hint));
            }
        }
        Ok(())
    }

    pub fn denied(&self, shown: &str) -> Failure {
        if let Some(past) = self.past.as_ref().filter(|past| !past.is_agreed) {
            let message = format!("{} was imported or repaired, and nobody agreed to continue from it", past.file);
            let hint = Hint::from("on a terminal this asks; ").operation(trusting()).words(" agrees for one run");
            return Failure::new(Code::NotTrusted, message).with_hint(hint);
        }
        let missing: Vec<&FileAsks> = self.files().filter(|file| !file.is_agreed).collect();
        let files = missing.iter().map(|file| one_line(&file.file)).collect::<Vec<_>>().join(" and ");
        let has_changed = missing.iter().any(|file| file.agreed.is_some());
        let asks = missing.iter().flat_map(|file| &file.asks);
        let asks = asks.filter(|ask| !matches!(ask.kind, Kind::Limits | Kind::File));
        let asks = asks.map(|ask| match (ask.kind, ask.value.as_str()) {
            (Kind::Tool, Some(roles)) => format!("{} ({roles})", ask.name),
            _ => format!("{} {}", ask.kind, ask.name),
        });
        let asks = asks.collect::<Vec<_>>().join(", ");
        let message = if has_changed {
            format!("{files} has changed since you agreed to what it asks for, which is now: {asks}")
        } else {
            format!("nobody agreed to what {files} asks for: {asks}")
        };
        let hint = Hint::from(self.agreeing(shown)).words(" shows it in full and agrees; ");
        Failure::new(Code::NotTrusted, message).with_hint(hint.operation(trusting()).words(" agrees for one run"))
    }

    /// What agrees to all that is missing: of the workflow, or of the settings if only they are.
    fn agreeing(&self, shown: &str) -> Operation {
        let trust = Operation::new(Verb::Trust);
        if self.lacks_workflow() { trust.named(shown) } else { trust }
    }

    fn lacks_workflow(&self) -> bool {
        self.workflow.as_ref().is_some_and(|file| !file.is_agreed)
    }
}

/// The same once more, agreed to for that time alone.
fn trusting() -> Operation {
    Operation::new(Verb::Again).choosing("trust")
}

impl FileAsks {
    fn is_past(&self) -> bool {
        self.asks.iter().any(|ask| ask.kind == Kind::Import)
    }

    fn new(file: String, asks: Vec<Ask>, digest: Digest, own_digest: Digest, consent: &Consent<'_>) -> Self {
        let is_agreed = matches!(consent, Consent::Agreed(_));
        let agreed = match consent {
            Consent::Agreed(agreement) | Consent::Changed(agreement) => Some(agreement.asks.clone()),
            Consent::Unknown => None,
        };
        Self { file, asks, digest, own_digest, is_agreed, agreed }
    }
}

/// Whether all of a project's settings apply for a verb that starts nothing and asks no one.
pub fn counts(files: &SettingsFiles, harmless: &Settings) -> bool {
    let Some(project) = files.project() else { return true };
    let is_agreed = |asked: ConsentRequest| asked.is_agreed() && asked.records_lie_outside(harmless).is_ok();
    project.faults.iter().all(trust::owner::Unsafe::can_be_agreed_to)
        && ConsentRequest::of(files, harmless, None).is_ok_and(is_agreed)
}

/// What a workflow asks for beyond tools that only read below the workspace.
fn of_workflow(subject: &Subject<'_>, settings: &Settings) -> Result<Vec<Ask>, Failure> {
    let granted = granted_by_settings(&settings.grant);
    let is_shipped = shipped::is_one(subject.file);
    let named = named(subject.workflow);
    let provided = rules(&settings.provided.tools);
    let mut asks = Vec::new();
    for (tool, roles) in &named {
        let is_harmless = is_shipped || READING.contains(&tool.as_str()) || covers(&provided, tool);
        if !(is_harmless && covers(&granted, tool)) {
            asks.push(Ask::new(Kind::Tool, tool, format!("{FOR_ROLES}{}", roles.join(", "))));
        }
    }
    if is_shipped {
        return Ok(asks);
    }
    let is_asked = |(name, _): &(&String, &Mcp)| !settings.provided.servers.contains(name);
    for (name, server) in settings.mcp.iter().filter(is_asked) {
        if named.keys().any(|tool| tool.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))) {
            asks.push(Ask::new(Kind::Server, name, server.place()));
        }
    }
    let altering = subject.workflow.tree().into_iter().flat_map(|(_, workflow)| &workflow.hooks);
    for hook in subject.policy.all_hooks().into_iter().chain(altering) {
        let program = hook.settings.get(HOOK_PROGRAM.1).and_then(Value::as_str).filter(|_| hook.kind == HOOK_PROGRAM.0);
        if let Some(program) = program {
            let argv = settings.hooks.get(program).map_or_else(Vec::new, |hook| keys::masked_words(&hook.argv));
            let ask = Ask::new(Kind::Hook, program, argv.join(" "));
            if !asks.contains(&ask) {
                asks.push(ask);
            }
        }
    }
    if named.keys().any(|tool| means(tool, REACHES_HOSTS) || tool == REACHES_HOSTS) {
        asks.extend(settings.grant.hosts.iter().map(|host| Ask::new(Kind::Host, host, REACHES_HOSTS)));
    }
    if !named.is_empty() {
        asks.extend(folders_outside(subject.file, settings));
    }
    asks.push(Ask::new(Kind::Limits, "workflow", limits(subject.policy)?));
    Ok(asks)
}

/// The folders that a workflow's tools reach outside the workspace, and the workspace itself if the workflow is not in
/// it.
fn folders_outside(file: &str, settings: &Settings) -> Vec<Ask> {
    let workspace = real(&settings.workspace);
    let mut asks = Vec::new();
    if !real(Path::new(file)).starts_with(&workspace) {
        let why = "where it is run; the workflow lies elsewhere";
        asks.push(Ask::new(Kind::Read, settings.workspace.to_string_lossy(), why));
    }
    for (kind, list) in [(Kind::Read, &settings.grant.read), (Kind::Write, &settings.grant.write)] {
        let paths = granted_paths(settings, list.as_deref()).into_iter().map(|path| workspace.join(path));
        let outside = paths.filter(|path| !real(path).starts_with(&workspace));
        asks.extend(outside.map(|path| Ask::new(kind, path.to_string_lossy(), Value::Null)));
    }
    asks
}

fn limits(policy: &Policy) -> Result<Value, Failure> {
    Ok(match Value::from_serialize(&policy.limits)? {
        Value::Object(members) => Value::Object(members.into_iter().filter(|(_, limit)| !limit.is_null()).collect()),
        other => other,
    })
}

/// The digest of a workflow in the records: its definition with every included file, and its policy.
fn definition(subject: &Subject<'_>) -> Result<Digest, Failure> {
    let (workflow, _) = Digest::of(ObjectKind::Workflow, subject.workflow)?;
    let (policy, _) = Digest::of(ObjectKind::Policy, subject.policy)?;
    let mut bytes = b"rondo/trusted/v1\n".to_vec();
    bytes.extend(workflow.as_bytes());
    bytes.extend(policy.as_bytes());
    Ok(Digest::sha256(&bytes))
}

/// Whether an ask gives nothing to anybody: it takes something away, or names the bytes of a file.
fn is_quiet(ask: &Ask) -> bool {
    matches!(ask.kind, Kind::Deny | Kind::Approve | Kind::Durability | Kind::Limits | Kind::File)
}

fn line(text: &mut String, ask: &Ask, width: usize) {
    let (name, value) = (one_line(&ask.name), one_line(&ask.shown()));
    let line = format!("  {:<10} {name:<width$}  {value}", ask.kind);
    let _ = writeln!(text, "{}{}", line.trim_end(), remark(ask));
}

fn remark(ask: &Ask) -> &'static str {
    let text = |key: &str| ask.value.get(key).and_then(Value::as_str);
    match ask.kind {
        Kind::Server if ask.value.get("command").is_some() && text("sandbox") == Some("none") => {
            "\n             ! it runs outside every sandbox, with all rights that you have"
        }
        Kind::Provider if text("base_url").is_some_and(is_plain_http) => {
            "\n             ! prompts and the key go over plain http"
        }
        Kind::Server if text("url").is_some_and(is_plain_http) => {
            "\n             ! calls and the key go over plain http"
        }
        Kind::Owner => "\n             ! that user can change it at any time",
        _ => "",
    }
}

/// Whether an address sends data unencrypted: plain http beyond this machine.
pub fn is_plain_http(address: &str) -> bool {
    let Some(rest) = address.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    !(is_loopback || host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost"))
}

/// Files by the words that name them, each with its path and its digest.
pub type NamedFiles = BTreeMap<String, (PathBuf, String)>;

/// The files below `folder` that a command or a schema of the settings names, with their digests: replacing a program
/// asks again.
pub(crate) fn named_files(stated: &Stated, folder: &Path) -> NamedFiles {
    let servers = stated.mcp.values().flat_map(|mcp| mcp.command.iter().chain(&mcp.args).chain(mcp.env.values()));
    let tools = stated.tools.values().flat_map(|tool| tool.argv.iter().chain(tool.schema_file()));
    let hooks = stated.hooks.values().flat_map(|hook| &hook.argv);
    let commands = stated.providers.values().filter_map(|provider| provider.key_command.as_ref());
    let words = servers.chain(tools).chain(hooks).chain(commands.flat_map(|command| &command.value));
    let folder = real(folder);
    let mut found = BTreeMap::new();
    for word in words.flat_map(|word| named_in(word)).filter(|word| !word.is_empty()) {
        let path = folder.join(word);
        let lies_below = path.starts_with(&folder) || real(&path).starts_with(&folder);
        if lies_below && real(&path) != folder && path.exists() && !found.contains_key(word) {
            let digest = digest_of(&path);
            found.insert(word.to_owned(), (path, digest));
        }
    }
    found
}

/// The names in a word of a command: itself, the part after `=` or an option's letter, and each word of a shell line.
fn named_in(word: &str) -> Vec<&str> {
    let mut names = vec![word];
    names.extend(word.split_once('=').map(|(_, value)| value));
    names.extend(word.strip_prefix('-').and_then(|option| option.get(1..)));
    let is_between = |c: char| c.is_whitespace() || ";&|()<>{}'\"`$,=:@".contains(c);
    names.extend(word.split(is_between));
    names
}

/// The files that words of a command name, as they were when somebody was asked.
pub fn pinned<'w>(settings: &Settings, words: impl IntoIterator<Item = &'w String>) -> Pinned {
    let names = words.into_iter().flat_map(|word| named_in(word));
    names.filter_map(|name| settings.shown.get(name).cloned()).collect()
}

/// Resolves the links of a path as far as it exists.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    })
}

/// The folder of a file, as the records name it.
pub fn folder_name(file: &str) -> String {
    real(folder_of(Path::new(file))).to_string_lossy().into_owned()
}

fn granted_by_settings(grant: &Grant) -> Vec<Rule> {
    grant.tools.as_deref().map_or_else(|| READING.map(Rule::of_tool).to_vec(), rules)
}

/// Whether `granted` contains any tool that `asked` matches. A role gets those of its tools that are granted.
fn covers(granted: &[Rule], asked: &str) -> bool {
    granted.iter().map(Rule::tool).any(|pattern| {
        means(pattern, asked) || asked.strip_suffix('*').is_some_and(|server| pattern.starts_with(server))
    })
}

pub fn by_settings(settings: &Settings) -> Grants {
    let grant = &settings.grant;
    Grants { tools: granted_by_settings(grant), deny: rules(&grant.deny), approve: rules(&grant.approve) }
}

/// Parses entries of `[grant]`, which are already validated.
fn rules(texts: &[String]) -> Vec<Rule> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

pub fn granted_by(asked: &ConsentRequest, settings: &Settings, tool: &str) -> Option<&'static str> {
    let is_asked = |ask: &Ask| ask.kind == Kind::Tool && ask.name == tool;
    match asked.workflow.as_ref().filter(|file| file.asks.iter().any(is_asked)) {
        Some(file) if file.is_agreed => Some("trust"),
        Some(_) => None,
        None if settings.grant.tools.is_some() => Some("[grant]"),
        None => Some("default"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_what_leaves_the_machine_readable() {
        for address in
            ["http://example.org/v1", "http://10.0.0.1:8080", "http://localhost.example.org", "http://[2001:db8::1]/"]
        {
            assert!(is_plain_http(address), "{address}");
        }
        for address in ["https://example.org", "http://127.0.0.1:9/v1", "http://localhost:11434/v1", "http://[::1]:80/"]
        {
            assert!(!is_plain_http(address), "{address}");
        }
    }

    #[test]
    fn a_file_that_a_command_names_is_known_by_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("server.py"), "one").unwrap();
        std::os::unix::fs::symlink("server.py", folder.path().join("link.py")).unwrap();
        let text = "[mcp.a]\ncommand = \"python3\"\nargs = [\"link.py\", \"--config=server.py\", \"/etc/passwd\"]\n";
        let stated = rondo_settings::read("rondo.toml", text, rondo_settings::Layer::Project).unwrap();
        let before = named_files(&stated, folder.path());
        assert_eq!(before.keys().collect::<Vec<_>>(), ["link.py", "server.py"]);
        assert!(named_in("cd x && ./run.sh").contains(&"./run.sh") && named_in("-fbuild.mk").contains(&"build.mk"));
        std::fs::write(folder.path().join("server.py"), "two").unwrap();
        let after = named_files(&stated, folder.path());
        assert!(before.values().zip(after.values()).all(|(before, after)| before.1 != after.1));
    }
}
