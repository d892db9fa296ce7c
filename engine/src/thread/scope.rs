//! What a template sees of a thread.

use rondo_agent_kit::history::Episode;
use rondo_protocol::Value;
use rondo_protocol::workflow::template::{Found, Scope, View};

use super::{State, Visited};

/// The scope of the edges that leave a thread's last step.
pub struct ThreadScope<'a> {
    state: &'a State,
}

impl<'a> ThreadScope<'a> {
    /// What templates see after `state`'s last step.
    pub fn new(state: &'a State) -> Self {
        Self { state }
    }

    fn step<'s>(&'s self, path: &[&str]) -> Found<'s> {
        let Some(role) = path.get(1) else { return Found::none(1) };
        let Some(visited) = self.state.roles.get(*role) else { return Found::none(2) };
        let latest = &*visited.latest;
        match path.get(2).copied() {
            Some("output") => Found::new(&latest.output, 3),
            Some("body") => Found::new(latest.body.as_str(), 3),
            Some("prompt") => Found::new(latest.prompt.as_str(), 3),
            Some("status") => Found::new(latest.status.as_str(), 3),
            Some("visits") => Found::new(Value::from(visited.visits), 3),
            Some("all") => Found::new(all(visited), 3),
            Some(_) => Found::none(3),
            None => Found::new(whole(visited), 2),
        }
    }
}

impl Scope for ThreadScope<'_> {
    fn find<'s>(&'s self, path: &[&str]) -> Found<'s> {
        let last = self.state.last.as_ref().map(|last| &*last.episode);
        match (path.first().copied(), last) {
            (Some("input"), _) => Found::new(&*self.state.input, 1),
            (Some("steps"), _) => self.step(path),
            (Some("output"), Some(last)) => Found::new(&last.output, 1),
            (Some("body"), Some(last)) => Found::new(last.body.as_str(), 1),
            (Some("status"), Some(last)) => Found::new(last.status.as_str(), 1),
            _ => Found { view: View::none(), used: 1 },
        }
    }

    fn has_run(&self, role: &str) -> bool {
        self.state.roles.contains_key(role)
    }
}

fn all(visited: &Visited) -> Value {
    Value::List(visited.all.iter().zip(1..).map(|(episode, visit)| one(episode, visit)).collect())
}

fn whole(visited: &Visited) -> Value {
    let mut value = one(&visited.latest, visited.visits);
    if let Value::Object(members) = &mut value {
        members.insert("visits".to_owned(), Value::from(visited.visits));
    }
    value
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
