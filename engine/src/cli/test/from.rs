//! `rondo test --from THREAD`: writes a scenario that repeats the answers of a stored thread and expects its results.
//!
//! The answers become a script, not a recording: a script still answers after a prompt is edited.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rondo_agent_kit::conversation::{Position, Round, StepLocation};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::{AnsweredBy, Entry, Note, Observation, Step, Transcript};
use rondo_protocol::source;
use rondo_protocol::{Value, canonical};
use serde::Serialize;

use super::super::find_thread::find_thread_in;
use super::super::init::write_new;
use super::super::store_access::view_store;
use super::super::{StoreArgs, workflow};
use crate::author::scenario::{FOLDER, Suite};
use crate::cli::failure::Failure;
use crate::cli::files::absolute;
use crate::cli::output::{Output, tell};
use crate::conversation::rebuild;
use crate::exit::Exit;
use crate::store::{Read, StoredStep};
use crate::thread::Origin;

/// How many characters of the thread id go into the scenario's name.
const NAME_LENGTH: usize = 10;

/// The input of a hook or tool program.
#[derive(Serialize)]
struct WrittenLine<'a> {
    event: &'static str,
    file: &'a str,
}

/// Writes the scenario.
///
/// # Errors
/// When there is no such thread, its workflow has no folder, or a scenario of that name exists.
pub fn make(
    word: &str,
    name: Option<&str>,
    path: &str,
    store: &StoreArgs,
    here: &Path,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(view_store(store)?, word)?;
    let store = view.store.as_ref();
    let beginning = rebuild::beginning(store, &row)?;
    let origin = Origin::from_bytes(&row.origin)
        .map_err(|error| Failure::new(Code::StoreDamaged, format!("the row of thread {thread}: {error}")))?;
    let folder = folder(&origin, path, here, &beginning.workflow.name)?;
    let id: String = thread.as_str().chars().take(NAME_LENGTH).collect();
    let name = name.map_or_else(|| format!("from-{id}"), str::to_owned);
    if !Suite::takes_name(&name) {
        let failure = Failure::new(Code::ScenarioName, format!("{name:?} is not a name for a scenario"));
        return Err(failure.with_hint("use letters, digits, `-`, `_` and `.`, but not `__`"));
    }
    let mut said = ScenarioBuilder::of(&beginning.workflow, store);
    if row.seq > 0 {
        let mut fault = None;
        let scanned = store.steps(&thread, 1..=row.seq, &mut |stored, note| match said.step(&stored, &note) {
            Ok(()) => true,
            Err(error) => {
                fault = Some(error);
                false
            }
        });
        scanned?;
        if let Some(error) = fault {
            return Err(error.into());
        }
    }
    let whole = said.scenario(&thread.to_string(), &beginning.start.input, &origin);
    let file = write(&folder, &name, &whole)?;
    let shown = file.strip_prefix(here).unwrap_or(&file).display().to_string();
    if output.is_json() {
        output.line(&WrittenLine { event: "scenario_written", file: &shown })?;
    } else {
        output.text(&format!("{shown}\n"))?;
    }
    for note in &said.notes {
        tell(&format!("note: {note}\n"));
    }
    tell(&format!("\nLook at it, then take over its snapshots: rondo test {shown} --accept\n"));
    Ok(Exit::Done)
}

/// The folder of a thread's workflow.
fn folder(origin: &Origin, path: &str, here: &Path, name: &str) -> Result<PathBuf, Failure> {
    let file = match &origin.file {
        Some(file) if path == "." => PathBuf::from(file),
        _ => {
            let loaded = workflow::load(path, here)?;
            let found = &loaded.checked.workflow.name;
            if found != name {
                let message = format!("the thread is one of `{name}`, and {path} holds `{found}`");
                return Err(Failure::new(Code::WorkflowNotFound, message).with_hint("name the workflow that it is of"));
            }
            PathBuf::from(absolute(&loaded.path, here))
        }
    };
    match file.parent().filter(|_| file.is_file()) {
        Some(folder) => Ok(folder.to_path_buf()),
        None => {
            Err(Failure::new(Code::WorkflowNotFound, format!("{}: the workflow is not there any more", file.display()))
                .with_hint("name the workflow: `rondo test WORKFLOW --from THREAD`"))
        }
    }
}

