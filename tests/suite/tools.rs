//! Tools in a running thread: the order of calls, what reaches the journal and when, calls in doubt, approval, roles that
//! a tool plays, and histories that hold tool traffic.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::tool::{Content, Error, InDoubt, Invocation, Origin, Spec, Tool};
use rondo_core::conversation::rebuild;
use rondo_core::grant::{Approver, Grants, Rule};
use rondo_core::thread::OpenForm;
use rondo_core::{Answerer, Ended, Engine, PersonAnswer, PersonSaid, Resumed, RunConfig, SystemEnv};
use rondo_protocol::call::{Effect, Fault, FaultClass, ModelAnswer, ModelCall, ToolCall};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::message::{Message, Part, Speaker, ToolUse};
use rondo_protocol::object::{AnsweredBy, ModelReply};
use rondo_protocol::workflow::Checked;
use rondo_protocol::{Digest, Value, canonical};
use rondo_store::{Commit, MemoryStore, Read, StepStore as _};
use rondo_tests::{FnTool, answer, checked, equipped, follow, start_with};

const DONE: &str = "---\nstatus: done\n---\n\nfine";

/// Asks for these tools in its first reply of a visit, then answers.
struct Asks(Vec<(&'static str, &'static str)>);

impl Model for Asks {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let messages = call.conversation.messages();
        let since = messages.iter().rev().take_while(|message| message.role() != Speaker::User);
        let reply = if since.count() > 0 {
            answer(DONE.to_owned())
        } else {
            let one = |(at, (name, arguments)): (usize, &(&str, &str))| ToolUse {
                arguments: (*arguments).to_owned(),
                id: format!("id{at}"),
                name: (*name).to_owned(),
            };
            let tool_calls = self.0.iter().enumerate().map(one);
            let reply = ModelReply::asking(tool_calls);
            ModelAnswer { reply, usage: None, cost_usd: None }
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

fn one_role(history: &str) -> Checked {
    checked(&format!(
        "rondo: 1\nname: handy\nroles: {{ a: {{ system: x, tools: [look, push], history: {history} }} }}\ngraph:\n  \
         start: {{ to: a, prompt: go }}\n  a: {{ done: {{ to: a, prompt: again, max: 1, on_max: {{ to: end }} }} }}\n"
    ))
}

/// What a tool was called with: arguments and idempotency key.
type Calls = Arc<Mutex<Vec<(String, String)>>>;

fn noting(name: &str, effect: Effect, calls: &Calls) -> Arc<dyn Tool> {
    let calls = Arc::clone(calls);
    Arc::new(FnTool::new(name, effect, move |arguments: &Value, key: &str| {
        calls.lock().unwrap().push((arguments.to_text(), key.to_owned()));
        Ok(format!("seen {}", arguments.to_text()))
    }))
}

fn engine() -> (Arc<MemoryStore>, Engine) {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), rondo_hooks::registry());
    (store, engine)
}

fn told(events: &[Event]) -> Vec<String> {
    let tell = |event: &Event| match &event.what {
        What::ToolStarted { tool, call, effect, .. } => Some(format!("start {tool} {call} {effect}")),
        What::ToolFinished { tool, call, effect, bytes, failed, answered_by, .. } => {
            Some(format!("end {tool} {call} {effect} {bytes} {failed} {}", answered_by.as_str()))
        }
        _ => None,
    };
    events.iter().filter_map(tell).collect()
}

/// Every request of the thread that was sent, proven, in order.
fn proven(store: &MemoryStore, thread: &ThreadId) -> Vec<Vec<Message>> {
    let row = store.row(thread).unwrap().unwrap();
    let mut requests = Vec::new();
    let mut keep = |request: rebuild::Request| {
        assert!(request.is_proven(), "step {}: {:?}", request.seq, request.fault);
        requests.push(request.messages().messages().into_iter().cloned().collect());
        true
    };
    rebuild::requests(store, thread, &row, &|_| true, &mut keep).unwrap();
    requests
}

