//! Which steps of a thread `show` and `messages` print: the same options with the same meaning in both.
//!
//! A filter holds no steps: the last ones that match are found by reading backwards, so that a long thread is shown in
//! constant memory.

use std::ops::RangeInclusive;

use rondo::core::local::VisitInFlight;
use rondo::protocol::diagnostic::{Code, did_you_mean};
use rondo::protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo::protocol::object::Record;
use rondo::protocol::workflow::Workflow;
use rondo::store::{Read, StoredRecord};

use super::Failure;

const PAGE: u64 = 256;

#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct FilterArgs {
    /// Only steps of this role
    #[arg(long)]
    pub role: Option<String>,
    /// Only steps in this lane, such as `reviewer[2]`, or within it; `--lane ""` is the trunk alone
    #[arg(long)]
    pub lane: Option<String>,
    /// Only steps that ended with this status
    #[arg(long)]
    status: Option<String>,
    /// Only steps with this text in their prompt or answer, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Only steps with these numbers, such as 7, 5..9 (both included), 5.. or ..9
    #[arg(long, value_name = "A..B", value_parser = seqs)]
    steps: Option<RangeInclusive<u64>>,
    /// Only this many of the last
    #[arg(short = 'n', value_name = "COUNT")]
    newest: Option<u64>,
}

fn seqs(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str, absent| if text.is_empty() { absent } else { text.parse().ok() };
    let (from, to) = match text.split_once("..") {
        None => (number(text, None), number(text, None)),
        Some((from, to)) => (number(from, Some(1)), number(to, Some(u64::MAX))),
    };
    let wrong = "write a number or two with `..` between them, such as 7, 5..9 or 5..";
    match from.zip(to).ok_or(wrong)? {
        (0, _) => Err("steps are counted from 1".to_owned()),
        (from, to) if from > to => Err(format!("{from} is after {to}")),
        (from, to) => Ok(from..=to),
    }
}

