//! Answers as YAML front matter and a body in Markdown.
//!
//! Models write poor YAML, so the front matter is first cut into fields and each is then parsed by its declared type.
//! Only the parser is lenient: it keeps a field's text as written and the body exact to the byte.

use rondo_protocol::Value;
use rondo_protocol::source::{self, Kind, Node};

use super::field::{DeclaredField, Shape, is_text};
use super::words::excerpt;
use super::{Answer, Contract, ContractFault, Given, MAX_FRONT_MATTER_BYTES, fence, quote, settle};

/// The characters that separate a key from its value, and indent a line.
const BLANK: [char; 2] = [' ', '\t'];

/// The key under which a field is passed to the YAML reader.
const VALUE: &str = "value";

pub(super) fn parse(contract: &Contract, text: &str) -> Result<Answer, ContractFault> {
    let (front, body) = split(fence::strip(text))?;
    let mut lines = lines_of(front)?;
    let (status, declared) = match (take_status(&mut lines)?, contract.output.as_slice()) {
        (Some(word), _) => contract.find(&word)?,
        (None, [(status, declared)]) => (status, declared.as_slice()),
        (None, _) => return Err(contract.missing_status()),
    };
    let mut given = Given::new();
    for field in lines {
        let shape = declared.iter().find(|known| known.name.as_str() == field.name);
        let read = shape.map_or(Ok(Value::Null), |declared| field.read(declared));
        let twice = given.contains_key(field.name);
        let read = if twice { Err(format!("`{}` stands twice", excerpt(field.name))) } else { read };
        given.insert(field.name.to_owned(), read);
    }
    let output = settle(status.as_str(), declared, given)?;
    Ok(Answer { status: status.clone(), output, body: body.to_owned() })
}

/// Splits off the front matter, between the first two lines `---`, from the body, the rest without one blank line.
/// Blank lines before the first `---` belong to neither.
fn split(text: &str) -> Result<(&str, &str), ContractFault> {
    let start = text.trim_start_matches(['\n', '\r', ' ', '\t']);
    let Some(inner) = start.split_once('\n').filter(|(first, _)| is_dashes(first)).map(|(_, inner)| inner) else {
        let words = if start.is_empty() {
            "the answer is empty"
        } else if start.starts_with("```") || start.starts_with("~~~") {
            "the answer begins with a code fence that does not close at its end; write no fence around it"
        } else {
            "the answer does not begin with a line `---`"
        };
        return Err(ContractFault::new(words));
    };
    let mut at = 0;
    for line in inner.split_inclusive('\n') {
        if is_dashes(line.strip_suffix('\n').unwrap_or(line)) {
            let front = inner.get(..at).unwrap_or_default();
            if front.len() > MAX_FRONT_MATTER_BYTES {
                return Err(ContractFault::new("the front matter is longer than 1 MiB; put long texts into the body"));
            }
            let body = inner.get(at + line.len()..).unwrap_or_default();
            let body = body.strip_prefix('\n').or_else(|| body.strip_prefix("\r\n")).unwrap_or(body);
            return Ok((front, body));
        }
        at += line.len();
    }
    Err(ContractFault::new("the front matter has no end: write a line `---` after the last field"))
}

fn is_dashes(line: &str) -> bool {
    line.trim_end_matches([' ', '\t', '\r']) == "---"
}

/// The lines of one field: the rest of its key's line, and the lines that belong to it.
struct FieldLines<'a> {
    name: &'a str,
    first: &'a str,
    more: Vec<&'a str>,
}

/// Cuts a front matter into fields. An unindented line that is no list item starts a field.
fn lines_of(front: &str) -> Result<Vec<FieldLines<'_>>, ContractFault> {
    let mut fields: Vec<FieldLines<'_>> = Vec::new();
    for (number, line) in front.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let continues = line.starts_with(BLANK) || line == "-" || line.starts_with("- ") || line.trim().is_empty();
        match fields.last_mut() {
            Some(field) if continues => field.more.push(line),
            _ if line.trim().is_empty() || line.starts_with('#') => {}
            _ => match key_of(line) {
                Some((name, first)) => fields.push(FieldLines { name, first, more: Vec::new() }),
                None => {
                    return Err(ContractFault::new(format!(
                        "line {} of the front matter is not `field: value`: `{}`",
                        number + 1,
                        excerpt(line)
                    )));
                }
            },
        }
    }
    fields.iter_mut().for_each(FieldLines::trim_end);
    Ok(fields)
}

/// The key of a line and the text after its colon.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let key = key.trim_end_matches(BLANK);
    let bare = ['"', '\''].iter().find_map(|q| key.strip_prefix(*q)?.strip_suffix(*q)).unwrap_or(key);
    let is_name = !bare.is_empty() && bare.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    (is_name && (rest.is_empty() || rest.starts_with(BLANK))).then_some((bare, rest))
}

fn take_status(fields: &mut Vec<FieldLines<'_>>) -> Result<Option<String>, ContractFault> {
    let Some(at) = fields.iter().position(|field| field.name == "status") else { return Ok(None) };
    let status = fields.remove(at);
    if fields.iter().any(|field| field.name == "status") {
        return Err(ContractFault::new("`status` stands twice"));
    }
    // A status contains no blank, so what follows one can only be a comment.
    let text = status.text();
    Ok(Some(text.split_once(" #").map_or(text.as_str(), |(word, _)| word).trim().to_owned()))
}

