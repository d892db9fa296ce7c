//! What a role gives to its child workflow, compared with the inputs that the child declares.
//!
//! Only what is sure to be refused when the child begins is a fault: a value of an unknown type may fit.

use super::Templates;
use crate::canonical::Value;
use crate::diagnostic::{Code, did_you_mean, nearest};
use crate::source::excerpt;
use crate::workflow::WorkflowRole;
use crate::workflow::check::types::{Known, Type};
use crate::workflow::check::typing::{TypeEnv, Typing, listed};
use crate::workflow::source_map::key;
use crate::workflow::template::{Statement, Template};
use crate::workflow::types::{self, Field};

const HINT: &str = "give what the child declares under its `input`";

impl<'w> Templates<'_, '_, 'w, '_> {
    /// Checks the inputs at `path`, which the role gives to its child.
    pub(super) fn child_input(&mut self, path: &str, child: &'w WorkflowRole, env: Option<&TypeEnv<'_, 'w>>) {
        let Value::Object(given) = &child.input.0 else { return };
        if self.findings.places.is_incomplete(path) {
            return;
        }
        let declared = &child.workflow.input;
        let is_needed = |field: &Field| !field.optional && field.default_value().is_none();
        let missing = declared.iter().filter(|(name, field)| is_needed(field) && !given.contains_key(name.as_str()));
        let mut missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        for (name, value) in given {
            let path = key(path, name);
            if let Some((_, field)) = declared.iter().find(|(declared, _)| declared.as_str() == name) {
                if let Some(message) = misfit(name, field, value, env) {
                    self.findings.at(Code::InvalidInput, &path, message, HINT);
                }
                continue;
            }
            let names = declared.iter().map(|(name, _)| name.as_str());
            let hint = did_you_mean(name, names.clone()).unwrap_or_else(|| match declared.as_slice() {
                [] => "it declares none at all".to_owned(),
                _ => format!("it declares {}", listed(names)),
            });
            // A misspelt input is not missing as well.
            let meant = nearest(name, missing.iter().copied());
            missing.retain(|name| Some(*name) != meant);
            let message = format!("the child declares no input `{}`", excerpt(name));
            self.findings.at_key(Code::UnknownInput, &path, message, hint);
        }
        for name in missing {
            let message = format!("the input `{name}` of the child is missing");
            self.findings.at_key(Code::MissingInput, path, message, format!("add `{name}:` under `input`"));
        }
    }
}

/// Why the value that is given for an input of a child never fits, if so.
fn misfit<'w>(name: &str, field: &'w Field, value: &'w Value, env: Option<&TypeEnv<'_, 'w>>) -> Option<String> {
    if let Some(value) = constant(value) {
        return types::checked(name, field, value).err().map(|fault| fault.message);
    }
    let given = given(value, env)?;
    let declared = Known::of(&field.schema);
    // A file may be given as a data URL.
    if !is_sure(&given.kind) || !is_sure(&declared.kind) || types::is_file(&field.schema) && given.kind == Type::Text {
        return None;
    }
    let (found, wanted) = (given.kind.name(), declared.kind.name());
    if found != wanted {
        return Some(format!("the input `{name}` of the child wants a {wanted}, and this is a {found}"));
    }
    let is_never = !given.words.is_empty()
        && !declared.words.is_empty()
        && !given.words.iter().any(|word| declared.words.contains(word));
    is_never.then(|| {
        let words = listed(declared.words.iter().copied());
        format!("the input `{name}` of the child is one of {words}, and this is never one of them")
    })
}

fn is_sure(kind: &Type<'_>) -> bool {
    !matches!(kind, Type::Any | Type::None | Type::Step(_) | Type::PastStep(..))
}

/// The value, if it has no templates: each of its texts stands for itself.
fn constant(value: &Value) -> Option<Value> {
    match value {
        Value::Str(source) => match Template::parse(source).ok()?.statements() {
            [] => Some(Value::from("")),
            [Statement::Text { text, .. }] => Some(Value::from(&**text)),
            _ => None,
        },
        Value::List(items) => items.iter().map(constant).collect::<Option<_>>().map(Value::List),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| Some((name.clone(), constant(value)?)));
            members.collect::<Option<_>>().map(Value::Object)
        }
        fixed => Some(fixed.clone()),
    }
}

/// The type of a value with templates. One expression alone keeps its type, any other template is a text.
fn given<'w>(value: &'w Value, env: Option<&TypeEnv<'_, 'w>>) -> Option<Known<'w>> {
    let Value::Str(source) = value else { return Some(Type::of_value(value).into()) };
    let template = Template::parse(source).ok()?;
    match template.single() {
        Some(expr) => Some(Typing::new(env?).value(expr)),
        None => Some(Type::Text.into()),
    }
}
