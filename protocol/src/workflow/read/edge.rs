//! Edges, lists of edges, fan-outs and joins.

use super::Reader;
use super::path_node::{Fields, PathNode};
use crate::diagnostic::Code;
use crate::id::{FieldName, RoleName};
use crate::source::Kind;
use crate::workflow::format::{EDGE, FAILED_LANES, FULL_BRANCH, FULL_JOIN, MAX_LANES};
use crate::workflow::{Branch, Each, Edge, FailedLanes, FanOut, Join, Need, Target, source_map};

const LANES: u64 = 8;
impl Reader<'_> {
    /// Reads one edge, or a list that is tried in order; at `path`, one edge is a list of one.
    pub(super) fn edges(&mut self, part: &PathNode<'_>, path: &str) -> Vec<Edge> {
        if !matches!(part.node.kind, Kind::List(_)) {
            let one = part.moved(source_map::item(path, 0));
            self.place(&one);
            return self.edge_alone(&one).into_iter().collect();
        }
        let items = self.items(&part.moved(path.to_owned())).unwrap_or_default();
        if items.is_empty() {
            self.not_allowed::<()>(part, "at least one edge", None);
        }
        let last = items.len().saturating_sub(1);
        let mut edges = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let edge = self.listed_edge(item, position == last);
            if edge.is_none() {
                self.places.mark_incomplete(path);
            }
            edges.extend(edge);
        }
        edges
    }

    /// Reads an entry of a list: an edge with `when`, or as the last one `else: EDGE`.
    fn listed_edge(&mut self, item: &PathNode<'_>, is_last: bool) -> Option<Edge> {
        let is_else = item.node.get("else").is_some();
        if !is_else {
            let edge = self.edge(item)?;
            if edge.when.is_none() && !self.places.is_incomplete(&item.path) {
                let fault = item.fault(Code::EdgeList, "an edge of a list has neither `when` nor `else`");
                self.leave_out(
                    item,
                    fault.with_hint("write `when: EXPR` into it, or `- else: EDGE` if it is the last"),
                );
            } else if is_last && edge.when.is_some() {
                let fault = item.fault(Code::EdgeList, "the last edge of a list is not `else`");
                self.leave_out(item, fault.with_hint("say where to go when no condition holds: `- else: { to: ... }`"));
            }
            return Some(edge);
        }
        let entries = self.entries(item)?;
        let otherwise = entries.iter().find(|entry| entry.name() == "else")?;
        let beside: Vec<&str> = entries.iter().map(PathNode::name).filter(|name| *name != "else").collect();
        if !beside.is_empty() {
            let fault = if otherwise.node.kind == Kind::Null {
                otherwise
                    .key_fault(Code::ElseWithoutEdge, "the edge of this `else` is beside it, not under it")
                    .with_hint(format!(
                        "indent `{}` further than `else`, or write `- else: {{ ... }}`",
                        beside.join("`, `")
                    ))
            } else {
                otherwise
                    .key_fault(Code::ElseWithoutEdge, "unexpected keys beside `else`")
                    .with_hint(format!("move `{}` under it or take it out", beside.join("`, `")))
            };
            return self.refuse(item, fault);
        }
        if !self.is_given(otherwise) {
            return None;
        }
        if !is_last {
            let fault = otherwise.key_fault(Code::EdgeList, "`else` is not the last edge of its list");
            self.leave_out(item, fault.with_hint("edges are tried in order: nothing after `else` is ever reached"));
        }
        let inner = otherwise.moved(item.path.clone());
        self.place(&inner);
        let edge = self.edge(&inner)?;
        if edge.when.is_some() {
            let hint = "take out `when`, or make it an entry of its own before `else`";
            self.refuse_condition(&inner, "an edge under `else` has a condition", hint);
        }
        Some(edge)
    }

    /// Reads a single edge outside a list, which must not have a condition, since there is no alternative to it.
    fn edge_alone(&mut self, part: &PathNode<'_>) -> Option<Edge> {
        let edge = self.edge(part)?;
        if edge.when.is_some() {
            let hint = "write a list: `- { when: EXPR, to: ... }`, and last `- else: { to: ... }`";
            self.refuse_condition(part, "a single edge has a condition, and nothing says where to go without it", hint);
        }
        Some(edge)
    }

    fn refuse_condition(&mut self, edge: &PathNode<'_>, message: &str, hint: &str) {
        let node = edge.node.get("when").unwrap_or(edge.node);
        let fault = PathNode { path: edge.path.clone(), key: None, node }.fault(Code::EdgeList, message);
        self.leave_out(edge, fault.with_hint(hint));
    }

    fn edge(&mut self, part: &PathNode<'_>) -> Option<Edge> {
        if let Some(target) = part.as_str() {
            let hint = format!("write `{{ to: {} }}`", crate::source::excerpt(target));
            return self.wrong_type(part, "an edge", Some(&hint));
        }
        let fields = self.fields(part, EDGE.keys())?;
        let prompt = fields.get("prompt").and_then(|prompt| self.prompt(prompt)).unwrap_or_default();
        // An unreadable bound still bounds: its cycle is no second fault.
        let max = fields.get("max").map(|max| self.integer(max, 1, u64::from(u32::MAX)).unwrap_or(1));
        let per = fields.get("per").and_then(|per| self.role_reference(per));
        let on_max = fields.get("on_max").and_then(|on_max| {
            let edge = self.edge_alone(on_max);
            if edge.is_none() {
                self.places.mark_incomplete(&on_max.path);
            }
            edge.map(Box::new)
        });
        let when = fields.get("when").and_then(|when| self.expression(when));
        let say = fields.get("say").and_then(|say| self.template(say));
        let reason = fields.get("reason").and_then(|reason| self.template(reason));
        let result = fields.get("result").map(|result| self.template_value(result));
        let attach = fields.get("attach").and_then(|attach| self.attach(attach)).unwrap_or_default();
        let to = self.target(part, &fields, (&prompt, &attach));
        let Some(to) = to else {
            self.places.mark_incomplete(&part.path);
            return None;
        };
        let max = max.and_then(|max| u32::try_from(max).ok());
        // Each branch of a fan-out contains its prompt and its files.
        let (prompt, attach) = if matches!(to, Target::Fan(_)) { Default::default() } else { (prompt, attach) };
        Some(Edge { attach, max, on_max, per, prompt, reason, result, say, to, when })
    }

    /// Reads the files that go with a prompt: `input.NAME` each. Whether there are such inputs is checked later.
    fn attach(&mut self, part: &PathNode<'_>) -> Option<Vec<FieldName>> {
        let items = self.items(part)?;
        let names = items.iter().map(|item| {
            let name = item.as_str().and_then(|path| FieldName::new(path.strip_prefix("input.")?).ok());
            name.or_else(|| self.not_allowed(item, "an input with files", Some("such as `input.photo`".to_owned())))
        });
        names.collect()
    }

    fn target(&mut self, part: &PathNode<'_>, fields: &Fields<'_>, shared: (&str, &[FieldName])) -> Option<Target> {
        let to = fields.get("to")?;
        let each = fields.get("each");
        let is_fan = each.is_some() || matches!(to.node.kind, Kind::List(_));
        if is_fan {
            return self.fan_out(part, fields, to, shared).map(|fan| Target::Fan(Box::new(fan)));
        }
        for name in ["as", "parallel", "join"] {
            if let Some(field) = fields.get(name) {
                let message = format!("`{name}` belongs to a fan-out, and this edge leads to one role");
                let fault = field.key_fault(Code::UnknownKey, message);
                self.leave_out(field, fault.with_hint("a fan-out has a list under `to`, or `each`"));
            }
        }
        match to.as_str() {
            Some("end") => Some(Target::End),
            Some("fail") => Some(Target::Fail),
            Some("back") => Some(Target::Back),
            _ => self.role_reference(to).map(Target::Role),
        }
    }

    fn fan_out(
        &mut self,
        part: &PathNode<'_>,
        fields: &Fields<'_>,
        to: &PathNode<'_>,
        shared: (&str, &[FieldName]),
    ) -> Option<FanOut> {
        let branches = self.branches(to, fields, shared);
        let each = fields.get("each").map(|each| self.each(each, fields));
        if each.is_none() {
            for name in ["as", "parallel"] {
                if let Some(field) = fields.get(name) {
                    let message = format!("`{name}` belongs to `each`");
                    self.leave_out(field, field.key_fault(Code::UnknownKey, message));
                }
            }
        }
        if fields.get("each").is_some() && matches!(to.node.kind, Kind::List(_)) {
            let fault = to.key_fault(Code::InvalidValue, "`each` makes the lanes of one target, and this is a list");
            return self.refuse(to, fault.with_hint("write one role under `to`"));
        }
        let Some(join) = fields.get("join") else {
            let fault = part.key_fault(Code::MissingKey, "the key `join` is missing: where do the lanes meet?");
            return self.refuse(part, fault.with_hint("write `join: ROLE`"));
        };
        let join = self.join(join);
        Some(FanOut { branches: branches?, each: each.map_or(Some(None), |each| each.map(Some))?, join: join? })
    }

    /// Reads the branches, at `to[0]`, `to[1]`...
    fn branches(
        &mut self,
        to: &PathNode<'_>,
        of_edge: &Fields<'_>,
        shared: (&str, &[FieldName]),
    ) -> Option<Vec<Branch>> {
        if !matches!(to.node.kind, Kind::List(_)) {
            let one = to.moved(source_map::item(&to.path, 0));
            self.place(&one);
            let branch = self.branch(&one, of_edge, shared)?;
            return Some(vec![branch]);
        }
        let items = self.items(to)?;
        if items.is_empty() {
            return self.not_allowed(to, "at least one branch", None);
        }
        let branches: Vec<Branch> = items.iter().filter_map(|item| self.branch(item, of_edge, shared)).collect();
        (branches.len() == items.len()).then_some(branches)
    }

    fn branch(
        &mut self,
        part: &PathNode<'_>,
        of_edge: &Fields<'_>,
        (prompt, attach): (&str, &[FieldName]),
    ) -> Option<Branch> {
        if !matches!(part.node.kind, Kind::Map(_)) {
            let target = part.moved(source_map::key(&part.path, "to"));
            self.place(&target);
            let to = self.branch_target(&target)?;
            self.share(part, of_edge, &["prompt", "attach"]);
            return Some(Branch { attach: attach.to_vec(), prompt: prompt.to_owned(), to, when: None });
        }
        let fields = self.fields(part, FULL_BRANCH.keys())?;
        let own = fields.get("prompt").map(|own| self.prompt(own).unwrap_or_default());
        let when = fields.get("when").and_then(|when| self.expression(when));
        let to = fields.get("to").and_then(|to| self.branch_target(to))?;
        let own_attach = fields.get("attach").map(|attach| self.attach(attach).unwrap_or_default());
        let inherited = [("prompt", own.is_none()), ("attach", own_attach.is_none())];
        let inherited: Vec<&str> = inherited.into_iter().filter_map(|(name, is)| is.then_some(name)).collect();
        self.share(part, of_edge, &inherited);
        let attach = own_attach.unwrap_or_else(|| attach.to_vec());
        Some(Branch { attach, prompt: own.unwrap_or_else(|| prompt.to_owned()), to, when })
    }

    fn branch_target(&mut self, part: &PathNode<'_>) -> Option<RoleName> {
        if let Some(word @ ("end" | "fail" | "back")) = part.as_str() {
            let message = format!("a branch leads to a role, not to `{word}`");
            return self.refuse(part, part.fault(Code::InvalidValue, message));
        }
        self.role_reference(part)
    }

    /// Records the locations of what a branch inherits from its edge.
    fn share(&mut self, branch: &PathNode<'_>, of_edge: &Fields<'_>, names: &[&str]) {
        for name in names {
            if let Some(shared) = of_edge.get(name) {
                self.places.share(&shared.path, &source_map::key(&branch.path, name));
            }
        }
    }

    fn each(&mut self, each: &PathNode<'_>, fields: &Fields<'_>) -> Option<Each> {
        let over = if matches!(each.node.kind, Kind::List(_)) {
            self.wrong_type(each, "an expression that yields a list", Some("such as `output.items`"))
        } else {
            self.expression(each)
        };
        let parallel = fields.get("parallel").map_or(Some(LANES), |part| self.integer(part, 1, MAX_LANES));
        let name = match fields.get("as") {
            Some(part) => self.lane_name(part),
            None => FieldName::new("item").ok(),
        };
        Some(Each { name: name?, over: over?, parallel: u32::try_from(parallel?).ok()? })
    }

    fn lane_name(&mut self, part: &PathNode<'_>) -> Option<FieldName> {
        const TAKEN: [&str; 8] = ["input", "output", "body", "status", "steps", "branches", "index", "loop"];
        let text = self.text(part)?;
        match FieldName::new(&text) {
            Ok(name) if !TAKEN.contains(&name.as_str()) => Some(name),
            Ok(name) => {
                let message = format!("`{name}` already has a meaning in templates");
                self.refuse(part, part.fault(Code::ReservedName, message).with_hint("choose another name"))
            }
            Err(error) => {
                let message = format!("`{}` is not a name for an element: {}", error.text, error.rule);
                self.refuse(part, part.fault(Code::InvalidName, message))
            }
        }
    }

    fn join(&mut self, part: &PathNode<'_>) -> Option<Join> {
        if !matches!(part.node.kind, Kind::Map(_)) {
            let target = part.moved(source_map::key(&part.path, "to"));
            self.place(&target);
            let to = self.branch_target(&target)?;
            return Some(Join { failed: FailedLanes::default(), need: Need::default(), prompt: None, to });
        }
        let fields = self.fields(part, FULL_JOIN.keys())?;
        let prompt = fields.get("prompt").and_then(|prompt| self.prompt(prompt));
        let need = fields.get("need").map_or(Some(Need::All), |need| self.need(need));
        let failed = fields.get("failed").map_or(Some(FailedLanes::Fail), |failed| self.word(failed, &FAILED_LANES));
        let to = fields.get("to").and_then(|to| self.branch_target(to));
        Some(Join { failed: failed?, need: need?, prompt, to: to? })
    }

    fn need(&mut self, part: &PathNode<'_>) -> Option<Need> {
        match part.as_str() {
            Some("all") => Some(Need::All),
            Some("any") => Some(Need::Any),
            Some(_) => self.not_allowed(part, "`all`, `any` or an integer", None),
            None => Some(Need::Count(u32::try_from(self.integer(part, 1, u64::from(u32::MAX))?).ok()?)),
        }
    }
}
