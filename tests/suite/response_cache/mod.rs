//! `response_cache` in running threads: what it answers, what it never keeps, and what it costs.

mod command_line;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::sandbox::files::{Access, Workspace};
use rondo_agent_kit::tool::{Tool, file_tools};
use rondo_core::hook::{BuildContext, Context, Hook, HookKind, HookResources, Next, Registry};
use rondo_core::{Ended, Engine, Resumed, RunConfig, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Call, CallKind, Effect, Fault, FaultClass, ModelAnswer, ModelCall, Reply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::{Event, What};
use rondo_protocol::id::ThreadId;
use rondo_protocol::message::{Message, ToolUse};
use rondo_protocol::object::{AnsweredBy, Finish, ModelReply, Note, Usage};
use rondo_protocol::workflow::{Checked, HookUse, OnHookError};
use rondo_store::{MemoryStore, Read, StepStore};
use rondo_tests::{FnTool, answer, checked, equipped, follow, run_config, start_with};

const NODE: &str = "response_cache";

/// A role that is asked twice, each time anew, and then the end.
const TWICE: &str = "rondo: 1\nname: twice\nroles:\n  a: { system: x, history: none, context: none }\ngraph:\n  \
    start: { to: a, prompt: go }\n  a:\n    done: { to: a, prompt: go, max: 1, on_max: { to: end } }\n";

fn good(text: &str) -> String {
    format!("---\nstatus: done\n---\n\n{text}")
}

/// Answers by a function of how often it was asked, and counts.
struct Counting<F> {
    asked: AtomicUsize,
    answer: F,
}

impl<F: Fn(usize, &ModelCall) -> Result<ModelAnswer, Fault> + Send + Sync> Model for Counting<F> {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready((self.answer)(asked, call)))
    }
}

fn counting<F>(answer: F) -> Arc<Counting<F>>
where
    F: Fn(usize, &ModelCall) -> Result<ModelAnswer, Fault> + Send + Sync,
{
    Arc::new(Counting { asked: AtomicUsize::new(0), answer })
}

impl<F> Counting<F> {
    fn count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn paid(text: &str) -> ModelAnswer {
    let usage = Some(Usage { prompt_tokens: 100, output_tokens: 10, ..Usage::default() });
    ModelAnswer { usage, cost_usd: Some(0.5), ..answer(good(text)) }
}

/// One store with an engine over it, as a process has it.
struct Bench {
    store: Arc<MemoryStore>,
    engine: Engine,
}

struct Ran {
    thread: ThreadId,
    events: Vec<Event>,
    ended: Ended,
    notes: Vec<Note>,
    answers: Vec<String>,
    head: Option<String>,
}

impl Bench {
    fn new() -> Self {
        Self::over(Arc::new(MemoryStore::default()))
    }

    /// A process that begins over a store that is there already.
    fn over(store: Arc<MemoryStore>) -> Self {
        Self::with(store, registry())
    }

    fn with(store: Arc<MemoryStore>, registry: Registry) -> Self {
        let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry);
        Self { store, engine }
    }

    async fn run(&self, checked: &Checked, run_config: RunConfig) -> Ran {
        let handle = start_with(&self.engine, checked, Value::empty_object(), run_config).await;
        let thread = handle.thread.clone();
        let (events, ended) = follow(handle).await;
        self.ran(thread, events, ended)
    }

    fn ran(&self, thread: ThreadId, events: Vec<Event>, ended: Ended) -> Ran {
        let row = self.store.row(&thread).unwrap().unwrap();
        let head = row.head.map(|head| head.to_string());
        let (mut notes, mut answers) = (Vec::new(), Vec::new());
        if row.seq > 0 {
            let keep = &mut |stored: rondo_store::StoredStep, note| {
                notes.push(note);
                answers.push(stored.step.answer);
                true
            };
            self.store.steps(&thread, 1..=row.seq, keep).unwrap();
        }
        Ran { thread, events, ended, notes, answers, head }
    }

    async fn model(&self, checked: &Checked, model: Arc<dyn Model>) -> Ran {
        self.run(checked, run_config(&checked.workflow, &model)).await
    }
}

impl Ran {
    fn by_hook(&self) -> usize {
        let is_hook = |by: &AnsweredBy| matches!(by, AnsweredBy::Hook(node) if node.starts_with(NODE));
        self.notes.iter().filter(|note| note.answered_by.as_ref().is_some_and(is_hook)).count()
    }

    fn figure(&self, name: &str) -> i128 {
        let figures = self.notes.iter().flat_map(|note| &note.hooks).filter_map(|hook| hook.metrics.get(name).cloned());
        figures.map(|figure| if let Value::Int(number) = figure { number } else { 0 }).sum()
    }
}

