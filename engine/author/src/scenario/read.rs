//! Reads a scenario: all faults in one pass, each with its location.

mod assertion;

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::model::recorded::{self, Cassette};
use rondo_agent_kit::model::script::Script;
use rondo_agent_kit::tool::means;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::{Code, Diagnostic, Severity, Span, nearest};
use rondo_protocol::id::{LanePath, Status};
use rondo_protocol::source::{self, Key, Kind, Node, Source, excerpt};
use rondo_protocol::workflow::types::check_input;
use rondo_protocol::workflow::{Files, RoleKind, SelectorRole};

use super::definition::Definition;
use super::expect::{Expectation, Location};
use super::parts::digest;
use super::scenario::{AnswerSource, Canned, CannedResult, Scenario};
use super::suite::FOLDER;
use crate::{edges, role_of};

const KEYS: [&str; 8] = ["description", "input", "input_file", "script", "recorded", "workspace", "tools", "expect"];
const EXPECT_KEYS: [&str; 6] = ["route", "outcome", "exit", "result", "reason", "assert"];
const TOOL_KEYS: [&str; 3] = ["description", "parameters", "results"];
const RESULT_KEYS: [&str; 3] = ["args", "text", "failed"];
const OUTCOMES: [&str; 4] = ["done", "failed", "stopped", "waiting"];

/// The default script, in the workflow's folder.
const DEFAULT_SCRIPT: &str = "script.yaml";
/// The most bytes of a file that a scenario names, except recordings; readers have lower limits and better messages.
const MAX_FILE_BYTES: usize = 16 << 20;
const MAX_RESULTS: usize = 10_000;

/// Reads the scenario `file` from the folder of scenarios of `definition`. `files` reads the files it names, by paths
/// relative to the workflow's folder, which is displayed as `folder`. Returns as much as could be read, and all faults
/// in source order.
pub fn read(file: &Source, definition: &Definition, files: &dyn Files, folder: &str) -> (Scenario, Vec<Diagnostic>) {
    let reading = tree(file);
    let mut reader = Reader { file, definition, files, folder, faults: Vec::new(), scenario: Scenario::default() };
    reader.faults.extend(reading.faults.into_iter().map(|fault| file.report(fault)));
    if let Some(root) = &reading.root {
        reader.top(root);
    }
    let Reader { mut faults, scenario, .. } = reader;
    // Faults of files that it names follow its own.
    faults.sort_by_key(|fault| (fault.file != file.name(), fault.span));
    faults.retain(|fault| fault.severity == Severity::Error);
    (scenario, faults)
}

fn tree(file: &Source) -> source::Parsed {
    let is_json = file.name().rsplit_once('.').is_some_and(|(_, end)| end.eq_ignore_ascii_case("json"));
    if is_json { source::read_json(file.text()) } else { source::read_yaml(file.text()) }
}

struct Reader<'a> {
    file: &'a Source,
    definition: &'a Definition,
    files: &'a dyn Files,
    folder: &'a str,
    faults: Vec<Diagnostic>,
    scenario: Scenario,
}

