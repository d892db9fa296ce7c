//! The inputs of a run: `-i key=value`, `-i key=@file`, `--input-file`.

mod csv;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rondo::protocol::canonical::{self, Value};
use rondo::protocol::diagnostic::{Code, Diagnostic, Span, did_you_mean};
use rondo::protocol::file::File;
use rondo::protocol::id::FieldName;
use rondo::protocol::source;
use rondo::protocol::text::shell_argument;
use rondo::protocol::workflow::Workflow;
use rondo::protocol::workflow::types::{self, Field, InputFault};

use super::files::{STDIN, read_argument, read_bytes};
use super::{Failure, Faulty};

/// The most bytes of one input, and of a file with inputs.
const MAX_BYTES: usize = 64 << 20;

/// Options that give a run its inputs.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct InputArgs {
    /// An input: text, or JSON where its type requires it; `key=@file` takes a file's content, `key=@-` standard input
    #[arg(short, long = "input", value_name = "KEY=VALUE")]
    input: Vec<String>,
    /// A file with inputs: one JSON object; or, each line a thread, .jsonl with an object a line or .csv with the
    /// inputs' names in the first line; - is standard input
    #[arg(long, value_name = "FILE")]
    input_file: Option<PathBuf>,
    /// The form of the file with inputs [default: by its name; for standard input, by its content]
    #[arg(long, value_name = "FORM", requires = "input_file")]
    input_format: Option<Format>,
}

impl InputArgs {
    pub fn is_given(&self) -> bool {
        !self.input.is_empty() || self.input_file.is_some()
    }

    /// The options as they were typed, each behind a blank.
    pub fn words(&self) -> String {
        let given = self.input.iter().map(|word| format!(" -i {}", shell_argument(word)));
        let file = self.input_file.iter().map(|file| file.to_string_lossy());
        given.chain(file.map(|file| format!(" --input-file {}", shell_argument(&file)))).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One object: one thread
    Json,
    /// The same in YAML
    Yaml,
    /// An object a line, each a thread
    Jsonl,
    /// A first line with the inputs' names, then a row for each thread
    Csv,
}

pub enum Inputs {
    One(Value),
    Batch(Lines),
}

pub struct Lines {
    file: String,
    text: String,
    is_csv: bool,
    /// Inputs of the command line, which override those of the file.
    given: BTreeMap<String, Value>,
}

/// The number of a line in its file, from 1, and its checked input.
pub type CheckedLine = (u32, Result<Value, Vec<Diagnostic>>);

type CheckedLines<'a> = Box<dyn Iterator<Item = CheckedLine> + 'a>;

pub fn inputs(args: &InputArgs, workflow: &Workflow, called: &str) -> Result<Inputs, Failure> {
    let given = given(&args.input, workflow)?;
    let Some(path) = &args.input_file else { return checked(given, workflow, called).map(Inputs::One) };
    if path == Path::new(STDIN) && args.input.iter().any(|word| word.ends_with("=@-")) {
        return Err(Failure::new(Code::InputSyntax, "-i and --input-file cannot both read standard input"));
    }
    let text = read_argument(path, MAX_BYTES).map_err(ceiling)?;
    let file = if path == Path::new(STDIN) { "standard input".to_owned() } else { path.display().to_string() };
    let format = args.input_format.unwrap_or_else(|| format_of(path, &text));
    if matches!(format, Format::Json | Format::Yaml) {
        let whole = Piece::new(&file, &text, 0, &text);
        let read = if format == Format::Json { whole.inputs(&given, workflow) } else { whole.yaml(&given, workflow) };
        return read.map(Inputs::One).map_err(|faults| faulty(faults, &file, &text).into());
    }
    let lines = Lines { file, text, is_csv: format == Format::Csv, given };
    if lines.inputs(workflow)?.next().is_none() {
        let message = format!("{}: it holds no input, so there is nothing to run", lines.file);
        return Err(Failure::new(Code::InputSyntax, message));
    }
    Ok(Inputs::Batch(lines))
}

/// The form of a file by its name; that of standard input by its content: several objects are a batch.
fn format_of(path: &Path, text: &str) -> Format {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("jsonl") => Format::Jsonl,
        Some("csv") => Format::Csv,
        Some("yaml" | "yml") => Format::Yaml,
        _ if path != Path::new(STDIN) || canonical::parse(text.trim().as_bytes()).is_ok() => Format::Json,
        // A faulty object over several lines is told as one.
        _ if text.lines().next().is_some_and(|line| canonical::parse(line.trim().as_bytes()).is_ok()) => Format::Jsonl,
        _ => Format::Json,
    }
}

