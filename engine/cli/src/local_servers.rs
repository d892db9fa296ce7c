//! Servers of models on this machine, with the line to type that uses one. Nothing is used before somebody types it.

use std::io::IsTerminal as _;

use rondo::agent_kit::model::http::local::{LocalServer, local_servers};
use rondo::protocol::diagnostic::Code;
use rondo::protocol::hint::Hint;
use rondo::protocol::text::shell_argument;
use rondo::settings::{DEFAULT_PROVIDER, Provider, Settings};
use rondo::tell::one_line;

use super::doctor::Finding;
use super::{Failure, Output, json_line, runtime, some};

const MAX_MODELS: usize = 5;

pub fn found() -> Result<Vec<LocalServer>, Failure> {
    Ok(runtime()?.block_on(local_servers()))
}

pub fn findings(servers: &[LocalServer], settings: &Settings) -> Vec<Finding> {
    let of = |server: &LocalServer| {
        let from = in_use(server, settings);
        let typed = line_for_any_run(server, settings).filter(|_| from.is_none());
        let told = Finding::new("local server", format!("{}: {}", place(server), models(server)));
        [Some(Finding { from, ..told }), typed.map(|typed| Finding::new("to use it", typed))]
    };
    servers.iter().flat_map(of).flatten().collect()
}

/// The same as JSON Lines.
pub fn lines(servers: &[LocalServer], settings: &Settings, output: &mut Output) -> Result<(), Failure> {
    servers.iter().try_for_each(|server| {
        output.line(&json_line!(
            "local_server",
            program: server.program,
            base_url: &server.base_url,
            models: server.models.iter().map(|model| one_line(model)).collect::<Vec<_>>(),
            command: line_for_any_run(server, settings),
        ))
    })
}

/// Whether a person reads hints: only then is this machine asked.
pub fn has_reader(output: &Output) -> bool {
    !output.is_json() && std::io::stderr().is_terminal()
}

/// The failure of a run that has no provider, which also names the servers that answer now.
pub fn advising(failure: Failure, settings: &Settings, workflow: &str) -> Failure {
    if failure.code() != Code::NoProvider {
        return failure;
    }
    hinted(failure, &found().unwrap_or_default(), settings, workflow)
}

fn hinted(failure: Failure, servers: &[LocalServer], settings: &Settings, workflow: &str) -> Failure {
    let Some(hint) = failure.hint().filter(|_| !servers.is_empty()) else { return failure };
    let line = |server: &LocalServer| {
        // An id in the workflow is stronger than the variable.
        let run = |model: &str| format!(" rondo run {} --model {model}", shell_argument(workflow));
        let typed = line_to_type(server, settings, run).map_or_else(String::new, |typed| format!(": {typed}"));
        format!("\n{} serves {}{typed}", place(server), models(server))
    };
    let lines: String = servers.iter().map(line).collect();
    failure.with_hint(hint.then(Hint::from(lines)))
}

fn place(server: &LocalServer) -> String {
    format!("{} at {}", server.program, server.base_url)
}

fn models(server: &LocalServer) -> String {
    some(server.models.iter().map(|model| one_line(model)), MAX_MODELS)
}

/// The provider that is this server already.
fn in_use(server: &LocalServer, settings: &Settings) -> Option<String> {
    let is_it = |(_, provider): &(&String, &Provider)| provider.base_url.value == server.base_url;
    settings.providers.iter().find(is_it).map(|(name, _)| format!("provider.{name}"))
}

fn line_for_any_run(server: &LocalServer, settings: &Settings) -> Option<String> {
    line_to_type(server, settings, |model| format!(" RONDO_MODEL={model} rondo run ..."))
}

/// The variables that name a server, and the command behind them with its first model. `None` if no model has an id that
/// can be typed.
fn line_to_type(server: &LocalServer, settings: &Settings, command: impl Fn(&str) -> String) -> Option<String> {
    let model = server.models.iter().find(|model| can_be_typed(model))?;
    // A key of a service is not for whoever listens here.
    let provider = settings.providers.get(DEFAULT_PROVIDER);
    let without_key = provider.and_then(|provider| provider.key.as_ref()).map(|key| format!("{}= ", key.name));
    let command = command(&shell_argument(model));
    Some(format!("{}OPENAI_BASE_URL={}{command}", without_key.unwrap_or_default(), server.base_url))
}

/// A name that stands for itself in a shell and in `--model`: a stranger wrote it.
fn can_be_typed(model: &str) -> bool {
    !model.starts_with('-') && model.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@+".contains(c))
}

#[cfg(test)]
mod tests;