fn hooked(workflow: &str, at: CallKind, settings: &[(&str, Value)]) -> Checked {
    let mut checked = checked(workflow);
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let hook = HookUse { at, on_error: OnHookError::Bypass, roles: None, settings, kind: NODE.to_owned() };
    checked.policy.hooks = vec![hook];
    checked
}

fn flagged(run_config: RunConfig, how: &str) -> RunConfig {
    RunConfig { flags: BTreeMap::from([("cache".to_owned(), how.to_owned())]), ..run_config }
}

#[tokio::test]
async fn a_repeated_run_asks_nothing_costs_nothing_and_has_the_same_head() {
    let (bench, checked) = (Bench::new(), hooked(TWICE, CallKind::Model, &[]));
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    let first = bench.model(&checked, model.clone()).await;
    let second = bench.model(&checked, model.clone()).await;
    assert_eq!(model.count(), 2, "the second run asked");
    assert_eq!(first.head, second.head);
    assert_eq!((first.by_hook(), second.by_hook()), (0, 2));
    for note in &second.notes {
        assert_eq!(note.cost_usd, Some(0.0));
        assert_eq!(note.usage, Some(Usage::default()));
        let answered = &note.hooks[0].answered[0];
        assert_eq!((answered.saved_usd, answered.saved.map(|usage| usage.prompt_tokens)), (Some(0.5), Some(100)));
        assert!(answered.key.as_ref().is_some_and(|key| key.len() == 64));
    }
    let told = second.events.iter().filter(|event| {
        matches!(&event.what, What::HookAnswered { node, key: Some(_), saved_usd: Some(saved), .. }
            if node == NODE && (*saved - 0.5).abs() < 1e-9)
    });
    assert_eq!(told.count(), 2);
}

/// The k-th equal request of a thread is given the k-th answer: voters with equal prompts are not all given one.
#[tokio::test]
async fn voters_with_equal_prompts_are_each_given_their_own_answer() {
    let (bench, checked) = (Bench::new(), hooked(TWICE, CallKind::Model, &[]));
    let model = counting(|asked, _| Ok(paid(&format!("vote {asked}"))));
    let first = bench.model(&checked, model.clone()).await;
    assert_eq!(first.answers, [good("vote 0"), good("vote 1")]);
    assert_eq!(bench.model(&checked, model).await.answers, first.answers);
}

/// The same after the thread was interrupted: how often a request was asked is told by the steps, not by memory.
#[tokio::test]
async fn a_resumed_thread_goes_on_with_the_next_occurrence() {
    let store = Arc::new(MemoryStore::default());
    let checked = hooked(TWICE, CallKind::Model, &[]);
    let failing = counting(|asked, _| match asked {
        0 => Ok(paid("vote 0")),
        _ => Err(Fault::new(Code::KeyRefused, FaultClass::Denied, "no")),
    });
    let stopped = Bench::over(Arc::clone(&store)).model(&checked, failing).await;
    assert!(matches!(stopped.ended, Ended::Stopped(_)));
    let bench = Bench::over(Arc::clone(&store));
    let model = counting(|_, _| Ok(paid("vote 1")));
    let given = run_config(&checked.workflow, &(Arc::clone(&model) as Arc<dyn Model>));
    let resumed = bench.engine.resume(&stopped.thread, |_, _| Ok::<_, rondo_core::Error>(given)).await.unwrap();
    let Resumed::Running(handle) = resumed else { panic!("it had ended") };
    let (events, ended) = follow(handle).await;
    let resumed = bench.ran(stopped.thread, events, ended);
    assert_eq!(resumed.answers, [good("vote 0"), good("vote 1")], "the first answer was given twice");
    assert_eq!(model.count(), 1);
}

#[tokio::test]
async fn answers_survive_a_restart_and_are_filled_again_from_a_thread() {
    let store = Arc::new(MemoryStore::default());
    let checked = hooked(TWICE, CallKind::Model, &[]);
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    let first = Bench::over(Arc::clone(&store)).model(&checked, model.clone()).await;
    let second = Bench::over(Arc::clone(&store)).model(&checked, model.clone()).await;
    assert_eq!((second.by_hook(), model.count()), (2, 2));

    for (key, _) in store.hook_values(NODE, b"", 1000).unwrap() {
        store.put_hook_value(NODE, key, None).await.unwrap();
    }
    let cold = Bench::over(Arc::clone(&store));
    let given = run_config(&checked.workflow, &(Arc::clone(&model) as Arc<dyn Model>));
    assert_eq!(cold.engine.replay(&first.thread, given, NODE).await, Ok(2));
    let warm = Bench::over(Arc::clone(&store)).model(&checked, model.clone()).await;
    assert_eq!((warm.by_hook(), model.count()), (2, 2), "what was filled again was not found");
    assert_eq!(warm.head, first.head);
}

