//! The cost of a route: its first requests as they would be sent, measured and not kept.
//!
//! Tokens are estimated as bytes / 4 of everything in a request: system text with the contract, tools, response
//! format, messages. A visit counts as one request; tool rounds, repairs and retries are extra.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_agent_kit::conversation::{self, Episode, HistoryPolicy, Round, StepLocation};
use rondo_core::graph::Graph;
use rondo_core::resolved_roles;
use rondo_protocol::Value;
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::object::ToolSpec;
use rondo_protocol::workflow::{History, Workflow};
use serde::Serialize;

use super::Worst;
use super::answers::{AnswerSet, BYTES_A_TOKEN};
use super::routes::Path;
use super::run::Run;
use super::space::{End, StateSpace, Target};
use super::walk::{LANES_AN_ANSWER, UNROUTED};

/// The cost of the roles of a route, or of one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    pub visits: u64,
    /// Estimated tokens of all requests.
    pub prompt_tokens: u64,
    /// Estimated tokens of the largest request.
    pub largest_request: u64,
    /// Estimated tokens of all answers.
    pub output_tokens: u64,
}

impl Cost {
    fn add(&mut self, prompt_tokens: u64, largest_request: u64, output_tokens: u64) {
        self.visits += 1;
        self.prompt_tokens = self.prompt_tokens.saturating_add(prompt_tokens);
        self.output_tokens = self.output_tokens.saturating_add(output_tokens);
        self.largest_request = self.largest_request.max(largest_request);
    }

    /// The larger of each figure.
    pub(super) fn or_more(&mut self, other: Self) {
        self.visits = self.visits.max(other.visits);
        self.prompt_tokens = self.prompt_tokens.max(other.prompt_tokens);
        self.largest_request = self.largest_request.max(other.largest_request);
        self.output_tokens = self.output_tokens.max(other.output_tokens);
    }
}

pub type Costs = BTreeMap<RoleName, Cost>;

/// The most steps of all routes that are weighed.
const MAX_WEIGHED_STEPS: usize = 50_000;
/// The most bytes of text rendered to weigh all routes.
const MAX_WEIGHED_BYTES: usize = 1 << 30;
/// The most bytes that the steps of one route hold.
const MAX_ROUTE_BYTES: usize = 64 << 20;

pub struct CostEstimator<'a> {
    graph: &'a Arc<Graph>,
    answer_set: &'a AnswerSet,
    space: &'a StateSpace,
    inputs: &'a [Arc<Value>],
    /// For each model role its history policy, and the bytes of its request head.
    model_roles: BTreeMap<RoleName, (HistoryPolicy, usize)>,
    /// For each role that is a workflow the worst case of one visit.
    children: &'a BTreeMap<RoleName, Worst>,
    left_steps: usize,
    left_bytes: usize,
    pub cut: BTreeSet<String>,
}

