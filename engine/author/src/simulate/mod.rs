//! Simulation: every route of a workflow that generated answers can reach, without a model, a store or a clock.
//!
//! It walks the graph with the routing and templates of a real run, and answers for every role with values generated
//! from the schemas of its statuses. It finds templates that fail on a valid answer, edges that are never taken, the
//! routes with their ends, and the worst case.
//!
//! Precision: routing is exact for the answers tried (see `space.rs`), so visits and steps are exact unless a ceiling
//! was reached, which is always reported. Answers are a sample of what a model may say. Tokens are an estimate of the
//! first request of each visit; their worst case is exact only if every route was weighed.
//!
//! It must never know models, tools, files, clocks or terminals.

mod answers;
mod child;
mod cost;
mod faults;
mod reads;
mod routes;
mod run;
mod sample;
mod space;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rondo_core::graph::{Graph, To};
use rondo_core::resolved_roles;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::Diagnostic;
use rondo_protocol::id::{FieldName, RoleName};
use rondo_protocol::object::ToolSpec;
use rondo_protocol::workflow::types::check_input;
use rondo_protocol::workflow::{Checked, Field, Need, RoleKind, SourceMap, Workflow};
use serde::{Serialize, Serializer};

use self::answers::AnswerSet;
use self::cost::CostEstimator;
use self::reads::Reads;
use self::routes::{Path, Reachability};
use self::sample::objects;
use self::space::{StateId, StateSpace};
use self::walk::Explorer;

pub use cost::Cost;
pub use space::End;
pub use walk::Progress;

/// The most walks with one input: each prefers another answer.
const MAX_VARIANTS: usize = 24;
const MAX_INPUTS: usize = 24;
const MAX_GIVEN_INPUTS: usize = 1_000;
/// The most orders of lanes, where a join may not wait for all of them.
const MAX_ORDERS: usize = 4;
const EACH_ORDERS: usize = 2;
const MAX_WEIGHED: usize = 500;
/// The most routes that are weighed beyond the shortest.
const MAX_FURTHER: usize = 64;
/// Up to how many ways are counted: every JSON reader can hold this number exactly.
pub const MAX_WAYS: u64 = 1_000_000_000_000_000;

/// The tool descriptions of each role of a workflow.
pub type Tools<'a> = dyn Fn(&Workflow) -> BTreeMap<RoleName, Vec<ToolSpec>> + 'a;

pub struct Subject<'a> {
    pub checked: &'a Checked,
    pub graph: &'a Arc<Graph>,
    /// The inputs to walk with; if empty, inputs are generated.
    pub inputs: Vec<Value>,
    /// Of the workflow, and of its children.
    pub tools: &'a Tools<'a>,
    /// How many routes to return.
    pub routes: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub routes: Vec<Route>,
    /// How many ways lead through the graph; ways that differ in the edge of a list count separately. `None` if there
    /// are more than [`MAX_WAYS`].
    pub ways: Option<u64>,
    pub has_all_routes: bool,
    pub worst: Worst,
    pub coverage: Coverage,
    /// Faults and warnings, in source order.
    pub diagnostics: Vec<Diagnostic>,
    pub progress: Progress,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its steps, as `role.status`, or `role[0].status` in a lane.
    pub steps: Vec<String>,
    pub end: End,
    /// Its costs with the longest answers, by role; `None` if earlier answers make it impossible to weigh.
    pub costs: Option<BTreeMap<RoleName, Cost>>,
}

impl Route {
    /// Estimated tokens of all its requests.
    pub fn prompt_tokens(&self) -> Option<u64> {
        Some(self.costs.as_ref()?.values().map(|cost| cost.prompt_tokens).sum())
    }

    /// Estimated tokens of all its answers.
    pub fn output_tokens(&self) -> Option<u64> {
        Some(self.costs.as_ref()?.values().map(|cost| cost.output_tokens).sum())
    }
}

/// The worst case, each figure independent of the others; a JSON line.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(tag = "event", rename = "worst")]
pub struct Worst {
    /// The most steps, before `limits.steps` applies.
    pub steps: u64,
    /// Whether steps and visits are exact for the answers tried: no ceiling cut the walk, and every field has a value.
    #[serde(rename = "exact")]
    pub is_exact: bool,
    /// The most prompt tokens of a route whose cost was computed.
    pub prompt_tokens: u64,
    /// The most output tokens of a route whose cost was computed.
    pub output_tokens: u64,
    /// How many routes have a computed cost.
    #[serde(rename = "routes_weighed")]
    pub weighed: usize,
    /// Whether these are all routes, so that tokens are as exact as their estimate.
    #[serde(rename = "all_weighed")]
    pub has_weighed_all: bool,
    /// For each role the most visits of all routes, and the highest computed costs.
    pub roles: BTreeMap<RoleName, Cost>,
    /// The route with the most prompt tokens.
    #[serde(serialize_with = "steps_of")]
    pub costliest: Option<Route>,
    /// The worst case of one visit of each role that is a workflow, which the costs of that role include.
    #[serde(skip)]
    pub children: BTreeMap<RoleName, Worst>,
}

