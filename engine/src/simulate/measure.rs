//! What a route costs: its first requests as they would be sent, counted and not kept.
//!
//! Tokens are estimated as bytes / 4 of everything that a request says: system text with the contract, tools, response
//! format, messages. A visit counts as one request; the rounds of its tools, repairs and retries come on top.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::conversation::{self, Episode, Telling};
use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::ToolSpec;
use rondo_protocol::workflow::{History, Workflow};
use serde::Serialize;

use super::answers::{BYTES_A_TOKEN, Repertoire};
use super::routes::Path;
use super::run::Run;
use super::space::{Goal, Space};
use super::walk::UNROUTED;
use crate::cast;
use crate::graph::Graph;

/// What the roles of a route, or one of them, cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Visits.
    pub visits: u64,
    /// Estimated tokens of all requests.
    pub prompt_tokens: u64,
    /// Estimated tokens of the largest request.
    pub largest_request: u64,
    /// Estimated tokens of all answers.
    pub output_tokens: u64,
}

impl Cost {
    fn add(&mut self, prompt_tokens: u64, output_tokens: u64) {
        self.visits += 1;
        self.prompt_tokens = self.prompt_tokens.saturating_add(prompt_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
        self.largest_request = self.largest_request.max(prompt_tokens);
    }

    /// The larger of each figure.
    pub(super) fn or_more(&mut self, other: Self) {
        self.visits = self.visits.max(other.visits);
        self.prompt_tokens = self.prompt_tokens.max(other.prompt_tokens);
        self.largest_request = self.largest_request.max(other.largest_request);
        self.output_tokens = self.output_tokens.max(other.output_tokens);
    }
}

/// What a route costs, role by role.
pub type Costs = BTreeMap<RoleName, Cost>;

/// The most steps of all routes that are weighed.
const MAX_WEIGHED_STEPS: usize = 50_000;
/// The most bytes of texts that are written to weigh all routes.
const MAX_WEIGHED_BYTES: usize = 1 << 30;
/// The most bytes that the steps of one route hold.
const MAX_ROUTE_BYTES: usize = 64 << 20;

/// Counts what routes cost, as long as there is room for it.
pub struct Scales<'a> {
    graph: &'a Arc<Graph>,
    repertoire: &'a Repertoire,
    space: &'a Space,
    inputs: &'a [Arc<Value>],
    /// Of each role that a model plays: how it is told its history, and the bytes of its request head.
    players: BTreeMap<RoleName, (Telling, usize)>,
    left_steps: usize,
    left_bytes: usize,
    /// Which ceilings were reached.
    pub cut: BTreeSet<String>,
}

