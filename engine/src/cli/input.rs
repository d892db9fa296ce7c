//! The input of a run: `-i key=value`, `-i key=@file`, `--input-file`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rondo_protocol::canonical::{self, Value};
use rondo_protocol::diagnostic::{Code, Diagnostic, Span, nearest};
use rondo_protocol::id::FieldName;
use rondo_protocol::workflow::Workflow;
use rondo_protocol::workflow::types::{self, Field, InputFault};

use super::failure::{Failure, Faulty};
use super::files::read_text;

const MAX_VALUE_BYTES: usize = 1 << 20;

const MAX_FILE_BYTES: usize = 16 << 20;

const MAX_THREADS: usize = 100_000;

/// Options that give a run its inputs.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct InputArgs {
    /// An input: text, or JSON where its type asks for it; `key=@file` takes a file's content
    #[arg(short, long = "input", value_name = "KEY=VALUE")]
    input: Vec<String>,
    /// A file with inputs: one JSON object, or with the name .jsonl one object a line, each a thread
    #[arg(long, value_name = "FILE")]
    input_file: Option<PathBuf>,
}

impl InputArgs {
    pub fn is_given(&self) -> bool {
        !self.input.is_empty() || self.input_file.is_some()
    }
}

/// The checked input of each thread. There is one unless a `.jsonl` file has more.
pub fn inputs(args: &InputArgs, workflow: &Workflow, called: &str) -> Result<Vec<Value>, Failure> {
    let given = given(&args.input, workflow)?;
    let Some(file) = &args.input_file else { return Ok(vec![checked(given, workflow, called)?]) };
    let text = read_text(file, MAX_FILE_BYTES)?;
    let name = file.display().to_string();
    if file.extension().is_none_or(|extension| extension != "jsonl") {
        let whole = Piece::new(&name, &text, 0, &text);
        return Ok(vec![whole.inputs(&given, workflow)?]);
    }
    let mut threads = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let piece = Piece::new(&name, &text, offset, line);
        offset += line.len();
        if piece.part.is_empty() {
            continue;
        }
        if threads.len() == MAX_THREADS {
            return Err(piece.refused(Code::FileRefused, 0, format!("more than {MAX_THREADS} threads")));
        }
        threads.push(piece.inputs(&given, workflow)?);
    }
    if threads.is_empty() {
        return Err(Failure::new(Code::InputSyntax, format!("{name}: it holds no object, so there is nothing to run")));
    }
    Ok(threads)
}

/// The input of a thread with changes from the command line, checked.
pub fn changed_input(words: &[String], workflow: &Workflow, input: Value) -> Result<Value, Failure> {
    let mut members = match input {
        Value::Object(members) => members,
        _ => BTreeMap::new(),
    };
    // What another workflow does not take is left out.
    members.retain(|key, _| workflow.input.iter().any(|(name, _)| name.as_str() == key));
    members.extend(given(words, workflow)?);
    types::check_input(workflow, members).map_err(|faults| told(&faults))
}

fn given(words: &[String], workflow: &Workflow) -> Result<BTreeMap<String, Value>, Failure> {
    let mut given = BTreeMap::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            let shown: String = word.chars().take(40).collect();
            return Err(Failure::new(Code::InputSyntax, format!("-i {shown:?}: an input is written as key=value")));
        };
        let text = match value.strip_prefix('@') {
            Some(file) => read_text(Path::new(file), MAX_VALUE_BYTES)?,
            None if value.len() > MAX_VALUE_BYTES => {
                let message = format!("-i {key}: the value is larger than {MAX_VALUE_BYTES} bytes");
                return Err(Failure::new(Code::InputSyntax, message));
            }
            None => value.to_owned(),
        };
        let Some((_, field)) = workflow.input.iter().find(|(name, _)| name.as_str() == key) else {
            return Err(unknown(key, workflow));
        };
        let value = types::parse_input_text(key, field, &text).map_err(|fault| told(&[fault]))?;
        if given.insert(key.to_owned(), value).is_some() {
            return Err(Failure::new(Code::InputSyntax, format!("-i {key}: the input is given twice")));
        }
    }
    Ok(given)
}

fn unknown(key: &str, workflow: &Workflow) -> Failure {
    let shown: String = key.chars().take(40).collect();
    let failure = Failure::new(Code::UnknownInput, format!("the workflow has no input `{shown}`"));
    let names = workflow.input.iter().map(|(name, _)| name.as_str());
    match nearest(key, names.clone()) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None if workflow.input.is_empty() => failure.with_hint("it takes none"),
        None => failure.with_hint(format!("its inputs: {}", names.collect::<Vec<_>>().join(", "))),
    }
}

