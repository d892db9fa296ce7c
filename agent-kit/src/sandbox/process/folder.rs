//! Where a program starts, and what of the folders around it it is granted.

use std::path::PathBuf;

use super::Access;
use super::plan::{Plan, Writable};

/// The folder that a program or a server starts in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkingDir {
    /// An empty folder that it has for itself, and that is gone afterwards. What it finds where it starts is then
    /// nobody's: no module, no settings and no command of a project.
    Private,
    /// This one.
    Folder(PathBuf),
}

impl WorkingDir {
    /// The workspace itself.
    pub fn workspace() -> Self {
        Self::Folder(PathBuf::from("."))
    }
}

/// The plan with what `access` grants; `write` is what the settings do.
pub(super) fn with_access(mut plan: Plan, access: Access, write: &[PathBuf]) -> Plan {
    match access {
        Access::Read => {}
        Access::Paths(paths) => plan.writable = Writable::Paths(paths),
        Access::Write => (plan.writable, plan.write) = super::granted(&plan.workspace, write),
        Access::Granted => {
            plan.write = write.iter().map(|path| canonical(plan.workspace.join(path))).collect();
            plan.workspace = PathBuf::new();
            let granted: Vec<PathBuf> = plan.read.iter().cloned().map(canonical).collect();
            // A place is kept for what does not exist, and for a server it would be kept for long: only where this
            // program could make it.
            let lies_in = |path: &PathBuf, roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
            plan.hidden.retain(|path| lies_in(path, &plan.write) || (path.exists() && lies_in(path, &granted)));
            plan.read_only.retain(|path| lies_in(path, &plan.write));
            plan.kept.retain(|path| lies_in(path, &plan.write));
        }
    }
    plan
}

fn canonical(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}
