//! A node of the kind before real tools on a folder, one call at a time.

mod choosing;
mod laws;
mod reading;
mod serving;
mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use rondo_agent_kit::effects::Verdict;
use rondo_agent_kit::sandbox::files::{Access, Workspace};
use rondo_agent_kit::tool::{self, Content, Invocation, Origin, Spec, Tool, file_tools};
use rondo_core::env::SeededEnv;
use rondo_core::hook::{CallPath, Context, HookResources, KeySpace, NoPast, Node, Reports, RoleView, ToolView};
use rondo_core::store::MemoryStore;
use rondo_protocol::call::{Call, CallKind, Effect, Reply, Site, ToolCall, ToolReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::AnsweredBy;
use rondo_protocol::workflow::{HookUse, OnHookError};
use rondo_protocol::{Value, canonical};
use tempfile::TempDir;

use super::*;

/// A folder, a store, and the kind as one process has it.
struct Fixture {
    folder: TempDir,
    files: Arc<Workspace>,
    store: Arc<MemoryStore>,
    env: Arc<SeededEnv>,
    kind: ToolCache,
    tools: BTreeMap<String, Arc<dyn Tool>>,
    warnings: Arc<Mutex<Vec<String>>>,
}

/// A node of one run of a thread.
struct Run<'d> {
    fixture: &'d Fixture,
    thread: ThreadId,
    path: CallPath,
    position: AtomicUsize,
    /// Calls that reached a tool.
    reached: AtomicUsize,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
struct Came {
    text: String,
    failed: bool,
    is_hit: bool,
    reply: ToolReply,
    key: Option<String>,
}

struct Heard(Arc<Mutex<Vec<String>>>);

impl Reports for Heard {
    fn report(&self, _: &str, _: &Call, _: Value) {}
    fn warn(&self, _: &str, _: &Call, warning: String) {
        self.0.lock().unwrap().push(warning);
    }
}

type Work = dyn Fn(&Value) -> Result<String, tool::Error> + Send + Sync;

/// A tool that is a function.
struct Made {
    spec: Spec,
    effect: Effect,
    work: Box<Work>,
}

impl Tool for Made {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _: &Value) -> Effect {
        self.effect.clone()
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, tool::Error>> {
        Box::pin(std::future::ready((self.work)(&arguments).map(Content::from)))
    }
}

fn made(
    name: &str,
    origin: Origin,
    effect: Effect,
    work: impl Fn(&Value) -> Result<String, tool::Error> + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    let spec = Spec { name: name.to_owned(), description: String::new(), parameters: "{}".to_owned(), origin };
    Arc::new(Made { spec, effect, work: Box::new(work) })
}

fn counting(name: &str, origin: Origin, effect: Effect) -> Arc<dyn Tool> {
    let count = AtomicUsize::new(0);
    made(name, origin, effect, move |_| Ok(format!("{}", count.fetch_add(1, Ordering::SeqCst))))
}

fn server(name: &str) -> Origin {
    Origin::Mcp { server: name.to_owned() }
}

impl Fixture {
    fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let folder = TempDir::new().unwrap();
        let all = || vec![".".into()];
        let access = Access { read: all(), write: all(), ..Access::default() };
        let files = Arc::new(Workspace::open(folder.path(), access).unwrap());
        let tools = file_tools(&files).into_iter().chain(tools);
        Self {
            tools: tools.map(|tool| (tool.spec().name.clone(), tool)).collect(),
            folder,
            files,
            store: Arc::default(),
            env: Arc::new(SeededEnv::new(1_000_000, 1)),
            kind: ToolCache::default(),
            warnings: Arc::default(),
        }
    }

    /// The same store and folder in a new process.
    fn again(self) -> Self {
        Self { kind: ToolCache::default(), ..self }
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        std::fs::write(self.folder.path().join(name), contents).unwrap();
    }

    /// Waits until the store has what was kept, as the end of a visit does.
    async fn flush(&self) {
        for cache in self.kind.shared.caches.used() {
            cache.write().await;
        }
    }

    fn space(&self) -> KeySpace {
        KeySpace::new(Arc::clone(&self.store) as _, NAME)
    }

    fn view(&self, workflow: &str) -> RoleView {
        let offer = |tool: &Arc<dyn Tool>| ToolView {
            name: tool.spec().name.clone(),
            wire_name: tool.spec().name.clone(),
            is_granted: !tool.spec().name.starts_with("ungranted"),
            needs_approval: tool.spec().name.starts_with("approved"),
            origin: tool.spec().origin.clone(),
            definition: HookResources::default().definition(tool.spec()),
        };
        RoleView {
            model_calls: 100,
            tool_calls: 200,
            redaction: String::new(),
            workflow: workflow.to_owned(),
            models: Vec::new(),
            offers: self.tools.values().map(offer).collect(),
            contract: None,
        }
    }

    fn build(&self, workflow: &str, settings: &str, flag: &str) -> Result<Arc<dyn Hook>, String> {
        let Value::Object(settings) = canonical::parse(settings.as_bytes()).unwrap() else { panic!("settings") };
        let roles = ["a", "b"].map(|role| (RoleName::new(role).unwrap(), self.view(workflow)));
        let hook =
            HookUse { at: CallKind::Tool, on_error: OnHookError::Fail, roles: None, settings, kind: NAME.to_owned() };
        self.kind.build(&BuildContext {
            of_kind: &std::collections::BTreeSet::new(),
            altered: &std::collections::BTreeSet::new(),
            hook: &hook,
            roles: &BTreeMap::from(roles),
            flags: &BTreeMap::from([("cache".to_owned(), flag.to_owned())]),
            resources: &HookResources { files: Some(Arc::clone(&self.files)), ..HookResources::default() },
            space: &self.space(),
            is_replay: flag == "replay",
        })
    }

    fn node(&self, hook: Arc<dyn Hook>, name: &str) -> Arc<Node> {
        let context = Context {
            node: name.to_owned(),
            space: self.space(),
            env: Arc::clone(&self.env) as _,
            reports: Arc::new(Heard(Arc::clone(&self.warnings))),
            past: Arc::new(NoPast),
        };
        Arc::new(Node { on_error: OnHookError::Fail, hook, context })
    }

    fn nodes(&self, thread: u64, workflow: &str, nodes: &[(&str, &str)]) -> Run<'_> {
        let node = |(settings, flag): &(&str, &str)| self.node(self.build(workflow, settings, flag).unwrap(), NAME);
        let path = CallPath::new(nodes.iter().map(node).collect());
        let thread = ThreadId::from_parts(thread, 1);
        Run { fixture: self, thread, path, position: AtomicUsize::new(0), reached: AtomicUsize::new(0) }
    }

    fn flagged(&self, settings: &str, flag: &str) -> Run<'_> {
        self.nodes(1, "w", &[(settings, flag)])
    }

    fn run(&self, settings: &str) -> Run<'_> {
        self.flagged(settings, "on")
    }

    /// How many entries are kept now.
    fn entries(&self) -> u64 {
        self.kind.shared.caches.used().iter().map(|cache| cache.totals().entries).sum()
    }

    fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap())
    }
}

