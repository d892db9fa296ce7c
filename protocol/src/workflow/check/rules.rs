//! The rules about single parts: names, statuses, edges, fan-outs and joins.

use std::collections::BTreeSet;

use super::Findings;
use super::indexed_graph::{EdgeTarget, GraphEdge, IndexedGraph, Node, RESERVED};
use super::lanes::Lanes;
use crate::diagnostic::{Code, did_you_mean, nearest};
use crate::workflow::source_map::{item, key};
use crate::workflow::{FanOut, ModelRole, Need, Outgoing, Policy, RoleKind, Target};

const DEFAULT_MODEL: &str = "default";

/// Checks the names that roles and their policies mention. The reader checks those of hooks.
pub(super) fn names(indexed: &IndexedGraph<'_>, policy: &Policy, findings: &mut Findings<'_>) {
    for role in &indexed.roles {
        let path = key("roles", role.name);
        if let Some(model) = model_of(role) {
            model_names(indexed, role, model, &path, findings);
        }
        for (position, model) in
            policy.roles.get(role.name).into_iter().flat_map(|policy| policy.fallback.iter().enumerate())
        {
            known_model(indexed, model, &item(&key(&path, "fallback"), position), findings);
        }
    }
}

fn model_of<'w>(role: &Node<'w>) -> Option<&'w ModelRole> {
    match &role.role.kind {
        RoleKind::Model(model) => Some(model),
        RoleKind::Selector(selector) => Some(&selector.model),
        RoleKind::Human | RoleKind::Tool(_) | RoleKind::Rule(_) | RoleKind::Workflow(_) => None,
    }
}

fn model_names(
    indexed: &IndexedGraph<'_>,
    role: &Node<'_>,
    model: &ModelRole,
    path: &str,
    findings: &mut Findings<'_>,
) {
    known_model(indexed, &model.model, &key(path, "model"), findings);
    for (position, name) in model.context.from.iter().flatten().enumerate() {
        known_role(indexed, name.as_str(), &item(&key(&key(path, "context"), "from"), position), findings);
    }
    let Some(compact) = &model.compact else { return };
    let path = key(&key(path, "compact"), "by");
    if !known_role(indexed, compact.by.as_str(), &path, findings) {
        return;
    }
    let by = indexed.workflow.role(compact.by.as_str());
    let can_write = by.is_some_and(|by| matches!(by.kind, RoleKind::Model(_)) && by.output.len() == 1);
    if !can_write || compact.by.as_str() == role.name {
        let message = format!("`{}` cannot write the summaries of `{}`", compact.by, role.name);
        findings.at(Code::CompactingRole, &path, message, "name another role of `kind: model` with one status");
    }
}

fn known_model(indexed: &IndexedGraph<'_>, model: &str, path: &str, findings: &mut Findings<'_>) {
    if model == DEFAULT_MODEL || indexed.workflow.models.contains_key(model) {
        return;
    }
    let known = indexed.workflow.models.keys().map(String::as_str).chain([DEFAULT_MODEL]);
    let hint = did_you_mean(model, known).unwrap_or_else(|| "declare it under `models`".to_owned());
    findings.at(Code::UnknownModel, path, format!("there is no model `{model}`"), hint);
}

/// Whether there is a role of that name; reports it if not.
fn known_role(indexed: &IndexedGraph<'_>, name: &str, path: &str, findings: &mut Findings<'_>) -> bool {
    let known = indexed.number(name).is_some();
    if !known && !findings.is_declared(name) {
        let fault = findings.places.fault(Code::UnknownRole, path, None, format!("there is no role `{name}`"));
        findings.unknown_role(name, fault, did_you_mean(name, indexed.names()));
    }
    known
}