fn ceiling(failure: Failure) -> Failure {
    failure.with_hint(format!(
        "inputs are text of at most {} MiB; a role with the tool read_file can read a larger file piece by piece",
        MAX_BYTES >> 20
    ))
}

impl Inputs {
    pub fn first(&self, workflow: &Workflow) -> Result<Value, Failure> {
        match self {
            Self::One(input) => Ok(input.clone()),
            Self::Batch(lines) => {
                let first = lines.inputs(workflow)?.next().map_or(Ok(Value::Null), |(_, input)| input);
                first.map_err(|faults| lines.faulty(faults).into())
            }
        }
    }

    pub fn all(self, workflow: &Workflow) -> Result<Vec<Value>, Failure> {
        match self {
            Self::One(input) => Ok(vec![input]),
            Self::Batch(lines) => {
                let inputs = lines.inputs(workflow)?.map(|(_, input)| input).collect::<Result<_, _>>();
                inputs.map_err(|faults| lines.faulty(faults).into())
            }
        }
    }
}

impl Lines {
    pub fn faulty(&self, faults: Vec<Diagnostic>) -> Faulty {
        faulty(faults, &self.file, &self.text)
    }

    /// Each line with its number in the file, from 1, and its checked input. Empty lines have none.
    pub fn inputs<'a>(&'a self, workflow: &'a Workflow) -> Result<CheckedLines<'a>, Failure> {
        if self.is_csv { self.rows(workflow) } else { Ok(Box::new(self.objects(workflow))) }
    }

    fn objects<'a>(&'a self, workflow: &'a Workflow) -> impl Iterator<Item = CheckedLine> + 'a {
        let mut offset = 0;
        self.text.split_inclusive('\n').zip(1..).filter_map(move |(line, number)| {
            let piece = Piece::new(&self.file, &self.text, offset, line);
            offset += line.len();
            (!piece.part.is_empty()).then(|| (number, piece.inputs(&self.given, workflow)))
        })
    }

    fn rows<'a>(&'a self, workflow: &'a Workflow) -> Result<CheckedLines<'a>, Failure> {
        let text = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        let skipped = self.text.len() - text.len();
        let separator = csv::separator(text, |name| field(workflow, name).is_some());
        if let Some(at) = csv::unclosed_quote(text, separator) {
            let piece = Piece::at(&self.file, &self.text, skipped + at);
            return Err(self.faulty(piece.refused(0, "this quote is never closed")).into());
        }
        let mut reader = csv::reader(text, separator);
        let unreadable = |error: ::csv::Error| Failure::new(Code::InputSyntax, format!("{}: {error}", self.file));
        let names: Vec<String> = reader.headers().map_err(unreadable)?.iter().map(str::to_owned).collect();
        if let Some(name) = names.iter().find(|name| field(workflow, name).is_none()) {
            return Err(unknown(name, workflow, &format!("{}:1: ", self.file)));
        }
        if let Some((name, at)) = csv::named_again(text, separator, &names) {
            let piece = Piece::at(&self.file, &self.text, skipped + at);
            return Err(self.faulty(piece.refused(0, format!("the first line names `{name}` twice"))).into());
        }
        let mut place = csv::Place::new(text);
        Ok(Box::new(reader.into_records().map(move |row| {
            let position = row.as_ref().map_or_else(::csv::Error::position, ::csv::StringRecord::position);
            let (number, at) = place.of_row(position.map_or(0, ::csv::Position::byte));
            let piece = Piece::at(&self.file, &self.text, skipped + at);
            match row {
                Ok(row) => (number, piece.row(&names, &row, (&self.given, workflow))),
                Err(error) => (number, Err(piece.refused(0, error.to_string()))),
            }
        })))
    }
}

fn faulty(faults: Vec<Diagnostic>, file: &str, text: &str) -> Faulty {
    Faulty { faults, sources: BTreeMap::from([(file.to_owned(), text.to_owned())]) }
}

fn field<'w>(workflow: &'w Workflow, name: &str) -> Option<&'w Field> {
    workflow.input.iter().find(|(known, _)| known.as_str() == name).map(|(_, field)| field)
}

/// The input of a thread with changes from the command line, checked.
pub fn changed_input(words: &[String], workflow: &Workflow, input: Value) -> Result<Value, Failure> {
    let mut members = if let Value::Object(members) = input { members } else { BTreeMap::new() };
    // What another workflow does not take is left out.
    members.retain(|key, _| field(workflow, key).is_some());
    members.extend(given(words, workflow)?);
    types::check_input(workflow, members).map_err(|faults| Failure::of_inputs(&faults))
}