/// Collects the answers of a thread for the scenario.
struct ScenarioBuilder<'a> {
    workflow: &'a rondo_protocol::workflow::Workflow,
    store: &'a dyn Read,
    /// The answers of each role in each lane.
    script: BTreeMap<RoleName, BTreeMap<LanePath, Vec<Value>>>,
    tools: BTreeMap<String, Vec<Value>>,
    route: Vec<(Position, Value)>,
    notes: Vec<String>,
}

impl<'a> ScenarioBuilder<'a> {
    fn of(workflow: &'a rondo_protocol::workflow::Workflow, store: &'a dyn Read) -> Self {
        let (script, tools) = (BTreeMap::new(), BTreeMap::new());
        Self { workflow, store, script, tools, route: Vec::new(), notes: Vec::new() }
    }

    fn step(&mut self, stored: &StoredStep, note: &Note) -> Result<(), crate::store::Error> {
        let step = &stored.step;
        let round = Round { lane: step.lane.clone(), opened_by: note.opened_by.clone() };
        let turn = StepLocation { seq: stored.seq, round }.position();
        self.route.push((turn, format!("{}.{}", step.lane.role_in_lane(&step.role), step.status).into()));
        let Some(digest) = step.transcript else {
            self.fault(stored, note);
            return Ok(());
        };
        let transcript: Transcript = rebuild::object(self.store, Kind::Transcript, digest)?;
        for entry in &transcript.entries {
            match entry {
                Entry::Model { reply, .. } if !reply.parts.asks_for_tools() => {
                    self.say(step, [("raw", Value::from(reply.parts.text().into_owned()))]);
                }
                Entry::Model { reply, .. } => {
                    if !reply.parts.text().is_empty() {
                        let visit = stored.visit;
                        let seat = step.lane.role_in_lane(&step.role);
                        self.notes.push(format!("{seat} visit {visit}: what was said beside calls is left out"));
                    }
                    let uses = reply.parts.tool_calls();
                    let uses = uses.map(|call| {
                        Value::from_iter([("name", call.name.as_str().into()), ("args", arguments(&call.arguments))])
                    });
                    self.say(step, [("tools", Value::List(uses.collect()))]);
                }
                Entry::Tool { arguments: args, failed, id, name, text } => {
                    let noted = note.tools.iter().find(|tool| tool.call == *id);
                    // A scenario run produces the loop's own answers again.
                    if noted.is_some_and(|noted| noted.answered_by == AnsweredBy::Loop) {
                        continue;
                    }
                    let tool = noted.map_or(name, |noted| &noted.tool);
                    let mut result = vec![("args", arguments(args)), ("text", text.as_str().into())];
                    result.extend(failed.then_some(("failed", Value::Bool(true))));
                    self.tools.entry(tool.clone()).or_default().push(result.into_iter().collect());
                }
                Entry::Repair { .. } => {}
            }
        }
        Ok(())
    }

    fn say<const N: usize>(&mut self, step: &Step, entry: [(&str, Value); N]) {
        let of_role = self.script.entry(step.role.clone()).or_default();
        of_role.entry(step.lane.clone()).or_default().push(Value::from_iter(entry));
    }

    /// The lists of a script: one per role, or one per lane where lanes differ.
    fn lists(&mut self) -> BTreeMap<String, Vec<Value>> {
        let mut lists: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (role, lanes) in &self.script {
            let mut all = lanes.values();
            if let Some(first) = all.next().filter(|first| lanes.values().all(|list| list == *first)) {
                lists.insert(role.to_string(), first.clone());
                continue;
            }
            for (lane, said) in lanes {
                // A script distinguishes lanes by their last index.
                let name = lane.last_index().map_or_else(|| role.to_string(), |index| format!("{role}[{index}]"));
                match lists.get(&name) {
                    None => drop(lists.insert(name, said.clone())),
                    Some(known) if known == said => {}
                    Some(_) => self.notes.push(format!("{name}: what was said in lane {lane} cannot be told apart")),
                }
            }
        }
        lists
    }

