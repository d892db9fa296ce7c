//! What hooks did in one visit, on its way into the step's note.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rondo_protocol::Value;
use rondo_protocol::call::{CallKind, Site};
use rondo_protocol::event::What;
use rondo_protocol::object::{HookAnswer, HookNote};

use super::sink::Sink;
use super::worker::visit_of;
use crate::hook::Instead;

/// The answers that hooks gave in one visit. Calls side by side share it.
#[derive(Debug, Default)]
pub(super) struct Noted {
    answered: Mutex<BTreeMap<String, Vec<HookAnswer>>>,
}

impl Noted {
    /// Takes note of an answer that a hook gave in place of a port, and tells of it.
    pub(super) async fn answered(&self, sink: &Sink, site: &Site, at: CallKind, node: &str, instead: Instead) {
        let Instead { key, saved_usd, saved, attempts: _ } = instead;
        let event = What::HookAnswered { visit: visit_of(site), node: node.to_owned(), key: key.clone(), saved_usd };
        sink.emit(event).await;
        let answer = HookAnswer { at, position: site.position, key, saved_usd, saved };
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.entry(node.to_owned()).or_default().push(answer);
    }

    /// The notes, with what each node says of the visit.
    pub(super) fn into_notes(self, metrics: Vec<(String, Value)>) -> Vec<HookNote> {
        let answered = self.answered.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut notes: BTreeMap<String, HookNote> = BTreeMap::new();
        for (node, mut answers) in answered {
            answers.sort_by_key(|answer| answer.position);
            notes.entry(node).or_default().answered = answers;
        }
        for (node, metrics) in metrics {
            notes.entry(node).or_default().metrics = metrics;
        }
        for (node, note) in &mut notes {
            note.node.clone_from(node);
        }
        notes.into_values().collect()
    }
}
