//! Collects what hooks did in one visit, for the step's note.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rondo_protocol::Value;
use rondo_protocol::call::{CallKind, Site};
use rondo_protocol::event::What;
use rondo_protocol::object::{HookAnswer, HookNote};
use tokio::sync::watch;

use super::sink::Sink;
use super::visit::visit_of;
use crate::hook::ShortCircuit;

/// The answers that hooks gave in one visit. Concurrent calls share it.
#[derive(Debug, Default)]
pub(super) struct HookNotes {
    answered: Mutex<BTreeMap<String, Vec<HookAnswer>>>,
    /// How many tools have started an effect and have not ended.
    effects: watch::Sender<usize>,
}

/// Marks a tool as having started an effect, until it is dropped.
pub(super) struct Effect<'n>(&'n HookNotes);

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        self.0.effects.send_modify(|effects| *effects -= 1);
    }
}

impl HookNotes {
    /// Registers a tool that starts an effect.
    pub(super) fn effect(&self) -> Effect<'_> {
        self.effects.send_modify(|effects| *effects += 1);
        Effect(self)
    }

    /// Whether a tool has started an effect and has not ended.
    pub(super) fn has_effect_under_way(&self) -> bool {
        *self.effects.borrow() > 0
    }

    /// Waits until no effect is in progress.
    pub(super) async fn no_effect_under_way(&self) {
        // The sender is this one's own.
        let _ = self.effects.subscribe().wait_for(|effects| *effects == 0).await;
    }

    /// Records an answer that a hook gave in place of a port, and emits its event.
    pub(super) fn answered(&self, sink: &Sink, site: &Site, at: CallKind, node: &str, short_circuit: ShortCircuit) {
        let ShortCircuit { key, saved_usd, saved, attempts: _ } = short_circuit;
        sink.offer(|| {
            let (visit, node, key) = (visit_of(site), node.to_owned(), key.clone());
            What::HookAnswered { visit, node, key, saved_usd }
        });
        let answer = HookAnswer { at, position: site.position, key, saved_usd, saved };
        self.answered.lock().entry(node.to_owned()).or_default().push(answer);
    }

    /// The notes, with each node's metrics of the visit.
    pub(super) fn into_notes(self, metrics: Vec<(String, Value)>) -> Vec<HookNote> {
        let mut notes: BTreeMap<String, HookNote> = BTreeMap::new();
        for (node, mut answers) in self.answered.into_inner() {
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
