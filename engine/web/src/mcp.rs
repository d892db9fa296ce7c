//! `rondo mcp`: each workflow as a tool of an MCP server (<https://modelcontextprotocol.io/specification>) on standard
//! input and output.
//!
//! A call that is repeated after a crash continues the thread of the first one, so that nothing is paid twice. It is
//! known by a key in `_meta`, else by the client's name, the tool and the arguments, for as long as its result was not
//! handed over.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use rmcp::transport::io::stdio;
use rmcp::{ErrorData, ServerHandler, ServiceExt as _};
use rondo::Run;
use rondo::agent_kit::mcp::{cleaned, is_tool_name};
use rondo::core::Answerer;
use rondo::core::env::{Env as _, SystemEnv};
use rondo::failure::Failure;
use rondo::host::workflow;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::protocol::text::plain;
use rondo::protocol::{Digest, Value, canonical};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::changes::AnswerRequest;
use super::model::{RunUpdate, Settled, WaitsFor, named};
use super::params::invalid;
use super::problem::Problem;
use super::starting::{StartRequest, begin};
use super::workflows::input_schema;
use super::{Server, kept};

const ANSWER: &str = "answer";

/// The member of `_meta` with the key of a call.
const KEY: &str = "rondo/key";

/// What is kept of calls: a space of the store beside those of hooks.
const SPACE: &str = "calls";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    thread: ThreadId,
    /// The digest of the tool and its arguments.
    asked: Digest,
    is_answered: bool,
}

struct Tools {
    server: Server,
    is_offline: bool,
}

/// Serves the tools until the client leaves or `ending` is cancelled.
///
/// # Errors
/// [`Code::RequestUnreadable`] if the client does not begin as the protocol says.
pub async fn serve(server: Server, is_offline: bool, ending: CancellationToken) -> Result<(), Failure> {
    let broken = |error: String| Failure::new(Code::RequestUnreadable, format!("the MCP client: {error}"));
    let running = tokio::select! {
        running = Tools { server, is_offline }.serve(stdio()) => running.map_err(|error| broken(error.to_string()))?,
        () = ending.cancelled() => return Ok(()),
    };
    let stop = running.cancellation_token();
    tokio::select! {
        ended = running.waiting() => {
            ended.map_err(|error| broken(error.to_string()))?;
        }
        () = ending.cancelled() => stop.cancel(),
    }
    Ok(())
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let about = "Each tool runs a workflow of roles and gives its result. A workflow that waits for a person gives the form \
                     and its thread; the tool `answer` fills it in. Only a person can allow a tool call, in a terminal.";
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("rondo", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(about.to_owned());
        info
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = self.server.reading(|server, _| {
            let mut tools = Vec::new();
            for found in workflow::all(server.rondo.folder()) {
                // What has faults cannot be called; `rondo validate` names them.
                let Ok(loaded) = workflow::read(found.file).map(|loaded| loaded.checked) else { continue };
                let Ok(schema) = cleaned(input_schema(&loaded.workflow)) else { continue };
                if is_listed(&found.name) {
                    let about = plain(loaded.policy.description.trim()).into_owned();
                    tools.push(Tool::new(found.name, about, object(&schema)));
                }
            }
            Ok(tools)
        });
        let mut tools = listed.await.map_err(|problem| ErrorData::internal_error(problem.text(), None))?;
        let about = "Answers the form that a thread waits with which a tool of this server began, and gives what comes of \
                     it. It allows no tool calls.";
        tools.push(Tool::new(ANSWER, about, answer_schema()));
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = context.client_info().map(|client| client.name).unwrap_or_default();
        let key = key(context.meta.0.get(KEY))?;
        let progress = context.meta.get_progress_token().map(|token| (token, context.peer.clone()));
        let caller = Caller { progress, cancelled: context.ct.clone() };
        let arguments = Value::from_serialize(&request.arguments.unwrap_or_default());
        let arguments = arguments.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let is_answer = request.name == ANSWER;
        let made = if is_answer {
            self.answer(arguments, client, caller).await
        } else {
            self.call(&request.name, arguments, (client, key), caller).await
        };
        Ok(match made {
            Ok(settled) => given(&settled, is_answer).into(),
            Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.text())]).into(),
        })
    }
}

struct Caller {
    /// Where notifications of progress go.
    progress: Option<(ProgressToken, Peer<RoleServer>)>,
    /// Cancelled when the client wants no answer any more.
    cancelled: CancellationToken,
}