#[tokio::test]
async fn the_flag_says_whether_answers_are_given_and_kept() {
    let (bench, checked) = (Bench::new(), hooked(TWICE, CallKind::Model, &[]));
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    let run = async |how: &str| {
        let given = run_config(&checked.workflow, &(Arc::clone(&model) as Arc<dyn Model>));
        let before = model.count();
        let ran = bench.run(&checked, flagged(given, how)).await;
        (model.count() - before, ran.answers[0].clone())
    };
    assert_eq!(run("off").await, (2, good("answer 0")));
    assert_eq!(run("read").await.0, 2, "off has kept something");
    assert_eq!(run("on").await, (2, good("answer 4")), "read has kept something");
    assert_eq!(run("off").await.0, 2, "off has given something");
    assert_eq!(run("read").await, (0, good("answer 4")));
    assert_eq!(run("refresh").await, (2, good("answer 8")));
    assert_eq!(run("on").await, (0, good("answer 8")), "refresh has not replaced it");
}

/// The first answer to a run.
type Broken = fn() -> Result<ModelAnswer, Fault>;

#[tokio::test]
async fn errors_cut_answers_and_refused_answers_are_asked_for_again() {
    let once = TWICE.replace("{ to: a, prompt: go, max: 1, on_max: { to: end } }", "{ to: end }");
    let broken: [(&str, Broken); 3] = [
        ("an error", || Err(Fault::new(Code::ProviderBusy, FaultClass::RateLimit, "busy"))),
        ("a cut answer", || {
            let mut cut = paid("half of");
            cut.reply.finish = Finish::Length;
            Ok(cut)
        }),
        ("an answer that breaks the contract", || Ok(answer("no front matter".to_owned()))),
    ];
    for (name, first) in broken {
        let (bench, mut checked) = (Bench::new(), hooked(&once, CallKind::Model, &[]));
        for policy in checked.policy.roles.values_mut() {
            policy.retry.backoff_ms = 1;
        }
        // The first answer to each run is broken, the next one good.
        let model = counting(move |asked, call: &ModelCall| {
            let is_first = call.attempt == 0 && call.conversation.messages().len() == 1;
            if is_first { first() } else { Ok(paid(&format!("good {asked}"))) }
        });
        let first = bench.model(&checked, model.clone()).await;
        assert_eq!(model.count(), 2, "{name}");
        let second = bench.model(&checked, model.clone()).await;
        assert!(second.answers[0].contains("good"), "{name}: {:?}", second.answers);
        // An error is no answer, so that the answer of the second attempt is the call's; what was refused is asked for
        // again, and what mended it was another request.
        let expected = if name == "an error" { 2 } else { 3 };
        assert_eq!(model.count(), expected, "{name}");
        assert_eq!(first.head, second.head, "{name}");
    }
}

#[tokio::test]
async fn an_end_is_fixed_when_an_answer_is_kept_and_counted_when_it_is_found() {
    let (bench, checked) = (Bench::new(), hooked(TWICE, CallKind::Model, &[("ttl", Value::from(1_u64))]));
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    bench.model(&checked, model.clone()).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let second = bench.model(&checked, model.clone()).await;
    assert_eq!((model.count(), second.by_hook()), (4, 0));
    assert_eq!((second.figure("misses"), second.figure("expired")), (2, 2));
}

#[tokio::test]
async fn a_scope_shares_with_no_other() {
    let words = ["thread", "workflow", "store"];
    let (bench, model) = (Bench::new(), counting(|asked, _| Ok(paid(&format!("answer {asked}")))));
    let other = TWICE.replace("name: twice", "name: other");
    for scope in words {
        let before = model.count();
        let of = |workflow: &str| hooked(workflow, CallKind::Model, &[("scope", Value::from(scope))]);
        bench.model(&of(TWICE), model.clone()).await;
        assert_eq!(model.count() - before, 2, "{scope} was given what another scope has kept");
        bench.model(&of(TWICE), model.clone()).await;
        bench.model(&of(&other), model.clone()).await;
        let expected = match scope {
            "thread" => 6,
            "workflow" => 4,
            _ => 2,
        };
        assert_eq!(model.count() - before, expected, "{scope}");
    }
}

