//! `tool_cache` in running threads: what it answers and what it never does, with the real file tools on a real folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::sandbox::files::{Access, Workspace};
use rondo_agent_kit::tool::{Tool, file_tools};
use rondo_core::hook::HookResources;
use rondo_core::{Ended, Engine, RunConfig, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Effect, Fault, ModelAnswer, ModelCall};
use rondo_protocol::event::{Event, What};
use rondo_protocol::message::{Speaker, ToolUse};
use rondo_protocol::object::{AnsweredBy, ModelReply, Note};
use rondo_protocol::workflow::Checked;
use rondo_store::{MemoryStore, Read, StoredStep};
use rondo_tests::{FnTool, answer, checked, equipped, follow, start_with};
use tempfile::TempDir;

use crate::binary::{Place, Running, binary};

const NODE: &str = "tool_cache";

/// One reply: the calls that it asks for side by side.
type Calls = Vec<(&'static str, &'static str)>;

/// Asks for these calls in each visit, one reply after the other, and says in the end what each call came to.
struct Asks(Vec<Calls>);

impl Model for Asks {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        let messages = call.conversation.messages();
        let since = messages.iter().rposition(|message| message.role() == Speaker::User).unwrap();
        let asked = messages[since..].iter().filter(|message| message.tool_calls().next().is_some()).count();
        let reply = if let Some(calls) = self.0.get(asked) {
            let one = |(at, (name, arguments)): (usize, &(&str, &str))| ToolUse {
                arguments: (*arguments).to_owned(),
                id: format!("id{asked}-{at}"),
                name: (*name).to_owned(),
            };
            let tool_calls = calls.iter().enumerate().map(one);
            let reply = ModelReply::asking(tool_calls);
            ModelAnswer { reply, usage: None, cost_usd: None }
        } else {
            let results = messages[since..].iter().filter(|message| message.role() == Speaker::Tool);
            let results: Vec<_> = results.map(|message| message.text()).collect();
            answer(format!("---\nstatus: done\n---\n\n{}", results.join("\n=\n")))
        };
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A process with a store, and the folder that its tools work in.
struct Bench {
    store: Arc<MemoryStore>,
    engine: Engine,
    folder: TempDir,
    files: Arc<Workspace>,
    /// How often `look` was reached.
    looked: Arc<AtomicUsize>,
}

struct Ran {
    events: Vec<Event>,
    ended: Ended,
    notes: Vec<Note>,
    answers: Vec<String>,
    head: Option<String>,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let all = || vec![".".into()];
        let access = Access { read: all(), write: all(), ..Access::default() };
        let files = Arc::new(Workspace::open(folder.path(), access).unwrap());
        let store = Arc::new(MemoryStore::default());
        let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
        Self { store, engine, folder, files, looked: Arc::default() }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn run_config(&self, checked: &Checked, replies: Vec<Calls>, flag: &str) -> RunConfig {
        let model: Arc<dyn Model> = Arc::new(Asks(replies));
        let looked = Arc::clone(&self.looked);
        let look = FnTool::new("look", Effect::Pure, move |arguments: &Value, _: &str| {
            looked.fetch_add(1, Ordering::SeqCst);
            Ok(format!("seen {}", arguments.to_text()))
        });
        let path = self.folder.path().join("x");
        let shell = FnTool::new("shell", Effect::External, move |arguments: &Value, _: &str| {
            std::fs::write(&path, arguments.get("text").and_then(Value::as_str).unwrap_or_default()).unwrap();
            Ok(String::new())
        });
        let own: [Arc<dyn Tool>; 2] = [Arc::new(look), Arc::new(shell)];
        let tools = file_tools(&self.files).into_iter().chain(own).collect();
        RunConfig {
            hook_resources: HookResources { files: Some(Arc::clone(&self.files)), ..HookResources::default() },
            flags: BTreeMap::from([("cache".to_owned(), flag.to_owned())]),
            ..equipped(&checked.workflow, &model, tools)
        }
    }

    async fn flagged(&self, checked: &Checked, replies: Vec<Calls>, flag: &str) -> Ran {
        let run_config = self.run_config(checked, replies, flag);
        let handle = start_with(&self.engine, checked, Value::empty_object(), run_config).await;
        let thread = handle.thread.clone();
        let (events, ended) = follow(handle).await;
        let row = self.store.row(&thread).unwrap().unwrap();
        let head = row.head.map(|head| head.to_string());
        let (mut notes, mut answers) = (Vec::new(), Vec::new());
        if row.seq > 0 {
            let keep = &mut |stored: StoredStep, note| {
                notes.push(note);
                answers.push(stored.step.answer);
                true
            };
            self.store.steps(&thread, 1..=row.seq, keep).unwrap();
        }
        Ran { events, ended, notes, answers, head }
    }

