//! Converts a table `[tool.NAME]` of the operator to the settings of its program.

use std::time::Duration;

use rondo_agent_kit::pinned::Pinned;
use rondo_agent_kit::sandbox::process::WorkingDir;
use rondo_agent_kit::tool::{EffectWord, ProgramSettings, STORED_MAX_BYTES};
use rondo_protocol::{Value, canonical};

use super::{Cwd, Tool};

/// The default timeout of a program: less than that of a step, so that its role gets the error.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

/// The settings in a table. `schema` is the text of its schema, inline or from a file.
pub fn settings(name: &str, tool: &Tool, schema: Option<String>) -> ProgramSettings {
    ProgramSettings {
        name: name.to_owned(),
        description: description(schema.as_deref(), &tool.argv),
        argv: tool.argv.clone(),
        pinned: Pinned::default(),
        schema,
        effect: tool.effect.unwrap_or(EffectWord::External),
        paths: tool.paths.clone(),
        working_dir: match tool.cwd {
            Some(Cwd::Private) => WorkingDir::Private,
            Some(Cwd::Workspace) | None => WorkingDir::workspace(),
        },
        timeout: tool.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
        output_max_bytes: tool.output_max_bytes.and_then(|max| usize::try_from(max).ok()).unwrap_or(STORED_MAX_BYTES),
        in_doubt: tool.in_doubt.unwrap_or_default(),
    }
}

/// The description of a program for models: from its schema, else its command line.
fn description(schema: Option<&str>, argv: &[String]) -> String {
    let schema: Option<Value> = schema.and_then(|schema| canonical::from_slice(schema.as_bytes()).ok());
    let said = schema.as_ref().and_then(|schema| schema.get("description")?.as_str());
    said.map_or_else(|| format!("Runs `{}`.", argv.join(" ")), str::to_owned)
}
