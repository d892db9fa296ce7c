//! What an edge to a role evaluates besides its prompt.

use rondo_protocol::id::{FieldName, Status};
use rondo_protocol::workflow::template::{Expr, Use, ValueTemplate};
use rondo_protocol::workflow::{RoleKind, SelectBy};

use super::lower::{condition, value_template};
use super::{Condition, Error};

/// What an edge to a role evaluates besides its prompt.
#[derive(Debug)]
pub enum Entry {
    /// Nothing: a model answers the prompt.
    Prompt,
    /// Nothing: a person answers the prompt.
    Form,
    /// The arguments of a tool role's tool.
    Args(ValueTemplate),
    /// The input of a child workflow.
    Input(ValueTemplate),
    /// The rules of a rule role, tried in order; the last has no condition.
    Rules(Vec<Rule>),
    /// An expression that yields a selector's status.
    Choice(Condition),
    /// The statuses that a selector takes in turn.
    RoundRobin(Vec<Status>),
    /// The statuses of which a selector takes the one whose role spoke least recently.
    LeastRecent(Vec<Status>),
}

/// One status of a rule role.
#[derive(Debug)]
pub struct Rule {
    /// The status.
    pub status: Status,
    /// The condition; the last rule has none.
    pub when: Option<Condition>,
    /// The fields.
    pub fields: Vec<(FieldName, Expr)>,
}

impl Entry {
    /// Lowers the kind of a role. `rotation` are its statuses whose edges do not end the thread.
    pub(super) fn lower(kind: &RoleKind, rotation: impl FnOnce() -> Vec<Status>) -> Result<Self, Error> {
        let lowered = match kind {
            RoleKind::Model(_) => Self::Prompt,
            RoleKind::Human => Self::Form,
            RoleKind::Tool(tool) => Self::Args(value_template(&tool.args)?),
            RoleKind::Workflow(child) => Self::Input(value_template(&child.input)?),
            RoleKind::Rule(role) => {
                let rules = role.rules.iter().map(|(status, rule)| {
                    let field = |(name, source): &(FieldName, String)| Ok((name.clone(), condition(source)?.expr));
                    Ok(Rule {
                        status: status.clone(),
                        when: rule.when.as_deref().map(condition).transpose()?,
                        fields: rule.fields.iter().map(field).collect::<Result<_, _>>()?,
                    })
                });
                Self::Rules(rules.collect::<Result<_, _>>()?)
            }
            RoleKind::Selector(selector) => match &selector.by {
                SelectBy::Model => Self::Prompt,
                SelectBy::Human => Self::Form,
                SelectBy::RoundRobin => Self::RoundRobin(rotation()),
                SelectBy::LeastRecent => Self::LeastRecent(rotation()),
                SelectBy::Expression(source) => Self::Choice(condition(source)?),
            },
        };
        Ok(lowered)
    }

    /// The paths that it reads.
    pub fn uses(&self) -> Vec<Use<'_>> {
        match self {
            Self::Args(value) | Self::Input(value) => uses_of(value),
            Self::Rules(rules) => {
                let exprs = rules.iter().flat_map(|rule| {
                    rule.when.iter().map(|when| &when.expr).chain(rule.fields.iter().map(|(_, expr)| expr))
                });
                exprs.flat_map(Expr::uses).collect()
            }
            Self::Choice(choice) => choice.expr.uses(),
            Self::Prompt | Self::Form | Self::RoundRobin(_) | Self::LeastRecent(_) => Vec::new(),
        }
    }
}

pub(super) fn uses_of(value: &ValueTemplate) -> Vec<Use<'_>> {
    value.leaves().iter().flat_map(|leaf| leaf.template.uses()).collect()
}