#[tokio::test]
async fn a_tool_call_is_told_noted_and_kept() {
    let (store, engine) = engine();
    let calls = Calls::default();
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("look", r#"{"at":1}"#), ("push", "{}")]));
    let checked = one_role("condensed");
    let tools = vec![noting("look", Effect::Pure, &calls), noting("push", Effect::External, &calls)];
    let run_config = equipped(&checked.workflow, &model, tools);
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
    let thread = handle.thread.clone();
    let (events, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    let expected = [
        "start look id0 pure",
        "end look id0 pure 13 false port",
        "start push id1 external",
        "end push id1 external 7 false port",
    ];
    assert_eq!(told(&events), [expected, expected].concat());
    let (_, note) = store.step(&thread, 1).unwrap().unwrap();
    assert_eq!(note.tool_calls, 2);
    let of_push = note.tools.last().unwrap();
    assert_eq!((of_push.tool.as_str(), of_push.effect.as_str(), of_push.bytes), ("push", "external", 7));
    let keys: Vec<String> = calls.lock().unwrap().iter().map(|(_, key)| key.clone()).collect();
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!((keys.len(), distinct.len()), (4, 4), "{keys:?}");
    let heads = proven(&store, &thread);
    assert_eq!(heads.len(), 4);
}

#[tokio::test]
async fn a_condensed_history_leaves_tool_traffic_out_and_an_exact_one_goes_on_from_it() {
    for (history, before) in [("condensed", 2), ("exact", 5), ("none", 0)] {
        let (store, engine) = engine();
        let model: Arc<dyn Model> = Arc::new(Asks(vec![("look", "{}"), ("look", r#"{"a":1}"#)]));
        let checked = one_role(history);
        let tools = vec![noting("look", Effect::Pure, &Calls::default())];
        let run_config = equipped(&checked.workflow, &model, tools);
        let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
        let thread = handle.thread.clone();
        follow(handle).await;
        let requests = proven(&store, &thread);
        assert_eq!(requests[2].len(), before + 1, "{history}");
        if history == "exact" {
            let whole: Vec<Message> = requests[1].iter().cloned().chain([Message::assistant(DONE)]).collect();
            assert_eq!(requests[2][..before], whole);
        }
    }
}

/// A tool that hangs in its first call, once it has had its effect.
struct Hangs {
    spec: Spec,
    effects: Arc<AtomicUsize>,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Hangs {
    fn new(effects: &Arc<AtomicUsize>, keys: &Arc<Mutex<Vec<String>>>) -> Arc<Self> {
        let (parameters, description) = (r#"{"type":"object"}"#.to_owned(), String::new());
        let spec = Spec { name: "push".to_owned(), description, parameters, origin: Origin::BuiltIn };
        Arc::new(Self { spec, effects: Arc::clone(effects), keys: Arc::clone(keys) })
    }
}

impl Tool for Hangs {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _: &Value) -> Effect {
        Effect::External
    }

    fn run<'a>(&'a self, _: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            self.keys.lock().unwrap().push(invocation.idempotency_key.clone());
            if self.effects.fetch_add(1, Ordering::SeqCst) == 0 {
                std::future::pending::<()>().await;
            }
            Ok("pushed".to_owned().into())
        })
    }
}

/// Stops a run between a tool's effect and its record, and resumes it with that policy: what came of it, how often the
/// tool had its effect, and its idempotency keys.
async fn interrupted(in_doubt: Option<InDoubt>) -> (Ended, usize, Vec<String>, Vec<Event>) {
    let (_, engine) = engine();
    let (effects, keys) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("push", "{}")]));
    let checked = one_role("condensed");
    let run_config = |in_doubt| {
        let tool: Arc<dyn Tool> = Hangs::new(&effects, &keys);
        RunConfig { in_doubt, ..equipped(&checked.workflow, &model, vec![tool]) }
    };
    let mut handle = start_with(&engine, &checked, Value::empty_object(), run_config(None)).await;
    let thread = handle.thread.clone();
    while effects.load(Ordering::SeqCst) == 0 {
        handle.events.recv().await;
    }
    handle.stopper.stop_at_once();
    follow(handle).await;
    let resumed = engine.resume(&thread, |_, _| Ok::<_, rondo_core::Error>(run_config(in_doubt))).await.unwrap();
    let Resumed::Running(handle) = resumed else { panic!("it has not ended") };
    let (events, ended) = follow(handle).await;
    let keys = keys.lock().unwrap().clone();
    (ended, effects.load(Ordering::SeqCst), keys, events)
}

#[tokio::test]
async fn a_call_in_doubt_is_not_made_again_unless_that_is_wanted() {
    let (ended, effects, _, _) = interrupted(None).await;
    let Ended::Stopped(fault) = ended else { panic!("it must ask") };
    assert_eq!((fault.code, fault.class, effects), (Code::ToolInDoubt, FaultClass::InDoubt, 1));

    // Its second visit calls again, which is another call.
    let (ended, effects, keys, _) = interrupted(Some(InDoubt::Skip)).await;
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    assert_eq!(effects, 2);
    assert_ne!(keys[0], keys[1]);

    let (ended, effects, keys, _) = interrupted(Some(InDoubt::Retry)).await;
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    assert_eq!(effects, 3);
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2]);
}

