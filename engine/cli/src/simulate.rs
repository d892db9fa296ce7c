use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rondo::agent_kit::tool::ToolSet;
use rondo::author::role_of;
use rondo::author::simulate::{self, Coverage, Progress, Report, Route, Subject, Worst};
use rondo::core::grant::Grants;
use rondo::core::graph::Graph;
use rondo::core::resolved_roles;
use rondo::protocol::Value;
use rondo::protocol::diagnostic::{Code, Severity};
use rondo::protocol::workflow::{Checked, Workflow};
use rondo::settings::Flags;
use rondo::tell::{plural, tell};

use super::input::{InputArgs, inputs};
use super::settings_files::settings;
use super::{Exit, Failure, Faulty, Output, Style, json, json_line, report, tooling, workflow, working_folder};

/// How long a walk runs before progress is shown, and the interval from then on.
const PATIENCE: Duration = Duration::from_secs(1);

const SHOWN_EDGES: usize = 20;

/// Walk every route of a workflow with generated answers, without a model
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct SimulateArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    workflow: String,
    #[command(flatten)]
    input: InputArgs,
    /// How many routes are shown, the shortest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=10_000))]
    routes: u16,
}

pub fn simulate(args: &SimulateArgs, output: &mut Output) -> Result<Exit, Failure> {
    let loaded = workflow::load(&args.workflow, &working_folder()?)?;
    let checked = &loaded.checked;
    let given = args.input.is_given().then(|| inputs(&args.input, &checked.workflow, &args.workflow)).transpose()?;
    let inputs = given.map(|given| given.all(&checked.workflow)).transpose()?;
    let found = walk(checked, inputs.unwrap_or_default(), args.routes.into())?;
    let has_faults = found.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    if output.is_json() {
        lines(&found, output)?;
    } else {
        output.text(&text(&checked.workflow.name, &found))?;
    }
    report::findings(&Faulty { faults: found.diagnostics, sources: loaded.sources }, output)?;
    Ok(if has_faults { Exit::Invalid } else { Exit::Done })
}

/// Walks a workflow with these inputs, or with generated ones if there are none. Shows progress on a terminal.
pub(super) fn walk(checked: &Checked, inputs: Vec<Value>, routes: usize) -> Result<Report, Failure> {
    let internal = |what: String| Failure::new(Code::InternalFault, what);
    let registry = rondo::registry();
    let hooks = registry.nodes(&checked.workflow, &checked.policy, &[]);
    let graph = Graph::new(&checked.workflow, &checked.policy, hooks).map_err(|e| internal(e.to_string()))?;
    let graph = std::sync::Arc::new(graph);
    let known = tools(&checked.workflow)?;
    let of_roles = |workflow: &Workflow| {
        let toolboxes = resolved_roles::toolboxes(workflow, &known, &Grants::everything());
        toolboxes.into_iter().map(|(role, toolbox)| (role, toolbox.specs())).collect()
    };
    let subject = Subject { checked, graph: &graph, inputs, tools: &of_roles, routes };
    let mut last = Instant::now();
    let is_watched = Style::stderr().is_terminal;
    let mut told = |progress: Progress| {
        if is_watched && last.elapsed() >= PATIENCE {
            last = Instant::now();
            tell(&format!("{} states, {} answers tried\n", progress.states, progress.tried));
        }
    };
    simulate::simulate(&subject, &mut told).map_err(|error| internal(error.to_string()))
}

/// The tools that are known without asking a server, if a role may use any.
fn tools(workflow: &Workflow) -> Result<ToolSet, Failure> {
    if tooling::named(workflow).is_empty() {
        return Ok(ToolSet::default());
    }
    Ok(tooling::local(&settings(&Flags::default())?)?.0)
}

fn lines(found: &Report, output: &mut Output) -> Result<(), Failure> {
    for route in &found.routes {
        let mut visits = BTreeMap::new();
        for role in route.steps.iter().map(|step| role_of(step.split('.').next().unwrap_or(step))) {
            *visits.entry(role).or_insert(0) += 1;
        }
        output.line(&json_line!(
            "route",
            steps: &route.steps,
            end: route.end.as_str(),
            visits,
            step_count: route.steps.len(),
            prompt_tokens: route.prompt_tokens(),
            output_tokens: route.output_tokens(),
        ))?;
    }
    output.line(&found.worst)?;
    let Coverage { edges, never, is_whole } = &found.coverage;
    output.line(&json_line!(
        "coverage",
        edges,
        taken: edges - never.len(),
        // It is unknown if the walk was cut.
        never: is_whole.then_some(never),
        states: found.progress.states,
        answers: found.progress.tried,
        // `None` if there are too many to count.
        ways: found.ways,
        all_routes: found.has_all_routes,
    ))
}