fn given(words: &[String], workflow: &Workflow) -> Result<BTreeMap<String, Value>, Failure> {
    let (mut given, mut has_read) = (BTreeMap::new(), false);
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            let shown: String = word.chars().take(40).collect();
            return Err(Failure::new(Code::InputSyntax, format!("-i {shown:?}: an input is written as key=value")));
        };
        let field = field(workflow, key).ok_or_else(|| unknown(key, workflow, ""))?;
        if field.takes_files() {
            add_file(&mut given, key, field, value)?;
            continue;
        }
        let text = match value.strip_prefix('@') {
            Some(STDIN) if std::mem::replace(&mut has_read, true) => {
                return Err(Failure::new(Code::InputSyntax, format!("-i {key}: standard input is read only once")));
            }
            Some(file) => read_argument(Path::new(file), MAX_BYTES).map_err(ceiling)?,
            None => value.to_owned(),
        };
        let value = types::parse_input_text(key, field, &text).map_err(|fault| Failure::of_inputs(&[fault]))?;
        if given.insert(key.to_owned(), value).is_some() {
            return Err(Failure::new(Code::InputSyntax, format!("-i {key}: the input is given twice")));
        }
    }
    Ok(given)
}

fn add_file(given: &mut BTreeMap<String, Value>, key: &str, field: &Field, value: &str) -> Result<(), Failure> {
    let Some(path) = value.strip_prefix('@') else {
        let message = format!("-i {key}: the input takes a file");
        return Err(Failure::new(Code::InvalidInput, message).with_hint(format!("such as -i {key}=@{value}")));
    };
    let path = Path::new(path);
    let name = path.file_name().map_or("file".into(), |name| name.to_string_lossy());
    let file = File::new(&name, read_bytes(path, MAX_BYTES)?).to_value();
    match given.get_mut(key) {
        None => {
            let value = if types::is_files(&field.schema) { Value::List(vec![file]) } else { file };
            given.insert(key.to_owned(), value);
        }
        Some(Value::List(files)) => files.push(file),
        Some(_) => return Err(Failure::new(Code::InputSyntax, format!("-i {key}: the input is given twice"))),
    }
    Ok(())
}

fn unknown(key: &str, workflow: &Workflow, place: &str) -> Failure {
    let shown: String = key.chars().take(40).collect();
    let failure = Failure::new(Code::UnknownInput, format!("{place}the workflow has no input `{shown}`"));
    let names = workflow.input.iter().map(|(name, _)| name.as_str());
    match did_you_mean(key, names.clone()) {
        Some(meant) => failure.with_hint(meant),
        None if workflow.input.is_empty() => failure.with_hint("it takes none"),
        None => failure.with_hint(format!("its inputs: {}", names.collect::<Vec<_>>().join(", "))),
    }
}

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

    /// The piece from a byte of the text to the end of that line.
    fn at(file: &'a str, text: &'a str, offset: usize) -> Self {
        let rest = text.get(offset..).unwrap_or_default();
        Self { file, text, offset, part: rest.lines().next().unwrap_or_default() }
    }

    /// Merges an object with the inputs of the command line, and checks the result.
    fn inputs(&self, given: &BTreeMap<String, Value>, workflow: &Workflow) -> Result<Value, Vec<Diagnostic>> {
        let members = match canonical::parse(self.part.as_bytes()) {
            Ok(Value::Object(members)) => members,
            Ok(_) => return Err(self.refused(0, "inputs are one JSON object")),
            // The byte offset is reported as line and column.
            Err(canonical::Error::Syntax { at, what }) => {
                return Err(self.refused(at, format!("not JSON: {what}")));
            }
            Err(error) => return Err(self.refused(0, error.to_string())),
        };
        self.merged(members, given, workflow)
    }

    fn yaml(&self, given: &BTreeMap<String, Value>, workflow: &Workflow) -> Result<Value, Vec<Diagnostic>> {
        let node = source::yaml(self.part)
            .map_err(|fault| self.refused(fault.span.offset, format!("not YAML: {}", fault.message)))?;
        match node.to_value() {
            Value::Object(members) => merged(members, given, workflow).map_err(|faults| {
                let found = faults.into_iter().map(|fault| {
                    let Some(value) = node.get(&fault.name).and_then(|node| node.at(&fault.pointer)) else {
                        return self.fault(fault.code, self.place(&fault), fault.message);
                    };
                    let hint = value.quoting_hint(self.part).filter(|_| fault.wants_text).or(fault.hint);
                    Diagnostic { hint, ..self.fault(fault.code, value.span.offset, fault.message) }
                });
                found.collect()
            }),
            _ => Err(self.refused(0, "inputs are one map")),
        }
    }

    fn row(
        &self,
        names: &[String],
        row: &::csv::StringRecord,
        (given, workflow): (&BTreeMap<String, Value>, &Workflow),
    ) -> Result<Value, Vec<Diagnostic>> {
        if row.len() > names.len() {
            let message = format!("the row has {} values, and the first line names {}", row.len(), names.len());
            return Err(self.refused(0, message));
        }
        let mut members = BTreeMap::new();
        for (name, text) in names.iter().zip(row) {
            let Some(field) = field(workflow, name) else { continue };
            // An empty cell of anything but a text is a value that is not given.
            if text.is_empty() && !field.takes_text() {
                continue;
            }
            // Spreadsheets write TRUE and FALSE.
            let is_truth = field.schema.get("type").and_then(Value::as_str) == Some("boolean");
            let text = if is_truth { text.to_ascii_lowercase() } else { text.to_owned() };
            let value = types::parse_input_text(name, field, &text);
            members.insert(name.clone(), value.map_err(|fault| self.placed(vec![fault]))?);
        }
        self.merged(members, given, workflow)
    }

    fn merged(
        &self,
        members: BTreeMap<String, Value>,
        given: &BTreeMap<String, Value>,
        workflow: &Workflow,
    ) -> Result<Value, Vec<Diagnostic>> {
        merged(members, given, workflow).map_err(|faults| self.placed(faults))
    }

    /// The faults, each at its value where that can be found.
    fn placed(&self, faults: Vec<InputFault>) -> Vec<Diagnostic> {
        let mut placed: Vec<_> = faults.into_iter().map(|fault| (self.place(&fault), fault)).collect();
        placed.sort_by_key(|(at, _)| *at);
        let placed = placed.into_iter();
        placed.map(|(at, of)| Diagnostic { hint: of.hint, ..self.fault(of.code, at, of.message) }).collect()
    }

    /// The value of a faulty input; the key of one that is not known; the object, if it is in neither.
    fn place(&self, fault: &InputFault) -> usize {
        let key = format!("\"{}\"", fault.name);
        let Some(at) = self.part.find(&key) else { return 0 };
        let rest = self.part.get(at + key.len()..).unwrap_or_default();
        match rest.trim_start().strip_prefix(':') {
            Some(value) if fault.code != Code::UnknownInput => self.part.len() - value.trim_start().len(),
            _ => at,
        }
    }

    fn refused(&self, at: usize, message: impl Into<String>) -> Vec<Diagnostic> {
        vec![self.fault(Code::InputSyntax, at, message)]
    }

    /// A diagnostic at a byte of this part.
    fn fault(&self, code: Code, at: usize, message: impl Into<String>) -> Diagnostic {
        let length = self.part.len().saturating_sub(at);
        Diagnostic::at(code, self.file, self.text, Span::new(self.offset + at, length), message)
    }
}

