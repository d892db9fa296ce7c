//! The rondo engine: a graph of roles, run over a step store.
//!
//! [`Engine`] starts, resumes and cancels threads; everything else here is a part of it. Data flows one way: a checked
//! workflow becomes a [`graph`], the machine of a [`thread`] decides, the [`local`] driver visits roles through their
//! [`hook`]s, and the [`store`] keeps the steps.
//!
//! The library knows nothing of terminals: the command line is in `cli`. A process that shares a store with others opens
//! a [`host::Host`].
//!
//! A workflow with a custom tool and hook, answered by a script, in an in-memory store:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicUsize, Ordering};
//!
//! use futures_util::future::BoxFuture;
//! use rondo_agent_kit::model::{Model, script::Script, scripted::Scripted};
//! use rondo_agent_kit::tool::{self, Invocation, Origin, Spec, Tool, ToolSet};
//! use rondo::grant::Grants;
//! use rondo::hook::{Context, Hook, HookKind, BuildContext, Next, Registry};
//! use rondo::{Ended, Engine, NewThread, RunConfig, SystemEnv, resolved_roles, models::Models, store::MemoryStore};
//! use rondo_protocol::call::{Call, CallKind, Effect, Fault, Reply};
//! use rondo_protocol::event::What;
//! use rondo_protocol::workflow::{self, HookUse, OnHookError};
//! use rondo_protocol::{Value, source::Source};
//!
//! const WORKFLOW: &str = "
//! rondo: 1
//! name: mirror
//! input: { word: string }
//! roles: { writer: { system: You write., tools: [reverse] } }
//! graph:
//!   start: { to: writer, prompt: 'Turn {{ input.word }} around.' }
//!   writer: { done: { to: end, result: { text: '{{ body }}' } } }
//! ";
//! const SCRIPT: &str = "
//! writer: [ { tools: [ { name: reverse, args: { word: tide } } ], then: { status: done, body: edit } } ]
//! ";
//!
//! struct Reverse(Spec);
//! impl Tool for Reverse {
//!     fn spec(&self) -> &Spec {
//!         &self.0
//!     }
//!     fn effect(&self, _: &Value) -> Effect {
//!         Effect::Pure
//!     }
//!     fn run<'a>(&'a self, arguments: Value, _: &'a Invocation) -> BoxFuture<'a, Result<String, tool::Error>> {
//!         let word = arguments.get("word").and_then(Value::as_str).unwrap_or_default();
//!         Box::pin(std::future::ready(Ok(word.chars().rev().collect())))
//!     }
//! }
//!
//! #[derive(Clone, Default)]
//! struct Count(Arc<AtomicUsize>);
//! impl HookKind for Count {
//!     fn name(&self) -> &'static str {
//!         "count"
//!     }
//!     fn build(&self, _: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
//!         Ok(Arc::new(self.clone()))
//!     }
//! }
//! impl Hook for Count {
//!     fn handle<'a>(&'a self, call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
//!         self.0.fetch_add(1, Ordering::Relaxed);
//!         next.run(call)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let checked = workflow::read("workflow.yaml", WORKFLOW, &BTreeMap::new()).unwrap();
//! let script = Script::read(&Source::new("script.yaml", SCRIPT)).unwrap();
//! let parts = resolved_roles::script_parts(&checked.workflow).unwrap();
//! let model: Arc<dyn Model> = Arc::new(Scripted::new(Arc::new(script), Arc::new(parts)));
//! let mut tools = ToolSet::default();
//! let (name, description) = ("reverse".to_owned(), "Turns a word around.".to_owned());
//! let parameters = r#"{"type":"object"}"#.to_owned();
//! tools.add(Arc::new(Reverse(Spec { name, description, parameters, origin: Origin::BuiltIn }))).unwrap();
//! let count = Count::default();
//! let hook = HookUse {
//!     at: CallKind::Tool,
//!     kind: "count".to_owned(),
//!     on_error: OnHookError::Fail,
//!     roles: None,
//!     settings: BTreeMap::new(),
//! };
//!
//! let registry = Registry::new([Arc::new(count.clone()) as Arc<dyn HookKind>]);
//! let engine = Engine::new(Arc::new(MemoryStore::new()), Arc::new(SystemEnv::default()), registry);
//! let (models, grants) = (Models::all_by(&checked.workflow, &model), Grants::everything());
//! let run_config = RunConfig { models, tools, grants, imposed: vec![hook], ..RunConfig::default() };
//! let input = Value::from_iter([("word", Value::from("tide"))]);
//! let mut run = engine.start(NewThread::of(checked, input), run_config).await.unwrap();
//! while let Some(event) = run.events.recv().await {
//!     if let What::ToolFinished { tool, .. } = event.what {
//!         println!("{tool} was called");
//!     }
//! }
//! let Ended::Finished(ending) = run.ended().await else { panic!("it stopped") };
//! assert_eq!(ending.result.get("text").and_then(Value::as_str), Some("edit"));
//! assert_eq!(count.0.load(Ordering::Relaxed), 1);
//! # }
//! ```

pub mod failure;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod host;
pub mod picture;
pub mod tell;
pub mod upkeep;
pub mod views;

pub use rondo_author as author;
pub use rondo_core::exit::{self, Exit};
pub use rondo_core::{
    Answerer, Cancelled, Ended, Engine, Env, Error, FilledForm, Labels, NewThread, PersonAnswer, PersonSaid,
    RaisedLimit, RaisedLimits, Resumed, RunConfig, Stopper, SystemEnv, ThreadHandle, conversation, env, grant, graph,
    hook, local, models, resolved_roles, shown_call, thread,
};
pub use rondo_hooks::registry;
pub use rondo_settings as settings;
pub use rondo_store as store;