#[tokio::test]
async fn ceilings_hold_and_what_is_full_fails_no_run() {
    let (bench, checked) = (Bench::new(), hooked(TWICE, CallKind::Model, &[("entries", Value::from(1_u64))]));
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    bench.model(&checked, model.clone()).await;
    let second = bench.model(&checked, model.clone()).await;
    assert!(matches!(second.ended, Ended::Finished(_)));
    assert_eq!(second.by_hook(), 0, "of two answers the first went when the second came");
    let tiny = hooked(TWICE, CallKind::Model, &[("bytes", Value::from(1_u64)), ("scope", Value::from("store"))]);
    for _ in 0..2 {
        let ran = bench.model(&tiny, model.clone()).await;
        assert!(matches!(ran.ended, Ended::Finished(_)));
        assert_eq!(ran.by_hook(), 0);
    }
}

/// Every byte of everything that is kept flipped, and records cut and swapped: what is given is what was said, or
/// nothing is given.
#[tokio::test]
async fn edited_entries_are_misses() {
    let store = Arc::new(MemoryStore::default());
    let checked =
        hooked(&TWICE.replace("{ to: a, prompt: go, max", "{ to: a, prompt: go on, max"), CallKind::Model, &[]);
    let asked = |call: &ModelCall| call.conversation.messages().last().map(|message| message.text().into_owned());
    let model = counting(move |_, call: &ModelCall| Ok(paid(&asked(call).unwrap_or_default())));
    let first = Bench::over(Arc::clone(&store)).model(&checked, model.clone()).await;
    let kept = store.hook_values(NODE, b"", 1000).unwrap();
    let restore = async || {
        for (key, _) in store.hook_values(NODE, b"", 1000).unwrap() {
            store.put_hook_value(NODE, key, None).await.unwrap();
        }
        for (key, value) in &kept {
            store.put_hook_value(NODE, key.clone(), Some(value.clone())).await.unwrap();
        }
    };
    let mut tried = 0;
    for (key, value) in &kept {
        let step = (value.len() / 24).max(1);
        for at in (0..value.len()).step_by(step) {
            restore().await;
            let mut edited = value.clone();
            edited[at] ^= 0x20;
            store.put_hook_value(NODE, key.clone(), Some(edited)).await.unwrap();
            let ran = Bench::over(Arc::clone(&store)).model(&checked, model.clone()).await;
            assert_eq!(ran.answers, first.answers, "byte {at} of {} bytes", value.len());
            assert!(matches!(ran.ended, Ended::Finished(_)));
            tried += 1;
        }
        restore().await;
        store.put_hook_value(NODE, key.clone(), Some(value[..value.len() / 2].to_vec())).await.unwrap();
        let ran = Bench::over(Arc::clone(&store)).model(&checked, model.clone()).await;
        assert_eq!(ran.answers, first.answers);
    }
    for (one, other) in kept.iter().zip(kept.iter().skip(1)) {
        restore().await;
        store.put_hook_value(NODE, one.0.clone(), Some(other.1.clone())).await.unwrap();
        store.put_hook_value(NODE, other.0.clone(), Some(one.1.clone())).await.unwrap();
        let ran = Bench::over(Arc::clone(&store)).model(&checked, model.clone()).await;
        assert_eq!(ran.answers, first.answers, "two records exchanged");
    }
    assert!(tried > 50, "{tried}");
}

/// Two threads that ask the same at the same time: the provider is asked once.
#[tokio::test]
async fn equal_askers_wait_for_the_first() {
    struct Slow(AtomicUsize);
    impl Model for Slow {
        fn complete<'a>(&'a self, _: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                tokio::time::sleep(std::time::Duration::from_millis(60)).await;
                Ok(paid("slow"))
            })
        }
    }
    let once = TWICE.replace("{ to: a, prompt: go, max: 1, on_max: { to: end } }", "{ to: end }");
    let (bench, checked) = (Bench::new(), hooked(&once, CallKind::Model, &[]));
    let model = Arc::new(Slow(AtomicUsize::new(0)));
    let runs = (0..4).map(|_| bench.model(&checked, Arc::clone(&model) as _));
    let ran = futures_util::future::join_all(runs).await;
    assert_eq!(model.0.load(Ordering::SeqCst), 1);
    assert!(ran.windows(2).all(|pair| pair[0].head == pair[1].head));
}

/// Says something more to every model.
struct Rewrites;

impl HookKind for Rewrites {
    fn name(&self) -> &'static str {
        "rewrites"
    }

    fn build(&self, _: &BuildContext<'_>) -> Result<Arc<dyn Hook>, String> {
        Ok(Arc::new(Self))
    }
}

