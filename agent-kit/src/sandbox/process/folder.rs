//! The working folder of a program, and the access to the folders around it.

use std::path::PathBuf;

use super::Access;
use super::plan::{Plan, Writable};

/// The working folder of a program or a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkingDir {
    /// A private empty folder, deleted afterwards, so that no module, setting or command of a project is loaded from
    /// it.
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

/// Adds what `access` grants to the plan; `write` are the writable paths of the settings.
pub(super) fn with_access(mut plan: Plan, access: Access, write: &[PathBuf]) -> Plan {
    match access {
        Access::Read => {}
        Access::Paths(paths) => plan.writable = Writable::Paths(paths),
        Access::Write => (plan.writable, plan.write) = super::granted(&plan.workspace, write),
        Access::Granted => {
            plan.write = write.iter().map(|path| canonical(plan.workspace.join(path))).collect();
            plan.workspace = PathBuf::new();
            let granted: Vec<PathBuf> = plan.read.iter().cloned().map(canonical).collect();
            // A missing path is reserved for the whole run of a server, so only where this program could create it.
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