/// Checks the entries of the graph, and that each status has an edge.
pub(super) fn entries(indexed: &IndexedGraph<'_>, findings: &mut Findings<'_>) {
    let mut has_start = false;
    // What the graph misspells is no second fault of the role that it leaves out.
    let mut meant_roles: BTreeSet<&str> = BTreeSet::new();
    let mut meant_statuses: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (name, outgoing) in &indexed.workflow.graph {
        let path = key("graph", name);
        match outgoing {
            Outgoing::Start(_) => has_start = true,
            Outgoing::Role(statuses) => {
                let Some(role) = indexed.number(name).and_then(|number| indexed.role(number)) else {
                    if findings.is_declared(name) {
                        findings.is_whole = false;
                        continue;
                    }
                    let message = format!("the graph has an entry for `{name}`, which is not a role");
                    let fault = findings.places.key_fault(Code::UnknownRole, &path, message);
                    let left_out = indexed.roles.iter().filter(|role| !role.in_graph).map(|role| role.name);
                    let meant = meant(name, left_out);
                    meant_roles.extend(meant);
                    let near = meant.map(|meant| format!("did you mean `{meant}`?"));
                    findings.unknown_role(name, fault, near.or_else(|| did_you_mean(name, indexed.names())));
                    continue;
                };
                for (status, _) in statuses {
                    if !role.statuses.contains(&status.as_str()) {
                        let left_out = declared(role)
                            .filter(|known| !statuses.iter().any(|(status, _)| status.as_str() == *known));
                        let meant = meant(status.as_str(), left_out);
                        meant_statuses.extend(meant.map(|meant| (role.name, meant)));
                        unknown_status(role, status.as_str(), meant, &key(&path, status.as_str()), findings);
                    }
                }
            }
        }
    }
    if !has_start && !findings.is_incomplete("graph.start") {
        let hint = "write `start: { to: ROLE, prompt: ... }`";
        findings.at_key(Code::MissingStart, "graph", "the graph has no `start`", hint);
    }
    let compacting: BTreeSet<&str> = indexed
        .roles
        .iter()
        .filter_map(|role| model_of(role)?.compact.as_ref().map(|compact| compact.by.as_str()))
        .collect();
    for role in &indexed.roles {
        let path = key("graph", role.name);
        if findings.is_incomplete(&key("roles", role.name)) || findings.is_incomplete(&path) {
            continue;
        }
        if !role.in_graph {
            let is_meant = meant_roles.contains(role.name);
            if !is_meant
                && !compacting.contains(role.name)
                && !indexed.workflow.graph.iter().any(|(name, _)| name == role.name)
            {
                let hint = format!("add `{}:` under `graph`, with an edge for each of its statuses", role.name);
                let message = format!("the role `{}` has no entry in the graph", role.name);
                findings.at_key(Code::MissingGraphEntry, &key("roles", role.name), message, hint);
            }
            continue;
        }
        let answered: BTreeSet<usize> =
            role.edges.iter().filter_map(|way| indexed.edges.get(*way)?.from.map(|(_, status)| status)).collect();
        for (number, (status, _)) in role.role.output.iter().enumerate() {
            if !answered.contains(&number) && !meant_statuses.contains(&(role.name, status.as_str())) {
                let message = format!("the status `{status}` of `{}` has no edge", role.name);
                let hint = format!("add `{status}: {{ to: ... }}` here");
                findings.at_key(Code::MissingEdge, &path, message, hint);
            }
        }
    }
}

fn declared<'w>(role: &Node<'w>) -> impl Iterator<Item = &'w str> + Clone {
    role.statuses.iter().copied().filter(|status| !RESERVED.contains(status)).collect::<Vec<_>>().into_iter()
}

/// Which of the names that the graph leaves out `word` stands for: the nearest, or the only one.
fn meant<'w>(word: &str, left_out: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let left_out: Vec<&str> = left_out.collect();
    let only = if let [only] = left_out.as_slice() { Some(*only) } else { None };
    nearest(word, left_out).or(only)
}

fn unknown_status(role: &Node<'_>, status: &str, meant: Option<&str>, path: &str, findings: &mut Findings<'_>) {
    findings.is_whole = false;
    let known = declared(role);
    let near = meant.map(|meant| format!("did you mean `{meant}`?")).or_else(|| did_you_mean(status, known.clone()));
    // Where the statuses of a role could not all be read, this may be one of them.
    if known.clone().next().is_none() || (near.is_none() && !role.is_whole) {
        return;
    }
    let listed: Vec<String> = known.map(|known| format!("`{known}`")).collect();
    let hint = near.unwrap_or_else(|| format!("it may answer with {}", listed.join(", ")));
    let message = format!("`{}` has no status `{status}`", role.name);
    findings.at_key(Code::UnknownStatus, path, message, hint);
}

