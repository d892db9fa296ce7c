//! The parts of a definition and their digests: everything an author can change, by its path.
//!
//! A part differs between two definitions if its meaning does, regardless of its notation: prompts and system texts
//! compare by their text, wherever it is written; contexts, contracts and targets by their checked form.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::canonical;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::source_map::key;
use rondo_protocol::workflow::{Edge, Role, RoleKind, Workflow};
use rondo_protocol::{Digest, Value};
use serde::Serialize;

use super::definition::Definition;
use super::snapshot::short;
use crate::{LocatedEdge, edges};

/// Parts by name, each with the beginning of its digest.
pub type PartDigests = BTreeMap<String, String>;

pub fn of(definition: &Definition) -> PartDigests {
    let mut parts = PartDigests::new();
    let Workflow { hooks, input, models, result, roles, .. } = &definition.checked.workflow;
    for (name, field) in input {
        put(&mut parts, &key("input", name.as_str()), field);
    }
    for (name, model) in models {
        let path = key("models", name);
        if let Some(id) = &model.model {
            put(&mut parts, &key(&path, "model"), id);
        }
        for (parameter, value) in &model.parameters.0 {
            put(&mut parts, &key(&path, parameter), value);
        }
    }
    for (name, role) in roles {
        put_role(&mut parts, &key("roles", name.as_str()), role);
    }
    for LocatedEdge { path, edge, .. } in edges(&definition.checked.workflow) {
        put_members(&mut parts, &path, &Edge { on_max: None, ..edge.clone() });
    }
    if let Some(result) = result {
        put(&mut parts, "result", result);
    }
    if !hooks.is_empty() {
        put(&mut parts, "hooks", hooks);
    }
    let policy = &definition.checked.policy;
    put(&mut parts, "limits", &policy.limits);
    for (name, policy) in &policy.roles {
        let path = key("roles", name);
        put(&mut parts, &key(&path, "limits"), &policy.limits);
        put(&mut parts, &key(&path, "retry"), &policy.retry);
        if !policy.fallback.is_empty() {
            put(&mut parts, &key(&path, "fallback"), &policy.fallback);
        }
    }
    parts
}

/// The beginning of the digest of a value.
pub fn digest<T: Serialize + ?Sized>(value: &T) -> String {
    // A value from a checked definition has a canonical form.
    short(Digest::sha256(&canonical::to_bytes(value).unwrap_or_default()))
}

fn put<T: Serialize + ?Sized>(parts: &mut PartDigests, path: &str, value: &T) {
    parts.insert(path.to_owned(), digest(value));
}

fn put_role(parts: &mut PartDigests, path: &str, role: &Role) {
    let names: Vec<&str> = role.output.iter().map(|(status, _)| status.as_str()).collect();
    put(parts, &key(path, "output"), &names);
    for (status, fields) in &role.output {
        put(parts, &key(&key(path, "output"), status.as_str()), fields);
    }
    match &role.kind {
        RoleKind::Model(model) => put_members(parts, path, model),
        RoleKind::Tool(tool) => put_members(parts, path, tool),
        RoleKind::Selector(selector) => {
            put(parts, &key(path, "by"), &selector.by);
            put_members(parts, path, &selector.model);
        }
        other => put(parts, &key(path, "kind"), other),
    }
}

fn put_members<T: Serialize>(parts: &mut PartDigests, path: &str, value: &T) {
    if let Ok(Value::Object(members)) = Value::from_serialize(value) {
        let given = members.iter().filter(|(_, member)| !member.is_null());
        given.for_each(|(name, member)| put(parts, &key(path, name), member));
    }
}

/// The parts that a run reached: those of the roles it visited, of their models, and of every place where it chose an
/// edge, including the edges it did not choose.
pub fn reached(
    parts: &PartDigests,
    visited: &BTreeSet<RoleName>,
    left: &BTreeSet<String>,
    workflow: &Workflow,
) -> PartDigests {
    let models: BTreeSet<&str> =
        visited.iter().filter_map(|role| Some(workflow.role(role.as_str())?.kind.model()?.model.as_str())).collect();
    let is_reached = |path: &str| {
        let mut names = path.split('.');
        match (names.next(), names.next()) {
            (Some("roles"), Some(role)) => visited.iter().any(|visited| visited.as_str() == role),
            // A role with a fallback may use other models than its own.
            (Some("models"), Some(model)) => {
                models.contains(model) || parts.keys().any(|path| path.ends_with(".fallback"))
            }
            (Some("graph"), _) => left.iter().any(|left| is_within(path, left)),
            _ => true,
        }
    };
    parts.iter().filter(|(path, _)| is_reached(path)).map(|(path, digest)| (path.clone(), digest.clone())).collect()
}

pub fn is_within(path: &str, holder: &str) -> bool {
    path.strip_prefix(holder).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The parts that differ between two definitions, as far as the run behind `accepted` reached them: those with a
/// changed digest, removed ones, and new ones where the run passed.
pub fn changed(accepted: &PartDigests, all: &PartDigests) -> BTreeSet<String> {
    let differs = accepted.iter().filter(|(path, digest)| all.get(*path) != Some(digest)).map(|(path, _)| path.clone());
    let groups: BTreeSet<String> = accepted.keys().map(|path| group(path).to_owned()).collect();
    // A run always passes the parts that apply to the whole workflow, even if there were none before.
    let of_all = ["hooks", "input", "limits", "models", "result"];
    let is_reached = |path: &str| {
        let first = path.split(['.', '[']).next().unwrap_or(path);
        groups.contains(group(path)) || of_all.contains(&first) && !accepted.keys().any(|old| is_within(old, first))
    };
    let is_new = |path: &&String| !accepted.contains_key(*path) && is_reached(path);
    let new = all.keys().filter(is_new).cloned();
    differs.chain(new).collect()
}

/// The group of a part: a role, a model, the edges of a status.
fn group(path: &str) -> &str {
    let depth = match path.split('.').next() {
        Some("graph") if !path.starts_with("graph.start[") => 3,
        Some("graph" | "roles" | "models") => 2,
        _ => 1,
    };
    let end = path.match_indices('.').map(|(at, _)| at).nth(depth - 1).unwrap_or(path.len());
    path.get(..end).unwrap_or(path).split('[').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