/// The part of a file with the inputs of one thread.
struct Piece<'a> {
    file: &'a str,
    text: &'a str,
    /// Offset in `text`, in bytes.
    offset: usize,
    /// The content without white space around it.
    part: &'a str,
}

impl<'a> Piece<'a> {
    /// The piece `part`, which starts at `offset` of `text`.
    fn new(file: &'a str, text: &'a str, offset: usize, part: &'a str) -> Self {
        let begun = part.strip_prefix('\u{feff}').unwrap_or(part).trim_start();
        Self { file, text, offset: offset + part.len() - begun.len(), part: begun.trim_end() }
    }

    /// Merges it with the inputs of the command line, and checks the result.
    fn inputs(&self, given: &BTreeMap<String, Value>, workflow: &Workflow) -> Result<Value, Failure> {
        let members = match canonical::parse(self.part.as_bytes()) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err(self.refused(Code::InputSyntax, 0, "inputs are one JSON object")),
            // The byte offset is reported as line and column.
            Err(canonical::Error::Syntax { at, what }) => {
                return Err(self.refused(Code::InputSyntax, at, format!("not JSON: {what}")));
            }
            Err(error) => return Err(self.refused(Code::InputSyntax, 0, error.to_string())),
        };
        let given = given.iter().map(|(key, value)| (key.clone(), value.clone()));
        // Inputs of the command line override those of a file.
        types::check_input(workflow, members.into_iter().chain(given).collect()).map_err(|faults| {
            let placed = faults
                .into_iter()
                .map(|fault| Diagnostic { hint: fault.hint, ..self.fault(fault.code, 0, fault.message) });
            self.failure(placed.collect())
        })
    }

    fn refused(&self, code: Code, at: usize, message: impl Into<String>) -> Failure {
        self.failure(vec![self.fault(code, at, message)])
    }

    /// A diagnostic at a byte of this part.
    fn fault(&self, code: Code, at: usize, message: impl Into<String>) -> Diagnostic {
        let length = self.part.len().saturating_sub(at);
        Diagnostic::at(code, self.file, self.text, Span::new(self.offset + at, length), message)
    }

    fn failure(&self, faults: Vec<Diagnostic>) -> Failure {
        let sources = BTreeMap::from([(self.file.to_owned(), self.text.to_owned())]);
        Failure::from(Faulty { faults, sources })
    }
}

fn checked(given: BTreeMap<String, Value>, workflow: &Workflow, called: &str) -> Result<Value, Failure> {
    let missing: Vec<&(FieldName, Field)> = workflow
        .input
        .iter()
        .filter(|(name, field)| is_required(field) && !given.contains_key(name.as_str()))
        .collect();
    types::check_input(workflow, given).map_err(|faults| {
        let failure = told(&faults);
        if missing.is_empty() { failure } else { failure.with_hint(example(&missing, called)) }
    })
}

/// Combines all faults into one failure, with their hints.
fn told(faults: &[InputFault]) -> Failure {
    let code = faults.first().map_or(Code::InvalidInput, |fault| fault.code);
    let words: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let hints: Vec<&str> = faults.iter().filter_map(|fault| fault.hint.as_deref()).collect();
    let failure = Failure::new(code, words.join("; "));
    if hints.is_empty() { failure } else { failure.with_hint(hints.join("\n")) }
}

fn is_required(field: &Field) -> bool {
    !field.optional && field.default_value().is_none()
}

/// Lists the missing inputs with their types, and shows an example command line.
fn example(missing: &[&(FieldName, Field)], called: &str) -> String {
    let kinds: Vec<String> = missing.iter().map(|(name, field)| format!("{name} ({})", kind(&field.schema))).collect();
    let options: Vec<String> = missing
        .iter()
        .map(|(name, field)| match kind(&field.schema) {
            "string" => format!("-i {name}=\"...\""),
            "integer" | "number" => format!("-i {name}=1"),
            "boolean" => format!("-i {name}=true"),
            "array" => format!("-i {name}='[...]'"),
            _ => format!("-i {name}='{{...}}'"),
        })
        .collect();
    format!("missing: {}\nfor example: rondo run {called} {}", kinds.join(", "), options.join(" "))
}

/// The type of a schema as a word.
fn kind(schema: &Value) -> &str {
    schema.get("type").and_then(Value::as_str).unwrap_or(if schema.get("enum").is_some() { "string" } else { "value" })
}
