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

    /// The share of a role's first request that was cached.
    pub fn found(&self, role: Role) -> f64 {
        self.of(Some(role)).next().map_or(0.0, |tokens| ratio(tokens.cached, tokens.prompt))
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
}

/// A row a role of each, with every visit's share.
pub fn by_visit(measured: &[(String, Shares)]) -> String {
    let mut table = "| protocol | role | share by visit | all | 1 - F/P |\n|---|---|---|--:|--:|\n".to_owned();
    for (name, shares) in measured {
        for role in ROLES.map(Role::named) {
            let visits: Vec<String> = shares
                .of(Some(role))
                .map(|tokens| format!("{:.0}", 100.0 * ratio(tokens.cached, tokens.prompt)))
                .collect();
            let (reached, most) = (100.0 * shares.reached(Some(role)), 100.0 * shares.closed_form(Some(role)));
            let (role, visits) = (role.name(), visits.join(" "));
            let _ = writeln!(table, "| {name} | {role} | {visits} | {reached:.1}% | {most:.1}% |");
        }
    }
    table
}

/// A row each.
pub fn table(title: &str, measured: &[(String, Shares)]) -> String {
    let mut table = format!(
        "| {title} | prompt tokens | cached | share | 1 - F/P | of the closed form |\n|---|--:|--:|--:|--:|--:|\n"
    );
    for (name, shares) in measured {
        let (sent, cached) = (shares.sent(None), shares.cached(None));
        let (reached, most) = (shares.reached(None), shares.closed_form(None));
        let _ = writeln!(
            table,
            "| {name} | {sent} | {cached} | {:.1}% | {:.1}% | {:.0}% |",
            100.0 * reached,
            100.0 * most,
            100.0 * reached / most
        );
    }
    table
}

fn ratio(part: u64, whole: u64) -> f64 {
    let float = |count: u64| f64::from(u32::try_from(count).expect("a few thousand tokens"));
    float(part) / float(whole)
}
