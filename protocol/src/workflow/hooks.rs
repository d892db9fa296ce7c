//! The hook kinds that a file may name. Their uses are split into altering and transparent ones.
//!
//! The table contains what the reader of files needs; `engine/hooks` implements the kinds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call_kind::CallKind;
use crate::canonical::Value;
use crate::id::RoleName;

use super::format::{COUNT, KeySpec, Shape, key, required};

/// One use of a hook kind in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookUse {
    pub at: CallKind,
    pub on_error: OnHookError,
    /// The roles it applies to; `None` = every role.
    pub roles: Option<Vec<RoleName>>,
    /// The kind's own settings: durations as milliseconds, sizes as bytes, `null` for a duration that never ends.
    pub settings: BTreeMap<String, Value>,
    #[serde(rename = "use")]
    pub kind: String,
}

impl HookUse {
    pub fn covers(&self, role: &RoleName) -> bool {
        self.roles.as_ref().is_none_or(|roles| roles.contains(role))
    }

    /// Whether another use is equal apart from its roles.
    pub fn is_as(&self, other: &Self) -> bool {
        let Self { at, on_error, roles: _, settings, kind } = self;
        (at, on_error, settings, kind) == (&other.at, &other.on_error, &other.settings, &other.kind)
    }
}

/// A hook as a node of the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct HookNode {
    /// The name of the node: the kind's, with a number where it is used more than once.
    pub name: String,
    /// Its use in the file, or that of a kind that is added automatically.
    pub hook: HookUse,
}

impl HookNode {
    /// Whether calls of that kind by that role pass through it.
    pub fn is_passed_by(&self, role: &RoleName, kind: CallKind) -> bool {
        self.hook.at == kind && self.hook.covers(role)
    }
}

/// What happens to a call when a hook on its path fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnHookError {
    Bypass,
    Fail,
}

/// What the reader of files knows of a hook kind.
#[derive(Debug, Clone, Copy)]
pub struct HookKind {
    pub name: &'static str,
    /// Whether threads are the same with it on, off, cold or warm; see [`is_altering`](Self::is_altering).
    pub transparent: bool,
    pub at: CallKind,
    pub stands_at: &'static [CallKind],
    pub needs_setting: bool,
    /// Its settings, sorted by name.
    pub settings: &'static [KeySpec],
}

const MODE: Shape = Shape::Word(&[
    ("serve", "It answers the call."),
    ("observe", "It is counted; the tool runs."),
    ("verify", "The tool runs, and the result is compared."),
]);
const SCOPE: Shape = Shape::Word(&[
    ("thread", "Entries of this thread."),
    ("workflow", "Entries of threads of this workflow."),
    ("store", "All entries of the store."),
]);
const BYTES: &str = "The most bytes that it keeps.";
const ENTRIES: &str = "The most entries that it keeps.";
const SHARED: &str = "Whose entries may answer.";
const TTL: &str = "How long an entry may answer.";
const TEXTS: Shape = Shape::List(&Shape::NonEmpty, 0);

impl HookKind {
    const TRANSPARENT: Self = Self {
        name: "",
        transparent: true,
        at: CallKind::Model,
        stands_at: &CallKind::ALL,
        needs_setting: false,
        settings: &[],
    };
    const ALTERING: Self = Self { transparent: false, ..Self::TRANSPARENT };

    pub const ALL: [Self; 6] = [
        Self { name: "log", ..Self::TRANSPARENT },
        Self {
            name: "response_cache",
            stands_at: &[CallKind::Turn, CallKind::Model],
            settings: &[
                key("bytes", Shape::Size, BYTES),
                key("entries", COUNT, ENTRIES),
                key("scope", SCOPE, SHARED),
                key("ttl", Shape::DurationOrNever, TTL),
            ],
            ..Self::TRANSPARENT
        },
        Self {
            name: "tool_cache",
            at: CallKind::Tool,
            stands_at: &[CallKind::Tool],
            settings: &[
                key("bytes", Shape::Size, BYTES),
                key("entries", COUNT, ENTRIES),
                key("exclude", TEXTS, "Tools that pass it by."),
                key("mode", MODE, "What a hit does."),
                key("per_tool", Shape::Map(&Shape::DurationOrNever), "How long an entry may answer, by tool."),
                key("scope", SCOPE, SHARED),
                key("tools", TEXTS, "The only tools whose results it keeps."),
                key("ttl", Shape::DurationOrNever, TTL),
            ],
            ..Self::TRANSPARENT
        },
        Self {
            name: "rate_limit",
            stands_at: &[CallKind::Model, CallKind::Tool],
            needs_setting: true,
            settings: &[
                key("concurrent", COUNT, "Calls that run at once."),
                key("per_minute", COUNT, "Calls that start in a minute."),
            ],
            ..Self::TRANSPARENT
        },
        // Applies to turns by default, because it covers model replies and tool results.
        Self {
            name: "redact",
            at: CallKind::Turn,
            settings: &[required("patterns", TEXTS, "Regular expressions of what is replaced.")],
            ..Self::ALTERING
        },
        // The operator defines the program, its arguments and its deadline.
        Self {
            name: "command",
            settings: &[required("name", Shape::NonEmpty, "A program of the settings: `[hook.NAME]`.")],
            ..Self::ALTERING
        },
    ];

    pub fn on_error(&self) -> OnHookError {
        if self.transparent { OnHookError::Bypass } else { OnHookError::Fail }
    }

    pub fn find(name: &str) -> Option<&'static Self> {
        static ALL: [HookKind; 6] = HookKind::ALL;
        ALL.iter().find(|kind| kind.name == name)
    }

    /// Its settings, all optional as in a role's `with`.
    pub(crate) fn optional(&self) -> Vec<KeySpec> {
        self.settings.iter().map(|setting| KeySpec { required: false, ..*setting }).collect()
    }

    /// Whether it can change a thread with these settings: an altering kind can, and so can a transparent one that
    /// names a server's tool (`server.tool`), whose effects are unknown.
    pub fn is_altering(&self, settings: &BTreeMap<String, Value>) -> bool {
        let names_server = |named: &str| match settings.get(named) {
            Some(Value::List(names)) => names.iter().filter_map(Value::as_str).any(|name| name.contains('.')),
            Some(Value::Object(names)) => names.keys().any(|name| name.contains('.')),
            _ => false,
        };
        !self.transparent || names_server("tools") || names_server("per_tool")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_stands_where_it_may_and_lists_its_settings_in_order() {
        for kind in HookKind::ALL {
            assert!(kind.stands_at.contains(&kind.at), "{}", kind.name);
            assert!(kind.settings.is_sorted_by_key(|setting| setting.name), "{}", kind.name);
            assert_eq!(HookKind::find(kind.name).unwrap().name, kind.name);
        }
    }

    #[test]
    fn naming_a_tool_of_a_server_makes_a_kind_altering() {
        let kind =
            HookKind::ALL.iter().find(|kind| kind.settings.iter().any(|known| known.name == "per_tool")).unwrap();
        let named = |name: &str| {
            let per_tool = [(name, Value::from(1_000_u64))].into_iter().collect();
            [("per_tool".to_owned(), per_tool)].into_iter().collect::<BTreeMap<_, _>>()
        };
        assert!(!kind.is_altering(&named("read_file")));
        assert!(kind.is_altering(&named("files.read")));
    }
}
