//! The tools of one scenario: rondo's file tools on a copy of the workspace, and canned results for all others. Models
//! see the same descriptions and schemas as in a run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use rondo_agent_kit::sandbox::files::{Access, Workspace};
use rondo_agent_kit::tool::{
    Content, Error, HttpGet, Invocation, Origin, Shell, Spec, Tool, ToolSet, file_tools, means, spec,
};
use rondo_protocol::Value;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::Files;
use rondo_settings::files::FolderFiles;
use rondo_settings::{ToolSchema, program};

use super::definition::Definition;
use super::parts::{PartDigests, digest};
use super::read::tools_of;
use super::scenario::{CannedResult, Scenario};
use super::workspace::WorkspaceCopy;

/// The most bytes of a file that declares tools.
const MAX_FILE_BYTES: usize = 1 << 20;
/// The schema of a tool without a known one.
const ANY_ARGUMENTS: &str = r#"{"type":"object"}"#;
/// How many characters of arguments a report shows.
const SHOWN: usize = 200;

#[derive(Default)]
pub struct ToolFixtures {
    pub set: ToolSet,
    /// The files that they see; `None` if no role has a tool.
    pub files: Option<Arc<Workspace>>,
    /// For each tool that a role has, the beginning of the digest of its description.
    pub parts: PartDigests,
    canned: Vec<Arc<CannedTool>>,
    /// Keeps their folder alive.
    copy: Option<WorkspaceCopy>,
}

impl ToolFixtures {
    pub fn new(definition: &Definition, scenario: &Scenario, folder: &Path) -> Result<Self, String> {
        let named: Vec<&str> = tools_of(definition).collect();
        let mut fixtures = Self::default();
        if named.is_empty() {
            return Ok(fixtures);
        }
        let copy = WorkspaceCopy::of(folder, scenario.workspace.as_deref())?;
        let access = Access { read: vec![PathBuf::from(".")], write: vec![PathBuf::from(".")], ..Access::default() };
        let workspace = Workspace::open(copy.path(), access).map_err(|error| format!("the workspace: {error}"))?;
        let workspace = Arc::new(workspace);
        let mut specs = vec![spec::<Shell>(), spec::<HttpGet>()];
        for tool in file_tools(&workspace) {
            if scenario.tools.contains_key(&tool.spec().name) {
                // Its results are canned; its description is not.
                specs.push(tool.spec().clone());
            } else {
                fixtures.add(tool)?;
            }
        }
        specs.extend(declared(&copy)?);
        let lone = named.iter().copied().filter(|name| !name.ends_with('*'));
        for name in lone.chain(scenario.tools.keys().map(String::as_str)) {
            if fixtures.set.get(name).is_none() && !specs.iter().any(|spec| spec.name == name) {
                specs.push(unknown(name, scenario));
            }
        }
        specs.retain(|spec| named.iter().any(|pattern| means(pattern, &spec.name)));
        for spec in specs {
            fixtures.add_canned(spec, scenario)?;
        }
        fixtures.parts.insert("scenario.workspace".to_owned(), digest(&copy.digest));
        let offered = fixtures.set.iter().filter(|(name, _)| named.iter().any(|pattern| means(pattern, name)));
        let digests = offered.map(|(name, tool)| {
            let Spec { description, parameters, .. } = tool.spec();
            (format!("tools.{name}"), digest(&[description, parameters]))
        });
        fixtures.parts.extend(digests.collect::<Vec<_>>());
        (fixtures.files, fixtures.copy) = (Some(workspace), Some(copy));
        Ok(fixtures)
    }

    fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), String> {
        self.set.add(tool).map_err(|clash| clash.to_string())
    }

    fn add_canned(&mut self, spec: Spec, scenario: &Scenario) -> Result<(), String> {
        let results = scenario.tools.get(&spec.name).map(|canned| canned.results.clone()).unwrap_or_default();
        let tool = Arc::new(CannedTool { spec, results, state: Mutex::default() });
        self.canned.push(Arc::clone(&tool));
        self.add(tool)
    }

    /// The calls without a result, as text.
    pub fn unanswered(&self) -> Vec<String> {
        self.canned.iter().flat_map(|tool| tool.state().unanswered.clone()).collect()
    }

    /// The unused results, as text.
    pub fn left_over(&self) -> Vec<String> {
        let left = self.canned.iter().filter_map(|tool| {
            let (asked, all) = (tool.state().asked, tool.results.len());
            (asked < all)
                .then(|| format!("{} of {all} canned results of {} were not asked for", all - asked, tool.spec.name))
        });
        left.collect()
    }
}

