//! Keys printed by a program of the operator, such as `pass show openai`: it runs once per process and settings, only for
//! providers in use, and only after consent to the settings that name the program.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rondo_agent_kit::redact;
use rondo_core::resolved_roles;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::Workflow;
use rondo_settings::{Provider, Settings, folder_of};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::consent;
use crate::failure::Failure;

/// How long a person may take to unlock a key store.
const TIMEOUT: Duration = Duration::from_mins(2);
const MAX_BYTES: u64 = 64 << 10;

/// The providers that roles of a workflow and of its children use.
pub(crate) fn used_providers(settings: &Settings, workflow: &Workflow) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (_, workflow) in workflow.tree() {
        let models = workflow.models.keys().map(String::as_str);
        let models = models.chain(resolved_roles::model_roles(workflow).map(|(_, _, role)| role.model.as_str()));
        let of_model = |name: &str| settings.model(name, workflow.models.get(name), None).ok();
        used.extend(models.filter_map(of_model).map(|resolved| resolved.provider));
    }
    used
}

/// The key of a provider that its command prints.
pub(crate) async fn printed_key(
    name: &str,
    provider: &Provider,
    settings: &Settings,
) -> Result<redact::Secret, Failure> {
    let failed = |what: String| Failure::new(Code::NoProvider, format!("the key of provider {name}{what}"));
    let command = provider.key_command.as_ref().ok_or_else(|| failed(" has no command".to_owned()))?;
    let mut program = Command::new(command.value.first().map(String::as_str).unwrap_or_default());
    program.args(command.value.iter().skip(1));
    let file = if command.from.is_project() { settings.file.as_deref() } else { settings.user_file.as_deref() };
    // Not the working folder, which may be a stranger's.
    program.current_dir(file.map_or_else(|| Path::new("/"), folder_of));
    consent::pinned(settings, &command.value)
        .check()
        .map_err(|error| Failure::new(error.code, format!("the key of provider {name}: {}", error.message)))?;
    let key = printed(program).await.map_err(|what| failed(format!(", printed by {}: {what}", command.from)))?;
    Ok(redact::Secret { name: format!("{name}_key"), value: key })
}

/// The first line that a program prints. No error message contains its output.
async fn printed(mut program: Command) -> Result<String, String> {
    // Its questions to the person go to the inherited terminal.
    let spawned = program.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let mut child = spawned.map_err(|error| format!("it cannot be started: {error}"))?;
    let out = child.stdout.take();
    let reading = async move {
        let mut text = String::new();
        out?.take(MAX_BYTES).read_to_string(&mut text).await.ok().map(|_| text)
    };
    let ended = tokio::time::timeout(TIMEOUT, async { tokio::join!(child.wait(), reading) }).await;
    let (status, text) = ended.map_err(|_| format!("it did not end within {} s", TIMEOUT.as_secs()))?;
    if !status.map_err(|error| error.to_string())?.success() {
        return Err("it failed".to_owned());
    }
    let text = text.ok_or("what it printed is no text")?;
    let key = text.lines().next().unwrap_or_default().trim().to_owned();
    if key.is_empty() { Err("it printed nothing".to_owned()) } else { Ok(key) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: Command) -> Result<String, String> {
        crate::host::process::runtime().unwrap().block_on(printed(command))
    }

    fn shell(script: &str) -> Result<String, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command)
    }

    #[test]
    fn the_first_line_is_the_key_and_no_failure_shows_what_was_printed() {
        assert_eq!(shell("echo ' sk-1 '; echo more").as_deref(), Ok("sk-1"));
        assert_eq!(shell("true"), Err("it printed nothing".to_owned()));
        assert_eq!(shell("echo sk-1; exit 3"), Err("it failed".to_owned()));
        assert!(run(Command::new("/no/such/program")).unwrap_err().contains("cannot be started"));
    }
}
