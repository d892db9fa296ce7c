//! A server of tools that the program brings along, and a model of its own that calls one.
//! `cargo run --example mcp -- COMMAND [ARGUMENT...]`

use std::process::ExitCode;

use rondo::model::{Completion, Deltas, Model, ModelAnswer, ModelCall, ModelReply, ToolUse};
use rondo::{Rondo, What};

const WORKFLOW: &str = "
rondo: 1
name: ask
roles: { clerk: { system: You ask., tools: ['docs.*'] } }
graph:
  start: { to: clerk, prompt: go }
  clerk: { done: { to: end, result: '{{ body }}' } }
";

/// Calls the first tool that it is offered, and repeats what that said.
struct Caller;

impl Model for Caller {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> Completion<'a> {
        let messages = call.conversation.messages();
        // Of all messages only the result of a tool answers a call.
        let said = messages.iter().rev().find(|message| message.answers().is_some()).map(|message| message.text());
        let reply = match (said, call.head.tools.first()) {
            (None, Some(tool)) => {
                let (arguments, id, name) = ("{}".to_owned(), "call-1".to_owned(), tool.name.clone());
                ModelReply::asking([ToolUse { arguments, id, name }])
            }
            (said, _) => {
                ModelReply::said(format!("---\nstatus: done\n---\n\nthe server said: {}", said.unwrap_or_default()))
            }
        };
        Box::pin(std::future::ready(Ok(ModelAnswer { reply, usage: None, cost_usd: None })))
    }
}

fn main() -> ExitCode {
    // Programs are started by a second copy of this one.
    if let Some(exit) = rondo::launcher() {
        return exit;
    }
    let ran = tokio::runtime::Runtime::new().map(|runtime| runtime.block_on(run()));
    match ran {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), rondo::Error> {
    let command = std::env::args().skip(1);
    let builder = Rondo::builder().in_memory().mcp("docs", command).grant("docs.*").model("default", Caller);
    let rondo = builder.open().await?;
    let mut run = rondo.workflow_text("ask.yaml", WORKFLOW)?.start().await?;
    while let Some(event) = run.next().await {
        if let What::ToolFinished { tool, .. } = &event.what {
            println!("{tool} was called");
        }
    }
    println!("{}", run.end().await?.result()?);
    rondo.close().await;
    Ok(())
}