    /// Adds the failed attempts of a step that ended in a fault.
    fn fault(&mut self, stored: &StoredStep, note: &Note) {
        let step = &stored.step;
        let is_model = self.workflow.role(step.role.as_str()).is_some_and(|role| role.kind.model().is_some());
        let code = step.observations.iter().find_map(|observation| match observation {
            Observation::Error { code } | Observation::Timeout { code } => Code::find(code),
            _ => None,
        });
        let failure = match code {
            Some(Code::ProviderUnreachable) => ("network", Value::Bool(true)),
            Some(Code::ReplyCut) => ("cut", Value::Bool(true)),
            Some(Code::ProviderSilent) => ("timeout", Value::Bool(true)),
            Some(Code::ProviderBusy) => ("http", Value::Int(429)),
            Some(Code::ProviderFailed) => ("http", Value::Int(500)),
            Some(Code::RequestRefused) => ("http", Value::Int(400)),
            _ => {
                self.notes.push(format!("step {}: what failed there cannot be said in a script", stored.seq));
                return;
            }
        };
        for _ in 0..note.attempts.max(1).min(u64::from(is_model) * 100) {
            self.say(step, [("error", Value::from_iter([failure.clone()]))]);
        }
    }

    /// The sections of the scenario, in the order of the file.
    fn scenario(&mut self, thread: &str, input: &Value, origin: &Origin) -> Vec<(&'static str, Value)> {
        let by_name = |lists: Vec<(String, Vec<Value>)>| {
            lists.into_iter().map(|(name, list)| (name, Value::List(list))).collect()
        };
        let mut expect: BTreeMap<String, Value> = BTreeMap::new();
        self.route.sort_by(|(a, _), (b, _)| a.cmp(b));
        expect.insert("route".to_owned(), Value::List(self.route.iter().map(|(_, step)| step.clone()).collect()));
        match &origin.ending {
            Some(ending) => {
                expect.insert("outcome".to_owned(), ending.outcome.name().into());
                expect.extend(ending.reason.as_ref().map(|reason| ("reason".to_owned(), reason.as_str().into())));
                if !ending.result.is_null() {
                    expect.insert("result".to_owned(), ending.result.clone());
                }
            }
            None => drop(expect.insert("outcome".to_owned(), "stopped".into())),
        }
        let mut whole = vec![("description", Value::from(format!("What thread {thread} was told.")))];
        if *input != Value::empty_object() {
            whole.push(("input", input.clone()));
        }
        whole.push(("script", by_name(self.lists().into_iter().collect())));
        if !self.tools.is_empty() {
            whole.push(("tools", by_name(self.tools.clone().into_iter().collect())));
        }
        whole.push(("expect", Value::Object(expect)));
        whole
    }
}

/// Arguments as YAML structure; text that is not an object stays text.
fn arguments(text: &str) -> Value {
    match canonical::parse(text.as_bytes()) {
        Ok(Value::Object(members)) => Value::Object(members),
        _ => Value::from(text),
    }
}

