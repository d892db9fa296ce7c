//! Finds the part of the workflow that caused a difference, and names the cause in an author's words. Scripts may rely
//! on the phrases; one that also breaks a prefix has the phrase of [`prefix::Cause`].
//!
//! The accepted run holds a digest of each part ([`super::parts`]), so the changed parts are known. The cause is the
//! nearest of them that can affect the place that differs. If there is none, the cause is rondo's own layout of
//! messages.

use rondo_agent_kit::prefix;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Speaker;
use rondo_protocol::workflow::History;

use super::compare::Comparer;
use super::parts::is_within;
use super::snapshot::{RouteStep, RunTrace};
use crate::role_of;

/// What differs.
#[derive(Debug, Clone, PartialEq)]
pub enum At {
    Model,
    Parameters,
    /// A tool that they offer.
    Tool(String),
    ResponseFormat,
    System,
    Message {
        speaker: Speaker,
        opens: Option<u64>,
    },
    Requests,
    Route,
    Outcome,
    Reason,
    Result,
    Said,
}

impl At {
    /// Whether it precedes every message, so that no step and no answer can affect it.
    fn is_of_head(&self) -> bool {
        matches!(self, Self::Model | Self::Parameters | Self::Tool(_) | Self::ResponseFormat | Self::System)
    }
}

/// A part of a definition that may affect a place.
enum Suspect {
    /// This part, or one within it.
    Part(String),
    /// A part of the edges of one status, or of all edges, whose path ends in one of these words.
    Edges(String, &'static [&'static str]),
    /// A part with this name, of any role.
    OfRoles(&'static str),
}

/// The keys that decide where an edge leads.
const DIRECTIONS: [&str; 4] = ["to", "when", "max", "per"];

impl Suspect {
    fn is(&self, path: &str) -> bool {
        let tail = path.rsplit('.').next().unwrap_or_default();
        match self {
            Self::Part(part) => is_within(path, part),
            Self::Edges(place, tails) => is_within(path, place) && tails.contains(&tail),
            Self::OfRoles(name) => path.starts_with("roles.") && path.split('.').nth(2) == Some(*name),
        }
    }
}

