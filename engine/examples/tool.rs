//! A workflow in the program's text, with a tool that is a closure and answers from a script: no key, no files, no disk.

use rondo::tool::{self, Effect};
use rondo::{Rondo, What};

const WORKFLOW: &str = "
rondo: 1
name: mirror
input: { word: string }
roles: { writer: { system: You write., tools: [reverse] } }
graph:
  start: { to: writer, prompt: 'Turn {{ input.word }} around.' }
  writer: { done: { to: end, result: { text: '{{ body }}' } } }
";

const SCRIPT: &str = "
writer: [ { tools: [ { name: reverse, args: { word: tide } } ], then: { status: done, body: edit } } ]
";

#[derive(serde::Deserialize, rondo::schemars::JsonSchema)]
#[schemars(crate = "rondo::schemars")]
struct Word {
    /// The word to turn around.
    word: String,
}

#[tokio::main]
async fn main() -> Result<(), rondo::Error> {
    let reverse = tool::from_fn("reverse", "Turns a word around.", |Word { word }| async move {
        word.chars().rev().collect::<String>()
    });
    let rondo = Rondo::builder().in_memory().script(SCRIPT).tool(reverse.effect(Effect::Pure)).open().await?;
    let mut run = rondo.workflow_text("mirror.yaml", WORKFLOW)?.input("word", "tide").start().await?;
    while let Some(event) = run.next().await {
        if let What::ToolFinished { tool, duration_ms, .. } = &event.what {
            println!("{tool} took {duration_ms} ms");
        }
    }
    println!("{}", run.end().await?.result()?["text"]);
    Ok(())
}