impl Hook for Rewrites {
    fn handle<'a>(&'a self, mut call: Call, next: Next<'a>, _: &'a Context) -> BoxFuture<'a, Result<Reply, Fault>> {
        if let Call::Model(call) = &mut call {
            Arc::make_mut(&mut call.conversation).push(Message::user("In short."));
        }
        next.run(call)
    }
}

/// What comes from behind a hook that may change a call is no answer to the call as it was asked; in front of it is one.
#[tokio::test]
async fn nothing_is_kept_in_front_of_a_hook_that_changes_calls() {
    for (is_in_front, given_again) in [(true, 0), (false, 2)] {
        let kinds = registry().kinds().cloned().chain([Arc::new(Rewrites) as Arc<dyn HookKind>]).collect::<Vec<_>>();
        let bench = Bench::with(Arc::new(MemoryStore::default()), Registry::new(kinds));
        let mut checked = hooked(TWICE, CallKind::Model, &[]);
        let rewrites = HookUse { kind: "rewrites".to_owned(), ..checked.policy.hooks[0].clone() };
        let at = usize::from(is_in_front);
        checked.policy.hooks.insert(at, rewrites);
        let model = counting(|_, call: &ModelCall| Ok(paid(&call.conversation.messages().len().to_string())));
        let cold = bench.model(&checked, model.clone()).await;
        let warm = bench.model(&checked, model.clone()).await;
        assert_eq!((warm.by_hook(), warm.head), (given_again, cold.head));
        assert_eq!(warm.answers, [good("2"), good("2")]);
    }
}

/// Two roles whose requests are equal, with nodes of their own: the second is not given the first one's vote.
#[tokio::test]
async fn nodes_of_one_run_count_together() {
    let workflow = "rondo: 1\nname: voters\nroles:\n  a: { system: x, history: none, context: none, with: { response_cache: { ttl: 1h } } }\n  \
        b: { system: x, history: none, context: none, with: { response_cache: { ttl: 2h } } }\ngraph:\n  \
        start: { to: a, prompt: go }\n  a: { done: { to: b, prompt: go } }\n  b: { done: { to: end } }\n";
    let (bench, checked) = (Bench::new(), checked(workflow));
    let model = counting(|asked, _| Ok(paid(&format!("vote {asked}"))));
    let first = bench.model(&checked, model.clone()).await;
    assert_eq!((first.by_hook(), first.answers.clone()), (0, vec![good("vote 0"), good("vote 1")]));
    let second = bench.model(&checked, model.clone()).await;
    assert_eq!((model.count(), second.by_hook(), second.head), (2, 2, first.head));
}

/// A turn takes as many of a script's entries when it is given again as when it was taken, failed ones too.
#[tokio::test]
async fn a_turn_that_is_given_again_counts_the_attempts_that_it_took() {
    let (bench, mut checked) = (Bench::new(), hooked(TWICE, CallKind::Turn, &[]));
    for policy in checked.policy.roles.values_mut() {
        policy.retry.backoff_ms = 1;
    }
    let ordinals = |checked: &Checked| {
        let model = counting(|_, call: &ModelCall| match call.ordinal {
            0 => Err(Fault::new(Code::ProviderBusy, FaultClass::RateLimit, "busy")),
            ordinal => Ok(paid(&format!("entry {ordinal}"))),
        });
        run_config(&checked.workflow, &(model as Arc<dyn Model>))
    };
    let first = bench.run(&checked, ordinals(&checked)).await;
    assert_eq!(first.answers, [good("entry 1"), good("entry 2")]);
    let attempts = |ran: &Ran| ran.notes.iter().map(|note| note.attempts).collect::<Vec<_>>();
    let second = bench.run(&checked, ordinals(&checked)).await;
    assert_eq!((second.by_hook(), attempts(&second)), (2, attempts(&first)));
}

/// What a thread is learnt from must have been served where it would be asked now, and is as old as it is.
#[tokio::test]
async fn what_is_learnt_anew_is_of_the_same_provider_and_as_old_as_it_was() {
    let (bench, checked) = (Bench::new(), hooked(TWICE, CallKind::Model, &[("ttl", Value::from(40_u64))]));
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    let given = || run_config(&checked.workflow, &(Arc::clone(&model) as Arc<dyn Model>));
    let first = bench.run(&checked, flagged(given(), "off")).await;
    let mut elsewhere = given();
    elsewhere.models.0.values_mut().for_each(|model| model.served_by.address = "elsewhere".to_owned());
    assert_eq!(bench.engine.replay(&first.thread, elsewhere, NODE).await, Ok(0));
    tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    assert_eq!(bench.engine.replay(&first.thread, given(), NODE).await, Ok(2));
    let second = bench.run(&checked, given()).await;
    assert_eq!((second.by_hook(), second.figure("expired")), (0, 2), "learning it anew made it younger");
}