fn merged(
    members: BTreeMap<String, Value>,
    given: &BTreeMap<String, Value>,
    workflow: &Workflow,
) -> Result<Value, Vec<InputFault>> {
    let given = given.iter().map(|(key, value)| (key.clone(), value.clone()));
    types::check_input(workflow, members.into_iter().chain(given).collect())
}

fn checked(given: BTreeMap<String, Value>, workflow: &Workflow, called: &str) -> Result<Value, Failure> {
    let is_required = |field: &Field| !field.optional && field.default_value().is_none();
    let is_missing = |(name, field): &&(FieldName, Field)| is_required(field) && !given.contains_key(name.as_str());
    let missing: Vec<_> = workflow.input.iter().filter(is_missing).collect();
    types::check_input(workflow, given).map_err(|faults| {
        let failure = Failure::of_inputs(&faults);
        if missing.is_empty() { failure } else { failure.with_hint(example(&missing, called)) }
    })
}

/// Lists the missing inputs with their types, and shows an example command line.
fn example(missing: &[&(FieldName, Field)], called: &str) -> String {
    let kinds: Vec<String> = missing.iter().map(|(name, field)| format!("{name} ({})", kind(&field.schema))).collect();
    let value = |field: &Field| match kind(&field.schema) {
        "string" => "\"...\"",
        "integer" | "number" => "1",
        "boolean" => "true",
        "array" => "'[...]'",
        "file" | "file[]" => "@FILE",
        _ => "'{...}'",
    };
    let options: Vec<_> = missing.iter().map(|(name, field)| format!("-i {name}={}", value(field))).collect();
    format!("missing: {}\nfor example: `rondo run {} {}`", kinds.join(", "), shell_argument(called), options.join(" "))
}

fn kind(schema: &Value) -> &str {
    if types::is_file(schema) {
        return "file";
    }
    if types::is_files(schema) {
        return "file[]";
    }
    schema.get("type").and_then(Value::as_str).unwrap_or(if schema.get("enum").is_some() { "string" } else { "value" })
}
