//! Edges, lists of edges, fan-outs and joins.

use super::Reader;
use super::path_node::{Fields, PathNode};
use crate::diagnostic::Code;
use crate::id::{FieldName, RoleName};
use crate::source::Kind;
use crate::workflow::format::{EDGE, FULL_BRANCH, FULL_JOIN};
use crate::workflow::{Branch, Each, Edge, FailedLanes, FanOut, Join, Need, Target, source_map};

const LANES: u32 = 8;

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
        let edges = items.iter().enumerate().filter_map(|(position, item)| {
            let edge = self.listed_edge(item, position == last);
            if edge.is_none() {
                // What follows from it in a later edge is no fault.
                self.places.mark_incomplete(path);
            }
            edge
        });
        edges.collect()
    }

    /// Reads an entry of a list: an edge with `when`, or as the last one `else: EDGE`.
    fn listed_edge(&mut self, item: &PathNode<'_>, is_last: bool) -> Option<Edge> {
        if item.node.get("else").is_none() {
            let edge = self.edge(item)?;
            if edge.when.is_none() && !self.places.is_incomplete(&item.path) {
                let fault = item.fault(Code::EdgeList, "an edge of a list has neither `when` nor `else`");
                let hint = "write `when: EXPR` into it, or `- else: EDGE` if it is the last";
                self.leave_out(item, fault.with_hint(hint));
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
            let beside = beside.join("`, `");
            let (message, hint) = if otherwise.node.kind == Kind::Null {
                let hint = format!("indent `{beside}` further than `else`, or write `- else: {{ ... }}`");
                ("the edge of this `else` is beside it, not under it", hint)
            } else {
                ("unexpected keys beside `else`", format!("move `{beside}` under it or take it out"))
            };
            return self.refuse(item, otherwise.key_fault(Code::ElseWithoutEdge, message).with_hint(hint));
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
        let hint = "take out `when`, or make it an entry of its own before `else`";
        self.edge_without_condition(&inner, "an edge under `else` has a condition", hint)
    }

    /// Reads a single edge outside a list.
    fn edge_alone(&mut self, part: &PathNode<'_>) -> Option<Edge> {
        let message = "a single edge has a condition, and nothing says where to go without it";
        let hint = "write a list: `- { when: EXPR, to: ... }`, and last `- else: { to: ... }`";
        self.edge_without_condition(part, message, hint)
    }

    fn edge_without_condition(&mut self, part: &PathNode<'_>, message: &str, hint: &str) -> Option<Edge> {
        let edge = self.edge(part)?;
        if edge.when.is_some() {
            let node = part.node.get("when").unwrap_or(part.node);
            let fault = PathNode { key: None, node, ..part.clone() }.fault(Code::EdgeList, message);
            self.leave_out(part, fault.with_hint(hint));
        }
        Some(edge)
    }

    fn edge(&mut self, part: &PathNode<'_>) -> Option<Edge> {
        if let Some(target) = part.as_str() {
            let hint = format!("write `{{ to: {} }}`", crate::source::excerpt(target));
            return self.wrong_type(part, "an edge", Some(&hint));
        }
        let fields = self.fields(part, EDGE.keys())?;
        let prompt: String = self.get(&fields, "prompt").unwrap_or_default();
        let on_max = fields.get("on_max").and_then(|on_max| {
            let edge = self.edge_alone(on_max);
            if edge.is_none() {
                self.places.mark_incomplete(&on_max.path);
            }
            edge.map(Box::new)
        });
        let attach = fields.get("attach").and_then(|attach| self.attach(attach)).unwrap_or_default();
        let to = self.target(part, &fields, (&prompt, &attach));
        if to.is_none() {
            self.places.mark_incomplete(&part.path);
        }
        // Each branch of a fan-out contains its prompt and its files.
        let (prompt, attach) = if matches!(to, Some(Target::Fan(_))) { Default::default() } else { (prompt, attach) };
        Some(Edge {
            attach,
            // An unreadable bound still bounds: its cycle is no second fault.
            max: fields.get("max").map(|_| self.get(&fields, "max").unwrap_or(1)),
            on_max,
            per: self.get(&fields, "per"),
            prompt,
            reason: self.get(&fields, "reason"),
            result: self.get(&fields, "result"),
            say: self.get(&fields, "say"),
            when: self.get(&fields, "when"),
            to: to?,
        })
    }

    /// Reads the files that go with a prompt: `input.NAME` each. Whether there are such inputs is checked later.
    fn attach(&mut self, part: &PathNode<'_>) -> Option<Vec<FieldName>> {
        let items = self.items(part)?;
        let names = items.iter().map(|item| {
            let name = item.as_str().and_then(|path| FieldName::new(path.strip_prefix("input.")?).ok());
            name.or_else(|| self.not_allowed(item, "an input with files", Some("such as `input.photo`")))
        });
        names.collect()
    }

    fn target(&mut self, part: &PathNode<'_>, fields: &Fields<'_>, shared: (&str, &[FieldName])) -> Option<Target> {
        let to = fields.get("to")?;
        if fields.get("each").is_some() || matches!(to.node.kind, Kind::List(_)) {
            return self.fan_out(part, fields, to, shared).map(|fan| Target::Fan(Box::new(fan)));
        }
        for field in ["as", "parallel", "join"].into_iter().filter_map(|name| fields.get(name)) {
            let message = format!("`{}` belongs to a fan-out, and this edge leads to one role", field.name());
            let fault = field.key_fault(Code::UnknownKey, message);
            self.leave_out(field, fault.with_hint("a fan-out has a list under `to`, or `each`"));
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
            for field in ["as", "parallel"].into_iter().filter_map(|name| fields.get(name)) {
                let message = format!("`{}` belongs to `each`", field.name());
                self.leave_out(field, field.key_fault(Code::UnknownKey, message));
            }
        } else if matches!(to.node.kind, Kind::List(_)) {
            let fault = to.key_fault(Code::InvalidValue, "`each` makes the lanes of one target, and this is a list");
            return self.refuse(to, fault.with_hint("write one role under `to`"));
        }
        let Some(join) = fields.get("join") else {
            let fault = part.key_fault(Code::MissingKey, "the key `join` is missing: where do the lanes meet?");
            return self.refuse(part, fault.with_hint("write `join: ROLE`"));
        };
        let join = self.join(join);
        let each = each.map_or(Some(None), |each| each.map(Some));
        Some(FanOut { branches: branches?, each: each?, join: join? })
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
            return Some(vec![self.branch(&one, of_edge, shared)?]);
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
        let own = fields.get("prompt").map(|_| self.get(&fields, "prompt").unwrap_or_default());
        let when = self.get(&fields, "when");
        let to = fields.get("to").and_then(|to| self.branch_target(to))?;
        let own_attach = fields.get("attach").map(|attach| self.attach(attach).unwrap_or_default());
        let inherited: Vec<&str> = ["prompt", "attach"].into_iter().filter(|name| fields.get(name).is_none()).collect();
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
        for shared in names.iter().filter_map(|name| of_edge.get(name)) {
            self.places.share(&shared.path, &source_map::key(&branch.path, shared.name()));
        }
    }

    fn each(&mut self, each: &PathNode<'_>, fields: &Fields<'_>) -> Option<Each> {
        let over = if matches!(each.node.kind, Kind::List(_)) {
            self.wrong_type(each, "an expression that yields a list", Some("such as `output.items`"))
        } else {
            self.expression(each)
        };
        let parallel = fields.get("parallel").map_or(Some(LANES), |_| self.get(fields, "parallel"));
        let name = fields.get("as").map_or_else(|| FieldName::new("item").ok(), |part| self.lane_name(part));
        Some(Each { name: name?, over: over?, parallel: parallel? })
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
        let prompt = self.get(&fields, "prompt");
        let need = fields.get("need").map_or(Some(Need::All), |need| self.need(need));
        let failed = fields.get("failed").map_or(Some(FailedLanes::Fail), |_| self.get(&fields, "failed"));
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
