//! The parts of a definition and their digests: everything an author can change, by its path.
//!
//! A part differs between two definitions if its meaning does, regardless of its notation: prompts and system texts
//! compare by their text, wherever it is written; contexts, contracts and targets by their checked form.

use std::collections::{BTreeMap, BTreeSet};

use rondo_protocol::canonical;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::source_map::{item, key};
use rondo_protocol::workflow::{Edge, Outgoing, Role, RoleKind, Workflow};
use rondo_protocol::{Digest, Value};
use serde::Serialize;

use super::definition::Definition;
use super::snapshot::short;

/// Parts by name, each with the beginning of its digest.
pub type PartDigests = BTreeMap<String, String>;

pub fn of(definition: &Definition) -> PartDigests {
    let mut parts = PartDigests::new();
    let Workflow { graph, hooks, input, models, result, roles, .. } = &definition.checked.workflow;
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
    for (name, outgoing) in graph {
        let path = key("graph", name);
        match outgoing {
            Outgoing::Start(edges) => put_edges(&mut parts, &path, edges),
            Outgoing::Role(statuses) => {
                for (status, edges) in statuses {
                    put_edges(&mut parts, &key(&path, status.as_str()), edges);
                }
            }
        }
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

fn put_edges(parts: &mut PartDigests, path: &str, edges: &[Edge]) {
    for (at, edge) in edges.iter().enumerate() {
        let (mut path, mut next) = (item(path, at), Some(edge));
        while let Some(edge) = next {
            put_members(parts, &path, &Edge { on_max: None, ..edge.clone() });
            (path, next) = (key(&path, "on_max"), edge.on_max.as_deref());
        }
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
mod tests {
    use super::*;

    const TEXT: &str = r#"
rondo: 1
name: pair
input: { topic: string }
models: { default: { model: m, temperature: 0 } }
roles:
  writer: { system: You write., output: { drafted: { title: string } } }
  reader: { system: You read. }
graph:
  start: { to: writer, prompt: "{{ input.topic }}" }
  writer: { drafted: { to: reader, prompt: "{{ body }}", max: 2, on_max: { to: end } } }
  reader: { done: { to: end } }
"#;

    fn parts_of(text: &str) -> PartDigests {
        of(&Definition::read("w.yaml", text, &BTreeMap::new()).unwrap())
    }

    fn changes(old: &str, new: &str) -> Vec<String> {
        let text = TEXT.replacen(old, new, 1);
        assert_ne!(text, TEXT);
        changed(&parts_of(TEXT), &parts_of(&text)).into_iter().collect()
    }

    #[test]
    fn an_edit_changes_the_part_that_it_is_in_and_no_other() {
        assert_eq!(changes("You write.", "You write well."), ["roles.writer.system"]);
        assert_eq!(changes("title: string", "title: integer"), ["roles.writer.output.drafted"]);
        assert_eq!(changes("{{ body }}", "{{ body }}!"), ["graph.writer.drafted[0].prompt"]);
        assert_eq!(changes("max: 2", "max: 3"), ["graph.writer.drafted[0].max"]);
        assert_eq!(changes("on_max: { to: end }", "on_max: { to: fail }"), ["graph.writer.drafted[0].on_max.to"]);
        assert_eq!(changes("temperature: 0", "temperature: 1"), ["models.default.temperature"]);
        assert_eq!(changes("temperature: 0", "seed: 0"), ["models.default.seed", "models.default.temperature"]);
        assert_eq!(changes("topic: string", "topic: { type: string, default: a }"), ["input.topic"]);
        assert_eq!(
            changes("reader: { system: You read. }", "reader: { system: You read., context: none }"),
            ["roles.reader.context"]
        );
        assert_eq!(changes("You write.", "\"You write.\""), Vec::<String>::new());
    }

    #[test]
    fn only_what_a_run_reached_is_told_of() {
        let all = parts_of(TEXT);
        let workflow = Definition::read("w.yaml", TEXT, &BTreeMap::new()).unwrap().checked.workflow;
        let visited = [RoleName::new("writer").unwrap()].into();
        let left = ["graph.start".to_owned()].into();
        let reached = reached(&all, &visited, &left, &workflow);
        assert!(reached.contains_key("graph.start[0].prompt") && reached.contains_key("roles.writer.system"));
        assert!(!reached.keys().any(|path| path.contains("reader") || path.starts_with("graph.writer")), "{reached:?}");
        let text = TEXT
            .replace("You read.", "You look.")
            .replace("{{ body }}", "x")
            .replace("start: { to", "start: { say: s, to");
        assert_eq!(changed(&reached, &parts_of(&text)).into_iter().collect::<Vec<_>>(), ["graph.start[0].say"]);
    }
}
