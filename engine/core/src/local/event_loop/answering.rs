//! The forms of a run: opened, answered, expired.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future;
use rondo_protocol::call::{Fault, FaultClass, Site};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::What;
use rondo_protocol::id::LanePath;

use super::super::child;
use super::super::forms::{self, PersonAnswer, PersonSaid};
use super::{Driver, Parts, RunState, unknown_role};
use crate::thread::{Input, OpenForm, Visit};

impl Driver<'_> {
    /// Whether an answer is for a form of this thread itself.
    pub(super) fn is_own(&self, answer: &PersonAnswer) -> bool {
        answer.thread.as_ref().is_none_or(|of| *of == self.parts.thread)
    }

    /// The answer that is for a form of the child in `lane`, or below it.
    pub(super) fn answer_of_child(&self, lane: &LanePath) -> Result<Option<PersonAnswer>, Fault> {
        let Parts { store, thread, .. } = self.parts;
        let Some(of) = self.answer.lock().as_ref().and_then(|answer| answer.thread.clone()) else { return Ok(None) };
        let child = child::child_of(&**store, thread, &of)?;
        Ok(self.answer.lock().take_if(|_| child.is_some_and(|(_, its_lane)| its_lane == *lane)))
    }

    /// Whether the script of this run answers a form.
    pub(super) fn is_scripted(&self, visit: &Visit) -> bool {
        let site = self.site(visit);
        self.parts.run_config.script.as_ref().is_some_and(|script| script.has(&site, visit.attempts))
    }

    pub(super) fn site(&self, visit: &Visit) -> Site {
        Site {
            thread: self.parts.thread.clone(),
            role: visit.role.clone(),
            lane: visit.lane.clone(),
            visit: visit.visit,
            position: 0,
        }
    }

    /// Opens a form, and reports it if no durable event of this run did.
    pub(super) fn open_form(&self, run: &mut RunState<'_>, visit: &Visit) {
        let Some(open) = self.machine.lock().open_form(&visit.lane) else { return };
        if !run.announced.contains(&visit.lane) {
            self.announce(&open);
        }
        run.forms.insert(visit.lane.clone(), open);
    }

    /// Reports a form of this thread.
    pub(super) fn announce(&self, OpenForm { visit, form, .. }: &OpenForm) {
        self.parts.sink.emit_again(What::waiting(&self.parts.thread, visit.clone(), form.clone()));
    }

    /// Ends the visit that a person's answer is for; stops if the form that they were shown is not open.
    pub(super) fn answer(&self, run: &mut RunState<'_>, answer: PersonAnswer) {
        let PersonAnswer { visit, form: shown, said, by, .. } = answer;
        let PersonSaid::Form(mut form) = said else { return };
        let lane = visit.lane.clone();
        let (thread, now_ms) = (&self.parts.thread, self.parts.env.now_ms());
        let is_open = run.forms.get(&lane).is_some_and(|open| open.takes(shown, thread, now_ms));
        let read = if is_open {
            let redactor = self.parts.redactors.model(&visit.role);
            redactor.value(&mut form.fields);
            redactor.string(&mut form.body);
            let contract = self.parts.resolved_roles.body_readers.get(&visit.role);
            let contract = contract.ok_or_else(|| unknown_role(&visit.role));
            contract.and_then(|contract| forms::read(contract, &form.to_value()))
        } else {
            Err(not_open())
        };
        match read {
            Ok(answered) => {
                run.forms.remove(&lane);
                let end = forms::end(Ok(answered), Some(by), now_ms);
                run.actions.extend(self.on(Input::Ended { lane, end: Box::new(end) }));
            }
            Err(fault) => self.stop(run, fault),
        }
    }

    /// Ends the visits whose forms have expired; `false` if none has.
    pub(super) fn expire(&self, run: &mut RunState<'_>) -> bool {
        let now_ms = self.parts.env.now_ms();
        let is_over = |open: &OpenForm| open.expires_at_ms().is_some_and(|at| at <= now_ms);
        let Some(lane) = run.forms.iter().find(|(_, open)| is_over(open)).map(|(lane, _)| lane.clone()) else {
            return false;
        };
        if let Some(open) = run.forms.remove(&lane) {
            let end = forms::end(Err(forms::expired(&open)), None, now_ms);
            run.actions.extend(self.on(Input::Ended { lane, end: Box::new(end) }));
        }
        true
    }

    pub(super) async fn until_expiry(&self, open: &BTreeMap<LanePath, OpenForm>) {
        let Some(at) = open.values().filter_map(OpenForm::expires_at_ms).min() else { return future::pending().await };
        tokio::time::sleep(Duration::from_millis(at.saturating_sub(self.parts.env.now_ms()))).await;
    }
}

pub(super) fn not_open() -> Fault {
    let message = "the form was answered before, or its time has passed";
    Fault::new(Code::NotWaiting, FaultClass::Denied, message)
}