fn text(name: &str, found: &Report) -> String {
    let shown = found.routes.len();
    let at_least = at_least(found.worst.is_exact);
    let ways = match found.ways {
        Some(ways) => format!("{at_least}{ways} ways through the graph"),
        None => format!("more than {} ways through the graph", simulate::MAX_WAYS),
    };
    let those = if found.worst.is_exact { "" } else { "those found, of " };
    let routes = match (found.has_all_routes, shown) {
        (true, _) => plural(shown as u64, "route"),
        (false, 0) if found.ways == Some(0) => "no route to an end was found".to_owned(),
        (false, 1) => format!("the shortest route of {those}{ways}"),
        (false, _) => format!("the {shown} shortest routes of {those}{ways}"),
    };
    let mut text = format!("{name}: {routes}\n");
    if shown > 0 {
        let _ = writeln!(text, "\n  steps   prompt tokens   route");
    }
    for route in &found.routes {
        let tokens = route.prompt_tokens().map_or_else(|| "?".to_owned(), |tokens| tokens.to_string());
        let _ = writeln!(text, "  {:>5}   {tokens:>13}   {}", route.steps.len(), path(route));
    }
    worst(&found.worst, &mut text);
    let Coverage { edges, never, is_whole } = &found.coverage;
    let _ = writeln!(
        text,
        "\nedges taken: {} of {edges}; {} states, {} answers tried",
        edges - never.len(),
        found.progress.states,
        found.progress.tried
    );
    for part in never.iter().take(SHOWN_EDGES) {
        let _ = writeln!(text, "  {}: {part}", if *is_whole { "never" } else { "not before the cut" });
    }
    if let Some(more) = never.len().checked_sub(SHOWN_EDGES).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more{}", if *is_whole { "; --json lists them" } else { "" });
    }
    text
}

fn at_least(is_exact: bool) -> &'static str {
    if is_exact { "" } else { "at least " }
}

fn worst(worst: &Worst, text: &mut String) {
    let Worst { steps, prompt_tokens, output_tokens, weighed, .. } = worst;
    let on = || format!(" on the costliest of {weighed} routes that were weighed");
    let tokens = if worst.has_weighed_all { String::new() } else { on() };
    let (least, least_tokens) = (at_least(worst.is_exact), at_least(worst.has_weighed_all));
    let _ = writeln!(
        text,
        "\nworst case: {least}{steps} steps; {least_tokens}about {prompt_tokens} prompt tokens and {output_tokens} output \
         tokens{tokens}\n"
    );
    let width = worst.roles.keys().map(|role| role.as_str().len()).max().unwrap_or(0).max(4);
    let _ = writeln!(text, "  {:width$}   visits   prompt tokens   largest request   output tokens", "role");
    for (role, cost) in &worst.roles {
        let simulate::Cost { visits, prompt_tokens, largest_request, output_tokens } = cost;
        let _ = writeln!(
            text,
            "  {:width$}   {visits:>6}   {prompt_tokens:>13}   {largest_request:>15}   {output_tokens:>13}",
            role.as_str()
        );
    }
}

/// A route for people: an immediate repetition is shown once.
fn path(route: &Route) -> String {
    let mut parts = Vec::new();
    let mut rest = route.steps.as_slice();
    while let Some(first) = rest.first() {
        let (block, times) = repeated(rest);
        if times < 2 {
            parts.push(first.clone());
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let words = block.join(" -> ");
        parts.push(if block.len() == 1 { format!("{words} x{times}") } else { format!("({words}) x{times}") });
        rest = rest.get(block.len() * times..).unwrap_or_default();
    }
    parts.push(route.end.leads_to().to_owned());
    parts.join(" -> ")
}

/// The repeated block at the beginning of some steps that covers the most steps, and its count.
fn repeated(steps: &[String]) -> (&[String], usize) {
    let times = |length: usize| {
        let mut blocks = steps.chunks_exact(length);
        let first = blocks.next();
        1 + blocks.take_while(|block| Some(*block) == first).count()
    };
    let best = (1..=steps.len() / 2).map(|length| (length, times(length))).filter(|(_, times)| *times > 1);
    // Of equals, the shortest block.
    let (length, times) = best.rev().max_by_key(|(length, times)| length * times).unwrap_or((1, 1));
    (steps.get(..length).unwrap_or_default(), times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rondo::author::simulate::End;

    fn shown(steps: &str) -> String {
        let steps = steps.split_whitespace().map(str::to_owned).collect();
        path(&Route { steps, end: End::Done, costs: None })
    }

    #[test]
    fn what_is_repeated_is_told_once() {
        assert_eq!(shown("w.drafted e.approved"), "w.drafted -> e.approved -> end");
        assert_eq!(shown("a.x a.x a.x b.y"), "a.x x3 -> b.y -> end");
        assert_eq!(shown("w.d e.r w.d e.r w.d e.a"), "(w.d -> e.r) x2 -> w.d -> e.a -> end");
        assert_eq!(shown("s.q w.d e.r w.d e.r"), "s.q -> (w.d -> e.r) x2 -> end");
        assert_eq!(shown(""), "end");
    }
}
