//! Roles, by kind, with their policies.

use std::collections::{BTreeMap, BTreeSet};

use super::output::{Output, status, text_field};
use super::path_node::{Fields, PathNode};
use super::{Reader, RolesAndPolicies};
use crate::canonical::{self, Value};
use crate::diagnostic::Code;
use crate::id::{FieldName, Status};
use crate::source::Kind;
use crate::workflow::format::{
    CHOSEN_CONTEXT, COMPACT, CONTEXT_WHAT, FORMAT, HISTORY, Kind as Word, RETRY, ROLE_LIMITS, SELECT_EXPRESSION,
    SELECT_WORD,
};
use crate::workflow::types::Field;
use crate::workflow::{
    Compact, Context, ModelRole, Ordered, Retry, Role, RoleKind, RolePolicy, RuleRole, SelectBy, SelectorRole,
    Template, ToolRole,
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
            let role = if entry.node.kind == Kind::Null {
                self.is_given(&entry);
                None
            } else {
                self.role(&entry, &mut policies)
            };
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
        let fields = self.fields(part, &word.keys())?;
        let description = fields.get("description").and_then(|part| self.prose(part)).unwrap_or_default();
        let mut policy = RolePolicy::default();
        let mut with = BTreeMap::new();
        let (kind, output) = match word {
            Word::Model => {
                let model = self.model_role(&fields);
                with = self.model_policy(&fields, &mut policy);
                (RoleKind::Model(model), self.output(fields.get("output")))
            }
            Word::Selector => {
                let mut model = self.model_role(&fields);
                if fields.get("context").is_none() {
                    // It chooses by what was said.
                    model.context.what = crate::workflow::ContextWhat::Bodies;
                }
                with = self.model_policy(&fields, &mut policy);
                let by = fields.get("by").map_or(Some(SelectBy::Model), |by| self.select_by(by));
                let by = by.unwrap_or(SelectBy::Model);
                if by == SelectBy::Human && fields.get("timeout").is_none() {
                    policy.timeout_ms = None;
                }
                // Its statuses are those of its edges, which the graph fills in.
                (RoleKind::Selector(SelectorRole { by, fallback_route: None, model }), Vec::new())
            }
            Word::Human => {
                policy.timeout_ms = fields.get("timeout").and_then(|timeout| self.duration(timeout));
                (RoleKind::Human, self.output(fields.get("output")))
            }
            Word::Tool => {
                let tool = fields.get("tool").and_then(|tool| self.tool_name(tool, false)).unwrap_or_default();
                let args = fields.get("args").and_then(|args| self.template_map(args));
                let args = args.unwrap_or_else(|| Template(Value::empty_object()));
                (RoleKind::Tool(ToolRole { args, tool }), self.tool_output(fields.get("output")))
            }
            Word::Rule => {
                let (rules, output) = fields.get("output").map(|output| self.rules(output)).unwrap_or_default();
                (RoleKind::Rule(RuleRole { rules }), output)
            }
            Word::Workflow => {
                // A child has separate limits.
                policy.timeout_ms = None;
                let (role, output) = self.child_role(part, &fields)?;
                (RoleKind::Workflow(Box::new(role)), output)
            }
        };
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

    fn model_role(&mut self, fields: &Fields<'_>) -> ModelRole {
        let model = fields.get("model").and_then(|model| self.nonempty(model));
        ModelRole {
            compact: fields.get("compact").and_then(|compact| self.compact(compact)),
            context: fields.get("context").and_then(|context| self.context(context)).unwrap_or_default(),
            format: fields.get("format").and_then(|format| self.word(format, &FORMAT)).unwrap_or_default(),
            history: fields.get("history").and_then(|history| self.word(history, &HISTORY)).unwrap_or_default(),
            model: model.unwrap_or_else(|| "default".to_owned()),
            system: fields.get("system").and_then(|system| self.system(system)).unwrap_or_default(),
            tools: fields.get("tools").map(|tools| self.tools(tools)).unwrap_or_default(),
        }
    }

    /// Reads the policy of a model role; returns the settings of altering hooks, which are not part of it.
    fn model_policy(&mut self, fields: &Fields<'_>, policy: &mut RolePolicy) -> BTreeMap<String, Value> {
        if let Some(limits) = fields.get("limits") {
            policy.limits = self.with_defaults(limits, ROLE_LIMITS.keys());
        }
        if let Some(retry) = fields.get("retry") {
            policy.retry = self.retry(retry);
        }
        if let Some(fallback) = fields.get("fallback") {
            let items = self.items(fallback).unwrap_or_default();
            policy.fallback = items.iter().filter_map(|item| self.nonempty(item)).collect();
        }
        if let Some(timeout) = fields.get("timeout") {
            policy.timeout_ms = self.duration(timeout).or(policy.timeout_ms);
        }
        let (altering, transparent) = fields.get("with").map(|with| self.with(with)).unwrap_or_default();
        policy.with = transparent;
        altering
    }

    fn retry(&mut self, part: &PathNode<'_>) -> Retry {
        let mut retry: Retry = self.with_defaults(part, RETRY.keys());
        let mut faults = Vec::new();
        retry.faults.retain(|fault| {
            let is_new = !faults.contains(fault);
            faults.push(*fault);
            is_new
        });
        retry
    }

    fn context(&mut self, part: &PathNode<'_>) -> Option<Context> {
        if matches!(part.node.kind, Kind::Map(_)) {
            return Some(self.with_defaults(part, CHOSEN_CONTEXT.keys()));
        }
        Some(Context { what: self.word(part, &CONTEXT_WHAT)?, ..Context::default() })
    }

    fn compact(&mut self, part: &PathNode<'_>) -> Option<Compact> {
        let fields = self.fields(part, COMPACT.keys())?;
        canonical::from_value(Value::Object(self.values(&fields, COMPACT.keys()))).ok()
    }

    fn tools(&mut self, part: &PathNode<'_>) -> Vec<String> {
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
    fn tool_name(&mut self, part: &PathNode<'_>, choice: bool) -> Option<String> {
        const LONGEST: usize = 128;
        let text = self.text(part)?;
        let is_word =
            |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let sound = match text.split_once('.') {
            None => is_word(&text),
            Some((server, "*")) => choice && is_word(server),
            Some((server, tool)) => is_word(server) && tool.split('.').all(is_word),
        };
        if sound && text.len() <= LONGEST {
            return Some(text);
        }
        let forms = if choice { "`name`, `server.name` or `server.*`" } else { "`name` or `server.name`" };
        self.not_allowed(part, &format!("a tool, written {forms}"), None)
    }

    fn select_by(&mut self, part: &PathNode<'_>) -> Option<SelectBy> {
        if matches!(part.node.kind, Kind::Map(_)) {
            let fields = self.fields(part, SELECT_EXPRESSION.keys())?;
            return fields.get("expression").and_then(|part| self.expression(part)).map(SelectBy::Expression);
        }
        self.word(part, &SELECT_WORD)
    }

    /// `ok` with the declared fields, and `failed`.
    fn tool_output(&mut self, part: Option<&PathNode<'_>>) -> Output {
        let mut declared = Vec::new();
        if let Some(part) = part {
            for entry in self.entries(part).unwrap_or_default() {
                if entry.name() == "ok" {
                    declared = self.status_fields(&entry);
                } else {
                    let message = format!("a tool role declares fields under `ok` only, found `{}`", entry.name());
                    let fault = entry.key_fault(Code::UnknownKey, message);
                    self.leave_out(&entry, fault.with_hint("its statuses are `ok` and `failed {code, message}`"));
                }
            }
        }
        let failed = ["code", "message"].into_iter().filter_map(text_field).collect();
        named_output([("ok", declared), ("failed", failed)])
    }
}

/// An output with statuses that the format defines.
pub(super) fn named_output<const N: usize>(statuses: [(&str, Ordered<FieldName, Field>); N]) -> Output {
    let named = |(name, fields)| status(name).map(|name: Status| (name, fields));
    statuses.into_iter().filter_map(named).collect()
}