#[tokio::test]
async fn what_reached_the_journal_is_not_called_again() {
    let (_, engine) = engine();
    let calls = Calls::default();
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("push", "{}"), ("look", "{}")]));
    let checked = one_role("condensed");
    let first = Arc::new(AtomicUsize::new(0));
    let run_config = || {
        let (calls, first) = (Arc::clone(&calls), Arc::clone(&first));
        // The second tool stops the run: its result is not permitted.
        let look: Arc<dyn Tool> = Arc::new(FnTool::new("look", Effect::Pure, |_: &Value, _: &str| Ok(String::new())));
        let approver: Arc<dyn Approver> = Arc::new(Once(first));
        RunConfig {
            grants: Grants { approve: vec![Rule::of_tool("look")], ..Grants::everything() },
            approver: Some(approver),
            ..equipped(&checked.workflow, &model, vec![noting("push", Effect::External, &calls), look])
        }
    };
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config()).await;
    let thread = handle.thread.clone();
    let (_, ended) = follow(handle).await;
    assert!(matches!(&ended, Ended::Stopped(fault) if fault.class == FaultClass::Denied), "{ended:?}");
    let resumed = engine.resume(&thread, |_, _| Ok::<_, rondo_core::Error>(run_config())).await.unwrap();
    let Resumed::Running(handle) = resumed else { panic!("it has not ended") };
    let (_, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    // Once in each of the two visits.
    assert_eq!(calls.lock().unwrap().len(), 2);
}

/// Asks as [`Asks`] does, under other ids each time, as a provider does that is asked the same again.
struct AsksAnew(Asks, AtomicUsize);

impl Model for AsksAnew {
    fn complete<'a>(
        &'a self,
        call: &'a ModelCall,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let count = self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let mut answer = self.0.complete(call, deltas).await?;
            let again = |part: &Part| match part {
                Part::ToolCall(tool) => Part::ToolCall(ToolUse { id: format!("{}-{count}", tool.id), ..tool.clone() }),
                other => other.clone(),
            };
            answer.reply.parts = answer.reply.parts.as_slice().iter().map(again).collect();
            Ok(answer)
        })
    }
}

/// The tools of another version: the same names, other descriptions, so that every request has another head.
fn redescribed(tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
    let spec = Spec { description: "In other words.".to_owned(), ..tool.spec().clone() };
    Arc::new(Redescribed(spec, tool))
}

struct Redescribed(Spec, Arc<dyn Tool>);

impl Tool for Redescribed {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn effect(&self, arguments: &Value) -> Effect {
        self.1.effect(arguments)
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        self.1.run(arguments, invocation)
    }
}