pub(super) fn edges(indexed: &IndexedGraph<'_>, lanes: &Lanes, findings: &mut Findings<'_>) {
    for way in &indexed.edges {
        targets(indexed, way, findings);
        bound(indexed, way, findings);
        terminal(way, findings);
        prompt(indexed, way, findings);
        if way.to == EdgeTarget::Back {
            back(indexed, lanes, way, findings);
        }
        // A role that ends an outer lane can run in an inner one only by an edge that is reported for that.
        let ends_in_lane = |role: usize| lanes.is_in_lane(role) && !is_join_around(indexed, lanes, role);
        if way.to == EdgeTarget::End && way.from.is_some_and(|(role, _)| ends_in_lane(role)) {
            let role = way.from.map_or("", |(role, _)| indexed.name(role));
            let message = format!("`{role}` runs in a lane, and `end` would end the thread from within it");
            let hint = format!("lead to the join: {}", joins(indexed, lanes, way).join(" or "));
            findings.at(Code::LaneEnd, &key(&way.path, "to"), message, hint);
        }
        if let Target::Fan(fan) = &way.edge.to {
            fan_out(indexed, lanes, way, fan, findings);
        }
    }
}

/// Whether a role is, for each fan-out in whose lanes it runs, the join of it or of an enclosing one.
fn is_join_around(indexed: &IndexedGraph<'_>, lanes: &Lanes, role: usize) -> bool {
    let is_join = |fan: &usize| indexed.fans.get(*fan).is_some_and(|fan| fan.join == role);
    lanes.contexts_of(role).iter().all(|fan| is_join(fan) || lanes.enclosing(*fan).iter().any(is_join))
}

fn joins(indexed: &IndexedGraph<'_>, lanes: &Lanes, way: &GraphEdge<'_>) -> Vec<String> {
    let fans = way.from.map_or(&[][..], |(role, _)| lanes.contexts_of(role));
    let joins: BTreeSet<usize> = fans.iter().filter_map(|fan| indexed.fans.get(*fan).map(|fan| fan.join)).collect();
    joins.into_iter().map(|join| format!("`to: {}`", indexed.name(join))).collect()
}

fn targets(indexed: &IndexedGraph<'_>, way: &GraphEdge<'_>, findings: &mut Findings<'_>) {
    let to = key(&way.path, "to");
    match &way.edge.to {
        Target::Role(name) => {
            if indexed.number(name.as_str()).is_none() && !findings.is_declared(name.as_str()) {
                let ends = indexed.names().chain(["end", "fail", "back"]);
                let fault = findings.places.fault(Code::UnknownRole, &to, None, format!("there is no role `{name}`"));
                findings.unknown_role(name.as_str(), fault, did_you_mean(name.as_str(), ends));
            }
        }
        Target::Fan(fan) => {
            for (position, branch) in fan.branches.iter().enumerate() {
                known_role(indexed, branch.to.as_str(), &key(&item(&to, position), "to"), findings);
            }
            known_role(indexed, fan.join.to.as_str(), &key(&key(&way.path, "join"), "to"), findings);
        }
        Target::End | Target::Fail | Target::Back => {}
    }
    if let Some(per) = &way.edge.per {
        known_role(indexed, per.as_str(), &key(&way.path, "per"), findings);
    }
}

fn bound(indexed: &IndexedGraph<'_>, way: &GraphEdge<'_>, findings: &mut Findings<'_>) {
    if findings.is_incomplete(&way.path) {
        return;
    }
    let edge = way.edge;
    if edge.max.is_some() && edge.on_max.is_none() {
        let hint = "say where to go then: `on_max: { to: ... }`";
        findings.at_key(Code::IncompleteBound, &key(&way.path, "max"), "`max` without `on_max`", hint);
    }
    if edge.max.is_none() && edge.on_max.is_some() {
        let hint = "say how often the edge is taken first: `max: 3`";
        findings.at_key(Code::IncompleteBound, &key(&way.path, "on_max"), "`on_max` without `max`", hint);
    }
    if edge.max.is_none() && edge.per.as_ref().is_some_and(|per| indexed.number(per.as_str()).is_some()) {
        let hint = "say how often: `max: 3`";
        findings.at_key(Code::IncompleteBound, &key(&way.path, "per"), "`per` without `max`", hint);
    }
}

fn terminal(way: &GraphEdge<'_>, findings: &mut Findings<'_>) {
    let ends = matches!(way.to, EdgeTarget::End | EdgeTarget::Fail);
    if way.edge.result.is_some() && !ends {
        let message = "`result` belongs to an edge to `end` or `fail`";
        findings.at_key(Code::MisplacedKey, &key(&way.path, "result"), message, "remove it");
    }
    if way.edge.reason.is_some() && way.to != EdgeTarget::Fail {
        let message = "`reason` belongs to an edge to `fail`";
        findings.at_key(Code::MisplacedKey, &key(&way.path, "reason"), message, "remove it, or lead to `fail`");
    }
    if ends && !way.edge.prompt.is_empty() {
        let message = "the prompt of an edge that ends the thread is never sent";
        let hint = "remove it; `say:` is a line for the user, `reason:` says why it failed";
        findings.at_key(Code::MisplacedKey, &key(&way.path, "prompt"), message, hint);
    }
}

