//! Tools that an operator declares: a program, its arguments as a template, a schema, an effect.
//!
//! The template is filled in element by element and no shell reads the result, so an argument stays one argument
//! whatever it contains. The arguments are also passed as JSON on stdin, and the idempotency key of the call in
//! `RONDO_IDEMPOTENCY_KEY`. The declared effect is enforced: a tool that declares `reads` cannot write.

mod template;

use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::types::Validator;
use rondo_protocol::{Value, canonical};

use super::{Content, Error, InDoubt, Invocation, Origin, Spec, Tool};
use crate::pinned::Pinned;
use crate::sandbox::process::{Access, Command, Exit, Finished, Processes, WorkingDir};
use template::Template;

/// The variable that holds a call's idempotency key.
pub(super) const KEY_VARIABLE: &str = "RONDO_IDEMPOTENCY_KEY";

const NO_ARGUMENTS: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSettings {
    pub name: String,
    pub description: String,
    /// The program and its arguments. `{name}` is replaced by an argument.
    pub argv: Vec<String>,
    /// The files that its words name, as somebody agreed to them.
    pub pinned: Pinned,
    /// The JSON Schema of the arguments; `None` when it has none.
    pub schema: Option<String>,
    pub effect: EffectWord,
    /// The paths that it reads or writes, below the workspace; templates too. Empty means the whole workspace.
    pub paths: Vec<String>,
    /// Its working folder: the workspace, or a private folder if the operator chooses one.
    pub working_dir: WorkingDir,
    pub timeout: Duration,
    pub output_max_bytes: usize,
    /// What to do on resume when it is unknown whether a call took effect.
    pub in_doubt: InDoubt,
}

/// The effect of a tool, as written in a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectWord {
    /// Its result depends on its arguments alone.
    Pure,
    Reads,
    Writes,
    /// Anything.
    External,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProgram {
    #[error("argv is empty; its first element is the program")]
    NoProgram,
    #[error("the program itself, the first element of argv, is a template; name the program")]
    ProgramFromArgument,
    #[error("{text:?} has a brace without its counterpart; a brace as such is doubled: {{{{ or }}}}")]
    Braces { text: String },
    #[error("{text:?} names the argument {name:?}, which the schema does not have")]
    UnknownArgument { text: String, name: String },
    #[error("the schema cannot be used: {0}")]
    Schema(String),
}

#[derive(Debug, Clone)]
pub struct Program {
    spec: Spec,
    argv: Vec<Template>,
    paths: Vec<Template>,
    settings: ProgramSettings,
    processes: Arc<Processes>,
}

impl ProgramSettings {
    /// What models are told of it, if it could be run.
    pub fn spec(&self) -> Result<Spec, InvalidProgram> {
        self.read().map(|(spec, ..)| spec)
    }

    /// Its description, and the templates of its arguments and paths.
    fn read(&self) -> Result<(Spec, Vec<Template>, Vec<Template>), InvalidProgram> {
        let parameters = self.schema.clone().unwrap_or_else(|| NO_ARGUMENTS.to_owned());
        let known = argument_names(&parameters)?;
        let read = |text: &String| Template::read(text, &known);
        let argv = self.argv.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let paths = self.paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if !argv.first().ok_or(InvalidProgram::NoProgram)?.is_fixed() {
            return Err(InvalidProgram::ProgramFromArgument);
        }
        let (name, description) = (self.name.clone(), self.description.clone());
        Ok((Spec { name, description, parameters, origin: Origin::Program }, argv, paths))
    }
}

impl Program {
    pub fn new(settings: ProgramSettings, processes: Arc<Processes>) -> Result<Self, InvalidProgram> {
        let (spec, argv, paths) = settings.read()?;
        Ok(Self { spec, argv, paths, settings, processes })
    }

    fn effect_on(&self, paths: Vec<String>) -> Effect {
        match self.settings.effect {
            EffectWord::Pure => Effect::Pure,
            EffectWord::Reads => Effect::Reads(paths),
            EffectWord::Writes => Effect::Writes(paths),
            EffectWord::External => Effect::External,
        }
    }

    /// The paths of a call: relative, with `/` between the parts.
    fn paths(&self, arguments: &Value) -> Vec<String> {
        if self.paths.is_empty() {
            return vec![".".to_owned()];
        }
        self.paths.iter().flat_map(|path| path.fill(arguments)).collect()
    }

