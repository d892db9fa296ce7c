//! Warns about common beginnings of requests that are shorter than a provider's minimum.
//!
//! Two visits of a role have tools, schema, system text and the first prompt in common. A provider caches nothing
//! shorter than its minimum, without an error.

use std::collections::{BTreeMap, BTreeSet};

use rondo_agent_kit::bound::grouped;
use rondo_agent_kit::model::minimum::Minimum;
use rondo_agent_kit::prefix;
use rondo_protocol::diagnostic::{Code, Diagnostic};
use rondo_protocol::workflow::{History, SourceMap, Target, Workflow};

use super::LintedRole;
use super::volatile::without_tags;
use crate::{LocatedEdge, edges};

/// The most edges walked to find out whether a role is visited again.
const MAX_WALKED: usize = 1_000_000;

pub(super) fn lint(workflow: &Workflow, parts: &[LintedRole<'_>], places: &SourceMap) -> Vec<Diagnostic> {
    let again = visited_again(workflow);
    let prompts = longest_prompts(workflow);
    let mut found = Vec::new();
    for part in parts {
        let name = part.name.as_str();
        // A role with a single request has no prefix.
        if !again.contains(name) && part.head.tools.is_empty() {
            continue;
        }
        // Without a history the prompt of one visit is not part of the next.
        let prompt = if part.role.history == History::None { 0 } else { prompts.get(name).copied().unwrap_or(0) };
        let shared = prefix::tokens(prefix::bytes_of_head(&part.head).saturating_add(prompt));
        let minimum = Minimum::of(part.model.as_deref().unwrap_or_default());
        if shared >= minimum.tokens {
            continue;
        }
        let kept = grouped(minimum.tokens);
        let whose = match (minimum.provider, &part.model) {
            (Some(provider), Some(model)) => format!("{kept} from which {provider} keeps a prefix for {model}"),
            (_, Some(model)) => format!("{kept} that are assumed, because no minimum is known for {model}"),
            (_, None) => format!("{kept} that are assumed, because no model is set"),
        };
        let message = format!(
            "what all requests of `{name}` begin with comes to about {} tokens beside what prompts print, fewer than the \
             {whose}",
            grouped(shared)
        );
        let hint = "a provider serves nothing of this role until its conversation has grown past that; a fault only if \
                    it does not, and then a fuller system text or a model with a lower minimum helps";
        found.push(places.key_fault(Code::ShortPrefix, &part.system(), message).with_hint(hint));
    }
    found
}

/// The bytes of the longest prompt to each role, without printed values.
fn longest_prompts(workflow: &Workflow) -> BTreeMap<&str, u64> {
    let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
    let mut add = |role, prompt: &str| {
        let bytes: usize = without_tags(prompt).split_whitespace().map(|word| word.len() + 1).sum();
        let longest = longest.entry(role).or_default();
        *longest = u64::try_from(bytes).unwrap_or(u64::MAX).max(*longest);
    };
    for LocatedEdge { edge, .. } in edges(workflow) {
        match &edge.to {
            Target::Role(role) => add(role.as_str(), &edge.prompt),
            Target::Fan(fan) => {
                fan.branches.iter().for_each(|branch| add(branch.to.as_str(), &branch.prompt));
                add(fan.join.to.as_str(), fan.join.prompt.as_deref().unwrap_or_default());
            }
            Target::End | Target::Fail | Target::Back => {}
        }
    }
    longest
}

/// The roles that a thread may visit more than once.
fn visited_again(workflow: &Workflow) -> BTreeSet<&str> {
    let all = edges(workflow);
    let of_roles = || all.iter().filter(|located| located.status.is_some());
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for &LocatedEdge { from, edge, .. } in of_roles() {
        let next = next.entry(from).or_default();
        match &edge.to {
            Target::Role(role) => drop(next.insert(role.as_str())),
            Target::Fan(fan) => {
                next.extend(fan.branches.iter().map(|branch| branch.to.as_str()).chain([fan.join.to.as_str()]));
            }
            Target::End | Target::Fail | Target::Back => {}
        }
    }
    let forward = next.clone();
    for &LocatedEdge { from, .. } in of_roles().filter(|located| matches!(located.edge.to, Target::Back)) {
        let callers = forward.iter().filter(|(_, targets)| targets.contains(from)).map(|(caller, _)| *caller);
        next.entry(from).or_default().extend(callers);
    }
    let mut walked = 0;
    let names = workflow.roles.iter().map(|(name, _)| name.as_str());
    names.filter(|name| is_on_a_cycle(name, &next, &mut walked)).collect()
}

/// Whether a path from `name` leads back to it. If the walk becomes too long, it is assumed to.
fn is_on_a_cycle<'w>(name: &'w str, next: &BTreeMap<&'w str, BTreeSet<&'w str>>, walked: &mut usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![name];
    while let Some(role) = open.pop() {
        for target in next.get(role).into_iter().flatten() {
            *walked += 1;
            if *target == name || *walked > MAX_WALKED {
                return true;
            }
            if seen.insert(*target) {
                open.push(target);
            }
        }
    }
    false
}