impl<'a> CostEstimator<'a> {
    pub fn new(
        (workflow, graph): (&Workflow, &'a Arc<Graph>),
        (answer_set, space): (&'a AnswerSet, &'a StateSpace),
        inputs: &'a [Arc<Value>],
        (tools, children): (&BTreeMap<RoleName, Vec<ToolSpec>>, &'a BTreeMap<RoleName, Worst>),
    ) -> Result<Self, resolved_roles::Error> {
        let contracts = resolved_roles::contracts(workflow)?;
        let runtime = |(name, _, model): (&RoleName, _, &rondo_protocol::workflow::ModelRole)| {
            let script = resolved_roles::script(workflow, name, model, contracts.get(name)?);
            let offered = tools.get(name).into_iter().flatten();
            let tools: usize =
                offered.map(|tool| tool.name.len() + tool.description.len() + tool.parameters.len()).sum();
            let head = script.system.len() + script.response_format.map_or(0, |schema| schema.len()) + tools;
            Some((name.clone(), (resolved_roles::history_policy(model), head)))
        };
        let model_roles = resolved_roles::model_roles(workflow).filter_map(runtime).collect();
        let (left_steps, left_bytes) = (MAX_WEIGHED_STEPS, MAX_WEIGHED_BYTES);
        let cut = BTreeSet::new();
        Ok(Self { graph, answer_set, space, inputs, model_roles, children, left_steps, left_bytes, cut })
    }

    /// Deducts the work of a step from the remaining budget; `None` once there is too little, and from then on.
    fn pay(&mut self, bytes: usize, lanes: usize) -> Option<()> {
        let steps = self.left_steps.checked_sub(1 + lanes / LANES_AN_ANSWER);
        let bytes = self.left_bytes.checked_sub(bytes);
        self.cut.extend(steps.is_none().then(|| format!("{MAX_WEIGHED_STEPS} steps of routes")));
        self.cut.extend(bytes.is_none().then(|| format!("{} MiB of texts of routes", MAX_WEIGHED_BYTES >> 20)));
        self.left_steps = steps.filter(|_| bytes.is_some()).unwrap_or(0);
        self.left_bytes = bytes?;
        steps.map(drop)
    }

    /// The cost of a route; `None` if its answers fail on this way, because another walk found it, or if no budget is
    /// left.
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
        let mut conversations: BTreeMap<(LanePath, RoleName), ConversationSize> = BTreeMap::new();
        let mut episodes: Vec<Arc<Episode>> = Vec::new();
        for (state, way) in &path.ways {
            let lane = &self.space.states.get(*state)?.lane;
            let dispatch = run.visiting_in(lane)?;
            let way = self.space.ways(*state).get(*way)?;
            let Some(step) = &way.step else { return Some(costs) };
            let role = &dispatch.role;
            let answers = self.answer_set.of(role).iter().find(|(status, _)| *status == step.status);
            let answer = answers.and_then(|(_, answers)| answers.get(step.answer))?;
            let texts = dispatch.edge.prompt.len() + 2 * answer.text_bytes;
            held_bytes += texts;
            if held_bytes > MAX_ROUTE_BYTES {
                self.cut.insert(format!("{} MiB of texts of a route", MAX_ROUTE_BYTES >> 20));
                return None;
            }
            let text = answer.text();
            let request = self.model_roles.get(role).map(|runtime| {
                let known = lane.outward().find_map(|lane| conversations.get(&(lane, role.clone())));
                let mut conversation = known.cloned().unwrap_or_default();
                // For each part of the lane's path the step that opened this round.
                let opened_by = run.machine.lane(lane).map(|lane| lane.opened_by.clone()).unwrap_or_default();
                let round = Round { lane: lane.clone(), opened_by };
                let sent = conversation.visit(runtime, (&dispatch.edge.prompt, &text), round, &episodes);
                conversations.insert((lane.clone(), role.clone()), conversation);
                sent
            });
            let (request, written) = request.unzip();
            self.pay(texts + written.unwrap_or(0), run.machine.lanes().len())?;
            let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(BYTES_A_TOKEN)).unwrap_or(u64::MAX);
            let said = if request.is_some() { text.len() } else { 0 };
            let cost = costs.entry(role.clone()).or_default();
            if let Some(child) = self.children.get(role) {
                let largest = child.roles.values().map(|cost| cost.largest_request).max().unwrap_or(0);
                cost.add(child.prompt_tokens, largest, child.output_tokens);
            } else {
                let prompt_tokens = request.map_or(0, tokens);
                cost.add(prompt_tokens, prompt_tokens, tokens(said));
            }
            let (after, next) = run.answered(lane, answer);
            let is_stopped = way.target == Target::End(End::Stop);
            if next.fault.is_some() != is_stopped || next.edge.unwrap_or(UNROUTED) != step.edge {
                return None;
            }
            run = after;
            for given in &step.given {
                costs.entry(given.role.clone()).or_default().visits += 1;
            }
            if is_stopped {
                return Some(costs);
            }
            episodes.extend(next.steps);
            if matches!(way.target, Target::End(_)) != run.machine.ending().is_some() {
                return None;
            }
        }
        Some(costs)
    }
}

#[derive(Debug, Clone, Default)]
struct ConversationSize {
    bytes: usize,
    last: Option<StepLocation>,
}

impl ConversationSize {
    /// The bytes of a visit's first request, and those of its opening message. Adds them and the answer to the
    /// conversation.
    fn visit(
        &mut self,
        (history_policy, head_bytes): &(HistoryPolicy, usize),
        (prompt, answer): (&str, &str),
        round: Round,
        episodes: &[Arc<Episode>],
    ) -> (usize, usize) {
        let is_news =
            |place: &StepLocation| round.sees(place) && !self.last.as_ref().is_some_and(|last| last.knows(place));
        // In one lane steps are in the order of their numbers, so those known to the last visit can be skipped.
        let is_alone = round.opened_by.is_empty();
        let known = self.last.as_ref().filter(|_| is_alone).map_or(0, |last| last.seq);
        let since =
            episodes.iter().rev().take_while(|episode| episode.seq > known).map(|episode| (episode.place(), episode));
        let mut news: Vec<(StepLocation, &Arc<Episode>)> = since.filter(|(place, _)| is_news(place)).collect();
        news.sort_by_key(|(place, _)| std::cmp::Reverse(place.position()));
        let news = news.into_iter().map(|(_, episode)| episode.as_ref());
        let summary = conversation::summary(&history_policy.context, self.last.is_none(), news);
        let opening = conversation::opening(prompt, &summary, &[]).text().len();
        let request = head_bytes + self.bytes + opening;
        if history_policy.history != History::None {
            let closing = conversation::closing(history_policy.history, answer, None);
            self.bytes += opening + closing.iter().map(|message| message.text().len()).sum::<usize>();
        }
        // Its own step is the next episode.
        let seq = episodes.last().map_or(0, |last| last.seq) + 1;
        self.last = Some(StepLocation { seq, round });
        (request, opening)
    }
}