impl Comparer<'_> {
    /// The cause of a difference at `at` in a visit of a role in a lane (or in the course), and the responsible part.
    /// `broke` is the result of comparing the two requests alone.
    pub fn explain(
        &self,
        visited: Option<(&RoleName, &LanePath, u64)>,
        at: &At,
        broke: Option<prefix::Cause>,
    ) -> (&'static str, Option<String>) {
        let mut suspects = Vec::new();
        let visited = visited.map(|(role, lane, visit)| (role, lane.role_in_lane(role), visit));
        let seat = visited.as_ref().map(|(_, seat, visit)| (seat.as_str(), *visit));
        if let Some(step) = self.diverged().filter(|step| self.is_before(*step, seat, at)) {
            suspects.extend(self.where_diverged(step));
        }
        if let Some((role, seat, _)) = &visited {
            suspects.extend(self.of_request((role, seat), at, broke));
        }
        suspects.extend(self.of_course(at));
        if !at.is_of_head() {
            suspects.extend(everywhere());
        }
        let Some(changed) = &self.changed else {
            // Without an accepted course the nearest suspect would be a guess, so the place itself is reported.
            let part = suspects.into_iter().find_map(|suspect| match suspect {
                Suspect::Part(part) => Some(part),
                _ => None,
            });
            let cause = broke.map_or_else(|| cause_of_place(at), prefix::Cause::phrase);
            return (cause, part.filter(|_| visited.is_some()));
        };
        let found = suspects.iter().find_map(|suspect| changed.iter().find(|path| suspect.is(path)));
        match found {
            Some(path) => (self.cause_of_part(path, at, broke), Some(path.clone())),
            None => ("message layout", None),
        }
    }

    /// The likely cause of a scenario that cannot be run: its answers depend on the contracts of the workflow, and its
    /// input on what the workflow asks for.
    pub fn unplayed(&self) -> Option<(&'static str, &str)> {
        let changed = self.changed.as_ref()?;
        let suspects = [Suspect::OfRoles("output"), part("input")];
        let suspected = suspects.iter().find_map(|suspect| changed.iter().find(|path| suspect.is(path)));
        let path = suspected.or_else(|| changed.first())?;
        Some((self.cause_of_part(path, &At::Outcome, None), path))
    }

    fn diverged(&self) -> Option<usize> {
        let (old, new) = (&self.old?.route, &self.new.route);
        let common = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        (common < old.len() || common < new.len()).then_some(common)
    }

    /// Whether the routes diverged at or before the place.
    fn is_before(&self, step: usize, visited: Option<(&str, u64)>, at: &At) -> bool {
        let Some((seat, visit)) = visited else { return true };
        if at.is_of_head() {
            return false;
        }
        let Some((reached, _)) = self.step_of(seat, visit) else { return true };
        // A message of the diverging step precedes its status, unless the step was entered by another edge.
        let edge = |trace: &'_ RunTrace| trace.route.get(step).map(|stop| stop.edge.clone());
        step < reached || (step == reached && self.old.and_then(edge) != edge(self.new))
    }

    /// The parts that may have changed the route at a step.
    fn where_diverged(&self, step: usize) -> Vec<Suspect> {
        let before = step.checked_sub(1).and_then(|before| self.new.route.get(before));
        let place = before.map_or_else(|| "graph.start".to_owned(), |stop| format!("graph.{}", of_role(&stop.step)));
        let mut suspects = vec![Suspect::Edges(place, &DIRECTIONS)];
        let step = self.new.route.get(step).map(|stop| of_role(&stop.step));
        if let Some((role, _)) = step.as_ref().and_then(|step| step.split_once('.')) {
            suspects.push(part(&format!("roles.{role}.output")));
        }
        suspects.push(Suspect::Edges("graph".to_owned(), &DIRECTIONS));
        suspects
    }

    fn of_request(&self, (role, seat): (&RoleName, &str), at: &At, broke: Option<prefix::Cause>) -> Vec<Suspect> {
        let own = |name: &str| part(&format!("roles.{role}.{name}"));
        let model = self.definition.checked.workflow.role(role.as_str()).and_then(|role| role.kind.model());
        let model = model.map_or("", |model| model.model.as_str());
        match at {
            // The scenario's answers also decide whether a request is sent to a fallback.
            At::Model | At::Parameters => {
                let nearest = part(&format!("models.{model}{}", if *at == At::Model { ".model" } else { "" }));
                vec![
                    own("model"),
                    nearest,
                    own("fallback"),
                    own("retry"),
                    own("limits"),
                    part("models"),
                    part("scenario"),
                ]
            }
            At::Tool(name) => {
                let name = name.replace("__", ".");
                vec![own("tools"), part(&format!("tools.{name}")), part("tools")]
            }
            At::ResponseFormat => vec![own("output"), own("format")],
            At::System if broke == Some(prefix::Cause::SchemaChanged) => {
                vec![own("output"), own("format"), own("system")]
            }
            At::System => vec![own("system"), own("output"), own("format")],
            At::Message { speaker: Speaker::User, opens } => {
                let step = opens.and_then(|visit| self.step_of(seat, visit));
                let prompt = step.map(|(_, step)| part(&format!("{}.prompt", step.edge)));
                let mut nearest: Vec<Suspect> = prompt.into_iter().chain([own("context")]).collect();
                if broke.is_some_and(is_of_summary) {
                    nearest.reverse();
                }
                nearest.into_iter().chain([own("history"), own("output"), own("format")]).collect()
            }
            At::Message { speaker: Speaker::Assistant, .. } | At::Requests => {
                vec![own("history"), own("format"), own("output"), own("tools")]
            }
            At::Message { speaker: Speaker::Tool, .. } => {
                vec![part("scenario.tools"), part("scenario.workspace"), part("tools"), own("history"), own("tools")]
            }
            At::Route | At::Outcome | At::Reason | At::Result | At::Said => Vec::new(),
        }
    }

    /// The step of a visit in the new route, with its index.
    fn step_of(&self, seat: &str, visit: u64) -> Option<(usize, &RouteStep)> {
        let is_own = |step: &str| step.split_once('.').is_some_and(|(name, _)| name == seat);
        let at = usize::try_from(visit.checked_sub(1)?).ok()?;
        self.new.route.iter().enumerate().filter(|(_, step)| is_own(&step.step)).nth(at)
    }

    fn of_course(&self, at: &At) -> Vec<Suspect> {
        let end = |name: &str| self.new.end.as_ref().map(|edge| part(&format!("{edge}.{name}"))).into_iter();
        match at {
            At::Reason => end("reason").collect(),
            At::Result => end("result").chain([part("result")]).collect(),
            At::Said => vec![Suspect::Edges("graph".to_owned(), &["say"])],
            // A run also stops if a text of the workflow cannot be rendered.
            At::Outcome => vec![
                Suspect::Edges("graph".to_owned(), &DIRECTIONS),
                Suspect::Edges("graph".to_owned(), &["result", "reason", "say"]),
                part("result"),
            ],
            _ => Vec::new(),
        }
    }

    /// The cause for a changed part, more exact if the comparison of the requests agrees with it.
    fn cause_of_part(&self, path: &str, at: &At, broke: Option<prefix::Cause>) -> &'static str {
        use prefix::Cause as Of;
        let broke_as =
            |fits: fn(Of) -> bool, otherwise: Of| broke.filter(|cause| fits(*cause)).unwrap_or(otherwise).phrase();
        let mut names = path.split('.');
        let (group, name, part) = (names.next(), names.next().unwrap_or_default(), names.next().unwrap_or_default());
        let tail = path.rsplit('.').next().unwrap_or_default();
        match (group, part, tail) {
            (Some("roles"), "system", _) => broke_as(
                |cause| matches!(cause, Of::SystemTextChanged | Of::VolatileInSystem(_)),
                Of::SystemTextChanged,
            ),
            (Some("roles"), "output", _) => Of::SchemaChanged.phrase(),
            (Some("roles"), "format", _) => "answer format changed",
            (Some("roles"), "history", _) if self.is_fresh(name) => Of::HistoryNone.phrase(),
            (Some("roles"), "history", _) => "history changed",
            (Some("roles"), "context", _) => broke_as(is_of_summary, Of::SummaryChanged),
            (Some("roles"), "tools" | "tool", _) | (Some("tools"), ..) => {
                broke_as(|cause| matches!(cause, Of::ToolAdded | Of::ToolRemoved | Of::ToolChanged), Of::ToolChanged)
            }
            (Some("roles"), "args", _) => Of::PromptChanged.phrase(),
            (Some("roles"), "model", _) if *at == At::Parameters => "parameters changed",
            (Some("roles" | "models"), "model", _) => Of::ModelChanged.phrase(),
            (Some("models"), ..) => "parameters changed",
            (Some("roles"), "fallback", _) => "fallback changed",
            (Some("roles" | "limits"), ..) => "limit changed",
            (Some("graph"), _, "prompt") => {
                broke_as(|cause| matches!(cause, Of::PromptChanged | Of::VolatileInPrompt(_)), Of::PromptChanged)
            }
            (Some("graph"), _, "result") | (Some("result"), ..) => "result changed",
            (Some("graph"), _, "reason") => "reason changed",
            (Some("graph"), _, "say") => "line for the user changed",
            (Some("graph"), ..) => "edge moved",
            (Some("hooks"), ..) => "hook changed",
            (Some("input"), ..) => "input changed",
            (Some("scenario"), ..) => match name {
                "script" => "script changed",
                "recorded" => "recording changed",
                "tools" => "canned results changed",
                "workspace" => "workspace changed",
                _ => "input changed",
            },
            _ => cause_of_place(at),
        }
    }

    fn is_fresh(&self, role: &str) -> bool {
        let model = self.definition.checked.workflow.role(role).and_then(|role| role.kind.model());
        model.is_some_and(|model| model.history == History::None)
    }
}

