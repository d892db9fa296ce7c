//! The rules about single parts: names, statuses, edges, fan-outs and joins.

use std::collections::BTreeSet;

use super::Findings;
use super::indexed_graph::{EdgeTarget, GraphEdge, Node};
use crate::diagnostic::{Code, did_you_mean, nearest};
use crate::id::{FieldName, RoleName, Status};
use crate::object::FaultKind;
use crate::workflow::source_map::{item, key};
use crate::workflow::{Edge, FanOut, ModelRole, Need, Ordered, Outgoing, Policy, RoleKind, SelectorRole, Target};

const DEFAULT_MODEL: &str = "default";

impl<'w> Findings<'_, 'w> {
    /// Checks the names that roles and their policies mention. The reader checks those of hooks.
    pub(super) fn names(&mut self, policy: &Policy) {
        for role in &self.indexed.roles {
            let path = key("roles", role.name);
            if let Some(model) = model_of(role) {
                self.model_names(role, model, &path);
            }
            let fallback = policy.roles.get(role.name).into_iter().flat_map(|policy| &policy.fallback);
            for (position, model) in fallback.enumerate() {
                self.known_model(model, &item(&key(&path, "fallback"), position));
            }
        }
    }

    fn model_names(&mut self, role: &Node<'_>, model: &ModelRole, path: &str) {
        self.known_model(&model.model, &key(path, "model"));
        for (position, name) in model.context.from.iter().flatten().enumerate() {
            self.known_role(name.as_str(), &item(&key(&key(path, "context"), "from"), position), &[]);
        }
        let Some(compact) = &model.compact else { return };
        let path = key(&key(path, "compact"), "by");
        if !self.known_role(compact.by.as_str(), &path, &[]) {
            return;
        }
        let by = self.indexed.workflow.role(compact.by.as_str());
        let can_write = by.is_some_and(|by| matches!(by.kind, RoleKind::Model(_)) && by.output.len() == 1);
        if !can_write || compact.by.as_str() == role.name {
            let message = format!("`{}` cannot write the summaries of `{}`", compact.by, role.name);
            self.at(Code::CompactingRole, &path, message, "name another role of `kind: model` with one status");
        }
    }

    fn known_model(&mut self, model: &str, path: &str) {
        let models = &self.indexed.workflow.models;
        if model != DEFAULT_MODEL && !models.contains_key(model) {
            let hint = did_you_mean(model, models.keys().map(String::as_str).chain([DEFAULT_MODEL]));
            let hint = hint.unwrap_or_else(|| "declare it under `models`".to_owned());
            self.at(Code::UnknownModel, path, format!("there is no model `{model}`"), hint);
        }
    }

    /// Whether there is a role of that name; reports it if not. `others` are words that may be meant.
    fn known_role(&mut self, name: &str, path: &str, others: &[&str]) -> bool {
        let known = self.indexed.number(name).is_some();
        if !known && !self.is_declared(name) {
            let fault = self.places.fault(Code::UnknownRole, path, None, format!("there is no role `{name}`"));
            let near = did_you_mean(name, self.indexed.names().chain(others.iter().copied()));
            self.unknown_role(name, fault, near);
        }
        known
    }

    /// Checks the entries of the graph, and that each status has an edge.
    pub(super) fn entries(&mut self) {
        let indexed = self.indexed;
        let graph = &indexed.workflow.graph;
        // What the graph misspells is no second fault of the role that it leaves out.
        let mut meant_roles: BTreeSet<&str> = BTreeSet::new();
        let mut meant_statuses: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (name, outgoing) in graph {
            let Outgoing::Role(statuses) = outgoing else { continue };
            let path = key("graph", name);
            if let Some(role) = indexed.number(name).and_then(|number| indexed.roles.get(number)) {
                meant_statuses.extend(self.entry(role, statuses, &path).map(|meant| (role.name, meant)));
            } else if self.is_declared(name) {
                self.is_whole = false;
            } else {
                let message = format!("the graph has an entry for `{name}`, which is not a role");
                let fault = self.places.key_fault(Code::UnknownRole, &path, message);
                let left_out = indexed.roles.iter().filter(|role| !role.in_graph).map(|role| role.name);
                let meant = meant(name, left_out);
                meant_roles.extend(meant);
                let near = meant.map(|meant| format!("did you mean `{meant}`?"));
                self.unknown_role(name, fault, near.or_else(|| did_you_mean(name, indexed.names())));
            }
        }
        let has_start = graph.iter().any(|(_, outgoing)| matches!(outgoing, Outgoing::Start(_)));
        if !has_start && !self.places.is_incomplete("graph.start") {
            let hint = "write `start: { to: ROLE, prompt: ... }`";
            self.at_key(Code::MissingStart, "graph", "the graph has no `start`", hint);
        }
        let compacts = indexed.roles.iter().filter_map(|role| model_of(role)?.compact.as_ref());
        let compacting: BTreeSet<&str> = compacts.map(|compact| compact.by.as_str()).collect();
        for role in &indexed.roles {
            let path = key("graph", role.name);
            if self.places.is_incomplete(&key("roles", role.name)) || self.places.is_incomplete(&path) {
                continue;
            }
            if role.in_graph {
                self.answered(role, &path, &meant_statuses);
            } else if !meant_roles.contains(role.name)
                && !compacting.contains(role.name)
                && !graph.iter().any(|(name, _)| name == role.name)
            {
                let hint = format!("add `{}:` under `graph`, with an edge for each of its statuses", role.name);
                let message = format!("the role `{}` has no entry in the graph", role.name);
                self.at_key(Code::MissingGraphEntry, &key("roles", role.name), message, hint);
            }
        }
    }

    /// Checks the statuses of a role's entry; returns those that misspelt ones stand for.
    fn entry(
        &mut self,
        role: &Node<'w>,
        statuses: &Ordered<Status, Vec<Edge>>,
        path: &str,
    ) -> impl Iterator<Item = &'w str> + use<'w> {
        let mut found = Vec::new();
        let names = || statuses.iter().map(|(status, _)| status.as_str());
        for status in names().filter(|status| !role.statuses.contains(status)) {
            let meant = meant(status, declared(role).filter(|known| !names().any(|status| status == *known)));
            found.extend(meant);
            self.unknown_status(role, status, meant, &key(path, status));
        }
        found.into_iter()
    }

    /// Checks that each status of a role has an edge.
    fn answered(&mut self, role: &Node<'_>, path: &str, meant: &BTreeSet<(&str, &str)>) {
        let edges = role.edges.iter().filter_map(|way| self.indexed.edges.get(*way)?.from);
        let answered: BTreeSet<usize> = edges.map(|(_, status)| status).collect();
        for (number, (status, _)) in role.role.output.iter().enumerate() {
            if !answered.contains(&number) && !meant.contains(&(role.name, status.as_str())) {
                let message = format!("the status `{status}` of `{}` has no edge", role.name);
                self.at_key(Code::MissingEdge, path, message, format!("add `{status}: {{ to: ... }}` here"));
            }
        }
    }

    fn unknown_status(&mut self, role: &Node<'_>, status: &str, meant: Option<&str>, path: &str) {
        self.is_whole = false;
        let near =
            meant.map(|meant| format!("did you mean `{meant}`?")).or_else(|| did_you_mean(status, declared(role)));
        let known: Vec<&str> = declared(role).collect();
        // Where the statuses of a role could not all be read, this may be one of them.
        if known.is_empty() || (near.is_none() && !role.is_whole) {
            return;
        }
        let hint = near.unwrap_or_else(|| format!("it may answer with `{}`", known.join("`, `")));
        self.at_key(Code::UnknownStatus, path, format!("`{}` has no status `{status}`", role.name), hint);
    }

    pub(super) fn edges(&mut self) {
        for way in &self.indexed.edges {
            let to = key(&way.path, "to");
            self.targets(way, &to);
            self.bound(way);
            self.terminal(way);
            self.prompt(way, &to);
            if way.to == EdgeTarget::Back {
                self.back(way, &to);
            }
            // A role that ends an outer lane can run in an inner one only by an edge that is reported for that.
            if let Some((role, _)) = way.from
                && way.to == EdgeTarget::End
                && !self.lanes.contexts_of(role).is_empty()
                && !self.is_join_around(role)
            {
                let role = self.indexed.name(role);
                let message = format!("`{role}` runs in a lane, and `end` would end the thread from within it");
                let hint = format!("lead to the join: {}", self.joins(way).join(" or "));
                self.at(Code::LaneEnd, &to, message, hint);
            }
            if let Target::Fan(fan) = &way.edge.to {
                self.fan_out(way, fan, &to);
            }
        }
    }

    fn is_join(&self, fan: usize, role: usize) -> bool {
        self.indexed.fans.get(fan).is_some_and(|fan| fan.join == role)
    }

    /// Whether a role is, for each fan-out in whose lanes it runs, the join of it or of an enclosing one.
    fn is_join_around(&self, role: usize) -> bool {
        let around = |fan: usize| self.lanes.enclosing(fan).into_iter().any(|fan| self.is_join(fan, role));
        self.lanes.contexts_of(role).iter().all(|fan| self.is_join(*fan, role) || around(*fan))
    }

    fn joins(&self, way: &GraphEdge<'_>) -> Vec<String> {
        let fans = way.from.map_or(&[][..], |(role, _)| self.lanes.contexts_of(role));
        let joins: BTreeSet<usize> = fans.iter().filter_map(|fan| Some(self.indexed.fans.get(*fan)?.join)).collect();
        joins.into_iter().map(|join| format!("`to: {}`", self.indexed.name(join))).collect()
    }

    fn targets(&mut self, way: &GraphEdge<'_>, to: &str) {
        match &way.edge.to {
            Target::Role(name) => {
                self.known_role(name.as_str(), to, &["end", "fail", "back"]);
                self.attached(&way.path, &way.edge.attach, Some(name));
            }
            Target::Fan(fan) => {
                for (position, branch) in fan.branches.iter().enumerate() {
                    let path = item(to, position);
                    self.known_role(branch.to.as_str(), &key(&path, "to"), &[]);
                    self.attached(&path, &branch.attach, Some(&branch.to));
                }
                self.known_role(fan.join.to.as_str(), &key(&key(&way.path, "join"), "to"), &[]);
            }
            Target::End | Target::Fail | Target::Back => self.attached(&way.path, &way.edge.attach, None),
        }
        if let Some(per) = &way.edge.per {
            self.known_role(per.as_str(), &key(&way.path, "per"), &[]);
        }
    }

    fn bound(&mut self, way: &GraphEdge<'_>) {
        if self.places.is_incomplete(&way.path) {
            return;
        }
        let edge = way.edge;
        let mut lacks = |name: &str, message: &str, hint: &str| {
            self.at_key(Code::IncompleteBound, &key(&way.path, name), message, hint);
        };
        if edge.max.is_some() && edge.on_max.is_none() {
            lacks("max", "`max` without `on_max`", "say where to go then: `on_max: { to: ... }`");
        }
        if edge.max.is_none() && edge.on_max.is_some() {
            lacks("on_max", "`on_max` without `max`", "say how often the edge is taken first: `max: 3`");
        }
        if edge.max.is_none() && edge.per.as_ref().is_some_and(|per| self.indexed.number(per.as_str()).is_some()) {
            self.at_key(
                Code::IncompleteBound,
                &key(&way.path, "per"),
                "`per` without `max`",
                "say how often: `max: 3`",
            );
        }
    }

    fn terminal(&mut self, way: &GraphEdge<'_>) {
        let mut misplaced = |name: &str, message: &str, hint: &str| {
            self.at_key(Code::MisplacedKey, &key(&way.path, name), message, hint);
        };
        let ends = matches!(way.to, EdgeTarget::End | EdgeTarget::Fail);
        if way.edge.result.is_some() && !ends {
            misplaced("result", "`result` belongs to an edge to `end` or `fail`", "remove it");
        }
        if way.edge.reason.is_some() && way.to != EdgeTarget::Fail {
            misplaced("reason", "`reason` belongs to an edge to `fail`", "remove it, or lead to `fail`");
        }
        if ends && !way.edge.prompt.is_empty() {
            let hint = "remove it; `say:` is a line for the user, `reason:` says why it failed";
            misplaced("prompt", "the prompt of an edge that ends the thread is never sent", hint);
        }
    }

    fn prompt(&mut self, way: &GraphEdge<'_>, to: &str) {
        let (indexed, places) = (self.indexed, self.places);
        let is_model =
            |role: usize| indexed.roles.get(role).is_some_and(|role| matches!(role.role.kind, RoleKind::Model(_)));
        let has_none = |path: &str| !places.has(&key(path, "prompt"));
        match (way.to, &way.edge.to) {
            // The last edge of a lane uses `{{ body }}` as its part.
            (EdgeTarget::Role(role), _)
                if is_model(role) && !indexed.is_join(role) && way.edge.prompt.is_empty() && has_none(&way.path) =>
            {
                let message = format!("the edge gives `{}` no prompt", indexed.name(role));
                let hint = "add `prompt:`; `prompt: \"\"` says that nothing is to be said";
                self.at(Code::MissingPrompt, to, message, hint);
            }
            (EdgeTarget::Fan(_), Target::Fan(fan)) => {
                for (position, branch) in fan.branches.iter().enumerate() {
                    let path = item(to, position);
                    let is_model = indexed.number(branch.to.as_str()).is_some_and(is_model);
                    if is_model && branch.prompt.is_empty() && has_none(&path) && has_none(&way.path) {
                        let message = format!("the branch gives `{}` no prompt", branch.to);
                        self.at(Code::MissingPrompt, &path, message, "add `prompt:` to it or to the edge");
                    }
                }
            }
            _ => {}
        }
    }

    /// Checks the files that go with a prompt: they are inputs of a type for files, and only models are sent any.
    fn attached(&mut self, path: &str, attach: &[FieldName], to: Option<&RoleName>) {
        let path = key(path, "attach");
        let workflow = self.indexed.workflow;
        for (at, name) in attach.iter().enumerate() {
            let message = match workflow.input.iter().find(|(known, _)| known == name) {
                Some((_, field)) if field.takes_files() => continue,
                Some(_) => format!("the input `{name}` is no file"),
                None => format!("there is no input `{name}`"),
            };
            let of_files = workflow.input.iter().filter(|(_, field)| field.takes_files());
            let hint = did_you_mean(name.as_str(), of_files.map(|(known, _)| known.as_str()))
                .unwrap_or_else(|| format!("declare it under `input`, as `{name}: file` or `{name}: \"file[]\"`"));
            self.at(Code::UnknownInput, &item(&path, at), message, hint);
        }
        if let Some(to) = to.filter(|_| !attach.is_empty())
            && let Some(role) = workflow.role(to.as_str())
            && !matches!(role.kind, RoleKind::Model(_) | RoleKind::Selector(_))
        {
            let message = format!("`{to}` is a {} role, which is sent no files", role.kind.name());
            self.at(Code::InvalidValue, &path, message, "only a model role takes files");
        }
    }

    fn back(&mut self, way: &GraphEdge<'_>, to: &str) {
        let indexed = self.indexed;
        let Some((role, _)) = way.from else {
            return self.at(Code::BackWithoutCaller, to, "`back` leads nowhere from `start`", "name a role");
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
        } else if self.lanes.callers.get(role).is_none_or(Vec::is_empty) {
            format!("no role has an edge to `{name}`, so that `back` leads nowhere")
        } else {
            return;
        };
        self.at(Code::BackWithoutCaller, to, message, "name the role that is meant");
    }

    fn fan_out(&mut self, way: &GraphEdge<'_>, fan: &FanOut, to: &str) {
        let indexed = self.indexed;
        let mut misshapen = |path: &str, message: &str, hint: &str| self.at(Code::FanOutShape, path, message, hint);
        if fan.each.is_some() && fan.branches.iter().any(|branch| branch.when.is_some()) {
            let hint = "name one role; leave elements out of the list with `| selectattr(...)`";
            misshapen(to, "`each` has exactly one target, without `when`", hint);
        }
        let (most, opened) = (FanOut::MAX_LANES, fan.branches.len());
        if opened > most {
            let message = format!("a fan-out has at most {most} lanes, and this has {opened}");
            misshapen(to, &message, "split it, one after the other");
        }
        if let Need::Count(count) = fan.join.need {
            let (at_most, lanes) = if fan.each.is_some() { ("at most ", most) } else { ("", opened) };
            if usize::try_from(count).is_ok_and(|count| count > lanes) {
                let message = format!("`need` asks for {count} of {at_most}{lanes} lanes");
                let hint = "ask for at least one lane and not for more than there are";
                misshapen(&key(&key(&way.path, "join"), "need"), &message, hint);
            }
        }
        let EdgeTarget::Fan(number) = way.to else { return };
        let Some(opened) = indexed.fans.get(number) else { return };
        if !self.nested(way, number, opened.join, to) {
            return;
        }
        let arrivals = self.lanes.arrivals.get(number).map_or(&[][..], Vec::as_slice);
        let is_reached = way.from.is_none_or(|(role, _)| self.lanes.reachable.contains(&role));
        // An edge to `end` within a lane was already reported.
        let ends_within = (indexed.edges.iter()).any(|way| {
            way.to == EdgeTarget::End
                && way.from.is_some_and(|(role, _)| self.lanes.contexts_of(role).contains(&number))
        });
        let join = indexed.name(opened.join);
        for (position, (first, _)) in opened.branches.iter().enumerate() {
            let path = item(to, position);
            let name = indexed.name(*first);
            if *first == opened.join {
                let message = format!("a lane that begins at its join `{name}` has no part");
                self.at(Code::LaneEnd, &path, message, "put another role in the lane");
            } else if is_reached
                && !ends_within
                && arrivals.get(position).is_some_and(Vec::is_empty)
                && !self.places.is_incomplete("graph")
            {
                let message = format!("the lane of `{name}` never reaches its join `{join}`");
                self.at(Code::LaneEnd, &path, message, format!("lead the lane's last edge there: `to: {join}`"));
            }
        }
    }

    /// Checks the nesting of a fan-out: the depth is limited, and its lanes must meet at a separate join.
    fn nested(&mut self, way: &GraphEdge<'_>, number: usize, join: usize, to: &str) -> bool {
        let (indexed, lanes) = (self.indexed, self.lanes);
        let most = FanOut::MAX_NESTING;
        let (message, hint) = match lanes.nesting(number) {
            Some(depth) if depth <= most => (String::new(), ""),
            Some(depth) => {
                let message = format!("{depth} nested fan-outs; at most {most} are allowed");
                (message, "let one of them follow the join of another")
            }
            None => {
                let role = way.from.map_or("start", |(role, _)| indexed.name(role));
                let message = format!("`{role}` opens lanes in which it runs again and opens more");
                (message, "put another role in the lane, or lead back from a role after the join")
            }
        };
        if !message.is_empty() {
            self.at(Code::FanOutShape, to, message, hint);
            return false;
        }
        let enclosing = lanes.enclosing(number);
        let outer: BTreeSet<usize> = enclosing.iter().filter_map(|fan| Some(indexed.fans.get(*fan)?.join)).collect();
        let name = indexed.name(join);
        if outer.contains(&join) {
            let message = format!("lanes within a lane meet at `{name}`, where the outer lane ends");
            let hint = format!("let them meet at a role of their own, which leads on to `{name}`");
            self.at(Code::LaneEnd, &key(&key(&way.path, "join"), "to"), message, hint);
            return false;
        }
        let mut is_sound = true;
        for way in &indexed.edges {
            // A role that also runs in the outer lane may end that one.
            if let (Some((from, _)), EdgeTarget::Role(to)) = (way.from, way.to)
                && outer.contains(&to)
                && lanes.contexts_of(from) == [number]
            {
                is_sound = false;
                let (from, outer) = (indexed.name(from), indexed.name(to));
                let message = format!("`{from}` runs in a lane that meets at `{name}`, and leads past it to `{outer}`");
                self.at(Code::LaneEnd, &key(&way.path, "to"), message, format!("lead to the join: `to: {name}`"));
            }
        }
        is_sound
    }
}

fn model_of<'w>(role: &Node<'w>) -> Option<&'w ModelRole> {
    match &role.role.kind {
        RoleKind::Model(model) | RoleKind::Selector(SelectorRole { model, .. }) => Some(model),
        RoleKind::Human | RoleKind::Tool(_) | RoleKind::Rule(_) | RoleKind::Workflow(_) => None,
    }
}

fn declared<'n, 'w>(role: &'n Node<'w>) -> impl Iterator<Item = &'w str> + use<'n, 'w> {
    role.statuses.iter().copied().filter(|status| !FaultKind::STATUSES.contains(status))
}

/// Which of the names that the graph leaves out `word` stands for: the nearest, or the only one.
fn meant<'w>(word: &str, left_out: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let left_out: Vec<&str> = left_out.collect();
    let only = if let [only] = left_out.as_slice() { Some(*only) } else { None };
    nearest(word, left_out).or(only)
}