/// The descriptions of the programs that a `rondo.toml` in the workspace declares.
fn declared(copy: &WorkspaceCopy) -> Result<Vec<Spec>, String> {
    let files = FolderFiles::new(copy.path());
    let Ok(text) = files.read(rondo_settings::FILE_NAME, MAX_FILE_BYTES) else { return Ok(Vec::new()) };
    let stated =
        rondo_settings::read(rondo_settings::FILE_NAME, &text, rondo_settings::Layer::Project).map_err(|faults| {
            faults.iter().map(|fault| format!("in the workspace: {fault}")).collect::<Vec<_>>().join("; ")
        })?;
    let spec_of = |(name, tool): (&String, &rondo_settings::Tool)| {
        let failed = |what: String| format!("[tool.{name}] in the workspace's {}: {what}", rondo_settings::FILE_NAME);
        let schema = match &tool.schema {
            None => None,
            Some(ToolSchema::Inline(text)) => Some(text.clone()),
            Some(ToolSchema::File(file)) => {
                Some(files.read(file, MAX_FILE_BYTES).map_err(|error| failed(format!("{file}: {error}")))?)
            }
        };
        program::settings(name, tool, schema).spec().map_err(|error| failed(error.to_string()))
    };
    stated.tools.iter().map(spec_of).collect()
}

/// The description of a tool that is neither part of rondo nor declared, from the scenario.
fn unknown(name: &str, scenario: &Scenario) -> Spec {
    let canned = scenario.tools.get(name);
    let description = canned.and_then(|canned| canned.description.clone());
    let parameters = canned.and_then(|canned| canned.parameters.clone());
    Spec {
        name: name.to_owned(),
        description: description.unwrap_or_default(),
        parameters: parameters.unwrap_or_else(|| ANY_ARGUMENTS.to_owned()),
        origin: Origin::Program,
    }
}

/// A tool that returns the scenario's results in order.
struct CannedTool {
    spec: Spec,
    results: Vec<CannedResult>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: usize,
    unanswered: Vec<String>,
}

impl CannedTool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, arguments: &Value) -> Result<String, Error> {
        let mut state = self.state();
        let name = &self.spec.name;
        let shown: String = arguments.to_text().chars().take(SHOWN).collect();
        let what = match (self.results.get(state.asked), self.results.len()) {
            (None, 0) => {
                format!("{name} is not run in a test, and the scenario has no results of it; called with {shown}")
            }
            (None, all) => format!("the scenario has {all} results of {name}, and this is one call more, with {shown}"),
            (Some(CannedResult { args: Some(wanted), .. }), _) if wanted != arguments => {
                let wanted: String = wanted.to_text().chars().take(SHOWN).collect();
                format!("result {} of {name} answers {wanted}, and the call has {shown}", state.asked + 1)
            }
            (Some(result), _) => {
                state.asked += 1;
                return if result.failed { Err(failure(&result.text)) } else { Ok(result.text.clone()) };
            }
        };
        state.unanswered.push(what.clone());
        Err(Error::new(Code::ToolUnanswered, what))
    }
}

/// The error that a model sees as `text`, if there is one; else `text` behind a code.
fn failure(text: &str) -> Error {
    let coded = text.strip_prefix("error ").and_then(|rest| rest.split_once(": "));
    match coded.and_then(|(code, message)| Some((Code::find(code)?, message))) {
        Some((code, message)) => Error::new(code, message),
        None => Error::new(Code::ProgramFailed, text),
    }
}

impl Tool for CannedTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _: &Value) -> Effect {
        // Makes calls run one after another, in the order of the results.
        Effect::External
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(std::future::ready(self.answer(&arguments).map(Content::from)))
    }
}