    async fn run(&self, checked: &Checked, replies: Vec<Calls>) -> Ran {
        self.flagged(checked, replies, "on").await
    }

    fn looked(&self) -> usize {
        self.looked.load(Ordering::SeqCst)
    }
}

impl Ran {
    /// What became of each tool call, as its start and end were told.
    fn told(&self) -> Vec<(String, bool)> {
        let hook = AnsweredBy::Hook(NODE.to_owned());
        let ends = self.events.iter().filter_map(|event| match &event.what {
            What::ToolFinished { tool, answered_by, .. } => Some((tool.clone(), *answered_by == hook)),
            _ => None,
        });
        ends.collect()
    }

    fn started(&self) -> usize {
        self.events.iter().filter(|event| matches!(event.what, What::ToolStarted { .. })).count()
    }

    fn hits(&self) -> usize {
        self.told().iter().filter(|(_, is_hit)| *is_hit).count()
    }

    fn figure(&self, name: &str) -> i128 {
        let figures = self.notes.iter().flat_map(|note| &note.hooks).filter_map(|hook| hook.metrics.get(name).cloned());
        figures.map(|figure| if let Value::Int(number) = figure { number } else { 0 }).sum()
    }
}

fn is_warning(event: &Event) -> bool {
    matches!(&event.what, What::HookReport { metrics, .. } if metrics.get("warning").is_some())
}

/// One role, visited twice, with this hook.
fn workflow(hooks: &str) -> Checked {
    checked(&format!(
        "rondo: 1\nname: handy\nroles:\n  a:\n    system: x\n    tools: [look, shell, read_file, list_files, edit_file, \
         apply_patch, write_file]\ngraph:\n  start: {{ to: a, prompt: go }}\n  a: {{ done: {{ to: a, prompt: again, max: \
         1, on_max: {{ to: end }} }} }}\nhooks: {hooks}\n"
    ))
}

const PLAIN: &str = "[{ use: tool_cache }]";

#[tokio::test]
async fn a_call_that_was_made_before_is_answered_and_told_like_any_other() {
    let (bench, checked) = (Bench::new(), workflow(PLAIN));
    bench.write("x", "text");
    let replies = || vec![vec![("look", r#"{"a":1}"#), ("read_file", r#"{"path":"x"}"#)]];
    let first = bench.run(&checked, replies()).await;
    assert!(matches!(first.ended, Ended::Finished(_)), "{:?}", first.ended);
    // The second visit asks the same. Calls of one reply run side by side: either of the two may end first.
    let visits = |ran: &Ran| {
        let mut told = ran.told();
        told.chunks_mut(2).for_each(<[_]>::sort);
        told
    };
    let told = |is_hit| [("look".to_owned(), is_hit), ("read_file".to_owned(), is_hit)];
    assert_eq!(visits(&first), [told(false), told(true)].concat());
    let second = bench.run(&checked, replies()).await;
    assert_eq!(visits(&second), [told(true), told(true)].concat());
    assert_eq!((bench.looked(), second.started()), (1, 4));
    assert_eq!((&second.answers, &second.head), (&first.answers, &first.head));
    let answered = second.events.iter().filter(|event| {
        matches!(&event.what, What::HookAnswered { node, key: Some(key), saved_usd: None, .. }
            if node == NODE && key.len() == 64)
    });
    assert_eq!(answered.count(), 4);
    let figures = ["observed_calls", "hits", "misses", "recorded_count", "would_hit_count"];
    assert_eq!(figures.map(|name| first.figure(name)), [4, 2, 2, 2, 0]);
    assert_eq!(figures.map(|name| second.figure(name)), [4, 4, 0, 0, 0]);
    // Every turn has its figures, and an event with them.
    let reports = |ran: &Ran| {
        let of_node = |event: &&Event| matches!(&event.what, What::HookReport { node, .. } if node == NODE);
        ran.events.iter().filter(of_node).count()
    };
    assert_eq!((reports(&first), reports(&bench.run(&checked, Vec::new()).await)), (2, 2));
    assert_eq!(second.notes[0].tool_calls, 2);
}

/// Law `transparency`: on, off, cold, warm, observing and verifying.
#[tokio::test]
async fn a_thread_is_the_same_with_it_and_without() {
    let replies = || {
        vec![
            vec![("look", "{}"), ("look", "{}"), ("read_file", r#"{"path":"x"}"#), ("list_files", "{}")],
            vec![("shell", r#"{"text":"shelled"}"#)],
            vec![("read_file", r#"{"path":"x"}"#), ("look", "{}")],
            vec![("edit_file", r#"{"path":"x","old":"shelled","new":"edited"}"#)],
            vec![("read_file", r#"{"path":"x"}"#), ("list_files", r#"{"path":"."}"#)],
        ]
    };
    let bench = Bench::new();
    let begin = || bench.write("x", "begun!!");
    begin();
    let without = bench.run(&workflow("[]"), replies()).await;
    assert!(matches!(without.ended, Ended::Finished(_)), "{:?}", without.ended);
    let settings = [PLAIN, "[{ use: tool_cache, mode: observe }]", "[{ use: tool_cache, mode: verify, scope: store }]"];
    for hooks in settings {
        for flag in ["on", "on", "off", "read", "refresh", "on"] {
            begin();
            let with = bench.flagged(&workflow(hooks), replies(), flag).await;
            assert_eq!((&with.answers, &with.head), (&without.answers, &without.head), "{hooks} {flag}");
            let warned = with.events.iter().any(is_warning);
            assert!(!warned, "{hooks} {flag}");
        }
    }
}

#[tokio::test]
async fn a_read_after_each_kind_of_own_write_is_fresh() {
    let patch = r#"{"patch":"--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-old\n+new\n"}"#;
    let writes = [
        ("edit_file", r#"{"path":"x","old":"old","new":"new"}"#),
        ("write_file", r#"{"path":"x","text":"new\n"}"#),
        ("apply_patch", patch),
        ("shell", r#"{"text":"new\n"}"#),
    ];
    for write in writes {
        let (bench, checked) = (Bench::new(), workflow("[{ use: tool_cache, ttl: none }]"));
        bench.write("x", "old\n");
        let read = ("read_file", r#"{"path":"x"}"#);
        let ran = bench.run(&checked, vec![vec![read], vec![read], vec![write], vec![read]]).await;
        let parts: Vec<&str> = ran.answers[0].split("\n=\n").collect();
        assert!(
            parts[1].contains("old") && parts[3].contains("new") && !parts[3].contains("old"),
            "{write:?}: {parts:?}"
        );
        assert_eq!(ran.told()[..4].iter().map(|(_, is_hit)| *is_hit).collect::<Vec<_>>(), [false, true, false, false]);
        // An identical edit is made, and fails where it must; it is never answered.
        assert!(ran.told().iter().all(|(tool, is_hit)| *tool != write.0 || !is_hit), "{write:?}");
    }
}

#[tokio::test]
async fn an_answered_call_counts_towards_repeated_calls() {
    let (bench, checked) = (Bench::new(), workflow(PLAIN));
    let look = || vec![("look", r#"{"a":1}"#)];
    let ran = bench.run(&checked, vec![look(), look(), look(), look()]).await;
    assert_eq!(bench.looked(), 1);
    let parts: Vec<&str> = ran.answers[0].split("\n=\n").collect();
    assert!(parts[2].contains("seen"), "{parts:?}");
    assert!(parts[3].contains("RN1604"), "{parts:?}");
}

#[tokio::test]
async fn equal_calls_of_one_reply_are_made_once_without_waiting() {
    let (bench, checked) = (Bench::new(), workflow(PLAIN));
    let begun = Instant::now();
    let ran = bench.run(&checked, vec![vec![("look", "{}"), ("look", " { } "), ("look", r#"{"b":1}"#)]]).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "they waited for each other");
    assert_eq!((bench.looked(), ran.hits()), (2, 4));
}

/// Two runs in one process read and write one file: each read tells what the last write that had ended put there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_in_one_process_never_read_what_was_overwritten() {
    let (bench, checked) = (Bench::new(), workflow("[{ use: tool_cache, ttl: none, scope: store }]"));
    bench.write("x", "start");
    let read = ("read_file", r#"{"path":"x"}"#);
    for round in 0..5 {
        let write: Calls = vec![(
            "write_file",
            ["{\"path\":\"x\",\"text\":\"even!\"}", "{\"path\":\"x\",\"text\":\"odd!!\"}"][round % 2],
        )];
        let expected = ["even!", "odd!!"][round % 2];
        let writing = bench.run(&checked, vec![vec![read], write]);
        let reading = bench.run(&checked, vec![vec![read], vec![("list_files", "{}")], vec![read]]);
        let (_, _) = tokio::join!(writing, reading);
        let after = bench.run(&checked, vec![vec![read]]).await;
        assert!(after.answers[0].contains(expected), "round {round}: {}", after.answers[0]);
    }
}

#[tokio::test]
async fn a_role_asks_for_it_by_with() {
    let bench = Bench::new();
    let checked = checked(
        "rondo: 1\nname: own\nroles:\n  a: { system: x, tools: [look], with: { tool_cache: { ttl: 1h } } }\n  b: { system: x, \
         tools: [look] }\ngraph:\n  start: { to: a, prompt: go }\n  a: { done: { to: b, prompt: go } }\n  b: { done: { to: end } }\n",
    );
    let replies = || vec![vec![("look", "{}")]];
    let hits = [bench.run(&checked, replies()).await.hits(), bench.run(&checked, replies()).await.hits()];
    assert_eq!((hits, bench.looked()), ([0, 1], 3), "the other role has none");
}

#[tokio::test]
async fn a_role_that_a_tool_plays_is_answered_too() {
    let bench = Bench::new();
    let checked = checked(
        "rondo: 1\nname: played\nroles: { probe: { kind: tool, tool: look, args: { n: 1 } } }\ngraph:\n  start: { to: probe }\n  \
         probe: { ok: { to: end }, failed: { to: fail } }\nhooks: [{ use: tool_cache }]\n",
    );
    let first = bench.run(&checked, Vec::new()).await;
    let second = bench.run(&checked, Vec::new()).await;
    assert_eq!((bench.looked(), first.hits(), second.hits()), (1, 0, 1));
    assert_eq!((&second.answers, &second.head), (&first.answers, &first.head));
}

#[tokio::test]
async fn a_node_that_names_what_is_never_kept_is_refused_before_anything_runs() {
    let bench = Bench::new();
    let checked = workflow("[{ use: tool_cache, tools: [look, edit_file] }]");
    let run_config = bench.run_config(&checked, Vec::new(), "on");
    let (workflow, policy) = (checked.workflow.clone(), checked.policy.clone());
    let new = rondo_core::NewThread {
        workflow,
        policy,
        input: Value::empty_object(),
        file: None,
        script: None,
        recorded: None,
        workspace: None,
        labels: rondo_core::Labels::default(),
    };
    let error = bench.engine.start(new, run_config).await.err().unwrap().to_string();
    assert!(error.contains("edit_file") && error.contains("fixed list"), "{error}");
}

/// `repo-report` as it ships, in a copy of what it reads.
fn repository() -> Place {
    let place = Place::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let read = ["README.md", "ARCHITECTURE.md", "Cargo.toml", "agent-kit/src/tool/mod.rs"];
    let prompts =
        ["scout", "reader", "writer", "checker"].map(|name| format!("workflows/repo-report/prompts/{name}.md"));
    let own = ["workflow.yaml", "script.yaml"].map(|name| format!("workflows/repo-report/{name}"));
    for name in read.into_iter().map(str::to_owned).chain(prompts).chain(own) {
        place.file(&name, std::fs::read(root.join(&name)).unwrap());
    }
    place
}

fn report(place: &Place, more: &[&str]) -> (usize, serde_json::Value) {
    let mut command = place.command(["run", "repo-report", "--offline", "--json"].iter().chain(more));
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let run = Running::of(command).finish().exits(0);
    let hits = run.events("tool_finished").iter().filter(|event| event["answered_by"] == NODE).count();
    (hits, run.event("thread_finished")["head"].clone())
}

#[test]
fn a_repeated_call_of_repo_report_is_answered_and_the_command_line_says_why() {
    assert!(binary().is_file());
    let place = repository();
    let (first, head) = report(&place, &[]);
    assert_eq!(first, 1, "the reader asks for what the scout has read");
    let (second, again) = report(&place, &[]);
    assert!(second >= 10, "{second}");
    assert_eq!(head, again);
    assert_eq!(report(&place, &["--cache", "off"]), (0, head));
    let explained = place.run(["cache", "explain", "last:3"]).exits(0).text();
    assert!(!explained.contains("tool_cache, "), "a run with the flag off looked something up: {explained}");

    report(&place, &[]);
    let explained = place.run(["cache", "explain", "last:3"]).exits(0).text();
    for words in ["tool_cache, read_file: hit", "arguments", "asked first by"] {
        assert!(explained.contains(words), "{words}: {explained}");
    }
    let lines = place.run(["cache", "explain", "last:3", "--json"]).exits(0).json();
    let own: Vec<_> = lines.iter().filter(|line| line["node"] == NODE).collect();
    assert!(own.len() >= 5 && own.iter().all(|line| line["outcome"] == "hit"), "{own:?}");
    let shown = place.run(["show", "last"]).exits(0).text();
    assert!(shown.contains(NODE), "{shown}");

    let stats = place.run(["cache", "stats", "--json"]).exits(0).json();
    let of = |role: &str, tool: &str| {
        let is_it = |line: &&serde_json::Value| line["kind"] == NODE && line["role"] == role && line["tool"] == tool;
        stats.iter().find(is_it).unwrap_or_else(|| panic!("{role} {tool}: {stats:?}")).clone()
    };
    let scout = of("scout", "read_file");
    assert_eq!((&scout["lookups"], &scout["hits"], &scout["entries"]), (&6.into(), &4.into(), &2.into()));

    // An edited file is read again, the others are not.
    place.file("README.md", "# rondo\n\nOther words.\n");
    let (third, _) = report(&place, &[]);
    assert!(third > 1 && third < second, "{third}");
    let explained = place.run(["cache", "explain", "last:2"]).exits(0).text();
    assert!(explained.contains("tool_cache, read_file: changed"), "{explained}");

    let cleared =
        place.run(["cache", "clear", "--kind", "tool_cache", "--tool", "read_file", "--json"]).exits(0).json();
    assert_eq!(cleared.len(), 1);
    assert!(cleared[0]["kind"] == NODE && cleared[0]["forgotten"].as_u64() >= Some(3), "{cleared:?}");
    assert_eq!(place.run(["cache", "clear", "--kind", "response_cache", "--json"]).exits(0).json()[0]["forgotten"], 0);
    // Reads are not learnt from what was said: nobody knows any more what they had seen.
    let warmed = place.run(["cache", "warm", "last", "--json"]).exits(0).json();
    let warmed = warmed.iter().find(|line| line["kind"] == NODE).unwrap();
    assert_eq!((&warmed["calls"], &warmed["kept"]), (&0.into(), &0.into()));
}

#[test]
fn pure_calls_are_learnt_anew_from_a_thread_and_a_refusal_is_explained() {
    let place = Place::new();
    place.file(
        "count/workflow.yaml",
        "rondo: 1\nname: count\nroles: { a: { system: x, tools: [add, write_file] } }\ngraph:\n  start: { to: a, prompt: go }\n  \
         a: { done: { to: end } }\nhooks: [{ use: tool_cache, ttl: none }]\n",
    );
    place.file(
        "count/script.yaml",
        "a:\n  - tools: [ { name: add, args: { n: 1 } }, { name: write_file, args: { path: out, text: x } } ]\n    then: { body: \
         fine }\n",
    );
    place.settings(
        "[tool.add]\nargv = [\"sh\", \"-c\", \"echo added $1\", \"sh\", \"{n}\"]\neffect = \"pure\"\nschema = '{\"type\":\"object\",\"properties\":{\"n\":\
         {\"type\":\"integer\"}}}'\n[grant]\ntools = [\"add\", \"write_file\"]\nwrite = [\".\"]\n",
    );
    let run = |more: &[&str]| {
        let mut command = place.command(["run", "count", "--offline", "--json", "--trust"].iter().chain(more));
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let run = Running::of(command).finish().exits(0);
        let is_add = |event: &&serde_json::Value| event["tool"] == "add";
        let added = run.events("tool_finished").into_iter().find(|event| is_add(&event)).unwrap();
        assert_eq!(added["failed"], false);
        added["answered_by"].as_str().unwrap().to_owned()
    };
    assert_eq!((run(&["--cache", "off"]), run(&["--cache", "off"])), ("port".to_owned(), "port".to_owned()));
    let warmed = place.run(["cache", "warm", "last", "--json"]).exits(0).json();
    let warmed = warmed.iter().find(|line| line["kind"] == NODE).unwrap();
    assert_eq!((&warmed["calls"], &warmed["kept"]), (&1.into(), &1.into()));
    assert_eq!(run(&[]), NODE);
    let explained = place.run(["cache", "explain", "last:1"]).exits(0).text();
    let why = "tool_cache, write_file: refused because the tool is on the fixed list of those that are never kept";
    assert!(explained.contains(why) && explained.contains("tool_cache, add: hit"), "{explained}");
}
