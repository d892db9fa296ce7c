//! The metrics of one visit to a role.

use rondo_protocol::Value;
use serde::Serialize;

use super::eligibility::Refusal;
use crate::cache::explain::{HIT, LISTED_CALLS_MAX};
use crate::cache::{Key, Miss, Totals};

/// How a lookup ended, or why there was none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Hit,
    /// It would have been answered.
    WouldHit,
    /// It would have been answered, and the tool now says something else.
    Mismatch,
    /// There was nothing to answer it with.
    Missing(&'static str),
    Expired,
    Changed,
    /// Nothing was looked up, because of the run's flag.
    NotAsked,
    Refused(Refusal),
}

impl Outcome {
    /// That of a lookup that found nothing.
    pub fn of(missing: &Miss) -> Self {
        match missing {
            Miss::Expired => Self::Expired,
            missing => Self::Missing(missing.words()),
        }
    }

    /// Whether something was looked up and not found.
    pub fn is_miss(self) -> bool {
        matches!(self, Self::Missing(_) | Self::Expired | Self::Changed)
    }

    fn words(self) -> String {
        match self {
            Self::Hit => HIT.to_owned(),
            Self::WouldHit => "would hit".to_owned(),
            Self::Mismatch => "mismatch".to_owned(),
            Self::Missing(words) => words.to_owned(),
            Self::Expired => Miss::Expired.words().to_owned(),
            Self::Changed => "changed".to_owned(),
            Self::NotAsked => "not looked up".to_owned(),
            Self::Refused(refusal) => format!("refused because {refusal}"),
        }
    }
}

#[derive(Debug, Default, Serialize)]
pub struct VisitCounts {
    pub observed_calls: u64,
    would_hit_count: u64,
    would_hit_details: Vec<WouldHit>,
    pub recorded_count: u64,
    hits: u64,
    misses: u64,
    expired: u64,
    changed: u64,
    mismatches: u64,
    calls: Vec<ObservedCall>,
    #[serde(flatten)]
    totals: Totals,
}

#[derive(Debug, Serialize)]
struct WouldHit {
    tool: String,
    key: String,
}

#[derive(Debug, Serialize)]
struct ObservedCall {
    position: u32,
    tool: String,
    key: Option<String>,
    outcome: String,
}

impl VisitCounts {
    /// Records how a lookup ended, or why there was none.
    pub fn looked_up(&mut self, position: u32, tool: &str, key: Option<Key>, outcome: Outcome) {
        self.hits += u64::from(outcome == Outcome::Hit);
        self.misses += u64::from(outcome.is_miss());
        self.expired += u64::from(outcome == Outcome::Expired);
        self.changed += u64::from(outcome == Outcome::Changed);
        self.mismatches += u64::from(outcome == Outcome::Mismatch);
        let (tool, key) = (tool.to_owned(), key.map(|key| key.to_string()));
        if let (Outcome::WouldHit | Outcome::Mismatch, Some(key)) = (outcome, &key) {
            self.would_hit_count += 1;
            if self.would_hit_details.len() < LISTED_CALLS_MAX {
                self.would_hit_details.push(WouldHit { tool: tool.clone(), key: key.clone() });
            }
        }
        if self.calls.len() < LISTED_CALLS_MAX {
            self.calls.push(ObservedCall { position, tool, key, outcome: outcome.words() });
        }
    }

    /// Records that the result of a listed call is not kept. What its lookup counted stays.
    pub fn refused(&mut self, position: u32, refusal: Refusal) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.position == position) {
            call.outcome = Outcome::Refused(refusal).words();
        }
    }

    pub fn metrics(mut self, totals: Totals) -> Option<Value> {
        self.calls.sort_by_key(|call| call.position);
        Value::from_serialize(&Self { totals, ..self }).ok()
    }
}
