//! The reader of workflow files: converts a spanned tree to a [`Workflow`] and its [`Policy`], and reports every fault
//! at its location.
//!
//! The walk never stops at a fault. Unreadable parts are left out and marked in [`SourceMap`], so that the checker
//! reports no faults that only follow from them. The reader fills in defaults, shorthands and undeclared statuses.
//!
//! It must not know how templates are evaluated or which graphs are allowed: that is for the checker. It reads files
//! only through [`Files`].

mod child;
mod edge;
mod field;
mod file;
mod graph;
mod hook;
mod model;
mod name;
mod output;
mod path_node;
mod role;
mod system;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use super::{Checked, Ordered, Policy, Role, RolePolicy, Workflow, check};
use crate::diagnostic::{Code, Diagnostic, Severity, Span};
use crate::id::RoleName;
use crate::source::{self, Parsed, Source, SourceError};

use super::format::TOP;
use super::source_map::SourceMap;
use file::Family;
pub use file::{FileError, Files, MAX_CHILD_DEPTH, MAX_CHILDREN, MAX_INCLUDED_BYTES};
pub use hook::read_hook;
use path_node::PathNode;
use value::over_defaults;
pub use value::{duration_ms, size_bytes};

const MAX_FAULTS: usize = 1_000;

const LONGEST_NAME: usize = 100;

pub fn is_workflow_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Reads and checks the workflow `text`, which is the content of `file`; a name that ends in `.json` is read as JSON.
/// `files` gives access to included files, by paths from the folder of `file`.
///
/// # Errors
/// All faults of the file, in source order, then those of its child workflows.
pub fn read(file: &str, text: &str, files: &dyn Files) -> Result<Checked, Vec<Diagnostic>> {
    let base = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let mut family = Family::new(base);
    Reader::new(file, text, "", files, &mut family).read()
}