impl Run<'_> {
    /// Carries a call to its tool and back, without settling it.
    async fn begin(&self, role: &str, name: &str, arguments: &str) -> (Call, usize, Came) {
        let tool = &self.fixture.tools[name];
        let value = canonical::parse(arguments.as_bytes()).unwrap_or_default();
        let call = Call::Tool(ToolCall {
            site: self.site(role, self.position.fetch_add(1, Ordering::SeqCst)),
            id: "1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            effect: tool.effect(&value),
            idempotency_key: "k".to_owned(),
        });
        let port = |_: Call| -> BoxFuture<'_, _> {
            Box::pin(async {
                self.reached.fetch_add(1, Ordering::SeqCst);
                let invocation = Invocation::new("k");
                Ok(Reply::Tool(match tool.run(value, &invocation).await {
                    Ok(Content { text, files }) => {
                        ToolReply { files, seen: invocation.watch.take(), ..ToolReply::said(text) }
                    }
                    Err(error) => ToolReply::failed(error.to_string(), Some(error.code)),
                }))
            })
        };
        let answered = self.path.run(call.clone(), Box::new(port)).await.unwrap();
        let Reply::Tool(reply) = answered.reply else { panic!("another kind of reply") };
        let inserted = Came {
            text: reply.text.clone(),
            failed: reply.failed,
            is_hit: answered.answered_by != AnsweredBy::Port,
            reply,
            key: answered.short_circuit.key,
        };
        (call, answered.passed, inserted)
    }

    async fn settle(&self, begun: (Call, usize, Came)) -> Came {
        let (call, passed, inserted) = begun;
        let verdict = if inserted.failed { Verdict::Refused } else { Verdict::Accepted };
        self.path.settle(passed, &call, &Reply::Tool(inserted.reply.clone()), verdict).await;
        inserted
    }

    async fn by(&self, role: &str, name: &str, arguments: &str) -> Came {
        let begun = self.begin(role, name, arguments).await;
        self.settle(begun).await
    }

    async fn call(&self, name: &str, arguments: &str) -> Came {
        self.by("a", name, arguments).await
    }

    /// What the calls of each said, and whether it was answered.
    async fn calls(&self, name: &str, arguments: &[&str]) -> Vec<(String, bool)> {
        let mut inserted = Vec::new();
        for arguments in arguments {
            let one = self.call(name, arguments).await;
            inserted.push((one.text, one.is_hit));
        }
        inserted
    }

    async fn read(&self, path: &str) -> Came {
        self.call("read_file", &format!("{{\"path\":{}}}", Value::from(path).to_text())).await
    }

    async fn metrics(&self) -> Value {
        let node = &self.path.nodes()[0];
        node.hook.visited(&self.site("a", 0), &node.context).await.unwrap()
    }

    fn site(&self, role: &str, position: usize) -> Site {
        Site {
            thread: self.thread.clone(),
            role: RoleName::new(role).unwrap(),
            lane: LanePath::trunk(),
            visit: 1,
            position: u32::try_from(position).unwrap(),
        }
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

/// One of the metrics.
fn number(metrics: &Value, name: &str) -> i128 {
    match metrics.get(name) {
        Some(Value::Int(number)) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

fn numbers(metrics: &Value, names: &[&str]) -> Vec<i128> {
    names.iter().map(|name| number(metrics, name)).collect()
}

/// How each call ended, in order.
fn outcomes(metrics: &Value) -> Vec<String> {
    let Some(Value::List(calls)) = metrics.get("calls") else { panic!("no calls") };
    calls.iter().map(|call| call.get("outcome").and_then(Value::as_str).unwrap().to_owned()).collect()
}
