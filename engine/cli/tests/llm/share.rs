//! What a server had cached of a role's requests, beside what a perfect prefix cache would have served.

use std::fmt::Write as _;

use serde_json::Value;

use crate::ROLES;

/// Tokens of one request, as the server counted them.
#[derive(Debug, Clone, Copy)]
pub struct Tokens {
    /// Of the prompt.
    pub prompt: u64,
    /// Of those, cached.
    pub cached: u64,
}

/// What the server counted in a step.
pub fn of_note(step: &Value) -> Tokens {
    let count =
        |name: &str| step.pointer(&format!("/note/usage/{name}")).and_then(Value::as_u64).expect("the server counts");
    Tokens { prompt: count("prompt_tokens"), cached: count("cached_tokens") }
}

/// A role, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Role(&'static str);

impl Role {
    /// The role of that name.
    pub fn named(name: &str) -> Self {
        Self(ROLES.into_iter().find(|role| *role == name).expect("a role of the workflow"))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// The requests of all roles, in order.
#[derive(Debug, Clone, Default)]
pub struct Shares(Vec<(Role, Tokens)>);

impl Shares {
    /// With one request more.
    pub fn add(&mut self, role: Role, tokens: Tokens) {
        self.0.push((role, tokens));
    }

    fn of(&self, role: Option<Role>) -> impl Iterator<Item = Tokens> {
        self.0.iter().filter(move |(of, _)| role.is_none_or(|role| role == *of)).map(|(_, tokens)| *tokens)
    }

    /// Tokens of all prompts, of one role or of all.
    pub fn sent(&self, role: Option<Role>) -> u64 {
        self.of(role).map(|tokens| tokens.prompt).sum()
    }

    /// Of those, cached. What the first visit of a role found there is of other requests and does not count.
    pub fn cached(&self, role: Option<Role>) -> u64 {
        let roles = ROLES.map(Role::named).into_iter().filter(|of| role.is_none_or(|role| role == *of));
        roles.flat_map(|role| self.of(Some(role)).skip(1)).map(|tokens| tokens.cached).sum()
    }

    /// The share that was cached.
    pub fn reached(&self, role: Option<Role>) -> f64 {
        ratio(self.cached(role), self.sent(role))
    }

    /// 1 - F/P: P is the sum of all requests, F the tokens that no request of the role before has sent, which are those
    /// of its last request if each begins with the one before.
    pub fn closed_form(&self, role: Option<Role>) -> f64 {
        let roles = ROLES.map(Role::named).into_iter().filter(|of| role.is_none_or(|role| role == *of));
        let fresh = roles.filter_map(|role| self.of(Some(role)).last()).map(|tokens| tokens.prompt).sum();
        1.0 - ratio(fresh, self.sent(role))
    }

    /// A row a role, with every visit's share.
    pub fn by_visit(&self) -> String {
        let mut table = "| role | share by visit | all | 1 - F/P |\n|---|---|--:|--:|\n".to_owned();
        for role in ROLES.map(Role::named) {
            let visits: Vec<String> = self
                .of(Some(role))
                .map(|tokens| format!("{:.0}", 100.0 * ratio(tokens.cached, tokens.prompt)))
                .collect();
            let (reached, most) = (100.0 * self.reached(Some(role)), 100.0 * self.closed_form(Some(role)));
            let _ = writeln!(table, "| {} | {} | {reached:.1}% | {most:.1}% |", role.name(), visits.join(" "));
        }
        table
    }
}

/// A row a variant.
pub fn table(variants: &[(String, Shares)]) -> String {
    let mut table = "| the same workflow, thirty requests | prompt tokens | cached | share | of the closed form |\n\
                     |---|--:|--:|--:|--:|\n"
        .to_owned();
    for (name, shares) in variants {
        let (sent, cached) = (shares.sent(None), shares.cached(None));
        let (reached, of_form) = (shares.reached(None), shares.reached(None) / shares.closed_form(None));
        let _ = writeln!(table, "| {name} | {sent} | {cached} | {:.1}% | {:.0}% |", 100.0 * reached, 100.0 * of_form);
    }
    table
}

fn ratio(part: u64, whole: u64) -> f64 {
    let float = |count: u64| f64::from(u32::try_from(count).expect("a few thousand tokens"));
    float(part) / float(whole)
}
