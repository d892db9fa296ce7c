//! Names of roles, statuses, fields and inputs, and reserved names.

use super::Reader;
use super::path_node::PathNode;
use crate::diagnostic::{Code, did_you_mean};
use crate::id::{FieldName, InvalidName, RoleName, Status};
use crate::source::excerpt;
use crate::workflow::source_map::key;

const RESERVED_ROLES: [&str; 12] =
    ["start", "end", "fail", "back", "input", "output", "steps", "branches", "item", "index", "loop", "status"];
const RESERVED_STATUSES: [&str; 9] = ["error", "limit", "timeout", "true", "false", "yes", "no", "on", "off"];
const RESERVED_FIELDS: [&str; 3] = ["status", "body", "when"];

const LONGEST: usize = 64;

impl Reader<'_> {
    pub(super) fn role_name(&mut self, part: &PathNode<'_>) -> Option<RoleName> {
        let Some(name) = self.checked_name(part, RoleName::new) else {
            // Elsewhere the role may have the name that was meant.
            if let Some(meant) = mended(part.name(), |name| RoleName::new(name).is_ok()) {
                self.place(&part.moved(key("roles", &meant)));
            }
            return None;
        };
        self.unreserved(part, "role", |text| RESERVED_ROLES.contains(&text) || text == "body").then_some(name)
    }

    pub(super) fn status_name(&mut self, part: &PathNode<'_>) -> Option<Status> {
        let is_reserved = |text: &str| RESERVED_STATUSES.contains(&text) || text == "null" || text.starts_with("on_");
        if is_reserved(part.name()) {
            self.unreserved(part, "status", is_reserved);
            return None;
        }
        self.checked_name(part, Status::new)
    }

    /// Reads the name of a status's field, without the `?` of an optional one.
    pub(super) fn field_name(&mut self, part: &PathNode<'_>) -> Option<(FieldName, bool)> {
        let (name, optional) = self.input_name(part)?;
        self.unreserved(part, "field", |text| RESERVED_FIELDS.contains(&text.trim_end_matches('?')))
            .then_some((name, optional))
    }

    /// Reads the name of an input, without the `?` of an optional one.
    pub(super) fn input_name(&mut self, part: &PathNode<'_>) -> Option<(FieldName, bool)> {
        let optional = part.name().ends_with('?');
        let name = self.checked_name(part, |text| FieldName::new(text.strip_suffix('?').unwrap_or(text)))?;
        Some((name, optional))
    }

    /// Reads a reference to a role; the checker checks that it exists.
    pub(super) fn role_reference(&mut self, part: &PathNode<'_>) -> Option<RoleName> {
        let text = self.text(part)?;
        match RoleName::new(&text) {
            Ok(name) => Some(name),
            // Its name is a fault where the role is declared.
            Err(_) if self.role_names.contains(&text) => {
                self.places.mark_incomplete(&part.path);
                None
            }
            Err(error) => {
                let mended = || hint_at_mended(&text, |name| RoleName::new(name).is_ok());
                let hint = self.near_role(&text).or_else(mended);
                self.refuse(part, part.fault(Code::InvalidName, not_a_name(&error)).with_hint_if(hint))
            }
        }
    }

    /// A hint at the role with the name nearest to `text`, only for the first faults of a file: comparing thousands of
    /// names with thousands of roles would take minutes.
    pub(super) fn near_role(&self, text: &str) -> Option<String> {
        const FAULTS_WITH_HINT: usize = 100;
        if self.faults.len() >= FAULTS_WITH_HINT {
            return None;
        }
        let declared = self.role_names.iter().map(String::as_str).filter(|name| RoleName::new(name).is_ok());
        did_you_mean(text, declared)
    }

    fn checked_name<N>(&mut self, part: &PathNode<'_>, new: impl Fn(&str) -> Result<N, InvalidName>) -> Option<N> {
        let text = part.name();
        let (message, hint) = match new(text) {
            Ok(_) if text.len() > LONGEST => (format!("`{}` is longer than {LONGEST} bytes", excerpt(text)), None),
            Ok(name) => return Some(name),
            Err(error) => (not_a_name(&error), hint_at_mended(text, |name| new(name).is_ok())),
        };
        self.refuse(part, part.key_fault(Code::InvalidName, message).with_hint_if(hint))
    }

    fn unreserved(&mut self, part: &PathNode<'_>, what: &str, is_reserved: impl Fn(&str) -> bool) -> bool {
        let reserved = is_reserved(part.name());
        if reserved {
            let message = format!("`{}` cannot be the name of a {what}: it already has a meaning", part.name());
            let hint = match part.name() {
                name @ ("error" | "limit" | "timeout") => {
                    &format!("to route it, write `on_{name}` beside the statuses in `graph`")
                }
                name if name.starts_with("on_") => {
                    "names with `on_` are kept for `on_error`, `on_limit` and `on_timeout` in `graph`"
                }
                "yes" | "true" | "on" => "choose a word that says what was decided, such as `approved`",
                "no" | "false" | "off" => "choose a word that says what was decided, such as `refused`",
                _ => "choose another name",
            };
            self.leave_out(part, part.key_fault(Code::ReservedName, message).with_hint(hint));
        }
        !reserved
    }
}

/// A hint with the nearest valid name: `text` in lower case, with `_` for blanks and `-`.
fn hint_at_mended(text: &str, is_name: impl Fn(&str) -> bool) -> Option<String> {
    let name = mended(text, is_name)?;
    Some(if text.contains(is_gap) { format!("write it with `_`: `{name}`") } else { format!("write `{name}`") })
}

fn mended(text: &str, is_name: impl Fn(&str) -> bool) -> Option<String> {
    let mended: String = text.trim().chars().map(|c| if is_gap(c) { '_' } else { c }).collect();
    let lower = mended.to_lowercase();
    [mended, lower].into_iter().find(|name| name.len() <= LONGEST && is_name(name))
}

fn is_gap(c: char) -> bool {
    c.is_whitespace() || c == '-'
}

pub(super) fn not_a_name(error: &InvalidName) -> String {
    format!("`{}` is not a {}: {}", excerpt(&error.text), error.kind, error.rule)
}
