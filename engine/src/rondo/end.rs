//! How a run ends, and what would have it go on.

use rondo_core::local::Ended;
use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Outcome;
use rondo_protocol::id::ThreadId;

use crate::failure::Failure;
use crate::views::form::FormView;

/// How a run ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// The thread has ended.
    Finished(Finished),
    /// Every lane waits for a person. [`answer`](crate::Rondo::answer) continues.
    Waiting(Vec<FormView>),
    /// The thread stopped, and can be [resumed](crate::Rondo::resume).
    Stopped(Fault),
}

/// A thread that has ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// Whether it is done, failed or was cancelled.
    pub outcome: Outcome,
    /// Why it failed, as the workflow says it.
    pub reason: Option<String>,
    /// The workflow's result.
    pub result: Value,
}

impl End {
    pub(crate) fn of(thread: &ThreadId, ended: Ended) -> Self {
        match ended {
            Ended::Finished(ending) => {
                let (outcome, reason, result) = (ending.outcome, ending.reason, (*ending.result).clone());
                Self::Finished(Finished { outcome, reason, result })
            }
            Ended::Waiting(open) => Self::Waiting(open.iter().map(|open| FormView::new(thread, open)).collect()),
            Ended::Stopped(fault) => Self::Stopped(fault),
        }
    }

    /// The result of a thread that is done.
    ///
    /// # Errors
    /// Why there is none: the thread failed, was cancelled, waits or stopped.
    pub fn result(&self) -> Result<&Value, Failure> {
        match self {
            Self::Finished(Finished { outcome: Outcome::Done, result, .. }) => Ok(result),
            Self::Finished(Finished { outcome, reason, .. }) => {
                let reason = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
                Err(Failure::new(Code::ThreadEnded, format!("the thread is {}{reason}", outcome.name())))
            }
            Self::Waiting(_) => Err(Failure::new(Code::NotWaiting, "the thread waits for a person")),
            Self::Stopped(fault) => Err(fault.clone().into()),
        }
    }
}
