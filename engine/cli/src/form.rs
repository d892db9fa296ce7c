//! A form on the terminal: a status, then its fields one by one, then the body.

use std::process::Command;

use rondo::core::shown_call::ShownCall;
use rondo::core::temporary_folder::temporary_folder;
use rondo::core::thread::OpenForm;
use rondo::core::{FilledForm, PersonSaid};
use rondo::protocol::Value;
use rondo::protocol::id::{FieldName, Status};
use rondo::protocol::workflow::Role;
use rondo::protocol::workflow::types::{self, Field};
use rondo::tell::{printable, tell};
use rondo::views::lines::who;

use super::approval::asked;
use super::person::answer_to;

/// Asks for the answer to a form; `None` if the person leaves it open.
pub fn ask(open: &OpenForm, role: &Role) -> Option<PersonSaid> {
    let who = who(&open.visit.role, &open.visit.lane);
    if let Some(call) = ShownCall::of_form(&open.form) {
        return approval(&who, &call);
    }
    let prompt = open.form.get("prompt").and_then(Value::as_str).unwrap_or_default();
    let indented = |line: &str| format!("    {line}\n");
    tell(&format!("\n{who} asks:\n{}", printable(prompt).lines().map(indented).collect::<String>()));
    let (status, declared) = status(role)?;
    let fields = declared
        .iter()
        .filter_map(|(name, field)| value(name, field).map(|value| Some((name.as_str(), value?))).transpose());
    let fields = fields.collect::<Result<_, Later>>().ok()?;
    Some(PersonSaid::Form(FilledForm { status: status.clone(), fields, body: body()? }))
}

/// Asks whether a tool call may be made; a dangerous one is allowed by its word and not by yes.
fn approval(who: &str, call: &ShownCall) -> Option<PersonSaid> {
    let how = match &call.word {
        Some(word) => format!("Type {word} to allow it, n to refuse it: "),
        None => "approve it? [y/n] ".to_owned(),
    };
    let line = answer_to(&format!("\n{}\n{how}", asked(who, call)));
    let is_allowed = match (&call.word, line.to_lowercase().as_str()) {
        (Some(word), _) if line == *word => true,
        (None, "y" | "yes") => true,
        (_, "n" | "no") => false,
        _ => return None,
    };
    Some(PersonSaid::Approval { is_allowed, why: String::new() })
}

fn status(role: &Role) -> Option<&(Status, Vec<(FieldName, Field)>)> {
    if let [only] = role.output.as_slice() {
        return Some(only);
    }
    let names: Vec<&str> = role.output.iter().map(|(status, _)| status.as_str()).collect();
    role.output.get(choice("status", &names)?)
}

/// The index of the chosen name; `None` if there is no answer.
fn choice(of: &str, names: &[&str]) -> Option<usize> {
    let item = |(number, name): (usize, &&str)| format!("  {number}  {name}\n");
    tell(&(1..).zip(names).map(item).collect::<String>());
    loop {
        let line = line(&format!("{of} (a number or name, empty to answer later): "))?;
        let by_number = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = by_number.filter(|at| *at < names.len()).or_else(|| names.iter().position(|name| *name == line));
        match found {
            Some(at) => return Some(at),
            None => tell(&format!("  {line:?} is not one of them\n")),
        }
    }
}

/// A line; `None` if it is empty, as at the end of the input.
fn line(question: &str) -> Option<String> {
    Some(answer_to(question)).filter(|line| !line.is_empty())
}

struct Later;

/// The value of a field; `None` if it is left out.
fn value(name: &FieldName, field: &Field) -> Result<Option<Value>, Later> {
    let text_of = |key: &str| field.schema.get(key).and_then(Value::as_str);
    let options = match field.schema.get("enum") {
        Some(Value::List(options)) => options.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !options.is_empty() && !field.optional {
        let at = choice(name.as_str(), &options).ok_or(Later)?;
        return Ok(options.get(at).map(|option| Value::from(*option)));
    }
    let of_texts = field.schema.get("items").and_then(|items| items.get("type")).and_then(Value::as_str);
    if text_of("type") == Some("array") && of_texts == Some("string") {
        return Ok(Some(list(name)));
    }
    let hint = match text_of("type") {
        Some("string") | None => String::new(),
        Some("boolean") => " (true or false)".to_owned(),
        Some("array" | "object") => " (JSON)".to_owned(),
        Some(other) => format!(" ({other})"),
    };
    let optional = if field.optional { ", empty for none" } else { "" };
    let mut was_empty = false;
    loop {
        let text = answer_to(&format!("{name}{hint}{optional}: "));
        if text.is_empty() && field.optional {
            return Ok(None);
        }
        if text.is_empty() && (was_empty || !field.takes_text()) {
            return Err(Later);
        }
        if text.is_empty() && field.schema.get("minLength") != Some(&Value::Int(0)) {
            was_empty = true;
            tell(&format!("  {name} must be given; empty once more to answer later\n"));
            continue;
        }
        match types::parse_input_text(name.as_str(), field, &text) {
            Ok(value) => return Ok(Some(value)),
            Err(fault) => tell(&format!("  {}\n", fault.message)),
        }
    }
}

fn list(name: &FieldName) -> Value {
    let mut items = Vec::new();
    tell(&format!("{name}, one a line, an empty line ends the list\n"));
    while let Some(item) = line(&format!("  {}: ", items.len() + 1)) {
        items.push(Value::from(item));
    }
    Value::List(items)
}

/// The body: a line, or a longer text from an editor.
fn body() -> Option<String> {
    let text = answer_to("text (a line, `e` for an editor, empty for none): ");
    if text == "e" { edited() } else { Some(text) }
}

fn edited() -> Option<String> {
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(|name| std::env::var(name).ok());
    let editor = editor.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    let folder = temporary_folder("answer").ok()?;
    let file = folder.path().join("answer.md");
    std::fs::write(&file, "").ok()?;
    let mut words = editor.split_whitespace();
    let status = Command::new(words.next()?).args(words).arg(&file).status();
    if !status.is_ok_and(|status| status.success()) {
        tell(&format!("  {editor} failed; nothing was taken\n"));
        return None;
    }
    std::fs::read_to_string(&file).ok().map(|text| text.trim_end_matches('\n').to_owned())
}
