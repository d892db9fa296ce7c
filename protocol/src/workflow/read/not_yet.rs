//! Parts that are read and checked but not supported by this version: reported at their key, so that `validate` can
//! warn and `run` can refuse before it incurs any cost.

use super::Reader;
use crate::diagnostic::Code;
use crate::workflow::{Workflow, source_map};

impl Reader<'_> {
    pub(super) fn not_yet_run(&mut self, workflow: &Workflow) {
        for (name, role) in &workflow.roles {
            let path = source_map::key("roles", name.as_str());
            if role.kind.model().is_some_and(|model| model.compact.is_some()) {
                self.not_yet(&source_map::key(&path, "compact"), "`compact`");
            }
        }
    }

    fn not_yet(&mut self, path: &str, what: &str) {
        if self.not_yet.len() < super::MAX_FAULTS {
            let message = format!("this version cannot run {what} yet");
            let fault = self.places.key_fault(Code::NotYetRun, path, message);
            self.not_yet.push(fault);
        }
    }
}