#[expect(clippy::ref_option, reason = "serde passes the field as it is declared")]
fn steps_of<S: Serializer>(route: &Option<Route>, serializer: S) -> Result<S::Ok, S::Error> {
    route.as_ref().map(|route| &route.steps).serialize(serializer)
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    pub edges: usize,
    /// Edges never reached, as parts of the workflow such as `graph.editor.revise[1]`.
    pub never: Vec<String>,
    /// Whether the walk was complete, so that these are unreachable; otherwise they were only not reached.
    pub is_whole: bool,
}

/// Simulates a workflow. `on_progress` is called from time to time with the progress.
pub fn simulate(subject: &Subject<'_>, on_progress: &mut dyn FnMut(Progress)) -> Result<Report, resolved_roles::Error> {
    let Subject { checked, graph, .. } = subject;
    let workflow = &checked.workflow;
    let reads = Reads::of(graph);
    let answer_set = AnswerSet::new(workflow, graph, &reads)?;
    let Inputs { values: inputs, unmade, cut } = Inputs::of(subject, &reads);
    let mut explorer = Explorer::new(graph, &answer_set, &reads, on_progress);
    let variants = answer_set.widest(&reads.steps).min(MAX_VARIANTS);
    let orders = orders(graph);
    for (order, round) in (0..orders).flat_map(|order| (0..variants.max(inputs.len())).map(move |round| (order, round)))
    {
        let place = round % inputs.len().max(1);
        if let Some(input) = inputs.get(place) {
            explorer.walk(place, input, round % variants.max(1), order);
        }
    }
    let mut found = explorer.found();
    found.cut.extend(cut.map(|most| format!("{most} inputs")));
    let space = &found.space;
    let ahead = Reachability::of(space);
    let children = children(subject)?;
    let tools = (subject.tools)(workflow);
    let mut estimator = CostEstimator::new((workflow, graph), (&answer_set, space), &inputs, (&tools, &children))?;
    let mut route =
        |path: &Path| Route { steps: routes::steps(space, path), end: path.end, costs: estimator.weigh(path) };

    let wanted = subject.routes.max(MAX_WEIGHED);
    let routes::Shortest { paths, is_all, cut } = routes::shortest(space, &ahead, &found.roots, wanted);
    let empty = |end: &End| Route { steps: Vec::new(), end: *end, costs: Some(BTreeMap::new()) };
    let mut weighed: Vec<Route> = found.empty.values().map(empty).collect();
    weighed.dedup();
    // If there is no room to weigh all: first those shown, then those that may be the worst.
    let (shown, beyond) = paths.split_at_checked(subject.routes).unwrap_or((&paths, &[]));
    weighed.extend(shown.iter().map(&mut route));
    let further: Vec<Route> = if is_all {
        Vec::new()
    } else {
        let further = furthest(graph, space, &ahead, &found.roots).take(MAX_FURTHER);
        further.map(|path| route(&path)).filter(|route| route.costs.is_some()).collect()
    };
    weighed.extend(beyond.iter().map(&mut route));
    let unweighed: BTreeSet<String> = estimator.cut.into_iter().chain(cut).collect();

    let is_whole = found.cut.is_empty() && answer_set.cut.is_empty();
    // Where a join cancels lanes, how much they have answered by then is chance.
    let is_exact = ahead.is_exact && orders == 1 && is_whole && answer_set.unmade.is_empty() && unmade.is_empty();
    // Without an input nothing was walked.
    let is_exact = is_exact && !inputs.is_empty();
    let worst = worst(&ahead, &found.roots, weighed.iter().chain(&further), (is_exact, is_all), children);
    let edges = graph.edges();
    let never = edges.values().filter(|edge| !found.taken.contains(&edge.id)).map(|edge| edge.part.to_string());
    let coverage = Coverage { edges: edges.len(), never: never.collect(), is_whole };
    let ways = found.roots.iter().filter_map(|(_, root)| ahead.at(*root)).map(|reach| reach.ways);
    let ways = ways.fold(u64::try_from(found.empty.len()).unwrap_or(u64::MAX), u64::saturating_add);
    let ways = Some(ways).filter(|ways| *ways <= MAX_WAYS);
    let diagnostics = faults::diagnostics(checked, &found, &answer_set, &unmade, &unweighed, (&coverage, &worst));
    let has_all_routes = is_all && is_exact && weighed.len() <= subject.routes;
    weighed.truncate(subject.routes);
    Ok(Report { routes: weighed, ways, has_all_routes, worst, coverage, diagnostics, progress: found.progress })
}

fn children(subject: &Subject<'_>) -> Result<BTreeMap<RoleName, Worst>, resolved_roles::Error> {
    let mut children = BTreeMap::new();
    for (name, role) in &subject.checked.workflow.roles {
        let RoleKind::Workflow(child) = &role.kind else { continue };
        let Some(policy) = subject.checked.policy.children.get(name.as_str()) else { continue };
        // A checked definition can be lowered.
        let Ok(graph) = Graph::new(&child.workflow, policy, Vec::new()) else { continue };
        let (workflow, policy) = (child.workflow.clone(), policy.clone());
        let checked = Checked { workflow, policy, warnings: Vec::new(), places: SourceMap::default() };
        let (graph, inputs) = (Arc::new(graph), Vec::new());
        let subject = Subject { checked: &checked, graph: &graph, inputs, tools: subject.tools, routes: 1 };
        children.insert(name.clone(), simulate(&subject, &mut |_| {})?.worst);
    }
    Ok(children)
}

