//! The accounts of a tree of threads: a child's calls are admitted by its own thread and by every thread above it.

use std::sync::Arc;

use parking_lot::Mutex;
use rondo_protocol::call::Fault;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::Usage;

use super::resume_hint::ResumeHint;
use crate::thread::{CallEstimate, Machine, Reservation};

/// The account of a visit, and those above it.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) machine: Arc<Mutex<Machine>>,
    /// Says how this account's thread continues once a limit is reached.
    pub(super) resume_hint: Arc<ResumeHint>,
    pub(super) lane: LanePath,
    pub(super) role: RoleName,
    /// The visit that runs this thread as a child.
    pub(super) above: Option<Arc<Account>>,
}

/// A call that every account admitted, from the lowest.
pub(super) struct Admitted(Vec<Reservation>);

impl Account {
    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |account| account.above.as_deref())
    }

    /// How many threads are above a child of this visit.
    pub(super) fn depth(&self) -> u64 {
        self.levels().map(|_| 1).sum()
    }

    /// Reserves what a call may use, in every account.
    ///
    /// # Errors
    /// The first limit that the call could exceed; nothing is reserved then.
    pub(super) fn admit(&self, wanted: &CallEstimate) -> Result<Admitted, Fault> {
        let mut admitted = Admitted(Vec::new());
        for account in self.levels() {
            let reserved = account.machine.lock().admit(&account.lane, &account.role, wanted);
            match reserved {
                Ok(reserved) => admitted.0.push(reserved),
                Err(fault) => {
                    self.settle(&admitted, None, None);
                    return Err(account.resume_hint.with_hint(fault));
                }
            }
        }
        Ok(admitted)
    }

    /// Releases the reservations of a call, and counts what it used.
    pub(super) fn settle(&self, admitted: &Admitted, usage: Option<Usage>, cost_usd: Option<f64>) {
        for (account, reserved) in self.levels().zip(&admitted.0) {
            account.machine.lock().budget().settle(reserved, usage, cost_usd);
        }
    }

    /// Counts what was used before this process.
    pub(super) fn count(&self, usage: Option<Usage>, cost_usd: Option<f64>) {
        for account in self.levels() {
            account.machine.lock().budget().count(&account.lane, &account.role, usage, cost_usd);
        }
    }
}