impl Tools {
    async fn call(
        &self,
        name: &str,
        arguments: Value,
        (client, key): (String, Option<String>),
        caller: Caller,
    ) -> Result<Box<Settled>, Problem> {
        let engine = self.server.host.engine();
        let asked = Digest::sha256(&canonical::to_bytes(&(name, &arguments)).map_err(Failure::from)?);
        let known_by = key.clone().map_or_else(|| format!("{client}\n{asked}"), |key| format!("{client}\nkey {key}"));
        let place = Digest::sha256(known_by.as_bytes()).as_bytes().to_vec();
        // Two equal calls at once make one thread.
        let alone = kept::reserved(engine, &place).await?;
        let known = kept::known::<Call>(&engine.space(SPACE), &place)?;
        let known = known.filter(|call| key.is_some() || !call.is_answered);
        let has_begun = match &known {
            Some(call) => engine.store().row(&call.thread).map_err(Failure::from)?.is_some(),
            None => false,
        };
        let keep = async |call: &Call| {
            let bytes = canonical::to_bytes(call).map_err(Failure::from)?;
            self.server.keep(SPACE, place.clone(), bytes).await
        };
        let call = match known {
            Some(call) if has_begun && call.asked != asked => {
                let what = format!("the key of this call, `{KEY}` in `_meta`, was used for another call");
                return Err(Failure::new(Code::KeyReused, what).into());
            }
            Some(call) if call.asked == asked => call,
            // A call that was refused has used up nothing.
            _ => {
                let call = Call { thread: SystemEnv::default().thread_id(), asked, is_answered: false };
                keep(&call).await?;
                let thread = call.thread.as_str();
                self.server.keep(SPACE, of_thread(&client, thread), thread.as_bytes().to_vec()).await?;
                call
            }
        };
        let cancelled = caller.cancelled.clone();
        let settled = if has_begun {
            drop(alone);
            // By another call, in this process or another one.
            followed(&self.server, self.server.updates_of_thread(call.thread.clone()), caller).await
        } else {
            let run = self.begin(name, arguments, &call.thread).await?;
            drop(alone);
            followed(&self.server, self.server.updates_of(run), caller).await
        };
        if !cancelled.is_cancelled() && self.is_answer(&call.thread, &settled)? {
            keep(&Call { is_answered: true, ..call }).await?;
        }
        settled
    }

    /// Whether a call has its answer with this: the same call is then another one. The same call continues a thread that
    /// stopped, and gives what comes of one whose tool call a person must allow.
    fn is_answer(&self, thread: &ThreadId, settled: &Result<Box<Settled>, Problem>) -> Result<bool, Failure> {
        if let Ok(settled) = settled {
            return Ok(settled.waits_for.as_ref().is_none_or(|waits_for| !waits_for.is_approval));
        }
        let row = self.server.host.engine().store().row(thread)?;
        Ok(row.is_some_and(|row| row.status.has_ended()))
    }

    async fn begin(&self, name: &str, arguments: Value, thread: &ThreadId) -> Result<Run, Problem> {
        let input = if let Value::Object(members) = arguments { members } else { BTreeMap::new() };
        let (workflow, offline) = (name.to_owned(), self.is_offline);
        begin(&self.server, StartRequest { workflow, input, offline, ..StartRequest::default() }, thread.clone()).await
    }

    /// Fills in a form of a thread that a call of this client began, and follows the thread.
    async fn answer(&self, arguments: Value, client: String, caller: Caller) -> Result<Box<Settled>, Problem> {
        let unfit = |why: String| invalid(format!("the arguments of `{ANSWER}`: {why}"));
        let mut given = if let Value::Object(members) = arguments { members } else { BTreeMap::new() };
        let thread = given.remove("thread").and_then(|thread| thread.as_str().map(str::to_owned));
        let thread = thread.ok_or_else(|| unfit("`thread` is missing, or no text".to_owned()))?;
        let answer: Result<AnswerRequest, _> = canonical::from_value(Value::Object(given));
        let answer = answer.map_err(|error| unfit(error.to_string()))?;
        let space = self.server.host.engine().space(SPACE);
        if space.get(&of_thread(&client, &thread)).map_err(Failure::from)?.is_none() {
            let what = format!("no call of this client began a thread {thread:?}");
            return Err(Failure::new(Code::ThreadUnknown, what)
                .with_hint("a person answers the forms of other threads: `rondo answer`")
                .into());
        }
        let by = Answerer::Client(named(&client));
        let run = self.server.answered(thread, answer, by).await?;
        followed(&self.server, self.server.updates_of(run), caller).await
    }
}