/// A turn that makes more calls than its role may make now is not given again.
#[tokio::test]
async fn a_turn_beyond_the_role_s_limits_is_not_given_again() {
    let (bench, folder) = (Bench::new(), Folder::new());
    let mut checked = hooked(WITH_TOOLS, CallKind::Turn, &[]);
    let asks = || asking(vec![("look", "{}")]);
    bench.run(&checked, folder.run_config(&checked, &asks(), vec![look()])).await;
    for policy in checked.policy.roles.values_mut() {
        policy.limits.model_calls = Some(1);
    }
    let ran = bench.run(&checked, folder.run_config(&checked, &asks(), vec![look()])).await;
    assert!(matches!(ran.ended, Ended::Stopped(fault) if fault.class == FaultClass::Limit));
}

/// A role that asks for it under `with` and a file that has it for all roles: two nodes before one call, with one key.
#[tokio::test]
async fn two_nodes_before_one_call_do_not_wait_for_each_other() {
    let with = TWICE.replace("context: none }", "context: none, with: { response_cache: {} } }");
    let (bench, checked) = (Bench::new(), hooked(&with, CallKind::Model, &[]));
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    let begun = std::time::Instant::now();
    bench.model(&checked, model.clone()).await;
    let second = bench.model(&checked, model.clone()).await;
    assert_eq!((model.count(), second.by_hook()), (2, 2));
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "one waited for the turn of the other");
}

fn asking(tools: Vec<(&'static str, &'static str)>) -> Arc<dyn Model> {
    Arc::new(Asks(tools))
}

/// Asks for tools as a list says, then answers with what they said.
struct Asks(Vec<(&'static str, &'static str)>);

impl Model for Asks {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let messages = call.conversation.messages();
        let used = messages.iter().filter(|message| message.tool_calls().next().is_some()).count();
        let reply = match self.0.get(used) {
            Some((name, arguments)) => {
                let tool =
                    ToolUse { arguments: (*arguments).to_owned(), id: format!("t{used}"), name: (*name).to_owned() };
                ModelAnswer { reply: ModelReply::asking([tool]), usage: None, cost_usd: Some(0.1) }
            }
            None => paid(&messages.last().map(|message| message.text().into_owned()).unwrap_or_default()),
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

struct Folder {
    dir: tempfile::TempDir,
    workspace: Arc<Workspace>,
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "first\n").unwrap();
        let here = vec![".".into()];
        let access = Access { read: here.clone(), write: here, ..Access::default() };
        let workspace = Arc::new(Workspace::open(dir.path(), access).unwrap());
        Self { dir, workspace }
    }

    fn run_config(
        &self,
        checked: &Checked,
        model: &Arc<dyn Model>,
        more: impl IntoIterator<Item = Arc<dyn Tool>>,
    ) -> RunConfig {
        let tools = file_tools(&self.workspace).into_iter().chain(more).collect();
        let hook_resources = HookResources { files: Some(Arc::clone(&self.workspace)), ..HookResources::default() };
        RunConfig { hook_resources, ..equipped(&checked.workflow, model, tools) }
    }
}

const WITH_TOOLS: &str = "rondo: 1\nname: tooled\nroles:\n  a: { system: x, tools: [read_file, list_files, write_file, look] }\n\
    graph:\n  start: { to: a, prompt: go }\n  a:\n    done: { to: end }\n";

fn look() -> Arc<dyn Tool> {
    Arc::new(FnTool::new("look", Effect::Pure, |_: &Value, _: &str| Ok("looked".to_owned())))
}