impl Reader<'_> {
    fn fault(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.faults.push(self.file.diagnostic(code, span, message));
    }

    fn shape(&mut self, span: Span, message: impl Into<String>) {
        self.fault(Code::ScenarioShape, span, message);
    }

    /// A fault that suggests the nearest of `known`, or lists them.
    fn not_among<'k>(
        &mut self,
        code: Code,
        span: Span,
        message: String,
        word: &str,
        known: impl Iterator<Item = &'k str>,
    ) {
        const LISTED: usize = 12;
        let known: Vec<&str> = known.collect();
        let fault = self.file.diagnostic(code, span, message);
        let hint = match nearest(word, known.iter().copied()) {
            Some(near) => format!("write `{near}`"),
            None if known.is_empty() => "there are none".to_owned(),
            None if known.len() > LISTED => format!("there are {} of them", known.len()),
            None => format!("there are {}", known.join(", ")),
        };
        self.faults.push(fault.with_hint(hint));
    }

    fn unknown(&mut self, key: &Key, known: &[&str]) {
        let message = format!("the key `{}` is not known here", excerpt(&key.name));
        self.not_among(Code::ScenarioKey, key.span, message, &key.name, known.iter().copied());
    }

    fn location(&self, span: Span) -> Location {
        let (line, column) = self.file.position(span.offset);
        Location { line, column }
    }

    fn top(&mut self, root: &Node) {
        let Kind::Map(members) = &root.kind else {
            self.shape(root.place(Span::default()), "a scenario is a map with `input`, `script`, `expect` and others");
            return;
        };
        let (mut input, mut input_file, mut script, mut recorded) = (None, None, None, None);
        for (key, node) in members {
            let location = self.location(key.span);
            self.scenario.locations.insert(key.name.clone(), location);
            match key.name.as_str() {
                "description" => self.scenario.description = self.string(key, node).unwrap_or_default(),
                "input" => input = Some((key, node)),
                "input_file" => input_file = Some((key, node)),
                "script" => script = Some((key, node)),
                "recorded" => recorded = Some((key, node)),
                "workspace" => self.scenario.workspace = self.named(key, node),
                "tools" => self.tools(key, node),
                "expect" => self.expect(key, node),
                _ => self.unknown(key, &KEYS),
            }
        }
        self.input(input, input_file);
        match (script, recorded) {
            (Some(_), Some((key, _))) => self.shape(key.span, "`recorded` and `script` exclude each other"),
            (None, Some((key, node))) => self.recorded(key, node),
            (script, None) => self.script(script),
        }
    }

    /// What `read` makes of a node; a fault that says what it must be, if nothing.
    fn typed<'n, T>(
        &mut self,
        key: &Key,
        node: &'n Node,
        what: &str,
        read: impl FnOnce(&'n Kind) -> Option<T>,
    ) -> Option<T> {
        let read = read(&node.kind);
        if read.is_none() {
            self.shape(node.place(key.span), format!("`{}` must be {what}", excerpt(&key.name)));
        }
        read
    }

    fn string(&mut self, key: &Key, node: &Node) -> Option<String> {
        self.typed(key, node, "a text", |kind| if let Kind::Str(text) = kind { Some(text.clone()) } else { None })
    }

    fn map<'n>(&mut self, key: &Key, node: &'n Node) -> &'n [(Key, Node)] {
        let members = |kind: &'n Kind| if let Kind::Map(members) = kind { Some(members.as_slice()) } else { None };
        self.typed(key, node, "a map", members).unwrap_or_default()
    }

    fn list<'n>(&mut self, key: &Key, node: &'n Node) -> &'n [Node] {
        let items = |kind: &'n Kind| if let Kind::List(items) = kind { Some(items.as_slice()) } else { None };
        self.typed(key, node, "a list", items).unwrap_or_default()
    }

    fn count(&mut self, key: &Key, node: &Node) -> Option<u64> {
        let count = |kind: &Kind| if let Kind::Int(count) = kind { u64::try_from(*count).ok() } else { None };
        self.typed(key, node, "an integer from 0", count)
    }

    /// Resolves the path at `node`, relative to the folder of scenarios, to one relative to the workflow's folder.
    fn named(&mut self, key: &Key, node: &Node) -> Option<String> {
        let written = self.string(key, node)?;
        let path = within(FOLDER, &written);
        if path.is_none() {
            let message = format!("`{}` is not a path within the folder of the workflow", excerpt(&written));
            let fault = self.file.diagnostic(Code::ScenarioFile, node.place(key.span), message);
            self.faults.push(fault.with_hint("write a path that counts from the folder of the scenario"));
        }
        path
    }

    /// The file at `path`, under its displayed name.
    fn source(&mut self, path: &str, at: Span, max_bytes: usize) -> Option<Source> {
        match self.files.read(path, max_bytes) {
            Ok(text) => Some(Source::new(format!("{}{path}", self.folder), text)),
            Err(error) => {
                let message = format!("`{}` cannot be read: {error}", excerpt(path));
                let fault = self.file.diagnostic(Code::ScenarioFile, at, message);
                self.faults.push(fault.with_hint("the path counts from the folder of the scenario"));
                None
            }
        }
    }

    fn input(&mut self, inline: Option<(&Key, &Node)>, file: Option<(&Key, &Node)>) {
        let mut given: BTreeMap<String, Value> = BTreeMap::new();
        let mut nodes: BTreeMap<String, (Span, &Node)> = BTreeMap::new();
        if let Some((key, node)) = file {
            let place = node.place(key.span);
            let source = self.named(key, node).and_then(|path| self.source(&path, place, MAX_FILE_BYTES));
            match source.map(|source| tree(&source).whole()) {
                Some(Ok(root)) => match root.to_value() {
                    Value::Object(members) => given.extend(members),
                    _ => self.fault(Code::ScenarioFile, place, "the file holds no map of inputs"),
                },
                Some(Err(fault)) => self.fault(Code::ScenarioFile, place, format!("the file cannot be read: {fault}")),
                None => return,
            }
        }
        if let Some((key, node)) = inline {
            for (name, node) in self.map(key, node) {
                nodes.insert(name.name.clone(), (name.span, node));
                given.insert(name.name.clone(), node.to_value());
            }
        }
        let whole = inline.or(file).map_or(Span::default(), |(key, _)| key.span);
        match check_input(&self.definition.checked.workflow, given) {
            Ok(input) => {
                if let Value::Object(members) = &input {
                    for (name, value) in members {
                        self.scenario.parts.insert(format!("scenario.input.{name}"), digest(value));
                    }
                }
                self.scenario.input = input;
            }
            Err(faults) => {
                for fault in faults {
                    let found = nodes.get(&fault.name);
                    let value = found.and_then(|(_, node)| node.at(&fault.pointer)).filter(|_| fault.wants_text);
                    let hint = value.and_then(|value| value.quoting_hint(self.file.text())).or(fault.hint);
                    let span = value.map(|value| value.span).or(found.map(|(span, _)| *span)).unwrap_or(whole);
                    let diagnostic = self.file.diagnostic(fault.code, span, fault.message);
                    // The original hint is about a command line.
                    self.faults.push(match fault.code {
                        Code::MissingInput => diagnostic.with_hint("give it under `input`"),
                        _ => Diagnostic { hint, ..diagnostic },
                    });
                }
            }
        }
    }

    fn script(&mut self, given: Option<(&Key, &Node)>) {
        let named = match given {
            Some((key, node)) if matches!(node.kind, Kind::Str(_)) => {
                self.named(key, node).map(|path| (path, node.place(key.span)))
            }
            Some((_, node)) => {
                let read = Script::of_node(self.file, node);
                self.spoken(read, self.file, node);
                return;
            }
            None => Some((DEFAULT_SCRIPT.to_owned(), Span::default())),
        };
        let Some((path, place)) = named else { return };
        let Some(source) = self.source(&path, place, MAX_FILE_BYTES) else { return };
        let reading = tree(&source);
        let had_faults = !reading.faults.is_empty();
        self.faults.extend(reading.faults.into_iter().map(|fault| source.report(fault)));
        if let Some(root) = reading.root.filter(|_| !had_faults) {
            let read = Script::of_node(&source, &root);
            self.spoken(read, &source, &root);
        }
    }

    fn spoken(&mut self, read: Result<Script, Vec<Diagnostic>>, source: &Source, root: &Node) {
        match read {
            Ok(script) => {
                self.faults.extend(script.check(source, &self.definition.script_roles));
                self.scenario.parts.insert("scenario.script".to_owned(), digest(&root.to_value()));
                self.scenario.answers = AnswerSource::Script(script.without_pauses());
            }
            Err(faults) => self.faults.extend(faults),
        }
    }

    fn recorded(&mut self, key: &Key, node: &Node) {
        let place = node.place(key.span);
        let Some(path) = self.named(key, node) else { return };
        let Some(source) = self.source(&path, place, recorded::MAX_BYTES) else { return };
        match Cassette::read(source.name(), source.text()) {
            Ok(cassette) => {
                self.scenario.parts.insert("scenario.recorded".to_owned(), cassette.digest().to_string());
                self.scenario.answers = AnswerSource::Recorded(Arc::new(cassette));
            }
            Err(faults) => self.faults.extend(faults),
        }
    }

    fn tools(&mut self, key: &Key, node: &Node) {
        for (name, node) in self.map(key, node) {
            if self.tool(name) {
                let canned = self.canned(name, node);
                self.scenario.tools.insert(name.name.clone(), canned);
            }
        }
        self.scenario.parts.insert("scenario.tools".to_owned(), digest(&node.to_value()));
    }

    fn tool(&mut self, name: &Key) -> bool {
        let is_known = tools_of(self.definition).any(|pattern| means(pattern, &name.name));
        if !is_known {
            let message = format!("no role of the workflow has the tool `{}`", excerpt(&name.name));
            self.not_among(Code::ScenarioRole, name.span, message, &name.name, tools_of(self.definition));
        }
        is_known
    }

    fn canned(&mut self, name: &Key, node: &Node) -> Canned {
        let mut canned = Canned::default();
        if !matches!(node.kind, Kind::Map(_)) {
            canned.results = self.results(name, node);
            return canned;
        }
        for (key, node) in self.map(name, node) {
            match key.name.as_str() {
                "description" => canned.description = self.string(key, node),
                "parameters" => {
                    self.map(key, node);
                    canned.parameters = Some(node.to_value().to_text());
                }
                "results" => canned.results = self.results(key, node),
                _ => self.unknown(key, &TOOL_KEYS),
            }
        }
        canned
    }

    fn results(&mut self, key: &Key, node: &Node) -> Vec<CannedResult> {
        let items = self.list(key, node);
        if items.len() > MAX_RESULTS {
            self.shape(key.span, format!("a tool has at most {MAX_RESULTS} results"));
        }
        items.iter().take(MAX_RESULTS).filter_map(|item| self.result(key, item)).collect()
    }

    fn result(&mut self, owner: &Key, node: &Node) -> Option<CannedResult> {
        if let Kind::Str(text) = &node.kind {
            return Some(CannedResult { args: None, text: text.clone(), failed: false });
        }
        let place = node.place(owner.span);
        let Kind::Map(members) = &node.kind else {
            self.shape(place, "a result is a text, or a map with `text`, `args` and `failed`");
            return None;
        };
        let (mut args, mut text, mut failed) = (None, None, false);
        for (key, node) in members {
            match key.name.as_str() {
                "args" => {
                    self.map(key, node);
                    args = Some(node.to_value());
                }
                "text" => text = self.string(key, node),
                "failed" => {
                    let value = |kind: &Kind| if let Kind::Bool(value) = kind { Some(*value) } else { None };
                    failed = self.typed(key, node, "true or false", value).unwrap_or_default();
                }
                _ => self.unknown(key, &RESULT_KEYS),
            }
        }
        if text.is_none() {
            self.shape(place, "the result has no `text`");
        }
        Some(CannedResult { args, text: text?, failed })
    }

    fn expect(&mut self, key: &Key, node: &Node) {
        for (key, node) in self.map(key, node) {
            let expectation = match key.name.as_str() {
                "route" => self.route(key, node).map(Expectation::Route),
                "outcome" => self.outcome(key, node).map(Expectation::Outcome),
                "exit" => self.exit(key, node).map(Expectation::Exit),
                "result" => Some(Expectation::Result(node.to_value())),
                "reason" => self.string(key, node).map(Expectation::Reason),
                "assert" => {
                    self.assertions(key, node);
                    None
                }
                _ => {
                    self.unknown(key, &EXPECT_KEYS);
                    None
                }
            };
            self.keep(expectation, key.span);
        }
    }

    fn keep(&mut self, expectation: Option<Expectation>, span: Span) {
        let location = self.location(span);
        self.scenario.expect.extend(expectation.map(|expectation| (expectation, location)));
    }

    fn route(&mut self, key: &Key, node: &Node) -> Option<Vec<String>> {
        let items = self.list(key, node);
        let before = self.faults.len();
        let route = items.iter().map(|item| {
            let place = item.place(key.span);
            if let Kind::Str(step) = &item.kind {
                self.step(step, place);
                return step.clone();
            }
            self.shape(place, "a step of a route is a text such as `writer.drafted`");
            String::new()
        });
        let route = route.collect();
        (self.faults.len() == before && matches!(node.kind, Kind::List(_))).then_some(route)
    }

    /// Checks a step of a route against the roles and their statuses.
    fn step(&mut self, step: &str, place: Span) {
        let Some((role, status)) = step.split_once('.') else {
            self.shape(place, format!("`{}` is not written `role.status`", excerpt(step)));
            return;
        };
        if !self.role(role, place) {
            return;
        }
        let role = role_of(role);
        let statuses = statuses(self.definition, role);
        if !statuses.contains(&status) {
            let message = format!("the role `{role}` has no status `{}`", excerpt(status));
            self.not_among(Code::ScenarioRole, place, message, status, statuses.into_iter());
        }
    }

    /// Whether the role exists. `name` may include a lane, as in `role[2]` or `a[0]/role[2]`.
    fn role(&mut self, name: &str, place: Span) -> bool {
        let workflow = &self.definition.checked.workflow;
        let role = role_of(name);
        if role != name && LanePath::new(name).is_err() {
            self.shape(place, format!("`{}` is not written `role` or, in a lane, `role[index]`", excerpt(name)));
            return false;
        }
        let is_known = workflow.role(role).is_some();
        if !is_known {
            let message = format!("the workflow has no role `{}`", excerpt(role));
            let known = workflow.roles.iter().map(|(name, _)| name.as_str());
            self.not_among(Code::ScenarioRole, place, message, role, known);
        }
        is_known
    }

    fn outcome(&mut self, key: &Key, node: &Node) -> Option<String> {
        let outcome = self.string(key, node)?;
        if OUTCOMES.contains(&outcome.as_str()) {
            return Some(outcome);
        }
        let message = format!("`{}` is no outcome", excerpt(&outcome));
        self.not_among(Code::ScenarioShape, node.place(key.span), message, &outcome, OUTCOMES.into_iter());
        None
    }

    fn exit(&mut self, key: &Key, node: &Node) -> Option<u8> {
        let code = self.count(key, node)?;
        let exit = u8::try_from(code).ok();
        if exit.is_none() {
            self.shape(node.place(key.span), "an exit code is at most 255");
        }
        exit
    }
}