    fn access(&self, arguments: &Value) -> Result<Access, Error> {
        match self.settings.effect {
            EffectWord::Pure | EffectWord::Reads => return Ok(Access::Read),
            EffectWord::External => return Ok(Access::Write),
            EffectWord::Writes if self.paths.is_empty() => return Ok(Access::Write),
            EffectWord::Writes => {}
        }
        let paths: Vec<PathBuf> = self.paths(arguments).into_iter().map(PathBuf::from).collect();
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if let Some(path) = paths.iter().find(|path| !path.components().all(is_below)) {
            let message = format!("{} leads out of the workspace; give a path below it", path.display());
            return Err(Error::new(Code::ToolArguments, message));
        }
        Ok(Access::Paths(paths))
    }

    fn command(&self, arguments: &Value, invocation: &Invocation) -> Result<Command, Error> {
        let refuse = |message: String| Err(Error::new(Code::ToolArguments, message));
        let mut argv = Vec::new();
        for element in &self.argv {
            let filled = element.fill(arguments);
            // A whole element that begins with a dash would be read as an option, and options of ordinary programs can
            // run other programs. An operator who wants callers to pass options writes them out.
            if let Some(option) = filled.iter().find(|value| value.starts_with('-') && element.is_argument()) {
                let shown: String = option.chars().take(80).collect();
                return refuse(format!(
                    "{shown:?} begins with a dash and would be read as an option; write ./ before a path"
                ));
            }
            if filled.iter().any(|value| value.contains('\0')) {
                return refuse("an argument holds a NUL byte, which no program can be given".to_owned());
            }
            argv.extend(filled);
        }
        Ok(Command {
            stdin: arguments.to_text().into_bytes(),
            working_dir: self.settings.working_dir.clone(),
            env: BTreeMap::from([(KEY_VARIABLE.to_owned(), invocation.idempotency_key.clone())]),
            access: self.access(arguments)?,
            timeout: self.settings.timeout,
            output_max_bytes: self.settings.output_max_bytes.min(super::STORED_MAX_BYTES),
            redactor: invocation.redactor.clone(),
            pinned: self.settings.pinned.clone(),
            ..Command::new(argv)
        })
    }
}

fn argument_names(schema: &str) -> Result<Vec<String>, InvalidProgram> {
    let invalid = |why: &dyn std::fmt::Display| InvalidProgram::Schema(why.to_string());
    let schema: Value = canonical::from_slice(schema.as_bytes()).map_err(|error| invalid(&error))?;
    Validator::of_schema(&schema).map_err(|error| invalid(&error))?;
    if schema.get("type") != Some(&Value::from("object")) {
        return Err(invalid(&"it must say \"type\": \"object\", because arguments have names"));
    }
    match schema.get("properties") {
        Some(Value::Object(members)) => Ok(members.keys().cloned().collect()),
        _ => Ok(Vec::new()),
    }
}

/// The result of a program that has ended, for the caller.
pub(super) fn outcome(finished: Finished) -> Result<String, Error> {
    let error = match finished.exit {
        Exit::Code(0) => return Ok(finished.output),
        Exit::Code(code) => Error::new(Code::ProgramFailed, format!("exit code {code}")),
        Exit::Signal(signal) => {
            Error::new(Code::ProgramSignalled, format!("ended by signal {signal}{}", meaning(signal)))
        }
    };
    Err(error.with_output(finished.output))
}

/// Explains the signals that a limit or a crash sends. The numbers are those of Linux on x86-64 and ARM.
fn meaning(signal: i32) -> &'static str {
    match signal {
        6 => " (SIGABRT: it gave up by itself)",
        9 => " (SIGKILL: it was killed, or had used up its time on the processor)",
        11 => " (SIGSEGV: it crashed)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU: it had used up its time on the processor)",
        25 => " (SIGXFSZ: it wrote a file larger than it may)",
        31 => " (SIGSYS: it made a call of another architecture, which the sandbox ends)",
        _ => "",
    }
}

impl Tool for Program {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, arguments: &Value) -> Effect {
        self.effect_on(self.paths(arguments))
    }

    fn declared_effect(&self) -> Effect {
        self.effect_on(self.settings.paths.clone())
    }

    fn in_doubt(&self) -> InDoubt {
        self.settings.in_doubt
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            let command = self.command(&arguments, invocation)?;
            outcome(self.processes.run(command).await?).map(Content::from)
        })
    }
}

#[cfg(test)]
mod tests;
