//! A visit of a tool role: one call, whose result is the answer.

use rondo_agent_kit::react::idempotency_key;
use rondo_agent_kit::tool::{self, cut};
use rondo_protocol::call::{Fault, Reply, Site, ToolCall, ToolReply, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::file::File;
use rondo_protocol::object::{AnsweredBy, Entry, Note, Transcript};
use rondo_protocol::{Value, canonical};

use super::stop::until_stopped;
use super::tool_calls::ToolRunner;
use super::visit::{self, VisitContext, VisitResult};
use crate::resolved_roles::ToolRoleRuntime;

/// The id of the only call of such a visit.
const CALL_ID: &str = "call";
/// The longest `message` of a failed call, in characters.
const MESSAGE_MAX: usize = 500;

/// Carries out one visit. `attempts` is the number of the role's earlier attempts in this lane.
pub(super) async fn visit(
    context: &VisitContext<'_>,
    runtime: &ToolRoleRuntime,
    site: Site,
    args: &Value,
    attempts: u64,
) -> Result<VisitResult, Fault> {
    let mut tool_runner = ToolRunner::new(context, &site)?;
    let script = runtime.script.as_ref().filter(|script| script.speaks_for(&site)).cloned();
    let is_scripted = script.is_some();
    let arguments = args.to_text();
    let work = async {
        match script {
            Some(script) => {
                let text = tool_runner.played(&script, &site, attempts).await?;
                Ok((ToolReply::said(text), AnsweredBy::Port))
            }
            None => perform(&mut tool_runner, runtime, site.clone(), &arguments).await,
        }
    };
    let result = until_stopped(context, work).await;
    let result = result.map(|(reply, answered_by)| answer(runtime, arguments, reply, answered_by));
    let attempts = tool_runner.journal.attempts + u64::from(is_scripted && result.is_ok());
    let visited = tool_runner.end(&site, result);
    Ok(VisitResult { note: Note { attempts, ..visited.note }, ..visited })
}

async fn perform(
    tool_runner: &mut ToolRunner<'_>,
    runtime: &ToolRoleRuntime,
    site: Site,
    arguments: &str,
) -> Result<(ToolReply, AnsweredBy), Fault> {
    let read = runtime.toolbox.find(&runtime.tool)?.and_then(|offer| Ok((offer, offer.read(arguments)?)));
    let (offer, read) = match read {
        Ok(found) => found,
        Err(error) => {
            let reply = ToolReply::failed(error.to_string(), Some(error.code));
            return Ok((reply, AnsweredBy::Port));
        }
    };
    let call = ToolCall {
        id: CALL_ID.to_owned(),
        name: offer.tool.spec().name.clone(),
        arguments: arguments.to_owned(),
        effect: offer.tool.effect(&read),
        idempotency_key: idempotency_key(&site),
        site,
    };
    let performed = tool_runner.perform(vec![call]).await?.pop();
    match performed.map(|performed| (performed.reply, performed.answered_by)) {
        Some((Reply::Tool(reply), by)) => Ok((reply, by)),
        _ => Err(visit::wrong_kind()),
    }
}

/// The most bytes of a result that become a step's answer, so that a prompt can hold it.
const ANSWER_MAX_BYTES: usize = 256 << 10;

/// The status and fields of a result: `ok` with its declared fields, or `failed` with code and message.
fn answer(runtime: &ToolRoleRuntime, arguments: String, mut reply: ToolReply, answered_by: AnsweredBy) -> TurnReply {
    let output = if reply.failed {
        let code = reply.code.clone().unwrap_or_default();
        let message = message(&code, &reply.text);
        Err((code, message))
    } else {
        fields(runtime, &reply.text).map_err(|error| (error.code.to_string(), error.message))
    };
    let (status, output) = match output {
        Ok(output) => (&runtime.ok, output),
        Err((code, message)) => {
            reply.failed = true;
            (&runtime.failed, Value::from_iter([("code", Value::from(code)), ("message", Value::from(message))]))
        }
    };
    let mut text = reply.text.clone();
    cut(&mut text, ANSWER_MAX_BYTES);
    let entry = Entry::Tool {
        arguments,
        failed: reply.failed,
        files: reply.files.iter().map(File::reference).collect(),
        id: CALL_ID.to_owned(),
        name: runtime.tool.clone(),
        text: reply.text,
    };
    TurnReply {
        transcript: Transcript { entries: vec![entry] },
        body: text.clone(),
        output,
        answered_by: Some(answered_by),
        ..TurnReply::said(status.clone(), text)
    }
}

/// The fields that `ok` declares, read from the result as JSON.
fn fields(runtime: &ToolRoleRuntime, text: &str) -> Result<Value, tool::Error> {
    let Some(declared) = &runtime.fields else { return Ok(Value::empty_object()) };
    let fault = |what: String| {
        tool::Error::new(Code::ContractBroken, format!("the result is not the JSON that `ok` declares: {what}"))
    };
    let value: Value = canonical::from_slice(text.trim().as_bytes()).map_err(|error| fault(error.to_string()))?;
    if !matches!(value, Value::Object(_)) {
        return Err(fault("it is not an object".to_owned()));
    }
    // A program may return more than a workflow asks for.
    let asked = declared.names.iter().filter_map(|name| Some((name.as_str(), value.get(name.as_str())?.clone())));
    let asked: Value = asked.collect();
    asked.check_depth().map_err(|error| fault(error.to_string()))?;
    let violations: Vec<String> = declared.schema.violations(&asked).iter().map(ToString::to_string).collect();
    if violations.is_empty() { Ok(asked) } else { Err(fault(violations.join("; "))) }
}

/// The message of a failed call: its first line, without the code; of a program also the next, which it wrote.
fn message(code: &str, text: &str) -> String {
    let is_of_program = [Code::ProgramFailed, Code::ProgramSignalled, Code::ProgramTimedOut];
    let is_of_program = is_of_program.iter().any(|known| known.as_str() == code);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or_default();
    let words = line.strip_prefix("error ").and_then(|rest| rest.split_once(": ")).map_or(line, |(_, words)| words);
    let said = lines.next().filter(|_| is_of_program).map_or_else(String::new, |said| format!(": {said}"));
    words.chars().chain(said.chars()).take(MESSAGE_MAX).collect()
}