/// Every tool that a role names, as written.
pub fn tools_of(definition: &Definition) -> impl Iterator<Item = &str> {
    definition.checked.workflow.roles.iter().flat_map(|(_, role)| role.kind.tools()).map(String::as_str)
}

/// The statuses that a step of a role may have: its own, and those for faults that the graph routes.
fn statuses<'d>(definition: &'d Definition, role: &str) -> Vec<&'d str> {
    let workflow = &definition.checked.workflow;
    let own = workflow.role(role).into_iter().flat_map(|role| &role.output).map(|(status, _)| status.as_str());
    let mut statuses: Vec<&str> = own.collect();
    let routed = edges(workflow).into_iter().filter(|located| located.from == role);
    statuses.extend(routed.filter_map(|located| located.status).map(Status::as_str));
    let has_else = |kind: &RoleKind| matches!(kind, RoleKind::Selector(SelectorRole { fallback_route: Some(_), .. }));
    statuses.extend(workflow.role(role).filter(|role| has_else(&role.kind)).map(|_| "error"));
    if workflow.has_fan_outs() {
        // An unrouted fault may be the last step of a lane.
        statuses.extend(["error", "limit", "timeout"]);
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

/// Resolves `path`, relative to `folder`, against the parent of `folder`; `None` if it leads out of there.
fn within(folder: &str, path: &str) -> Option<String> {
    const LONGEST: usize = 1024;
    let is_plain = !path.is_empty() && path.len() <= LONGEST && !path.starts_with('/');
    if !is_plain || path.contains(|c: char| c == '\\' || c == ':' || c.is_control()) {
        return None;
    }
    let mut parts: Vec<&str> = vec![folder];
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests;
