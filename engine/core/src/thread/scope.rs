//! The values that a template can read in a lane.

use std::cell::RefCell;
use std::sync::Arc;

use rondo_agent_kit::conversation::Episode;
use rondo_protocol::Value;
use rondo_protocol::call::Fault;
use rondo_protocol::workflow::template::{Lookup, Scope, View};

use super::fan::{Branches, Fan};
use super::lane::{Lane, Last, VisibleVisits};
use super::recall::StepLookup;
use super::route::Decided;

/// The data that every scope of a thread reads.
#[derive(Clone, Copy)]
pub struct DecisionInput<'a> {
    /// The input, an object.
    pub input: &'a Value,
    /// Earlier steps.
    pub recall: &'a dyn StepLookup,
    /// The step being committed, which cannot be recalled yet.
    pub fresh: Option<&'a Arc<Episode>>,
}

impl DecisionInput<'_> {
    /// The step with a number.
    pub fn episode(&self, seq: u64) -> Result<Arc<Episode>, Fault> {
        match self.fresh {
            Some(fresh) if fresh.seq == seq => Ok(Arc::clone(fresh)),
            _ => self.recall.episode(seq),
        }
    }
}

/// The scope of edges from a lane's last step, or of the first prompts of lanes that it opens.
pub struct LaneScope<'a> {
    context: DecisionInput<'a>,
    lane: &'a Lane,
    last: Option<Arc<Episode>>,
    branches: Option<Branches<'a>>,
    /// A failed lookup: a scope itself can only return nothing.
    fault: RefCell<Option<Fault>>,
}

impl<'a> LaneScope<'a> {
    /// The scope of `lane` after step `last`, with the branches of a fan-out.
    pub fn new(
        context: DecisionInput<'a>,
        lane: &'a Lane,
        last: Option<&Last>,
        joined: Option<&'a Fan>,
    ) -> Decided<Self> {
        let last = last.map(|last| context.episode(last.step)).transpose()?;
        Ok(Self { context, lane, last, branches: joined.map(Fan::branches), fault: RefCell::new(None) })
    }

    /// The scope of `lane` after its own last step.
    pub fn after_last_step(context: DecisionInput<'a>, lane: &'a Lane) -> Decided<Self> {
        Self::new(context, lane, lane.last.as_ref(), lane.joined.as_deref())
    }

    pub fn lane(&self) -> &'a Lane {
        self.lane
    }

    pub fn last(&self) -> Option<&Arc<Episode>> {
        self.last.as_ref()
    }

    /// Returns `outcome`, unless a lookup has failed.
    pub fn checked<T>(&self, outcome: Decided<T>) -> Decided<T> {
        match self.fault.borrow_mut().take() {
            Some(fault) => Err(fault.into()),
            None => outcome,
        }
    }

    fn recalled<T>(&self, found: Result<T, Fault>) -> Option<T> {
        found.map_err(|fault| *self.fault.borrow_mut() = Some(fault)).ok()
    }

    fn step(&self, path: &[&str]) -> Lookup<'_> {
        let Some(role) = path.get(1) else { return Lookup::none(1) };
        let Some(seen) = self.lane.view(role) else { return Lookup::none(2) };
        let field = path.get(2).copied();
        if field == Some("visits") {
            return Lookup::new(Value::from(seen.visits), 3);
        }
        let last = self.last.as_ref().filter(|last| last.seq == seen.latest);
        match (field, last) {
            (None, _) => Lookup::new(self.whole(&seen), 2),
            // Most templates read the last step, so it is borrowed.
            (Some(field), Some(last)) => Lookup::new(view(last, field), 3),
            (Some(field), None) => match self.recalled(self.context.episode(seen.latest)) {
                Some(latest) => Lookup::new(view(&latest, field).into_value(), 3),
                None => Lookup::none(2),
            },
        }
    }

    fn whole(&self, seen: &VisibleVisits) -> Value {
        let Some(latest) = self.recalled(self.context.episode(seen.latest)) else { return Value::Null };
        let mut value = one(&latest, seen.visits);
        if let Value::Object(members) = &mut value {
            members.insert("visits".to_owned(), Value::from(seen.visits));
        }
        value
    }

    /// One visit of a role, in the list for templates.
    fn visit(&self, seq: u64, visit: u64, path: &[&str]) -> Lookup<'_> {
        let Some(episode) = self.recalled(self.context.episode(seq)) else { return Lookup::none(0) };
        match path.first().copied() {
            None => Lookup::new(one(&episode, visit), 0),
            Some("visit") => Lookup::new(Value::from(visit), 1),
            Some(field) => Lookup::new(view(&episode, field).into_value(), 1),
        }
    }

    fn element(&self, name: &str) -> Option<&Value> {
        let items = std::iter::successors(self.lane.item.as_deref(), |item| item.outer.as_deref());
        let mut named = items.filter(|item| item.name.as_ref().is_some_and(|known| known.as_str() == name));
        named.next().map(super::lane::Item::value)
    }
}

impl Scope for LaneScope<'_> {
    fn find<'s>(&'s self, path: &[&str]) -> Lookup<'s> {
        let last = self.last.as_deref();
        match (path.first().copied(), last) {
            (Some("input"), _) => Lookup::new(self.context.input, 1),
            (Some("steps"), _) => self.step(path),
            (Some(field @ ("output" | "body" | "status")), Some(last)) => Lookup::new(view(last, field), 1),
            (Some("index"), _) => {
                let index = self.lane.item.as_ref().map(|item| Value::from(u64::from(item.index)));
                Lookup::new(index.unwrap_or_default(), 1)
            }
            (Some(name), _) => self.element(name).map_or_else(|| Lookup::none(1), |value| Lookup::new(value, 1)),
            (None, _) => Lookup::none(1),
        }
    }

    fn length(&self, list: &[&str]) -> Option<usize> {
        match list {
            ["branches"] => Some(self.branches.as_ref()?.len()),
            ["steps", role, "all"] => Some(self.lane.view(role)?.all.len()),
            _ => None,
        }
    }

    fn item<'s>(&'s self, list: &[&str], index: usize, path: &[&str]) -> Lookup<'s> {
        match list {
            ["branches"] => {
                let found = self.branches.as_ref().map(|branches| branches.find(index, path, self.context));
                match found.and_then(|found| self.recalled(found)) {
                    Some(found) => Lookup::new(found.0, found.1),
                    None => Lookup::none(0),
                }
            }
            ["steps", role, "all"] => {
                let Some(seen) = self.lane.view(role) else { return Lookup::none(0) };
                let visit = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
                seen.all.get(index).map_or_else(|| Lookup::none(0), |seq| self.visit(*seq, visit, path))
            }
            _ => Lookup::none(0),
        }
    }

    fn has_run(&self, role: &str) -> bool {
        self.lane.sees(role)
    }
}

/// A field of a step by its name in templates.
fn view<'s>(step: &'s Episode, field: &str) -> View<'s> {
    match field {
        "status" => View::Text(step.status.as_str()),
        "output" => View::Value(&step.output),
        "body" => View::Text(&step.body),
        "prompt" => View::Text(&step.prompt),
        _ => View::none(),
    }
}

fn one(episode: &Episode, visit: u64) -> Value {
    Value::from_iter([
        ("status", Value::from(episode.status.as_str())),
        ("output", episode.output.clone()),
        ("body", Value::from(episode.body.as_str())),
        ("prompt", Value::from(episode.prompt.as_str())),
        ("visit", Value::from(visit)),
    ])
}