#[tokio::test]
async fn what_was_acted_on_is_not_asked_again_though_the_tools_have_changed_since() {
    let (store, engine) = engine();
    let calls = Calls::default();
    let anew = Arc::new(AsksAnew(Asks(vec![("push", "{}"), ("look", "{}")]), AtomicUsize::new(0)));
    let model = Arc::clone(&anew) as Arc<dyn Model>;
    let checked = one_role("condensed");
    let first = Arc::new(AtomicUsize::new(0));
    let tools = || vec![noting("push", Effect::External, &calls), noting("look", Effect::Pure, &Calls::default())];
    let run_config = |tools: Vec<Arc<dyn Tool>>| {
        let approver: Arc<dyn Approver> = Arc::new(Once(Arc::clone(&first)));
        RunConfig {
            grants: Grants { approve: vec![Rule::of_tool("look")], ..Grants::everything() },
            approver: Some(approver),
            ..equipped(&checked.workflow, &model, tools)
        }
    };
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config(tools())).await;
    let thread = handle.thread.clone();
    follow(handle).await;
    assert_eq!(calls.lock().unwrap().len(), 1);
    let other = || run_config(tools().into_iter().map(redescribed).collect());
    let resumed = engine.resume(&thread, |_, _| Ok::<_, rondo_core::Error>(other())).await.unwrap();
    let Resumed::Running(handle) = resumed else { panic!("it has not ended") };
    let (events, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    // Its second visit pushes once more; the first did not push again, and told of it once more.
    assert_eq!(calls.lock().unwrap().len(), 2);
    assert!(told(&events).contains(&"end push id0-0 external 7 false journal".to_owned()), "{:?}", told(&events));
    // Two visits of two requests: none was asked twice.
    assert_eq!(anew.1.load(Ordering::SeqCst), 4);
    assert_eq!(proven(&store, &thread).len(), 4);
}

#[tokio::test]
async fn a_step_that_a_fault_ends_is_not_routed_while_a_call_is_in_doubt() {
    let (_, engine) = engine();
    let (effects, keys) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("push", "{}")]));
    let checked = checked(
        "rondo: 1\nname: slow\nroles: { a: { system: x, tools: [push], timeout: 200ms } }\ngraph:\n  start: { to: a, prompt: \
         go }\n  a: { done: { to: end }, on_timeout: { to: fail, reason: late } }\n",
    );
    let tool: Arc<dyn Tool> = Hangs::new(&effects, &keys);
    let run_config = |in_doubt| RunConfig { in_doubt, ..equipped(&checked.workflow, &model, vec![Arc::clone(&tool)]) };
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config(None)).await;
    let thread = handle.thread.clone();
    let (_, ended) = follow(handle).await;
    let Ended::Stopped(fault) = ended else { panic!("it must ask: {ended:?}") };
    assert_eq!(fault.code, Code::ToolInDoubt);
    let given = run_config(Some(InDoubt::Skip));
    let resumed = engine.resume(&thread, |_, _| Ok::<_, rondo_core::Error>(given)).await.unwrap();
    let Resumed::Running(handle) = resumed else { panic!("it has not ended") };
    assert!(matches!(follow(handle).await.1, Ended::Finished(_)));
    assert_eq!(effects.load(Ordering::SeqCst), 1);
}

/// Nobody is there the first time, then everything is approved.
struct Once(Arc<AtomicUsize>);

impl Approver for Once {
    fn approve<'a>(&'a self, _: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>> {
        let is_first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        let absent = Fault::new(Code::ApprovalMissing, FaultClass::Denied, "nobody is there");
        Box::pin(std::future::ready(if is_first { Err(absent) } else { Ok(true) }))
    }
}

#[tokio::test]
async fn a_tool_that_is_not_granted_stops_the_run_before_any_hook_or_effect() {
    let (_, engine) = engine();
    let calls = Calls::default();
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("look", "{}"), ("push", "{}")]));
    let checked = one_role("condensed");
    let tools = vec![noting("look", Effect::Pure, &calls), noting("push", Effect::External, &calls)];
    let grants = Grants { tools: vec![Rule::of_tool("look")], ..Grants::default() };
    let run_config = RunConfig { grants, ..equipped(&checked.workflow, &model, tools) };
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
    let (events, ended) = follow(handle).await;
    let Ended::Stopped(fault) = ended else { panic!("it must stop") };
    assert_eq!((fault.class, fault.code), (FaultClass::Denied, Code::ToolNotGranted));
    assert!(fault.message.contains("push"), "{}", fault.message);
    assert_eq!((calls.lock().unwrap().len(), told(&events).len()), (0, 0));
}

