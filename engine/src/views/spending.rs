//! What model calls used.

use rondo_protocol::object::{CancelledLane, KnownCost, Usage};

use super::lines::{NoteLine, Totals};

/// Tokens and money of some model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spending {
    /// Tokens; `None` if no call has counts.
    pub usage: Option<Usage>,
    pub cost: KnownCost,
}

impl std::ops::AddAssign for Spending {
    fn add_assign(&mut self, other: Self) {
        if let Some(usage) = other.usage {
            *self.usage.get_or_insert_default() += usage;
        }
        self.cost += other.cost;
    }
}

impl Spending {
    pub fn of_call(usage: Option<Usage>, cost_usd: Option<f64>) -> Self {
        Self { usage, cost: KnownCost::of_call(cost_usd) }
    }
}

impl From<&Totals> for Spending {
    fn from(totals: &Totals) -> Self {
        Self { usage: Some(totals.usage()), cost: totals.cost }
    }
}

impl From<&NoteLine> for Spending {
    fn from(note: &NoteLine) -> Self {
        Self { usage: note.usage, cost: note.cost }
    }
}

impl From<&CancelledLane> for Spending {
    fn from(lost: &CancelledLane) -> Self {
        Self { usage: lost.usage, cost: lost.cost() }
    }
}