fn part(path: &str) -> Suspect {
    Suspect::Part(path.to_owned())
}

/// A step of a route as `role.status`, without its lane.
fn of_role(step: &str) -> String {
    let (seat, status) = step.split_once('.').unwrap_or((step, ""));
    format!("{}.{status}", role_of(seat))
}

fn is_of_summary(cause: prefix::Cause) -> bool {
    use prefix::Cause as Of;
    matches!(cause, Of::SummaryChanged | Of::SummaryOrderChanged | Of::SummaryCutChanged)
}

/// Parts that may affect any message and the course: inputs, the scenario's values, how answers are read, and prompts.
fn everywhere() -> impl Iterator<Item = Suspect> {
    // What a scenario does not provide comes from the workflow, whose change is then the cause.
    let given = ["scenario.script", "scenario.recorded", "scenario.tools", "input", "scenario"].map(part);
    let roles =
        ["output", "format", "args", "tool", "retry", "limits", "fallback", "history", "tools"].map(Suspect::OfRoles);
    let edges = [&DIRECTIONS[..], &["prompt"]].map(|tails| Suspect::Edges("graph".to_owned(), tails));
    given.into_iter().chain(roles).chain(["limits", "hooks"].map(part)).chain(edges)
}

fn cause_of_place(at: &At) -> &'static str {
    match at {
        At::Model => prefix::Cause::ModelChanged.phrase(),
        At::Parameters => "parameters changed",
        At::Tool(_) => prefix::Cause::ToolChanged.phrase(),
        At::ResponseFormat => prefix::Cause::SchemaChanged.phrase(),
        At::System => prefix::Cause::SystemTextChanged.phrase(),
        At::Message { .. } => prefix::Cause::PromptChanged.phrase(),
        At::Requests | At::Route | At::Outcome => "edge moved",
        At::Reason => "reason changed",
        At::Result => "result changed",
        At::Said => "line for the user changed",
    }
}