fn prompt(indexed: &IndexedGraph<'_>, way: &GraphEdge<'_>, findings: &mut Findings<'_>) {
    let is_model = |role: usize| indexed.role(role).is_some_and(|role| matches!(role.role.kind, RoleKind::Model(_)));
    let missing = |path: &str, findings: &Findings<'_>| !findings.has(&key(path, "prompt"));
    match (way.to, &way.edge.to) {
        // The last edge of a lane uses `{{ body }}` as its part.
        (EdgeTarget::Role(role), _)
            if is_model(role)
                && way.edge.prompt.is_empty()
                && missing(&way.path, findings)
                && !indexed.is_join(role) =>
        {
            let message = format!("the edge gives `{}` no prompt", indexed.name(role));
            let hint = "add `prompt:`; `prompt: \"\"` says that nothing is to be said";
            findings.at(Code::MissingPrompt, &key(&way.path, "to"), message, hint);
        }
        (EdgeTarget::Fan(_), Target::Fan(fan)) => {
            for (position, branch) in fan.branches.iter().enumerate() {
                let path = item(&key(&way.path, "to"), position);
                let is_model = indexed.number(branch.to.as_str()).is_some_and(is_model);
                if is_model && branch.prompt.is_empty() && missing(&path, findings) && missing(&way.path, findings) {
                    let message = format!("the branch gives `{}` no prompt", branch.to);
                    let hint = "add `prompt:` to it or to the edge";
                    findings.at(Code::MissingPrompt, &path, message, hint);
                }
            }
        }
        _ => {}
    }
}

fn back(indexed: &IndexedGraph<'_>, lanes: &Lanes, way: &GraphEdge<'_>, findings: &mut Findings<'_>) {
    let path = key(&way.path, "to");
    let Some((role, _)) = way.from else {
        let message = "`back` leads nowhere from `start`";
        findings.at(Code::BackWithoutCaller, &path, message, "name a role");
        return;
    };
    let name = indexed.name(role);
    let by_fan = indexed.fans.iter().any(|fan| fan.branches.iter().any(|(first, _)| *first == role));
    let by_start = indexed.edges.iter().any(|way| way.from.is_none() && way.to == EdgeTarget::Role(role));
    let message = if indexed.is_join(role) {
        format!("`{name}` is a join role: several lanes lead to it, and `back` leads to one role")
    } else if by_fan {
        format!("`{name}` is entered by a fan-out, and `back` leads to a role")
    } else if by_start {
        format!("`{name}` is entered from `start`, and `back` leads to a role")
    } else if lanes.callers.get(role).is_none_or(Vec::is_empty) {
        format!("no role has an edge to `{name}`, so that `back` leads nowhere")
    } else {
        return;
    };
    findings.at(Code::BackWithoutCaller, &path, message, "name the role that is meant");
}