fn write(folder: &Path, name: &str, whole: &[(&'static str, Value)]) -> Result<PathBuf, Failure> {
    let tests = folder.join(FOLDER);
    if tests.is_symlink() {
        let message = format!("{} is a link, which is not followed; nothing was written", tests.display());
        return Err(Failure::new(Code::WriteFailed, message).with_exit(Exit::Invalid));
    }
    let file = tests.join(format!("{name}.yaml"));
    let others = ["yaml", "yml", "json"].map(|ending| tests.join(format!("{name}.{ending}")));
    if let Some(taken) = others.iter().find(|file| std::fs::symlink_metadata(file).is_ok()) {
        return Err(Failure::new(
            Code::WriteFailed,
            format!("{} is there already; nothing was written", taken.display()),
        )
        .with_exit(Exit::Invalid)
        .with_hint("give another name with --name"));
    }
    let text = yaml(whole);
    let wanted: Value = whole.iter().map(|(key, value)| (*key, value.clone())).collect();
    if !source::yaml(&text).is_ok_and(|read| read.to_value() == wanted) {
        let message = format!("what the thread was told comes to {} bytes, which no scenario can hold", text.len());
        return Err(Failure::new(Code::WriteFailed, message).with_exit(Exit::Invalid).with_hint(
            "nothing was written; `rondo record` keeps a run of any length, and a scenario can name it in `recorded`",
        ));
    }
    write_new(&file, &text)?;
    Ok(file)
}

/// The sections as YAML that parses back to the same values.
fn yaml(whole: &[(&'static str, Value)]) -> String {
    let wanted: Value = whole.iter().map(|(key, value)| (*key, value.clone())).collect();
    let written = |has_blocks: bool| {
        let mut out = String::new();
        for (key, value) in whole {
            out.push_str(key);
            out.push(':');
            node(&mut out, value, 1, has_blocks);
        }
        out
    };
    let with_blocks = written(true);
    if source::yaml(&with_blocks).is_ok_and(|read| read.to_value() == wanted) { with_blocks } else { written(false) }
}

/// Writes the value after a key or a dash.
fn node(out: &mut String, value: &Value, depth: usize, has_blocks: bool) {
    let indent = "  ".repeat(depth);
    match value {
        Value::List(items) if !items.is_empty() => {
            out.push('\n');
            for item in items {
                let _ = write!(out, "{indent}-");
                match item {
                    // The first member of a map is on the line of its dash.
                    Value::Object(members) if !members.is_empty() => {
                        let mut inner = String::new();
                        node(&mut inner, item, depth + 1, has_blocks);
                        out.push(' ');
                        out.push_str(inner.trim_start());
                    }
                    item => node(out, item, depth + 1, has_blocks),
                }
            }
        }
        Value::Object(members) if !members.is_empty() => {
            out.push('\n');
            for (key, value) in members {
                let _ = write!(out, "{indent}{}:", scalar(key));
                node(out, value, depth + 1, has_blocks);
            }
        }
        Value::Str(text) if has_blocks && is_block(text) => {
            let chomp = match (text.ends_with("\n\n"), text.ends_with('\n')) {
                (true, _) => "+",
                (_, true) => "",
                _ => "-",
            };
            let _ = writeln!(out, " |{chomp}");
            for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
                if !line.is_empty() {
                    out.push_str(&indent);
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        other => {
            let written = other.as_str().map_or_else(|| other.to_text(), scalar);
            let _ = writeln!(out, " {written}");
        }
    }
}

/// Whether a text can be a block scalar.
fn is_block(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n', '\t'])
        && !text.chars().any(|c| c != '\n' && c != '\t' && c.is_control())
}

/// A short text: plain if YAML reads it as this string, else quoted.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '.'));
    if is_plain && !WORDS.contains(&text) {
        return text.to_owned();
    }
    // JSON does not escape some characters that YAML accepts only as escapes.
    let is_refused =
        |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    let quoted = Value::from(text).to_text();
    quoted.chars().fold(String::with_capacity(quoted.len()), |mut out, c| {
        if is_refused(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let odd = [
            "a\nb",
            "a\nb\n",
            "a\n\n\n",
            " a\nb",
            "yes",
            "1",
            "a: b",
            "",
            "---\nx",
            "tab\there\n",
            "\u{1b}\n",
            "\u{7f}\u{85}\u{2028}\u{feff}",
            "a\u{7f}\nb",
            "# a\nb",
        ];
        let texts: Vec<Value> = odd.iter().map(|text| Value::from(*text)).collect();
        let nested = Value::from_iter([(
            "k y",
            Value::List(vec![Value::empty_object(), Value::List(texts.clone()), Value::Null]),
        )]);
        let whole = vec![("input", Value::List(texts)), ("script", nested), ("expect", Value::empty_object())];
        let wanted: Value = whole.iter().map(|(key, value)| (*key, value.clone())).collect();
        assert_eq!(source::yaml(&yaml(&whole)).unwrap().to_value(), wanted);
    }

    #[test]
    fn a_person_can_read_it() {
        let entry = Value::from_iter([("raw", Value::from("---\nstatus: drafted\n---\nTides."))]);
        let script = Value::from_iter([("writer", Value::List(vec![entry]))]);
        insta::assert_snapshot!(yaml(&[("description", "What a thread said.".into()), ("script", script)]), @r#"
        description: "What a thread said."
        script:
          writer:
            - raw: |-
                ---
                status: drafted
                ---
                Tides.
        "#);
    }
}