struct Reader<'a> {
    files: &'a dyn Files,
    /// The state shared by all files of one workflow.
    family: &'a mut Family,
    /// The folder of the file in diagnostics, with `/` at its end, or empty.
    shown_folder: String,
    /// The folder of the file for [`Files`], with `/` at its end, or empty.
    folder: String,
    is_json: bool,
    places: SourceMap,
    faults: Vec<Diagnostic>,
    /// Faults of child workflows, in the order in which the file names the children.
    child_faults: Vec<Diagnostic>,
    child_policies: BTreeMap<String, Policy>,
    /// Offsets of syntax errors; the tree is a guess there.
    holes: BTreeSet<usize>,
    /// The names under `roles`, including unreadable roles.
    role_names: Vec<String>,
    /// Schemas that were already compiled without a fault.
    sound_schemas: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    fn new(file: &str, text: &str, folder: &str, files: &'a dyn Files, family: &'a mut Family) -> Self {
        let shown_folder = file.rfind(['/', '\\']).and_then(|slash| file.get(..=slash)).unwrap_or_default();
        Self {
            files,
            family,
            shown_folder: shown_folder.to_owned(),
            folder: folder.to_owned(),
            is_json: file.to_ascii_lowercase().ends_with(".json"),
            places: SourceMap::new(Source::new(file, text)),
            faults: Vec::new(),
            child_faults: Vec::new(),
            child_policies: BTreeMap::new(),
            holes: BTreeSet::new(),
            role_names: Vec::new(),
            sound_schemas: BTreeSet::new(),
        }
    }

    fn read(mut self) -> Result<Checked, Vec<Diagnostic>> {
        let text = self.places.text();
        let Parsed { root, faults } = if self.is_json { source::read_json(text) } else { source::read_yaml(text) };
        if !faults.is_empty() {
            // A hole in the tree may hide any part.
            self.places.mark_incomplete("");
        }
        for fault in faults {
            self.holes.insert(fault.span.offset);
            self.keep_fault(fault);
        }
        let Some(root) = root else { return Err(self.end().0) };
        let repeated = root.scalar_bytes().saturating_sub(self.places.text().len());
        if self.family.open.len() > 1 && !self.family.take(repeated) {
            let message = format!("what the included files hold has more than {MAX_INCLUDED_BYTES} bytes in all");
            self.keep_fault(SourceError::new(Code::TooLarge, root.span, message));
            return Err(self.end().0);
        }
        let read = self.top(&PathNode::root(&root));
        if let Some((workflow, policy)) = &read {
            for fault in check::check(workflow, policy, &self.places) {
                if !self.follows_a_hole(&fault) {
                    self.keep(fault);
                }
            }
        }
        let (faults, places) = self.end();
        match read {
            Some((workflow, policy)) if faults.iter().all(|fault| fault.severity == Severity::Warning) => {
                Ok(Checked { workflow, policy, warnings: faults, places })
            }
            _ => Err(faults),
        }
    }

    fn end(mut self) -> (Vec<Diagnostic>, SourceMap) {
        self.places.sort(&mut self.faults);
        self.faults.dedup();
        for fault in self.child_faults {
            // Two roles may run the same file.
            if !self.faults.contains(&fault) {
                self.faults.push(fault);
            }
        }
        (self.faults, self.places)
    }

    fn top(&mut self, root: &PathNode<'_>) -> Option<(Workflow, Policy)> {
        let fields = self.fields_if(root, &TOP, |name| name.starts_with("x-"))?;
        if let Some(part) = fields.get("rondo") {
            self.version(part);
        }
        let name = fields.get("name").and_then(|part| self.workflow_name(part)).unwrap_or_default();
        let description = self.get(&fields, "description").unwrap_or_default();
        let input = fields.get("input").map(|part| self.inputs(part)).unwrap_or_default();
        let models = fields.get("models").map(|part| self.models(part)).unwrap_or_default();
        let limits = over_defaults(&self.get(&fields, "limits").unwrap_or_default());
        let (mut roles, role_policies) = fields.get("roles").map(|part| self.roles(part)).unwrap_or_default();
        let graph = fields.get("graph").map(|part| self.graph(part, &mut roles)).unwrap_or_default();
        let result = self.get(&fields, "result");
        let (altering, transparent) = fields.get("hooks").map(|part| self.hooks(part)).unwrap_or_default();
        let serve = fields.get("serve").map(|part| self.serve(part, &input, result.as_ref())).unwrap_or_default();
        let workflow = Workflow { graph, hooks: altering, input, models, name, result, roles, rondo: 1 };
        let policy = Policy {
            children: std::mem::take(&mut self.child_policies),
            description,
            hooks: transparent,
            limits,
            roles: role_policies,
            serve,
        };
        Some((workflow, policy))
    }

    fn version(&mut self, part: &PathNode<'_>) {
        if part.node.to_value() != crate::Value::Int(1) {
            let found = self.shown(part);
            let fault = part.fault(Code::FormatVersion, format!("the version of the format is 1, found {found}"));
            self.report(fault.with_hint("write `rondo: 1`"));
        }
    }

    fn workflow_name(&mut self, part: &PathNode<'_>) -> Option<String> {
        let name = self.text(part)?;
        if is_workflow_name(&name) {
            return Some(name);
        }
        let message = format!("`{}` is not a name for a workflow", source::excerpt(&name));
        let hint = format!("it is made of letters, digits, `-`, `_` and `.`, at most {LONGEST_NAME} of them");
        self.report(part.fault(Code::InvalidName, message).with_hint(hint));
        None
    }

    /// Whether a fault of the checker follows a syntax error on the same line.
    fn follows_a_hole(&self, fault: &Diagnostic) -> bool {
        let hole = self.holes.range(..=fault.span.offset).next_back();
        let between = hole.and_then(|hole| self.places.text().get(*hole..fault.span.offset));
        self.places.is_main(&fault.file) && between.is_some_and(|text| !text.contains('\n'))
    }

    /// Records a fault, unless there is a syntax error at the same offset.
    fn report(&mut self, fault: SourceError) {
        if !self.holes.contains(&fault.span.offset) || fault.span == Span::default() {
            self.keep_fault(fault);
        }
    }

    fn keep_fault(&mut self, fault: SourceError) {
        self.keep(self.places.report(fault));
    }

    fn keep(&mut self, diagnostic: Diagnostic) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(diagnostic);
        }
    }

    /// Records a fault of a part that is then left out.
    fn leave_out(&mut self, part: &PathNode<'_>, fault: SourceError) {
        self.places.mark_incomplete(&part.path);
        self.report(fault);
    }

    /// The same, in place of the part's value.
    fn refuse<T>(&mut self, part: &PathNode<'_>, fault: SourceError) -> Option<T> {
        self.leave_out(part, fault);
        None
    }

    /// A scalar as written, for a message.
    fn shown(&self, part: &PathNode<'_>) -> String {
        let Span { offset, length } = part.node.span;
        match self.places.text().get(offset..offset + length).filter(|text| !text.contains('\n')) {
            Some(text) if length > 0 && !part.holds() => format!("`{}`", source::excerpt(text)),
            _ => part.node.describe().to_owned(),
        }
    }
}

type RolesAndPolicies = (Ordered<RoleName, Role>, BTreeMap<String, RolePolicy>);

#[cfg(test)]
mod tests;
