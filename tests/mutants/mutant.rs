//! A mutant: a workflow in which one thing was changed.

use std::collections::BTreeMap;

use rondo_protocol::source::Node;

use crate::tree;

/// The name of the workflow file in its folder.
pub const FILE: &str = "workflow.yaml";

/// A workflow in which one thing was changed.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// What kind of change.
    pub operator: &'static str,
    /// Where, as the workflow's parts are called.
    pub place: String,
    /// What exactly.
    pub what: String,
    /// Files of the workflow's folder that are others now.
    pub files: BTreeMap<String, String>,
    /// What a report must say.
    pub named: Named,
}

/// What a report must say of a change.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// One of these causes.
    pub causes: &'static [&'static str],
    /// One of these parts; a part that lies in one is right too.
    pub parts: Vec<String>,
    /// Where scenarios no longer fit the workflow at all: a word that the complaint must hold.
    pub word: String,
}

impl Mutant {
    /// A change of the workflow file itself.
    pub fn of_tree(
        operator: &'static str,
        place: impl Into<String>,
        what: impl Into<String>,
        root: &Node,
        causes: &'static [&'static str],
    ) -> Self {
        let place = place.into();
        let files = BTreeMap::from([(FILE.to_owned(), tree::json(root))]);
        let named = Named { causes, parts: vec![place.clone()], word: String::new() };
        Self { operator, place, what: what.into(), files, named }
    }

    /// The same where these parts are right.
    pub fn in_parts(mut self, parts: impl IntoIterator<Item = String>) -> Self {
        self.named.parts = parts.into_iter().collect();
        self
    }

    /// The same where a complaint about a scenario must hold `word`.
    pub fn or_word(mut self, word: impl Into<String>) -> Self {
        self.named.word = word.into();
        self
    }
}
