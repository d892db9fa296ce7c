//! The graph: the edges of `start` and of each role's statuses.

use std::collections::BTreeMap;

use super::Reader;
use super::output::{status, text_field};
use super::path_node::PathNode;
use crate::diagnostic::Code;
use crate::id::{RoleName, Status};
use crate::object::FaultKind;
use crate::source::Kind;
use crate::workflow::{Edge, Ordered, Outgoing, Role, RoleKind, source_map};

impl Reader<'_> {
    /// Reads the graph. The entries of a selector also define its statuses.
    pub(super) fn graph(
        &mut self,
        part: &PathNode<'_>,
        roles: &mut Ordered<RoleName, Role>,
    ) -> Ordered<String, Outgoing> {
        let positions: BTreeMap<RoleName, usize> =
            roles.iter().enumerate().map(|(position, (name, _))| (name.clone(), position)).collect();
        let mut graph = Vec::new();
        for entry in self.given_entries(part).unwrap_or_default() {
            let outgoing = if entry.name() == "start" {
                Outgoing::Start(self.edges(&entry, &entry.path))
            } else {
                let role = positions.get(entry.name()).and_then(|at| roles.get_mut(*at)).map(|(_, role)| role);
                Outgoing::Role(self.outgoing(&entry, role))
            };
            graph.push((entry.name().to_owned(), outgoing));
        }
        graph
    }

    fn outgoing(&mut self, part: &PathNode<'_>, role: Option<&mut Role>) -> Ordered<Status, Vec<Edge>> {
        let (mut outgoing, mut otherwise, mut chosen) = (Vec::new(), None, Vec::new());
        let is_selector = role.as_ref().is_some_and(|role| matches!(role.kind, RoleKind::Selector(_)));
        if self.is_one_edge(part) {
            return outgoing;
        }
        for entry in self.given_entries(part).unwrap_or_default() {
            let name = match entry.name() {
                "on_error" => status(FaultKind::Error.status()),
                "on_limit" => status(FaultKind::Limit.status()),
                "on_timeout" => status(FaultKind::Timeout.status()),
                "else" if is_selector => {
                    otherwise = Some(self.edges(&entry, &entry.path));
                    None
                }
                _ => {
                    let name = self.status_name(&entry);
                    chosen.extend(name.clone());
                    name
                }
            };
            let Some(name) = name else { continue };
            let path = source_map::key(&part.path, name.as_str());
            self.place(&entry.moved(path.clone()));
            outgoing.push((name, self.edges(&entry, &path)));
        }
        if let Some(role) = role
            && let RoleKind::Selector(selector) = &mut role.kind
        {
            selector.fallback_route = otherwise;
            let fields: Vec<_> = ["instruction", "reason"].into_iter().filter_map(text_field).collect();
            role.output = chosen.into_iter().map(|name| (name, fields.clone())).collect();
        }
        outgoing
    }

    fn is_one_edge(&mut self, part: &PathNode<'_>) -> bool {
        let is_edge = part.node.get("to").is_some_and(|to| matches!(to.kind, Kind::Str(_)));
        if is_edge {
            let message = format!("expected the statuses of `{}`, found an edge", part.name());
            let fault = part.key_fault(Code::MissingKey, message);
            self.leave_out(part, fault.with_hint("write the status that leads there, such as `done: { to: ... }`"));
        }
        is_edge
    }
}