/// The number of orders of lanes: one, unless a join continues before all of them have ended.
fn orders(graph: &Graph) -> usize {
    let edges = graph.edges();
    let fans = edges.values().filter_map(|edge| match &edge.to {
        To::Fan(fan) if fan.join.need != Need::All => Some(fan),
        _ => None,
    });
    let lanes = fans.map(|fan| if fan.each.is_some() { EACH_ORDERS } else { fan.branches.len() });
    lanes.max().unwrap_or(1).clamp(1, MAX_ORDERS)
}

/// The routes that may be the worst, beyond the shortest: from each root the longest, then those with the most visits
/// of each role.
fn furthest<'a>(
    graph: &'a Graph,
    space: &'a StateSpace,
    ahead: &'a Reachability,
    roots: &'a [(usize, StateId)],
) -> impl Iterator<Item = Path> + 'a {
    let roots = roots.iter().copied();
    let longest =
        roots.clone().filter_map(|root| routes::greatest(space, ahead, root, |_, way, reach| reach.most + way.made()));
    let most_visits = roots.flat_map(move |root| {
        graph.roles().filter_map(move |(name, _)| {
            routes::greatest(space, ahead, root, |role, way, reach| {
                let later = reach.visits.get(name).copied().unwrap_or(0);
                later + way.visits(role, name)
            })
        })
    });
    longest.chain(most_visits)
}

struct Inputs {
    /// Longest first.
    values: Vec<Arc<Value>>,
    unmade: Vec<FieldName>,
    /// The limit, if it left inputs out.
    cut: Option<usize>,
}

impl Inputs {
    fn of(subject: &Subject<'_>, reads: &Reads) -> Self {
        if !subject.inputs.is_empty() {
            let values = subject.inputs.iter().take(MAX_GIVEN_INPUTS).cloned().map(Arc::new).collect();
            let cut = (subject.inputs.len() > MAX_GIVEN_INPUTS).then_some(MAX_GIVEN_INPUTS);
            return Self { values, unmade: Vec::new(), cut };
        }
        let workflow = &subject.checked.workflow;
        // A field with a default may be absent.
        let may_be_absent = |field: &Field| field.optional || field.default_value().is_some();
        let declared = workflow.input.iter().map(|(name, field)| {
            (name.clone(), Field { optional: may_be_absent(field), schema: field.schema.clone() })
        });
        let mut made = objects(&declared.collect(), &reads.inputs, &reads.constants);
        if made.values.len() > 1 {
            made.values.swap(0, 1);
        }
        let mut values: Vec<Arc<Value>> = Vec::new();
        let mut left_out = made.is_cut;
        for value in made.values {
            let Value::Object(members) = value else { continue };
            let Ok(input) = check_input(workflow, members) else { continue };
            if values.iter().any(|known| **known == input) {
                continue;
            }
            if values.len() == MAX_INPUTS {
                left_out = true;
                break;
            }
            values.push(Arc::new(input));
        }
        // Values that no condition and no template reads do not change the route.
        let cut = (left_out && (reads.input || reads.told_input)).then_some(MAX_INPUTS);
        Self { values, unmade: made.unmade, cut }
    }
}

fn worst<'r>(
    ahead: &Reachability,
    roots: &[(usize, StateId)],
    weighed: impl Iterator<Item = &'r Route>,
    (is_exact, is_all): (bool, bool),
    children: BTreeMap<RoleName, Worst>,
) -> Worst {
    let has_weighed_all = is_all && is_exact && children.values().all(|child| child.has_weighed_all);
    let mut worst = Worst { is_exact, has_weighed_all, children, ..Worst::default() };
    for reach in roots.iter().filter_map(|(_, root)| ahead.at(*root)) {
        worst.steps = worst.steps.max(reach.most);
        for (role, visits) in &reach.visits {
            let cost = worst.roles.entry(role.clone()).or_default();
            cost.visits = cost.visits.max(*visits);
        }
    }
    let mut seen = BTreeSet::new();
    for route in weighed {
        if !seen.insert((&route.steps, route.end)) {
            continue;
        }
        let (Some(costs), Some(prompt), Some(output)) = (&route.costs, route.prompt_tokens(), route.output_tokens())
        else {
            worst.has_weighed_all = false;
            continue;
        };
        worst.weighed += 1;
        for (role, cost) in costs {
            worst.roles.entry(role.clone()).or_default().or_more(*cost);
        }
        worst.output_tokens = worst.output_tokens.max(output);
        if worst.costliest.is_none() || prompt > worst.prompt_tokens {
            worst.prompt_tokens = prompt;
            worst.costliest = Some(route.clone());
        }
    }
    worst
}

#[cfg(test)]
mod tests;
