//! What one visit came to, in figures.

use rondo_protocol::Value;

use super::choice::Refusal;
use crate::hook::kinds::cache::explain::{HIT, TOLD_MAX};
use crate::hook::kinds::cache::{Key, Missing};

/// How a lookup ended, or why there was none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Hit,
    /// It would have been answered.
    WouldHit,
    /// It would have been answered, and the tool now says something else.
    Mismatch,
    /// There was nothing to answer it with.
    Missing(&'static str),
    /// Its time was up.
    Expired,
    /// What was seen has changed.
    Changed,
    /// Nothing was looked up, because of the run's flag.
    NotAsked,
    /// Its result is not kept.
    Refused(Refusal),
}

impl Outcome {
    /// That of a lookup that found nothing.
    pub fn of(missing: &Missing) -> Self {
        match missing {
            Missing::Expired => Self::Expired,
            missing => Self::Missing(missing.words()),
        }
    }

    /// Whether something was looked up and not found.
    pub fn is_miss(&self) -> bool {
        matches!(self, Self::Missing(_) | Self::Expired | Self::Changed)
    }

    fn words(&self) -> String {
        match self {
            Self::Hit => HIT.to_owned(),
            Self::WouldHit => "would hit".to_owned(),
            Self::Mismatch => "mismatch".to_owned(),
            Self::Missing(words) => (*words).to_owned(),
            Self::Expired => Missing::Expired.words().to_owned(),
            Self::Changed => "changed".to_owned(),
            Self::NotAsked => "not looked up".to_owned(),
            Self::Refused(refusal) => format!("refused because {}", refusal.why()),
        }
    }
}

/// What one visit came to.
#[derive(Debug, Default)]
pub struct Visit {
    observed: u64,
    would_hits: u64,
    recorded: u64,
    hits: u64,
    misses: u64,
    expired: u64,
    changed: u64,
    mismatches: u64,
    would_hit_details: Vec<(String, Key)>,
    calls: Vec<Told>,
}

#[derive(Debug)]
struct Told {
    position: u32,
    tool: String,
    key: Option<Key>,
    outcome: Outcome,
}

/// What a cache holds and has let go.
#[derive(Debug, Clone, Copy, Default)]
pub struct Holding {
    /// Entries that went because a ceiling was reached.
    pub evicted: u64,
    /// Entries.
    pub entries: u64,
    /// What they take.
    pub bytes: u64,
}

impl Visit {
    /// A call came.
    pub fn observed(&mut self) {
        self.observed += 1;
    }

    /// A result was kept.
    pub fn recorded(&mut self) {
        self.recorded += 1;
    }

    /// A call's lookup has ended, or there was none.
    pub fn told(&mut self, position: u32, tool: &str, key: Option<Key>, outcome: Outcome) {
        self.hits += u64::from(outcome == Outcome::Hit);
        self.misses += u64::from(outcome.is_miss());
        self.expired += u64::from(outcome == Outcome::Expired);
        self.changed += u64::from(outcome == Outcome::Changed);
        self.mismatches += u64::from(outcome == Outcome::Mismatch);
        if let (Outcome::WouldHit | Outcome::Mismatch, Some(key)) = (&outcome, key) {
            self.would_hits += 1;
            if self.would_hit_details.len() < TOLD_MAX {
                self.would_hit_details.push((tool.to_owned(), key));
            }
        }
        if self.calls.len() < TOLD_MAX {
            self.calls.push(Told { position, tool: tool.to_owned(), key, outcome });
        }
    }

    /// The result of a call that was told of turned out to be one that is not kept. What its lookup counted stays.
    pub fn refused(&mut self, position: u32, refusal: Refusal) {
        if let Some(told) = self.calls.iter_mut().rev().find(|told| told.position == position) {
            told.outcome = Outcome::Refused(refusal);
        }
    }

    /// The figures, as an object.
    pub fn metrics(mut self, holding: Holding) -> Value {
        let detail = |(tool, key): (String, Key)| {
            Value::from_iter([("tool", Value::from(tool)), ("key", Value::from(key.to_string()))])
        };
        let call = |told: Told| {
            Value::from_iter([
                ("position", Value::from(u64::from(told.position))),
                ("tool", Value::from(told.tool)),
                ("key", told.key.map(|key| Value::from(key.to_string())).unwrap_or_default()),
                ("outcome", Value::from(told.outcome.words())),
            ])
        };
        self.calls.sort_by_key(|told| told.position);
        Value::from_iter([
            ("observed_calls", Value::from(self.observed)),
            ("would_hit_count", Value::from(self.would_hits)),
            ("would_hit_details", Value::List(self.would_hit_details.into_iter().map(detail).collect())),
            ("recorded_count", Value::from(self.recorded)),
            ("hits", Value::from(self.hits)),
            ("misses", Value::from(self.misses)),
            ("expired", Value::from(self.expired)),
            ("evicted", Value::from(holding.evicted)),
            ("entries", Value::from(holding.entries)),
            ("bytes", Value::from(holding.bytes)),
            ("changed", Value::from(self.changed)),
            ("mismatches", Value::from(self.mismatches)),
            ("calls", Value::List(self.calls.into_iter().map(call).collect())),
        ])
    }
}
