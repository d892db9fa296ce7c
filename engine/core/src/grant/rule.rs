//! One entry of `tools`, `deny` or `approve`: `[ROLE/]TOOL[:WORDS or PATH]`.

use std::path::{Component, Path};
use std::str::FromStr;

use rondo_agent_kit::tool::means;
use rondo_protocol::call::ToolCall;
use rondo_protocol::id::RoleName;
use rondo_protocol::{Value, canonical};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::words;

/// The tool whose calls rules select by their leading words.
const SHELL: &str = "shell";

/// The tools whose calls rules select by path.
const WITH_PATH: [&str; 5] = ["list_files", "read_file", "search_files", "write_file", "edit_file"];

/// The argument that holds the path.
const PATH: &str = "path";

/// Which calls an entry covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    /// `None` means every role.
    role: Option<RoleName>,
    /// A name, `server.*` or `*`.
    tool: String,
    only: Only,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Only {
    /// Every call of the tool.
    All,
    /// Calls of `shell` that begin with these words; `*` matches anything within a word.
    Words(Vec<String>),
    /// Calls with this path; `*` matches anything within a name.
    Path(Vec<String>),
}

/// An entry that names no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {why}")]
pub struct InvalidRule {
    /// The entry, shortened.
    pub text: String,
    /// What is wrong, and what to write.
    pub why: &'static str,
}

impl FromStr for Rule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let invalid = |why| InvalidRule { text: text.chars().take(60).collect(), why };
        let (subject, only) = text.split_once(':').map_or((text, None), |(subject, only)| (subject, Some(only)));
        // A role's name has no dot; the tool of a server has one before any slash.
        let (role, tool) = match subject.split_once('/') {
            Some((role, tool)) if !role.contains('.') => {
                let role = RoleName::new(role).map_err(|_| invalid("names no role before its `/`"))?;
                (Some(role), tool)
            }
            _ => (None, subject),
        };
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        };
        if !(tool == "*" || is_name(tool.strip_suffix(".*").unwrap_or(tool))) {
            return Err(invalid("means no tool; write [ROLE/]TOOL, where TOOL is a name, `server.*` or `*`"));
        }
        let only = match only {
            None => Only::All,
            Some(only) if tool == SHELL => {
                let words: Vec<String> = only.split_whitespace().map(str::to_owned).collect();
                if words.is_empty() {
                    return Err(invalid("has no words behind its `:`"));
                }
                Only::Words(words)
            }
            Some(only) if WITH_PATH.contains(&tool) => {
                Only::Path(names(only).ok_or_else(|| invalid("has no path below the workspace behind its `:`"))?)
            }
            Some(_) => {
                return Err(invalid("has a `:`, which only shell (first words) and the file tools (a path) take"));
            }
        };
        Ok(Self { text: text.to_owned(), role, tool: tool.to_owned(), only })
    }
}

impl Rule {
    /// Covers every call of a tool as a workflow names it, a name or `server.*`; or of all tools, by `*`.
    pub fn of_tool(tool: &str) -> Self {
        Self { text: tool.to_owned(), role: None, tool: tool.to_owned(), only: Only::All }
    }

    /// The text that the operator wrote.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The tools it covers: a name, `server.*` or `*`.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether it covers some calls of a tool by a role; `None` means any role.
    pub fn is_of(&self, role: Option<&RoleName>, tool: &str) -> bool {
        self.role.as_ref().is_none_or(|own| Some(own) == role) && means(&self.tool, tool)
    }

    /// Whether it covers all calls of its tool.
    pub fn covers_all(&self) -> bool {
        self.only == Only::All
    }

    /// The program that a rule of every role covers in each of its calls by `shell`.
    pub fn program(&self) -> Option<&str> {
        let (None, Only::Words(words)) = (&self.role, &self.only) else { return None };
        let [program] = words.as_slice() else { return None };
        (!program.contains(['*', '/'])).then_some(program.as_str())
    }

    /// Whether it covers a call of its tool; `None` if the arguments do not decide it.
    pub(super) fn covers(&self, call: &ToolCall) -> Option<bool> {
        let arguments = || canonical::from_slice::<Value>(call.arguments.as_bytes()).ok();
        match &self.only {
            Only::All => Some(true),
            Only::Words(wanted) => {
                let given = words::of_command(&arguments()?)?;
                Some(wanted.len() <= given.len() && all_match(wanted, &given))
            }
            Only::Path(wanted) => {
                let given = names(arguments()?.get(PATH)?.as_str()?)?;
                Some(wanted.len() == given.len() && all_match(wanted, &given))
            }
        }
    }
}

fn all_match(wanted: &[String], given: &[String]) -> bool {
    wanted.iter().zip(given).all(|(want, given)| matches(want, given))
}

/// The names of a relative path, without `.` and `..`; `None` if it leads out of its folder.
fn names(path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for part in Path::new(path.trim()).components() {
        match part {
            Component::Normal(name) => names.push(name.to_str()?.to_owned()),
            Component::CurDir => {}
            Component::ParentDir => {
                names.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Whether `pattern`, in which `*` matches anything, matches the whole of `text`.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