impl FilterArgs {
    /// The thread of a word such as `last:3`, and the filter for its step.
    pub fn of_word<'w>(&self, word: &'w str) -> (&'w str, Self) {
        let named = word.rsplit_once(':').and_then(|(thread, steps)| Some((thread, seqs(steps).ok()?)));
        match named.filter(|_| self.steps.is_none()) {
            Some((thread, steps)) => (thread, Self { steps: Some(steps), ..self.clone() }),
            None => (word, self.clone()),
        }
    }

    /// Checks the options against the thread's workflow.
    pub fn read(&self, thread: &ThreadId, workflow: &Workflow) -> Result<StepFilter, Failure> {
        let status = self.status.as_deref().map(Status::new).transpose();
        Ok(StepFilter {
            role: self.role.as_deref().map(|role| known_role(role, thread, workflow)).transpose()?,
            lane: self.lane()?,
            status: status.map_err(|error| unknown(error.to_string()))?,
            grep: self.grep.as_deref().map(str::to_lowercase),
            seqs: self.steps.clone().unwrap_or(1..=u64::MAX),
            newest: self.newest,
        })
    }

    pub fn lane(&self) -> Result<Option<LanePath>, Failure> {
        let lane = self.lane.as_deref().map(LanePath::new).transpose();
        lane.map_err(|error| unknown(error.to_string()))
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What no step of the thread can have.
fn unknown(what: String) -> Failure {
    Failure::new(Code::ThreadUnknown, what)
}

/// A role of the thread's workflow.
pub fn known_role(name: &str, thread: &ThreadId, workflow: &Workflow) -> Result<RoleName, Failure> {
    let role = RoleName::new(name).map_err(|error| unknown(error.to_string()))?;
    if workflow.role(role.as_str()).is_some() {
        return Ok(role);
    }
    let failure = unknown(format!("thread {thread} has no role {role}"));
    let names = workflow.roles.iter().map(|(name, _)| name.as_str());
    let meant = did_you_mean(role.as_str(), names.clone());
    Err(failure.with_hint(meant.unwrap_or_else(|| format!("its roles: {}", names.collect::<Vec<_>>().join(", ")))))
}

#[derive(Debug, Clone)]
pub struct StepFilter {
    role: Option<RoleName>,
    lane: Option<LanePath>,
    status: Option<Status>,
    /// In lower case.
    grep: Option<String>,
    seqs: RangeInclusive<u64>,
    newest: Option<u64>,
}

impl StepFilter {
    /// Whether a record is wanted, regardless of how many follow it. A rebind has neither role, lane, status nor text.
    pub fn wants(&self, stored: &StoredRecord) -> bool {
        let (role, status, texts) = match &stored.record {
            Record::Step(step) => (Some(&step.role), Some(&step.status), [step.edge.prompt.as_str(), &step.answer]),
            Record::Compaction(compaction) => (Some(&compaction.role), None, [compaction.text.as_str(), ""]),
            Record::Rebind(_) => (None, None, ["", ""]),
        };
        let lane = stored.record.lane();
        self.seqs.contains(&stored.seq)
            && self.role.as_ref().is_none_or(|wanted| role == Some(wanted))
            && self.lane.as_ref().is_none_or(|wanted| lane.is_some_and(|lane| is_within(lane, wanted)))
            && self.status.as_ref().is_none_or(|wanted| status == Some(wanted))
            && self.grep.as_ref().is_none_or(|wanted| texts.iter().any(|text| contains(text, wanted)))
    }

    /// Whether a visit that is not committed is wanted: it has no status, texts or number yet.
    pub fn wants_in_flight(&self, visit: &VisitInFlight) -> bool {
        let Self { role, lane, status, grep, seqs, newest: _ } = self;
        status.is_none()
            && grep.is_none()
            && *seqs.end() == u64::MAX
            && role.as_ref().is_none_or(|wanted| visit.role.as_ref() == Some(wanted))
            && lane.as_ref().is_none_or(|wanted| is_within(&visit.lane, wanted))
    }

    /// The numbers, up to `last`, between which all wanted steps are printed: with `-n`, from the first of the last
    /// ones. `is_counted` leaves out steps that would print nothing.
    pub fn seqs(
        &self,
        store: &dyn Read,
        thread: &ThreadId,
        last: u64,
        is_counted: &dyn Fn(&StoredRecord) -> Result<bool, Failure>,
    ) -> Result<RangeInclusive<u64>, Failure> {
        let (from, to) = (*self.seqs.start(), last.min(*self.seqs.end()));
        let Some(mut missing) = self.newest else { return Ok(from..=to) };
        let mut end = to;
        while missing > 0 && end >= from {
            let begin = end.saturating_sub(PAGE - 1).max(from);
            let found = self.matches(store, thread, begin..=end, is_counted)?;
            // The place, from the end, of the first that is printed.
            let at = usize::try_from(missing).unwrap_or(usize::MAX);
            if let Some(first) = found.len().checked_sub(at).and_then(|at| found.get(at)) {
                return Ok(*first..=to);
            }
            missing = missing.saturating_sub(found.len() as u64);
            end = begin.saturating_sub(1);
        }
        Ok(if missing == 0 { to.saturating_add(1)..=to } else { from..=to })
    }

    fn matches(
        &self,
        store: &dyn Read,
        thread: &ThreadId,
        seqs: RangeInclusive<u64>,
        is_counted: &dyn Fn(&StoredRecord) -> Result<bool, Failure>,
    ) -> Result<Vec<u64>, Failure> {
        let (mut found, mut outcome) = (Vec::new(), Ok(true));
        store.scan(thread, seqs, &mut |stored, _| {
            if self.wants(&stored) {
                outcome = is_counted(&stored);
                if matches!(outcome, Ok(true)) {
                    found.push(stored.seq);
                }
            }
            outcome.is_ok()
        })?;
        outcome.map(|_| found)
    }
}

/// Whether `lane` is `outer` or lies within it. Every lane lies within the trunk, so the trunk means only itself.
fn is_within(lane: &LanePath, outer: &LanePath) -> bool {
    if outer.is_trunk() { lane.is_trunk() } else { lane.outward().any(|lane| lane == *outer) }
}

/// Whether `text` contains `lower`, which is in lower case.
fn contains(text: &str, lower: &str) -> bool {
    text.to_lowercase().contains(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_steps_are_read_with_both_ends_or_one() {
        for (text, range) in
            [("7", 7..=7), ("5..9", 5..=9), ("5..", 5..=u64::MAX), ("..9", 1..=9), ("..", 1..=u64::MAX)]
        {
            assert_eq!(seqs(text), Ok(range), "{text}");
        }
        for text in ["", "a", "5...9", "9..5", "0", "0..3", "-1..3", "1..=3", "1.5"] {
            assert!(seqs(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_lane_means_those_within_it_and_the_trunk_itself() {
        let lane = |path: &str| LanePath::new(path).unwrap();
        assert!(is_within(&lane("a[1]"), &lane("a[1]")) && is_within(&lane("a[1]/b[0]"), &lane("a[1]")));
        assert!(!is_within(&lane("a[10]"), &lane("a[1]")) && !is_within(&lane(""), &lane("a[1]")));
        assert!(is_within(&lane(""), &lane("")) && !is_within(&lane("a[1]"), &lane("")));
    }

    #[test]
    fn letters_are_found_in_either_case() {
        assert!(contains("Gezeiten ÜBER Ebbe", "über") && contains("TIDE", "tide") && !contains("tide", "tides"));
    }
}