#[tokio::test]
async fn a_turn_is_given_again_only_while_what_its_tools_saw_still_stands() {
    let (bench, folder) = (Bench::new(), Folder::new());
    let checked = hooked(WITH_TOOLS, CallKind::Turn, &[]);
    let asks = || asking(vec![("read_file", r#"{"path":"a.txt"}"#), ("list_files", "{}"), ("look", "{}")]);
    let run = async || bench.run(&checked, folder.run_config(&checked, &asks(), vec![look()])).await;
    let first = run().await;
    assert_eq!(first.by_hook(), 0);
    let second = run().await;
    assert_eq!((second.by_hook(), second.head.clone()), (1, first.head.clone()));
    assert_eq!((second.notes[0].cost_usd, second.notes[0].model_calls), (Some(0.0), 4));
    assert_eq!(second.notes[0].hooks[0].answered[0].at, CallKind::Turn);

    std::fs::write(folder.dir.path().join("a.txt"), "other\n").unwrap();
    let third = run().await;
    assert_eq!(third.by_hook(), 0, "a turn was given again although a file that it read has changed");
    std::fs::write(folder.dir.path().join("b.txt"), "new\n").unwrap();
    assert_eq!(run().await.by_hook(), 0, "a turn was given again although a folder that it listed has changed");
    assert_eq!(run().await.by_hook(), 1);
}

#[tokio::test]
async fn a_turn_that_wrote_anything_is_never_given_again() {
    let (bench, folder) = (Bench::new(), Folder::new());
    let checked = hooked(WITH_TOOLS, CallKind::Turn, &[]);
    let asks = || asking(vec![("write_file", r#"{"path":"out.txt","text":"x"}"#)]);
    for _ in 0..2 {
        let _ = std::fs::remove_file(folder.dir.path().join("out.txt"));
        let ran = bench.run(&checked, folder.run_config(&checked, &asks(), vec![look()])).await;
        assert_eq!(ran.by_hook(), 0);
        assert!(folder.dir.path().join("out.txt").exists(), "a turn was replayed although it had written a file");
    }
}

#[tokio::test]
async fn a_turn_whose_tools_may_no_longer_be_called_is_not_given_again() {
    let (bench, folder) = (Bench::new(), Folder::new());
    let checked = hooked(WITH_TOOLS, CallKind::Turn, &[]);
    let asks = || asking(vec![("look", "{}")]);
    bench.run(&checked, folder.run_config(&checked, &asks(), vec![look()])).await;
    let mut run_config = folder.run_config(&checked, &asks(), vec![look()]);
    run_config.grants.approve = vec![rondo_core::grant::Rule::of_tool("look")];
    let ran = bench.run(&checked, run_config).await;
    assert_eq!(ran.by_hook(), 0, "a call that needs a person's approval was answered without asking");
    assert!(matches!(ran.ended, Ended::Waiting(_)));
}

#[tokio::test]
async fn a_role_can_ask_for_it_under_with() {
    let with = TWICE.replace("context: none }", "context: none, with: { response_cache: { ttl: 1h } } }");
    let (bench, checked) = (Bench::new(), checked(&with));
    let model = counting(|asked, _| Ok(paid(&format!("answer {asked}"))));
    bench.model(&checked, model.clone()).await;
    let second = bench.model(&checked, model.clone()).await;
    assert_eq!((model.count(), second.by_hook()), (2, 2));
}

/// A graph of a few roles in a ring with bounds, and answers that depend on what was asked.
fn ring() -> impl Strategy<Value = (String, u64)> {
    let role = (0..3_usize, 0..3_usize, any::<bool>());
    (proptest::collection::vec(role, 1..4), 1..4_u32, any::<u64>()).prop_map(|(roles, rounds, seed)| {
        let names = ["a", "b", "c"];
        let mut text = "rondo: 1\nname: ring\nroles:\n".to_owned();
        for (name, (history, context, same)) in names.iter().zip(&roles) {
            let history = ["condensed", "exact", "none"][*history];
            let context = ["none", "outputs", "bodies"][*context];
            // Some roles say the same, so that their requests may be equal.
            let system = if *same { "same" } else { name };
            text.extend([format!(
                "  {name}: {{ system: {system}, history: {history}, context: {context}, output: {{ on_it: {{}}, off_it: {{}} }} }}\n"
            )]);
        }
        text += "graph:\n  start: { to: a, prompt: go }\n";
        for (at, name) in names.iter().enumerate().take(roles.len()) {
            let next = names[(at + 1) % roles.len()];
            text.extend([format!(
                "  {name}:\n    on_it: {{ to: {next}, prompt: go, max: {rounds}, on_max: {{ to: end }} }}\n    \
                 off_it: {{ to: {name}, prompt: again, max: 1, on_max: {{ to: {next}, prompt: go, max: {rounds}, on_max: {{ to: end }} }} }}\n"
            )]);
        }
        (text.replace("on_it", "forth").replace("off_it", "back_again"), seed)
    })
}

/// A function of the request. Some answers break the contract first.
struct Hashing {
    seed: u64,
}

impl Model for Hashing {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let request = call.request();
        let bytes = request.as_bytes();
        let number = u64::from(bytes[0]).wrapping_mul(31).wrapping_add(u64::from(bytes[1])).wrapping_add(self.seed);
        let said = if number.is_multiple_of(7) && call.conversation.messages().len() % 2 == 1 {
            answer("this breaks the contract".to_owned())
        } else {
            let status = if number.is_multiple_of(3) { "back_again" } else { "forth" };
            let usage = Some(Usage { prompt_tokens: 10, output_tokens: 3, ..Usage::default() });
            let text = format!("---\nstatus: {status}\n---\n\nsaid {number}");
            ModelAnswer { usage, cost_usd: Some(0.01), ..answer(text) }
        };
        Box::pin(std::future::ready(Ok(said)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Law `transparency`: off, on and cold, on and warm, in a new process, refreshed, at model calls and at turns: the
    /// same head.
    #[test]
    fn transparency((workflow, seed) in ring(), at_turns: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let at = if at_turns { CallKind::Turn } else { CallKind::Model };
            let checked = hooked(&workflow, at, &[]);
            let store = Arc::new(MemoryStore::default());
            let model = || Arc::new(Hashing { seed }) as Arc<dyn Model>;
            let run = async |bench: &Bench, how: &str| {
                bench.run(&checked, flagged(run_config(&checked.workflow, &model()), how)).await
            };
            let bench = Bench::over(Arc::clone(&store));
            let off = run(&bench, "off").await;
            let cold = run(&bench, "on").await;
            let warm = run(&bench, "on").await;
            let again = run(&Bench::over(Arc::clone(&store)), "read").await;
            let refreshed = run(&bench, "refresh").await;
            prop_assert!(off.head.is_some());
            for (name, other) in [("cold", &cold), ("warm", &warm), ("restarted", &again), ("refreshed", &refreshed)] {
                prop_assert_eq!(&off.head, &other.head, "{}: {}", name, workflow);
            }
            prop_assert_eq!(cold.by_hook(), 0);
            prop_assert!(warm.by_hook() > 0);
            Ok(())
        })?;
    }
}

/// A writer, a critic of its text, and an indexer of the same text who does not hear the critic.
const CHAIN: &str = "rondo: 1\nname: chain\nroles:\n  writer: { system: w, context: none }\n  critic: { system: c, context: none }\n  \
    indexer: { system: i, context: none }\ngraph:\n  start: { to: writer, prompt: Write. }\n  \
    writer: { done: { to: critic, prompt: \"Judge: {{ body }}\" } }\n  \
    critic: { done: { to: indexer, prompt: \"Index: {{ steps.writer.body }}\" } }\n  indexer: { done: { to: end } }\n";

/// Which roles a provider was really asked for.
type Ledger = Arc<std::sync::Mutex<Vec<String>>>;

fn ledger() -> (Ledger, Arc<dyn Model>) {
    let ledger = Ledger::default();
    let keep = Arc::clone(&ledger);
    let model = counting(move |_, call| {
        keep.lock().unwrap().push(call.site.role.to_string());
        Ok(paid(&format!("{} has spoken", call.site.role)))
    });
    (ledger, model)
}

/// An edited prompt and a fork run only what depends on the edit again.
#[tokio::test]
async fn a_fork_under_an_edited_prompt_asks_only_for_what_depends_on_it() {
    use rondo_core::local::{Edited, ForkRequest, plan_fork};
    let bench = Bench::new();
    let (asked, model) = ledger();
    let first = bench.run(&hooked(CHAIN, CallKind::Model, &[]), run_config(&checked(CHAIN).workflow, &model)).await;
    assert_eq!(*asked.lock().unwrap(), ["writer", "critic", "indexer"]);
    let edited = hooked(&CHAIN.replace("Judge:", "Judge kindly:"), CallKind::Model, &[]);
    for (at, expected) in [(None, &["critic"][..]), (Some(1), &[])] {
        asked.lock().unwrap().clear();
        let (workflow, policy) = (edited.workflow.clone(), edited.policy.clone());
        let edited = at.is_none().then_some(Edited { workflow, policy, input: None, file: None });
        let request = ForkRequest { at, edited, ..ForkRequest::default() };
        let plan = plan_fork(&*bench.store, &first.thread, &request).unwrap();
        assert_eq!((plan.at, plan.again.steps), (1, 2));
        let fork = bench.engine.fork(&first.thread, plan.at, &request, &RunConfig::default()).await.unwrap();
        let given = |workflow: &_, _: &_| Ok::<_, rondo_core::Error>(run_config(workflow, &model));
        let Resumed::Running(handle) = bench.engine.resume(&fork, given).await.unwrap() else { panic!("it had ended") };
        let (_, ended) = follow(handle).await;
        assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
        assert_eq!(*asked.lock().unwrap(), expected, "at {at:?}");
    }
}
