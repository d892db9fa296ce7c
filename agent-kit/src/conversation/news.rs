//! The steps that are news to a role, newest first in causal order.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;

use rondo_protocol::workflow::{Context, ContextWhat};

use super::layout_v1::SHORTEST_ENTRY_BYTES;
use super::{Episode, Place, Position, Round, tells_of};

/// Puts the steps of a thread, newest first by their numbers, into causal order and leaves out what is no news.
///
/// Steps of the trunk are taken one at a time. Those of a round of lanes are all read before the first is given, but no
/// more of them are held than can be told.
pub struct News<'a, I: Iterator> {
    steps: Peekable<I>,
    context: &'a Context,
    round: Round,
    last: Option<Place>,
    /// Of one round of lanes, what was not given yet.
    held: Newest,
}

impl<'a, I: Iterator<Item = Arc<Episode>>> News<'a, I> {
    /// What of `steps` is news in `round` to a role that spoke at `last` before. They may stop at
    /// [`Place::known_up_to`] of that.
    pub fn new(context: &'a Context, round: Round, last: Option<Place>, steps: I) -> Self {
        let held = Newest::new(context);
        Self { steps: steps.peekable(), context, round, last, held }
    }

    fn is_told(&self, episode: &Episode) -> bool {
        tells_of(self.context, &episode.role) && self.round.is_news(self.last.as_ref(), &episode.place())
    }
}

impl<I: Iterator<Item = Arc<Episode>>> Iterator for News<'_, I> {
    type Item = Arc<Episode>;

    fn next(&mut self) -> Option<Arc<Episode>> {
        loop {
            if let Some(episode) = self.held.pop() {
                return Some(episode);
            }
            let episode = self.steps.next()?;
            let Some(opened_by) = episode.opened_by.first().copied() else {
                if self.is_told(&episode) {
                    return Some(episode);
                }
                continue;
            };
            // Between the step that opened lanes and their join there is nothing but their steps.
            let mut of_round = Some(episode);
            while let Some(episode) = of_round {
                if self.is_told(&episode) {
                    self.held.add(episode);
                }
                of_round = self.steps.next_if(|next| next.opened_by.first() == Some(&opened_by));
            }
        }
    }
}

/// The newest episodes in causal order, as many as can be told and one more, by which it is seen that some are left out.
struct Newest {
    ceiling: usize,
    with_bodies: bool,
    held: BTreeMap<Position, Arc<Episode>>,
    /// What they take at least.
    bytes: usize,
}

impl Newest {
    fn new(context: &Context) -> Self {
        let ceiling = usize::try_from(context.max_bytes).unwrap_or(usize::MAX);
        Self { ceiling, with_bodies: context.what == ContextWhat::Bodies, held: BTreeMap::new(), bytes: 0 }
    }

    fn least_bytes(&self, episode: &Episode) -> usize {
        let body = if self.with_bodies { episode.body.len().min(self.ceiling) } else { 0 };
        body.saturating_add(SHORTEST_ENTRY_BYTES)
    }

    fn add(&mut self, episode: Arc<Episode>) {
        self.bytes = self.bytes.saturating_add(self.least_bytes(&episode));
        self.held.insert(episode.place().position(), episode);
        while let Some(oldest) = self.held.first_key_value().map(|(_, oldest)| self.least_bytes(oldest)) {
            if self.held.len() <= 2 || self.bytes.saturating_sub(oldest) <= self.ceiling {
                break;
            }
            self.held.pop_first();
            self.bytes = self.bytes.saturating_sub(oldest);
        }
    }

    fn pop(&mut self) -> Option<Arc<Episode>> {
        let (_, newest) = self.held.pop_last()?;
        self.bytes = self.bytes.saturating_sub(self.least_bytes(&newest));
        Some(newest)
    }
}
