//! What takes keys and an author's patterns out of what enters a thread: one redactor for each role and kind of call.
//!
//! Patterns act at the port, before any hook sees what comes from there, so that nothing behind any hook holds what they
//! match, and the pieces of a stream no more than the whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_agent_kit::redact::{Pattern, Redactor};
use rondo_protocol::Digest;
use rondo_protocol::call::CallKind;
use rondo_protocol::id::RoleName;
use rondo_protocol::workflow::{HookNode, HookUse};

use super::Registry;

/// The redactors of a run.
#[derive(Debug, Clone, Default)]
pub struct Redactors {
    /// Of the input, which every role may see: keys, and every pattern.
    pub input: Arc<Redactor>,
    of_role: BTreeMap<RoleName, OfRole>,
    /// Of a role without patterns: keys alone.
    keys: Arc<Redactor>,
}

#[derive(Debug, Clone)]
struct OfRole {
    model: Arc<Redactor>,
    tool: Arc<Redactor>,
    fingerprint: String,
}

impl Redactors {
    /// Those of a graph's hooks. `keys` holds what is always redacted.
    ///
    /// # Errors
    /// The node whose pattern cannot be used, and why.
    pub fn new<'a>(
        keys: &Arc<Redactor>,
        hooks: &[HookNode],
        roles: impl Iterator<Item = &'a RoleName>,
        registry: &Registry,
    ) -> Result<Self, (String, String)> {
        let mut patterns: Vec<(&HookUse, Vec<Pattern>)> = Vec::new();
        for node in hooks {
            let kind = registry.kind(&node.hook.kind);
            let found = kind.map_or(Ok(Vec::new()), |kind| kind.patterns(&node.hook));
            let found = found.map_err(|what| (node.name.clone(), what))?;
            if !found.is_empty() {
                patterns.push((&node.hook, found));
            }
        }
        if patterns.is_empty() {
            return Ok(Self { input: Arc::clone(keys), of_role: BTreeMap::new(), keys: Arc::clone(keys) });
        }
        let with = |wanted: &dyn Fn(&HookUse) -> bool| {
            let chosen = patterns.iter().filter(|(hook, _)| wanted(hook)).flat_map(|(_, patterns)| patterns.clone());
            Arc::new(keys.with_patterns(chosen))
        };
        let of_role = roles.map(|role| {
            // What enters in a turn is what its models and tools say.
            let at = |kind: CallKind| with(&|hook| hook.covers(role) && (hook.at == kind || hook.at == CallKind::Turn));
            let own = patterns.iter().filter(|(hook, _)| hook.covers(role));
            let own =
                own.flat_map(|(hook, patterns)| patterns.iter().map(|pattern| (hook.at.name(), pattern.as_str())));
            let text = own.map(|(at, pattern)| [at, " ", pattern, "\n"].concat()).collect::<Vec<_>>().concat();
            let fingerprint = if text.is_empty() { String::new() } else { Digest::sha256(text.as_bytes()).to_string() };
            (role.clone(), OfRole { model: at(CallKind::Model), tool: at(CallKind::Tool), fingerprint })
        });
        Ok(Self { of_role: of_role.collect(), input: with(&|_| true), keys: Arc::clone(keys) })
    }

    /// A digest of the patterns that act on a role's messages; nothing without any.
    pub(crate) fn fingerprint(&self, role: &RoleName) -> String {
        self.of_role.get(role).map_or_else(String::new, |of_role| of_role.fingerprint.clone())
    }

    /// That of what tools say to a role.
    pub fn tool(&self, role: &RoleName) -> &Redactor {
        self.of_role.get(role).map_or(&self.keys, |of_role| &of_role.tool)
    }

    /// That of what models say to a role.
    pub fn model(&self, role: &RoleName) -> &Redactor {
        self.of_role.get(role).map_or(&self.keys, |of_role| &of_role.model)
    }
}
