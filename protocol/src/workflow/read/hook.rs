//! Hooks: uses of a kind at the top of the file, and settings for a kind under a role's `with`.

use std::collections::{BTreeMap, BTreeSet};

use super::Reader;
use super::file::Family;
use super::path_node::{self, Fields, PathNode};
use crate::canonical::Value;
use crate::diagnostic::{Code, Diagnostic, did_you_mean};
use crate::id::RoleName;
use crate::source::{self, excerpt};
use crate::workflow::format::{HOOK, MAX_HOOKS};
use crate::workflow::hooks::{HookKind, HookUse};

/// Reads a use of a hook outside a workflow file, in the same form as under `hooks`, as JSON. It may name any role.
pub fn read_hook(hook: &Value) -> Result<HookUse, String> {
    let text = hook.to_text();
    let node = source::read_json(&text).whole().map_err(|fault| fault.message)?;
    let files = BTreeMap::new();
    let mut family = Family::new("");
    let mut reader = Reader::new("hook.json", &text, "", &files, &mut family);
    if let Some(Value::List(names)) = hook.get("roles") {
        reader.role_names = names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    }
    let hook = reader.hook(&PathNode::root(&node));
    let (faults, _) = reader.end();
    let written = |fault: Diagnostic| match fault.hint {
        Some(hint) => format!("{} ({hint})", fault.message),
        None => fault.message,
    };
    let faults: Vec<String> = faults.into_iter().map(written).collect();
    match hook {
        Some((_, hook)) if faults.is_empty() => Ok(hook),
        _ => Err(faults.join("; ")),
    }
}

pub(super) type Split<T> = (T, T);

impl Reader<'_> {
    /// Reads the uses of hook kinds: altering ones, then transparent ones.
    pub(super) fn hooks(&mut self, part: &PathNode<'_>) -> Split<Vec<HookUse>> {
        let (mut altering, mut transparent) = (Vec::new(), Vec::new());
        let items = self.items(part).unwrap_or_default();
        if items.len() > MAX_HOOKS {
            self.not_allowed::<()>(part, &format!("at most {MAX_HOOKS} hooks"), None);
        }
        for item in items.iter().take(MAX_HOOKS) {
            if let Some((kind, hook)) = self.hook(item) {
                let split = if kind.is_altering(&hook.settings) { &mut altering } else { &mut transparent };
                split.push(hook);
            }
        }
        (altering, transparent)
    }

    /// Reads a role's settings by hook kind: for altering kinds, then for transparent ones.
    pub(super) fn with(&mut self, part: &PathNode<'_>) -> Split<BTreeMap<String, Value>> {
        let (mut altering, mut transparent) = (BTreeMap::new(), BTreeMap::new());
        for entry in self.entries(part).unwrap_or_default() {
            let is_given = self.is_given(&entry);
            let Some(kind) = HookKind::find(entry.name()) else {
                let fault = entry.key_fault(Code::UnknownHookKind, unknown_kind(entry.name()));
                self.leave_out(&entry, fault.with_hint(known_kinds(entry.name())));
                continue;
            };
            if !is_given {
                continue;
            }
            let Some(fields) = self.fields(&entry, &kind.optional()) else { continue };
            let settings = self.settings(&entry, &fields, kind);
            let split = if kind.is_altering(&settings) { &mut altering } else { &mut transparent };
            split.insert(kind.name.to_owned(), Value::Object(settings));
        }
        (altering, transparent)
    }

    fn hook(&mut self, part: &PathNode<'_>) -> Option<(&'static HookKind, HookUse)> {
        let named = part.node.get("use").and_then(|node| PathNode { node, ..part.clone() }.as_str());
        let kind = named.and_then(HookKind::find);
        // Without a kind, its settings are unknown too.
        let keys = [&HOOK[..], kind.map_or(&[], |kind| kind.settings)].concat();
        let fields = self.fields_if(part, &keys, |_| kind.is_none())?;
        let used = fields.get("use")?;
        let Some(kind) = kind else {
            let name = self.text(used)?;
            let fault = used.fault(Code::UnknownHookKind, unknown_kind(&name));
            return self.refuse(used, fault.with_hint(known_kinds(&name)));
        };
        let places = kind.stands_at.iter().map(|at| (at.name(), *at));
        let at = fields.get("at").map_or(Some(kind.at), |at| self.one_of(at, places));
        let on_error = fields.get("on_error").map_or(Some(kind.on_error()), |_| self.get(&fields, "on_error"));
        let roles = fields.get("roles").map(|roles| self.hook_roles(roles));
        let settings = self.settings(part, &fields, kind);
        Some((kind, HookUse { at: at?, on_error: on_error?, roles, settings, kind: kind.name.to_owned() }))
    }

    fn hook_roles(&mut self, part: &PathNode<'_>) -> Vec<RoleName> {
        let declared: BTreeSet<String> = self.role_names.iter().cloned().collect();
        let (mut roles, mut listed) = (Vec::new(), BTreeSet::new());
        for item in self.items(part).unwrap_or_default() {
            let Some(name) = self.role_reference(&item) else { continue };
            // Hooks are split by kind, so the index of the entry in the file is known only here.
            if !declared.contains(name.as_str()) {
                let fault = item.fault(Code::UnknownRole, format!("there is no role `{name}`"));
                self.leave_out(&item, fault.with_hint_if(self.near_role(name.as_str())));
            } else if listed.insert(name.clone()) {
                roles.push(name);
            }
        }
        roles
    }

    fn settings(&mut self, part: &PathNode<'_>, fields: &Fields<'_>, kind: &HookKind) -> BTreeMap<String, Value> {
        if kind.needs_setting && kind.settings.iter().all(|setting| fields.get(setting.name).is_none()) {
            let names: Vec<&str> = kind.settings.iter().map(|setting| setting.name).collect();
            let message = format!("`{}` needs `{}`, or both", kind.name, names.join("` or `"));
            self.leave_out(part, part.fault(Code::MissingKey, message));
        }
        self.values(fields, kind.settings)
    }
}

fn unknown_kind(name: &str) -> String {
    format!("there is no hook kind `{}`", excerpt(name))
}

fn known_kinds(name: &str) -> String {
    let names = HookKind::ALL.map(|kind| kind.name);
    did_you_mean(name, names).unwrap_or_else(|| format!("the kinds are {}", path_node::listed(&names)))
}