/// Follows a run until it has settled, with a notification for each step and each line.
async fn followed(
    server: &Server,
    mut updates: mpsc::Receiver<RunUpdate>,
    caller: Caller,
) -> Result<Box<Settled>, Problem> {
    let mut steps = 0.0;
    loop {
        let next = tokio::select! {
            next = updates.recv() => next,
            // Without a listener the run stops; the same call continues its thread.
            () = caller.cancelled.cancelled() => return Err(given_up(server)),
        };
        let told = match next {
            Some(RunUpdate::Settled(settled)) => return settled,
            Some(RunUpdate::Line(told) | RunUpdate::Step(told)) => told,
            Some(RunUpdate::Text(_)) => continue,
            None => return Err(Failure::new(Code::Interrupted, "the run broke off").into()),
        };
        steps += 1.0;
        if let Some((token, peer)) = &caller.progress {
            let progress = ProgressNotificationParam::new(token.clone(), steps).with_message(told);
            // A client that is gone ends the server.
            let _ = peer.notify_progress(progress).await;
        }
    }
}

/// The answer to a call that its client cancelled, which nobody reads, or that ends with the server.
fn given_up(server: &Server) -> Problem {
    if server.ending.is_cancelled() {
        let failure = Failure::new(Code::Interrupted, "the server was stopped, and the run with it");
        return failure.with_hint("the same call continues its thread").into();
    }
    Failure::new(Code::Interrupted, "the client cancelled the call").into()
}

/// The key of a call, as the client gives it.
fn key(given: Option<&serde_json::Value>) -> Result<Option<String>, ErrorData> {
    match given {
        None => Ok(None),
        Some(serde_json::Value::String(key)) => Ok(Some(key.clone())),
        Some(other) => Err(ErrorData::invalid_params(format!("`{KEY}` in `_meta` is a text, and not {other}"), None)),
    }
}

/// Where it is kept that a client began a thread.
fn of_thread(client: &str, thread: &str) -> Vec<u8> {
    Digest::sha256(format!("{client}\nthread {thread}").as_bytes()).as_bytes().to_vec()
}

/// Whether a workflow is a tool by its name: one name is that of our own tool.
fn is_listed(name: &str) -> bool {
    name != ANSWER && is_tool_name(name)
}

fn object(schema: &impl Serialize) -> Arc<JsonObject> {
    match serde_json::to_value(schema) {
        Ok(serde_json::Value::Object(members)) => Arc::new(members),
        _ => Arc::default(),
    }
}

fn answer_schema() -> Arc<JsonObject> {
    let text = json!({"type": "string"});
    object(&json!({
        "type": "object",
        "properties": {
            "thread": {"type": "string", "description": "The thread that waits."},
            "form": {"type": "string", "description": "The form by its digest, if several are open."},
            "role": {"type": "string", "description": "The role whose form it is, if several are open."},
            "lane": {"type": "string", "description": "The lane of the form, if several are open."},
            "status": {"type": "string", "description": "One of the statuses of the form."},
            "fields": {"type": "object", "description": "The fields of that status."},
            "body": text,
        },
        "required": ["thread"],
        "additionalProperties": false,
    }))
}

/// The result of a tool: its text, and `{thread, status, form, result}` as structured content.
fn given(settled: &Settled, is_answer: bool) -> CallToolResult {
    let status = if settled.waits_for.is_some() { "waiting" } else { "done" };
    let next = match &settled.waits_for {
        Some(WaitsFor { is_approval: false, .. }) => format!(" Call `{ANSWER}` with it."),
        Some(_) if !is_answer => "\n\nAfter that, the same call gives what comes of it.".to_owned(),
        _ => String::new(),
    };
    let form = settled.waits_for.as_ref().map(|waits_for| waits_for.form);
    let text = format!("{}{next}", settled.text);
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content =
        Some(json!({"thread": settled.thread, "status": status, "form": form, "result": settled.result}));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_is_no_second_tool_for_answers_and_says_nothing_unseen() {
        for (name, is_tool) in [("review-loop", true), ("a.b_c", true), ("answer", false), ("", false), ("a b", false)]
        {
            assert_eq!(is_listed(name), is_tool, "{name}");
        }
        assert!(!is_listed("re\u{202e}view") && !is_listed(&"x".repeat(129)));
        let schema = Value::from_iter([("description", Value::from("a\u{e0041}b\u{202e}c"))]);
        assert_eq!(cleaned(schema).unwrap().to_text(), r#"{"description":"abc"}"#);
    }
}