/// A role that the tool `check` plays, given the input.
fn tool_role(ok: &str) -> Checked {
    checked(&format!(
        "rondo: 1\nname: played\ninput: {{ n: integer, text: {{ type: string, default: x }} }}\nroles:\n  probe:\n    kind: tool\n    \
         tool: check\n    args: {{ n: \"{{{{ input.n }}}}\", words: \"{{{{ input.text }}}} and more\" }}\n    output: {{ ok: {ok} }}\n\
         graph:\n  start: {{ to: probe }}\n  probe:\n    ok: {{ to: end }}\n    failed: {{ to: fail, reason: \"{{{{ output.code }}}} {{{{ output.message }}}}\" }}\n"
    ))
}

async fn played(
    ok: &str,
    result: Result<&'static str, &'static str>,
) -> (Vec<Event>, Ended, Arc<MemoryStore>, ThreadId) {
    let (store, engine) = engine();
    let checked = tool_role(ok);
    let check: Arc<dyn Tool> = Arc::new(FnTool::new("check", Effect::Pure, move |arguments: &Value, _: &str| {
        assert_eq!(arguments.to_text(), r#"{"n":7,"words":"x and more"}"#);
        result.map(str::to_owned).map_err(|message| Error::new(Code::ToolArguments, message))
    }));
    let model: Arc<dyn Model> = Arc::new(Asks(Vec::new()));
    let run_config = equipped(&checked.workflow, &model, vec![check]);
    let input = Value::from_iter([("n", Value::from(7_u64)), ("text", Value::from("x"))]);
    let handle = start_with(&engine, &checked, input, run_config).await;
    let thread = handle.thread.clone();
    let (events, ended) = follow(handle).await;
    (events, ended, store, thread)
}

#[tokio::test]
async fn a_tool_role_runs_its_tool_with_rendered_arguments_and_its_text_is_the_answer() {
    let (events, ended, store, thread) = played("{}", Ok("all\ngood\n")).await;
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    assert_eq!(told(&events), ["start check call pure", "end check call pure 9 false port"]);
    let (stored, note) = store.step(&thread, 1).unwrap().unwrap();
    assert_eq!((stored.step.answer.as_str(), stored.step.status.as_str()), ("all\ngood\n", "ok"));
    assert_eq!((note.tool_calls, note.answered_by), (1, Some(AnsweredBy::Port)));
    let result = ended_result(&ended);
    assert_eq!(result, r#"{"body":"all\ngood\n","output":{},"status":"ok"}"#);
}

fn ended_result(ended: &Ended) -> String {
    match ended {
        Ended::Finished(ending) => ending.result.to_text(),
        Ended::Stopped(fault) => fault.to_string(),
        Ended::Waiting(forms) => format!("{forms:?}"),
    }
}

#[tokio::test]
async fn declared_fields_are_read_from_the_text_as_json() {
    let (_, ended, _, _) = played("{ passed: integer }", Ok("{\"passed\": 3, \"extra\": true}\n")).await;
    assert!(ended_result(&ended).contains(r#""output":{"passed":3}"#), "{}", ended_result(&ended));
    for wrong in ["three", "[3]", "{\"passed\": \"3\"}", "{}"] {
        let (_, ended, _, _) = played("{ passed: integer }", Ok(wrong)).await;
        let Ended::Finished(ending) = ended else { panic!("{wrong}") };
        let reason = ending.reason.unwrap();
        assert!(reason.starts_with("RN1108 the result is not the JSON that `ok` declares"), "{wrong}: {reason}");
    }
}

#[tokio::test]
async fn fields_that_are_nested_too_deep_fail_the_call_and_no_thread() {
    let deep =
        |levels: usize| -> &'static str { format!("{{\"tree\":{}{}}}", "[".repeat(levels), "]".repeat(levels)).leak() };
    let (_, ended, _, _) = played("{ tree: {} }", Ok(deep(63))).await;
    assert!(ended_result(&ended).contains(deep(63)), "{}", ended_result(&ended));
    for levels in [64, 100, 125, 1000] {
        let (_, ended, _, _) = played("{ tree: {} }", Ok(deep(levels))).await;
        let Ended::Finished(ending) = ended else { panic!("{levels}") };
        let reason = ending.reason.unwrap();
        assert!(reason.starts_with("RN1108") && reason.contains("nested deeper than"), "{levels}: {reason}");
    }
}

#[tokio::test]
async fn a_failed_call_is_the_status_failed_with_code_and_message() {
    let (_, ended, store, thread) = played("{}", Err("no such n\nand more")).await;
    let Ended::Finished(ending) = ended else { panic!("it ends") };
    assert_eq!(ending.reason.as_deref(), Some("RN1602 no such n"));
    let (stored, _) = store.step(&thread, 1).unwrap().unwrap();
    assert_eq!(stored.step.answer, "error RN1602: no such n\nand more");
}

#[tokio::test]
async fn reads_run_side_by_side() {
    let (_, engine) = engine();
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("look", r#"{"a":1}"#), ("look", r#"{"a":2}"#)]));
    let checked = one_role("condensed");
    let meeting: Arc<dyn Tool> =
        Arc::new(Meets(tokio::sync::Barrier::new(2), Hangs::new(&Arc::default(), &Arc::default())));
    let run_config = equipped(&checked.workflow, &model, vec![meeting]);
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), follow(handle)).await;
    assert!(ended.is_ok(), "the second call was not begun while the first was under way");
}

/// A tool whose calls end when two of them have begun.
struct Meets(tokio::sync::Barrier, Arc<Hangs>);

impl Tool for Meets {
    fn spec(&self) -> &Spec {
        static SPEC: std::sync::OnceLock<Spec> = std::sync::OnceLock::new();
        SPEC.get_or_init(|| Spec { name: "look".to_owned(), ..self.1.spec.clone() })
    }

    fn effect(&self, _: &Value) -> Effect {
        Effect::Reads(Vec::new())
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        Box::pin(async move {
            self.0.wait().await;
            Ok(arguments.to_text().into())
        })
    }
}

#[test]
fn an_unattended_approval_waits_with_its_name() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async {
        let (_, engine) = engine();
        let model: Arc<dyn Model> = Arc::new(Asks(vec![("look", "{}")]));
        let checked = one_role("condensed");
        let grants = Grants { approve: vec![Rule::of_tool("*")], ..Grants::everything() };
        let tools = vec![noting("look", Effect::Pure, &Calls::default())];
        let run_config = RunConfig { grants, ..equipped(&checked.workflow, &model, tools) };
        let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
        follow(handle).await.1
    });
    let Ended::Waiting(forms) = ended else { panic!("it must wait") };
    assert!(forms[0].form.get("prompt").unwrap().to_text().contains("look"));
}

/// Asks `engine` for one call, which waits for approval. Gives the thread with its form, and what answers it.
async fn waits_for(engine: &Engine, calls: &Calls) -> (ThreadId, OpenForm, RunConfig) {
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("look", r#"{"at":"this"}"#)]));
    let checked = one_role("condensed");
    let tools = vec![noting("look", Effect::External, calls)];
    let grants = Grants { approve: vec![Rule::of_tool("*")], ..Grants::everything() };
    let run_config = RunConfig { grants, ..equipped(&checked.workflow, &model, tools) };
    let handle = start_with(engine, &checked, Value::empty_object(), run_config.clone()).await;
    let thread = handle.thread.clone();
    let Ended::Waiting(mut forms) = follow(handle).await.1 else { panic!("it must wait") };
    (thread, forms.remove(0), run_config)
}

fn allows(form: Digest, open: &OpenForm, by: Answerer) -> PersonAnswer {
    let said = PersonSaid::Approval { is_allowed: true, why: String::new() };
    PersonAnswer { thread: None, visit: open.visit.clone(), form, said, by }
}

#[tokio::test]
async fn a_call_is_made_only_if_it_is_the_one_that_the_form_showed() {
    let ((store, engine), calls) = (engine(), Calls::default());
    let (thread, open, run_config) = waits_for(&engine, &calls).await;
    let person = || Answerer::Person("ada".to_owned());
    let other = allows(Digest::sha256(b"another form"), &open, person());
    let config = run_config.clone();
    let refused = engine.answer(&thread, other, |_, _| Ok::<_, rondo_core::Error>(config)).await;
    let Err(rondo_core::Error::Fault(fault)) = refused else { panic!("it is no form of the thread") };
    assert_eq!(fault.code, Code::NotWaiting);

    // A row that shows another call than the one that the journal holds.
    let mut row = store.row(&thread).unwrap().unwrap();
    let mut origin = rondo_core::thread::Origin::from_bytes(&row.origin).unwrap();
    let harmless = origin.forms[0].form.to_text().replace("this", "that");
    origin.forms[0].form = canonical::parse(harmless.as_bytes()).unwrap();
    let shown = origin.forms[0].digest(&thread);
    (row.origin, row.version) = (origin.to_bytes().unwrap(), row.version + 1);
    store.commit(Commit::of_row(thread.clone(), row)).await.unwrap();
    let answer = allows(shown, &open, person());
    let resumed = engine.answer(&thread, answer, |_, _| Ok::<_, rondo_core::Error>(run_config)).await.unwrap();
    let Resumed::Running(handle) = resumed else { panic!("the thread has not ended") };
    let Ended::Stopped(fault) = follow(handle).await.1 else { panic!("nobody allowed that call") };
    assert_eq!((fault.code, calls.lock().unwrap().len()), (Code::NotWaiting, 0));
}

#[tokio::test]
async fn a_client_allows_no_call_even_by_the_library() {
    let ((_, engine), calls) = (engine(), Calls::default());
    let (thread, open, run_config) = waits_for(&engine, &calls).await;
    let answer = allows(open.digest(&thread), &open, Answerer::Client("eager".to_owned()));
    let resumed = engine.answer(&thread, answer, |_, _| Ok::<_, rondo_core::Error>(run_config)).await.unwrap();
    let Resumed::Running(handle) = resumed else { panic!("the thread has not ended") };
    assert!(matches!(follow(handle).await.1, Ended::Waiting(forms) if forms == [open]));
    assert!(calls.lock().unwrap().is_empty());
}

/// A person who takes longer than every limit on time.
struct Slow;

impl Approver for Slow {
    fn approve<'a>(&'a self, _: &'a ToolCall) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(async {
            tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
            Ok(true)
        })
    }
}

#[tokio::test]
async fn the_time_in_which_a_person_is_waited_for_counts_towards_no_limit() {
    let (store, engine) = engine();
    let model: Arc<dyn Model> = Arc::new(Asks(vec![("look", "{}")]));
    let text = "rondo: 1\nname: waits\nlimits: { wall_time: 1200ms }\nroles:\n  a: { system: x, tools: [look], timeout: 1s }\n\
                graph:\n  start: { to: a, prompt: go }\n  a: { done: { to: a, prompt: again, max: 1, on_max: { to: end } } }\n";
    let checked = checked(text);
    let calls = Calls::default();
    let run_config = RunConfig {
        grants: Grants { approve: vec![Rule::of_tool("look")], ..Grants::everything() },
        approver: Some(Arc::new(Slow)),
        ..equipped(&checked.workflow, &model, vec![noting("look", Effect::Pure, &calls)])
    };
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
    let thread = handle.thread.clone();
    let (_, ended) = follow(handle).await;
    assert!(matches!(&ended, Ended::Finished(_)), "{ended:?}");
    let (_, note) = store.step(&thread, 2).unwrap().unwrap();
    assert!(note.ended_at_ms - note.started_at_ms >= 1_500 && note.active_ms < 1_000, "{note:?}");
}