impl FieldLines<'_> {
    fn trim_end(&mut self) {
        let blank = self.more.iter().rev().take_while(|line| line.trim().is_empty()).count();
        self.more.truncate(self.more.len() - blank);
    }

    fn read(&self, declared: &DeclaredField) -> Result<Value, String> {
        match declared.shape {
            Shape::Text => Ok(Value::Str(self.text())),
            Shape::Texts => self.texts().map_or_else(|| self.yaml(declared), Ok),
            Shape::Other => self.yaml(declared),
        }
    }

    /// The text of a field declared as text: a complete quoted or block scalar, else the text as written.
    fn text(&self) -> String {
        let first = self.first.trim_matches(BLANK);
        if first.starts_with(['"', '\'', '|', '>'])
            && let Ok(document) = source::yaml(&self.source())
            && let Some(Node { kind: Kind::Str(text), .. }) = document.get(VALUE)
        {
            return text.clone();
        }
        let block = dedent(&self.more);
        match (first.is_empty(), self.more.is_empty()) {
            (_, true) => first.to_owned(),
            (true, false) => block,
            (false, false) => format!("{first}\n{block}"),
        }
    }

    /// The items of a list of texts in block style, each parsed as a text; `None` when it is not in block style.
    fn texts(&self) -> Option<Value> {
        let first = self.first.trim_matches(BLANK);
        if !(first.is_empty() || first.starts_with('#')) {
            return None;
        }
        let lines: Vec<&str> = self.more.iter().copied().filter(|line| !line.trim_start().starts_with('#')).collect();
        let margin = lines.first().map(|line| indent(line))?;
        let mut items: Vec<FieldLines<'_>> = Vec::new();
        for line in self.more.iter().copied() {
            let inner = line.get(margin..).unwrap_or_default();
            let is_item = indent(line) == margin && (inner == "-" || inner.starts_with("- "));
            if is_item {
                items.push(FieldLines { name: "item", first: inner.get(1..)?, more: Vec::new() });
            } else if line.trim().is_empty() || indent(line) > margin {
                items.last_mut()?.more.push(line);
            } else if !line.trim_start().starts_with('#') {
                return None;
            }
        }
        if items.len() > source::MAX_NODES {
            return None;
        }
        items.iter_mut().for_each(FieldLines::trim_end);
        Some(Value::List(items.iter().map(|item| Value::Str(item.text())).collect()))
    }

    fn yaml(&self, declared: &DeclaredField) -> Result<Value, String> {
        let words = |why: String| format!("`{}` must be {}: {why}", declared.name, declared.type_words());
        let source = self.source();
        let document = source::yaml(&source).map_err(|fault| words(excerpt(&fault.message)))?;
        let value = document.get(VALUE).ok_or_else(|| words("it cannot be read as YAML".to_owned()))?;
        Ok(as_declared(value, &declared.schema, &source))
    }

    fn source(&self) -> String {
        let mut text = format!("{VALUE}:{}\n", self.first);
        for line in &self.more {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// A value by its schema: where that asks for a text, a number or boolean is the text that stands there.
fn as_declared(node: &Node, schema: &Value, source: &str) -> Value {
    let written = || source.get(node.span.range()).map(|text| Value::from(text.trim_matches(BLANK)));
    match &node.kind {
        Kind::List(items) => {
            let of_items = schema.get("items").unwrap_or(&Value::Null);
            Value::List(items.iter().map(|item| as_declared(item, of_items, source)).collect())
        }
        Kind::Map(entries) => {
            let of = |name: &str| schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
            let member =
                |(key, node): &(source::Key, Node)| (key.name.clone(), as_declared(node, of(&key.name), source));
            Value::Object(entries.iter().map(member).collect())
        }
        Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) if is_text(schema) => {
            written().unwrap_or_else(|| node.to_value())
        }
        _ => node.to_value(),
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(BLANK).len()
}

fn dedent(lines: &[&str]) -> String {
    let margin = lines.iter().filter(|line| !line.trim().is_empty()).map(|line| indent(line)).min().unwrap_or(0);
    let lines: Vec<&str> = lines.iter().map(|line| line.get(margin..).unwrap_or_default()).collect();
    lines.join("\n")
}

pub(super) fn render(status: &str, fields: &[(&str, &Value)], body: &str) -> String {
    let mut text = format!("---\nstatus: {status}\n");
    for (name, value) in fields {
        text.push_str(name);
        text.push(':');
        match value {
            Value::Str(line) => {
                text.push(' ');
                quote::scalar(&mut text, line);
            }
            Value::List(items) if !items.is_empty() && items.iter().all(|item| item.as_str().is_some()) => {
                for item in items.iter().filter_map(Value::as_str) {
                    text.push_str("\n  - ");
                    quote::scalar(&mut text, item);
                }
            }
            other => {
                text.push(' ');
                quote::flow(&mut text, other);
            }
        }
        text.push('\n');
    }
    text.push_str("---\n");
    if !body.is_empty() {
        text.push('\n');
        text.push_str(body);
    }
    text
}
