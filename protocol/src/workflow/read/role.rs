//! Roles, by kind, with their policies.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::output::{Output, status, text_field};
use super::path_node::PathNode;
use super::value::over_defaults;
use super::{Reader, RolesAndPolicies};
use crate::canonical::{self, Value};
use crate::diagnostic::Code;
use crate::id::FieldName;
use crate::source::Kind;
use crate::workflow::format::Kind as Word;
use crate::workflow::types::Field;
use crate::workflow::{
    ModelRole, Ordered, Role, RoleKind, RolePolicy, RuleRole, SelectBy, SelectorRole, Template, ToolRole,
};

impl Reader<'_> {
    pub(super) fn roles(&mut self, part: &PathNode<'_>) -> RolesAndPolicies {
        let (mut roles, mut policies) = (Vec::new(), BTreeMap::new());
        let entries = self.entries(part).unwrap_or_default();
        if entries.is_empty() && matches!(part.node.kind, Kind::Map(_)) {
            self.not_allowed::<()>(part, "at least one role", None);
        }
        self.role_names = entries.iter().map(|entry| entry.name().to_owned()).collect();
        for entry in entries {
            let name = self.role_name(&entry);
            let role = if self.is_given(&entry) { self.role(&entry, &mut policies) } else { None };
            match (name, role) {
                (Some(name), Some(role)) => roles.push((name, role)),
                // The set of roles is unknown.
                _ => self.places.mark_incomplete(&part.path),
            }
        }
        (roles, policies)
    }

    fn role(&mut self, part: &PathNode<'_>, policies: &mut BTreeMap<String, RolePolicy>) -> Option<Role> {
        let word = self.word_of(part)?;
        let keys = word.keys();
        let fields = self.fields(part, &keys)?;
        let mut values = self.values(&fields, &keys);
        let (with, transparent) = fields.get("with").map(|with| self.with(with)).unwrap_or_default();
        let mut policy = RolePolicy { with: transparent, ..over_defaults(&values) };
        let mut faults = Vec::new();
        policy.retry.faults.retain(|fault| {
            let is_new = !faults.contains(fault);
            faults.push(*fault);
            is_new
        });
        let output = fields.get("output");
        let no_templates = || Template(Value::empty_object());
        let description = take(&mut values, "description").unwrap_or_default();
        // Without a time limit: the form of a person stays open, and a child has limits of its own.
        let mut is_endless = matches!(word, Word::Human | Word::Workflow);
        let (kind, output) = match word {
            Word::Model => (RoleKind::Model(model_role(values, "outputs")), self.output(output)),
            Word::Selector => {
                let by = take(&mut values, "by").unwrap_or(SelectBy::Model);
                is_endless = by == SelectBy::Human;
                // It chooses by what was said. Its statuses are those of its edges, which the graph fills in.
                let selector = SelectorRole { by, fallback_route: None, model: model_role(values, "bodies") };
                (RoleKind::Selector(selector), Vec::new())
            }
            Word::Human => (RoleKind::Human, self.output(output)),
            Word::Tool => {
                let args = take(&mut values, "args").unwrap_or_else(no_templates);
                let tool = take(&mut values, "tool").unwrap_or_default();
                (RoleKind::Tool(ToolRole { args, tool }), self.tool_output(output))
            }
            Word::Rule => {
                let (rules, output) = output.map(|output| self.rules(output)).unwrap_or_default();
                (RoleKind::Rule(RuleRole { rules }), output)
            }
            Word::Workflow => {
                let input = take(&mut values, "input").unwrap_or_else(no_templates);
                let (role, output) = self.child_role(part, &fields, input)?;
                (RoleKind::Workflow(Box::new(role)), output)
            }
        };
        if is_endless && fields.get("timeout").is_none() {
            policy.timeout_ms = None;
        }
        policies.insert(part.name().to_owned(), policy);
        Some(Role { description, kind, output, with })
    }

    /// Reads the word under `kind` before the other keys, because it determines which are allowed.
    fn word_of(&mut self, part: &PathNode<'_>) -> Option<Word> {
        let Some(node) = part.node.get("kind") else { return Some(Word::Model) };
        let entries = self.entries(part)?;
        let kind = entries.iter().find(|entry| std::ptr::eq(entry.node, node))?;
        if self.is_given(kind) { self.one_of(kind, Word::ALL.map(|(name, word, _)| (name, word))) } else { None }
    }

    pub(super) fn tools(&mut self, part: &PathNode<'_>) -> Vec<String> {
        let (mut tools, mut listed) = (Vec::new(), BTreeSet::new());
        for item in self.items(part).unwrap_or_default() {
            let Some(tool) = self.tool_name(&item, true) else { continue };
            if listed.insert(tool.clone()) {
                tools.push(tool);
            } else {
                self.not_allowed::<()>(&item, "each tool once", None);
            }
        }
        tools
    }

    /// Reads `name`, `server.name`, or, if a choice is allowed, `server.*`.
    pub(super) fn tool_name(&mut self, part: &PathNode<'_>, choice: bool) -> Option<String> {
        const LONGEST: usize = 128;
        let text = self.text(part)?;
        let is_word =
            |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let sound = match text.split_once('.') {
            Some((server, "*")) => choice && is_word(server),
            _ => text.split('.').all(is_word),
        };
        if sound && text.len() <= LONGEST {
            return Some(text);
        }
        let forms = if choice { "`name`, `server.name` or `server.*`" } else { "`name` or `server.name`" };
        self.not_allowed(part, &format!("a tool, written {forms}"), None)
    }

    /// `ok` with the declared fields, and `failed`.
    fn tool_output(&mut self, part: Option<&PathNode<'_>>) -> Output {
        let mut declared = Vec::new();
        for entry in part.and_then(|part| self.entries(part)).unwrap_or_default() {
            if entry.name() == "ok" {
                declared = self.status_fields(&entry);
            } else {
                let message = format!("a tool role declares fields under `ok` only, found `{}`", entry.name());
                let fault = entry.key_fault(Code::UnknownKey, message);
                self.leave_out(&entry, fault.with_hint("its statuses are `ok` and `failed {code, message}`"));
            }
        }
        let failed = ["code", "message"].into_iter().filter_map(text_field).collect();
        named_output([("ok", declared), ("failed", failed)])
    }
}

fn take<T: DeserializeOwned>(values: &mut BTreeMap<String, Value>, name: &str) -> Option<T> {
    let read = canonical::from_value(values.remove(name)?);
    debug_assert!(read.is_ok(), "what the table of the format lets pass is what the type takes");
    read.ok()
}

/// The role of a model with these settings, which sees `what` of the other roles' steps if they do not say.
fn model_role(mut values: BTreeMap<String, Value>, what: &str) -> ModelRole {
    let context = match values.remove("context").unwrap_or_else(|| Value::from(what)) {
        word @ Value::Str(_) => Value::from_iter([("what", word)]),
        chosen => chosen,
    };
    values.insert("context".to_owned(), context);
    values.entry("model".to_owned()).or_insert_with(|| Value::from("default"));
    over_defaults(&values)
}

/// An output with statuses that the format defines.
pub(super) fn named_output<const N: usize>(statuses: [(&str, Ordered<FieldName, Field>); N]) -> Output {
    statuses.into_iter().filter_map(|(name, fields)| Some((status(name)?, fields))).collect()
}