fn fan_out(indexed: &IndexedGraph<'_>, lanes: &Lanes, way: &GraphEdge<'_>, fan: &FanOut, findings: &mut Findings<'_>) {
    let to = key(&way.path, "to");
    if fan.branches.is_empty() {
        findings.at(Code::FanOutShape, &to, "a fan-out without branches", "name at least one role");
    }
    if fan.each.is_some() && (fan.branches.len() > 1 || fan.branches.iter().any(|branch| branch.when.is_some())) {
        let hint = "name one role; leave elements out of the list with `| selectattr(...)`";
        findings.at(Code::FanOutShape, &to, "`each` has exactly one target, without `when`", hint);
    }
    if fan.branches.len() > FanOut::MAX_LANES {
        let message = format!("a fan-out has at most {} lanes, and this has {}", FanOut::MAX_LANES, fan.branches.len());
        findings.at(Code::FanOutShape, &to, message, "split it, one after the other");
    }
    if let Need::Count(count) = fan.join.need {
        let needed = usize::try_from(count).unwrap_or(usize::MAX);
        let lanes = if fan.each.is_some() { FanOut::MAX_LANES } else { fan.branches.len() };
        if needed == 0 || needed > lanes {
            let message =
                format!("`need` asks for {count} of {}{lanes} lanes", if fan.each.is_some() { "at most " } else { "" });
            let hint = "ask for at least one lane and not for more than there are";
            findings.at(Code::FanOutShape, &key(&key(&way.path, "join"), "need"), message, hint);
        }
    }
    let EdgeTarget::Fan(number) = way.to else { return };
    let Some(opened) = indexed.fans.get(number) else { return };
    if !nested(indexed, lanes, way, number, findings) {
        return;
    }
    let arrivals = lanes.arrivals.get(number).map_or(&[][..], Vec::as_slice);
    let is_reached = way.from.is_none_or(|(role, _)| lanes.reachable.contains(&role));
    // An edge to `end` within a lane was already reported.
    let ends_within = (indexed.edges.iter()).any(|way| {
        way.to == EdgeTarget::End && way.from.is_some_and(|(role, _)| lanes.contexts_of(role).contains(&number))
    });
    for (position, (first, _)) in opened.branches.iter().enumerate() {
        let path = item(&to, position);
        if *first == opened.join {
            let message = format!("a lane that begins at its join `{}` has no part", indexed.name(*first));
            findings.at(Code::LaneEnd, &path, message, "put another role in the lane");
        } else if is_reached
            && !ends_within
            && arrivals.get(position).is_some_and(Vec::is_empty)
            && !findings.is_incomplete("graph")
        {
            let message = format!(
                "the lane of `{}` never reaches its join `{}`",
                indexed.name(*first),
                indexed.name(opened.join)
            );
            let hint = format!("lead the lane's last edge there: `to: {}`", indexed.name(opened.join));
            findings.at(Code::LaneEnd, &path, message, hint);
        }
    }
}

/// Checks the nesting of a fan-out: the depth is limited, and its lanes must meet at a separate join.
fn nested(
    indexed: &IndexedGraph<'_>,
    lanes: &Lanes,
    way: &GraphEdge<'_>,
    number: usize,
    findings: &mut Findings<'_>,
) -> bool {
    let to = key(&way.path, "to");
    let role = way.from.map_or("start", |(role, _)| indexed.name(role));
    let most = FanOut::MAX_NESTING;
    match lanes.nesting(number) {
        Some(depth) if depth <= most => {}
        Some(depth) => {
            let message = format!("{depth} nested fan-outs; at most {most} are allowed");
            let hint = "let one of them follow the join of another";
            findings.at(Code::FanOutShape, &to, message, hint);
            return false;
        }
        None => {
            let message = format!("`{role}` opens lanes in which it runs again and opens more");
            let hint = "put another role in the lane, or lead back from a role after the join";
            findings.at(Code::FanOutShape, &to, message, hint);
            return false;
        }
    }
    let outer: BTreeSet<usize> =
        lanes.enclosing(number).iter().filter_map(|fan| Some(indexed.fans.get(*fan)?.join)).collect();
    let Some(join) = indexed.fans.get(number).map(|fan| fan.join) else { return true };
    if outer.contains(&join) {
        let name = indexed.name(join);
        let message = format!("lanes within a lane meet at `{name}`, where the outer lane ends");
        let hint = format!("let them meet at a role of their own, which leads on to `{name}`");
        findings.at(Code::LaneEnd, &key(&key(&way.path, "join"), "to"), message, hint);
        return false;
    }
    let leaving: Vec<&GraphEdge<'_>> = indexed
        .edges
        .iter()
        .filter(|way| matches!(way.to, EdgeTarget::Role(role) if outer.contains(&role)))
        .filter(|way| way.from.is_some_and(|(role, _)| lanes.contexts_of(role).contains(&number)))
        // A role that also runs in the outer lane may end that one.
        .filter(|way| way.from.is_some_and(|(role, _)| lanes.contexts_of(role).iter().all(|fan| *fan == number)))
        .collect();
    for left in &leaving {
        let (from, outer) = (left.from.map_or("", |(role, _)| indexed.name(role)), indexed.targets(left.to));
        let outer = outer.first().map_or("", |role| indexed.name(*role));
        let message =
            format!("`{from}` runs in a lane that meets at `{}`, and leads past it to `{outer}`", indexed.name(join));
        let hint = format!("lead to the join: `to: {}`", indexed.name(join));
        findings.at(Code::LaneEnd, &key(&left.path, "to"), message, hint);
    }
    leaving.is_empty()
}
