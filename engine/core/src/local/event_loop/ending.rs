//! How a run ends: with the thread, at a stop, or waiting for people.

use std::collections::BTreeMap;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Location, Outcome, What};
use rondo_protocol::id::LanePath;
use rondo_protocol::{Value, canonical};

use super::super::thread_handle::StopKind;
use super::{Driver, Ended};
use crate::store;
use crate::thread::{Action, Ending, Input, MAX_FORMS, OpenForm, Origin, Stop};

impl<'a> Driver<'a> {
    /// Leaves the thread until a person answers.
    pub(super) async fn waiting(&self, open: Vec<OpenForm>) -> Ended {
        let listed = open.iter().take(MAX_FORMS).cloned().collect();
        let kept = self.keep_row(store::Status::Waiting, |origin| origin.forms = listed).await;
        kept.map_or_else(|fault| self.tell_stop(fault), |()| Ended::Waiting(open))
    }

    /// Reports the end, which is stored.
    pub(super) fn finished(&self, ending: Ending) -> Ended {
        let at_ms = self.stored.lock().origin.ending.as_ref().map_or(0, |stored| stored.at_ms);
        let ending = Ending { at_ms, ..ending };
        let machine = self.machine.lock();
        let finished = What::ThreadFinished {
            outcome: ending.outcome,
            head: machine.head(),
            status: machine.status().cloned(),
            reason: ending.reason.clone(),
            result: Value::clone(&ending.result),
        };
        drop(machine);
        self.parts.sink.emit_at(at_ms, finished);
        Ended::Finished(ending)
    }

    /// Leaves the thread resumable, or ends it for good if requested, with the children that wait for people.
    pub(super) async fn stopped(&'a self, fault: Fault, asleep: BTreeMap<LanePath, Vec<OpenForm>>) -> Ended {
        let kind = self.parts.stopper.kind();
        let fault = match (fault.class, kind) {
            (FaultClass::Cancelled, StopKind::Abandon) => {
                store::Error::Conflict { thread: self.parts.thread.clone() }.into()
            }
            _ => fault,
        };
        let fault = self.parts.resume_hint.with_hint(fault);
        if fault.class == FaultClass::Cancelled && kind == StopKind::ForGood {
            let mut ended = None;
            for action in self.on(Input::Cancel { at_ms: self.parts.env.now_ms() }) {
                if let Action::Commit(commit) = action {
                    ended.clone_from(&commit.ending);
                    if let (_, _, Err(error)) = self.commit(*commit).await {
                        return self.tell_stop(error.into());
                    }
                }
            }
            if let Some(ending) = ended {
                for open in asleep.into_values() {
                    self.end_child(open).await;
                }
                return self.finished(ending);
            }
        }
        if fault.class != FaultClass::Store {
            let Fault { code, class, message, hint, .. } = fault.clone();
            let stop = Stop { code: code.to_string(), class, message, hint };
            if let Err(error) = self.keep_row(store::Status::Stopped, |origin| origin.stop = Some(stop)).await {
                return self.tell_stop(error);
            }
        }
        self.tell_stop(fault)
    }

    /// Writes into the row how the run ends.
    async fn keep_row(&self, status: store::Status, changed: impl FnOnce(&mut Origin)) -> Result<(), Fault> {
        let row = {
            let mut stored = self.stored.lock();
            changed(&mut stored.origin);
            stored.row.status = status;
            let unwritable = |error: canonical::Error| {
                Fault::new(Code::StoreRefused, FaultClass::Store, format!("the thread's row: {error}"))
            };
            stored.row.origin = stored.origin.to_bytes().map_err(unwritable)?;
            stored.row.version += 1;
            stored.row.clone()
        };
        let commit = store::Commit::of_row(self.parts.thread.clone(), row);
        Ok(self.parts.store.commit(commit).await?)
    }

    fn tell_stop(&self, fault: Fault) -> Ended {
        let visit =
            self.machine.lock().visiting().first().map(|(lane, dispatch)| (lane.clone(), dispatch.role.clone()));
        let visit = visit.map(|(lane, role)| {
            let before = self.machine.lock().lane(&lane).map_or(0, |lane| lane.visits(&role));
            (role, before + 1)
        });
        let (role, visit) = visit.unzip();
        let place = Location::Thread { thread: self.parts.thread.clone(), role, visit };
        let (code, message, hint) = (fault.code.to_string(), fault.message.clone(), fault.hint.clone());
        self.parts.sink.emit(What::Error { code, message, hint, place: Some(place) });
        Ended::Stopped(fault)
    }
}

/// The row status for an outcome.
pub fn status(outcome: Outcome) -> store::Status {
    match outcome {
        Outcome::Done => store::Status::Done,
        Outcome::Failed => store::Status::Failed,
        Outcome::Cancelled => store::Status::Cancelled,
    }
}