impl<'a> Scales<'a> {
    /// For routes through `space`.
    ///
    /// # Errors
    /// When the contract of a role cannot be made, which a checked workflow never leads to.
    pub fn new(
        (workflow, graph): (&Workflow, &'a Arc<Graph>),
        repertoire: &'a Repertoire,
        space: &'a Space,
        inputs: &'a [Arc<Value>],
        tools: &BTreeMap<RoleName, Vec<ToolSpec>>,
    ) -> Result<Self, cast::Error> {
        let contracts = cast::contracts(workflow)?;
        let player = |(name, model): (&RoleName, &rondo_protocol::workflow::ModelRole)| {
            let script = cast::script(model, contracts.get(name)?);
            let offered = tools.get(name).into_iter().flatten();
            let tools: usize =
                offered.map(|tool| tool.name.len() + tool.description.len() + tool.parameters.len()).sum();
            let head = script.system.len() + script.response_format.map_or(0, |schema| schema.len()) + tools;
            Some((name.clone(), (cast::telling(model), head)))
        };
        let players = cast::model_roles(workflow).filter_map(|(name, _, model)| player((name, model))).collect();
        let (left_steps, left_bytes) = (MAX_WEIGHED_STEPS, MAX_WEIGHED_BYTES);
        Ok(Self { graph, repertoire, space, inputs, players, left_steps, left_bytes, cut: BTreeSet::new() })
    }

    /// Takes the work of a step from what is left; `None` once there is too little, and then for good.
    fn pay(&mut self, bytes: usize) -> Option<()> {
        let steps = self.left_steps.checked_sub(1);
        let bytes = self.left_bytes.checked_sub(bytes);
        self.cut.extend(steps.is_none().then(|| format!("{MAX_WEIGHED_STEPS} steps of routes")));
        self.cut.extend(bytes.is_none().then(|| format!("{} MiB of texts of routes", MAX_WEIGHED_BYTES >> 20)));
        self.left_steps = steps.filter(|_| bytes.is_some()).unwrap_or(0);
        self.left_bytes = bytes?;
        steps.map(drop)
    }

    /// What a route costs; `None` where its answers fail on this way, because another turn found it, and where there
    /// is no room left to weigh it.
    pub fn weigh(&mut self, path: &Path) -> Option<Costs> {
        if path.ways.len() > self.left_steps {
            self.cut.insert(format!("{MAX_WEIGHED_STEPS} steps of routes"));
            return None;
        }
        let mut held_bytes = 0;
        let input = self.inputs.get(path.place)?;
        let mut costs = Costs::new();
        let (mut run, next) = Run::new(self.graph, input);
        if next.fault.is_some() {
            return None;
        }
        let mut told: BTreeMap<(LanePath, RoleName), Heard> = BTreeMap::new();
        let mut episodes: Vec<Arc<Episode>> = Vec::new();
        for (spot, way) in &path.ways {
            let (lane, dispatch) = run.visiting()?;
            let way = self.space.ways(*spot).get(*way)?;
            let Some(step) = &way.step else { return Some(costs) };
            let role = &dispatch.role;
            let answers = self.repertoire.of(role).iter().find(|(status, _)| *status == step.status);
            let answer = answers.and_then(|(_, answers)| answers.all.get(step.answer))?;
            let texts = dispatch.edge.prompt.len() + 2 * answer.text_bytes;
            held_bytes += texts;
            if held_bytes > MAX_ROUTE_BYTES {
                self.cut.insert(format!("{} MiB of texts of a route", MAX_ROUTE_BYTES >> 20));
                return None;
            }
            let text = answer.text();
            let request = self.players.get(role).map(|player| {
                let heard = told.entry((lane.clone(), role.clone())).or_default();
                heard.visit(player, &dispatch.edge.prompt, &text, &episodes)
            });
            let (request, written) = request.unzip();
            self.pay(texts + written.unwrap_or(0))?;
            let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_A_TOKEN)).unwrap_or(u64::MAX);
            let said = if request.is_some() { text.len() } else { 0 };
            costs.entry(role.clone()).or_default().add(request.map_or(0, tokens), tokens(said));
            let (after, next) = run.answered(answer);
            if next.fault.is_some() || next.edge.unwrap_or(UNROUTED) != step.edge {
                return None;
            }
            run = after;
            episodes.extend(run.newest().cloned());
            if matches!(way.goal, Goal::End(_)) != run.ending().is_some() {
                return None;
            }
        }
        Some(costs)
    }
}

/// What a role's conversation holds so far.
#[derive(Debug, Default)]
struct Heard {
    bytes: usize,
    episodes: usize,
}

impl Heard {
    /// The bytes of a visit's first request, and those of them that it opens with. The conversation goes on with it and
    /// its answer.
    fn visit(
        &mut self,
        (telling, head_bytes): &(Telling, usize),
        prompt: &str,
        answer: &str,
        episodes: &[Arc<Episode>],
    ) -> (usize, usize) {
        let since = episodes.get(self.episodes..).unwrap_or_default();
        let told = conversation::summary(&telling.context, self.episodes == 0, since.iter().rev().map(Arc::as_ref));
        let opening = conversation::opening(prompt, &told).text().len();
        let request = head_bytes + self.bytes + opening;
        if telling.history != History::None {
            let closing = conversation::closing(telling.history, answer, None);
            self.bytes += opening + closing.iter().map(|message| message.text().len()).sum::<usize>();
        }
        // Its own step is the next episode.
        self.episodes = episodes.len() + 1;
        (request, opening)
    }
}
