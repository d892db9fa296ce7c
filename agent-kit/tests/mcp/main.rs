//! The MCP client against servers: those that others published, and those that mean harm.
//!
//! The binary is also the launcher of sandboxed servers, the supervisor of the servers that it starts, and the servers themselves: see [`fake`].

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests, though without the attribute that says so"
)]

mod fake;
mod http;
mod lifetime;
mod place;
mod published;
mod sandbox;
mod secrets;
mod stdio;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use rondo_agent_kit::mcp::{Server, ServerProgram, ServerSettings, Transport};
use rondo_agent_kit::redact::Secret;
use rondo_agent_kit::sandbox::process::WorkingDir;
use rondo_agent_kit::tool::{Error, Invocation, Tool};
use rondo_protocol::{Value, canonical};

fn main() -> ExitCode {
    let entered = rondo_agent_kit::sandbox::process::entered().or_else(rondo_agent_kit::mcp::entered);
    if let Some(code) =
        entered.or_else(fake::entered).or_else(lifetime::entered).or_else(place::entered).or_else(secrets::entered)
    {
        return code;
    }
    let trials = [
        stdio::trials(),
        lifetime::trials(),
        place::trials(),
        sandbox::trials(),
        secrets::trials(),
        http::trials(),
        published::trials(),
    ];
    let trials = trials.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that runs in a runtime of its own; it fails by a panic.
fn trial<F: Future<Output = ()> + 'static>(name: &str, run: fn() -> F) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(run());
        Ok(())
    })
}

/// A fake server that behaves as `mode` says.
fn fake_settings(mode: &str) -> ServerSettings {
    let this = std::env::current_exe().unwrap();
    let transport = Transport::Stdio(ServerProgram {
        pinned: rondo_agent_kit::pinned::Pinned::default(),
        command: this.display().to_string(),
        args: vec![fake::VERB.to_owned(), mode.to_owned()],
        env: Vec::new(),
        working_dir: WorkingDir::Private,
        sandbox: None,
        launcher: Some(this),
    });
    ServerSettings::new("fake", transport)
}

async fn start(mode: &str) -> Result<Server, Error> {
    Server::start(fake_settings(mode)).await
}

fn tool(server: &Server, name: &str) -> Arc<dyn Tool> {
    let tools = server.tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    Arc::clone(tools.iter().find(|tool| tool.spec().name == name).unwrap_or_else(|| panic!("no {name} in {names:?}")))
}

/// Calls a tool as a role would.
async fn call(tool: &Arc<dyn Tool>, arguments: &str) -> Result<String, Error> {
    let arguments: Value = canonical::from_slice(arguments.as_bytes()).unwrap();
    tool.run(arguments, &Invocation::new("thread/step/call")).await.map(|content| content.text)
}

/// What a server that runs scripts says to one.
async fn script(server: &Server, script: &str) -> String {
    call(&tool(server, "fake.call"), &serde_json::json!({"script": script}).to_string()).await.unwrap()
}

/// Settings of a fake server, with its folder and its variables.
fn placed(mode: &str, place: WorkingDir, variables: &[(&str, &str)]) -> ServerSettings {
    let mut settings = fake_settings(mode);
    if let Transport::Stdio(ServerProgram { working_dir, env, .. }) = &mut settings.transport {
        *working_dir = place;
        let secret = |(name, value): &(&str, &str)| Secret { name: (*name).to_owned(), value: (*value).to_owned() };
        env.extend(variables.iter().map(secret));
    }
    settings
}

/// The error of what must not succeed.
fn error_of<T>(outcome: Result<T, Error>) -> Error {
    outcome.err().expect("it succeeded")
}
