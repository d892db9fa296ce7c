//! Hooks that are outside programs: what each decision does at each kind of call, what happens when there is none, and
//! the programs of the documentation at work.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rondo_agent_kit::model::{Deltas, Model};
use rondo_agent_kit::sandbox::process::{Access, ProcessSettings, Processes, WorkingDir};
use rondo_core::conversation::rebuild;
use rondo_core::hook::{HookProgram, HookResources};
use rondo_core::{Ended, Engine, RunConfig, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{Effect, Fault, ModelAnswer, ModelCall};
use rondo_protocol::id::ThreadId;
use rondo_protocol::message::{Message, Speaker, ToolUse};
use rondo_protocol::object::ModelReply;
use rondo_store::{MemoryStore, Read};
use rondo_tests::{FnTool, answer, checked, equipped, follow, start_with};

use crate::binary::{Finished, Place, Running, binary, fixture};

const KINDS: [&str; 3] = ["turn", "model", "tool"];

/// A role that reads a file and answers, with a program before its calls of one kind.
fn place(at: &str, on_error: &str, program: &str, settings: &str) -> Place {
    let place = Place::new();
    place.file(
        "clerk/workflow.yaml",
        format!(
            "rondo: 1\nname: clerk\nroles: {{ clerk: {{ system: You file notes., tools: [read_file] }} }}\ngraph:\n  \
             start: {{ to: clerk, prompt: Write to ada@example.com. }}\n  clerk:\n    done: {{ to: end, say: \"{{{{ body }}}}\" }}\n    \
             on_error: {{ to: fail, reason: \"{{{{ output.code }}}}\" }}\nhooks:\n  \
             - {{ use: command, name: guard, at: {at}, on_error: {on_error} }}\n"
        ),
    );
    place.file(
        "clerk/script.yaml",
        "clerk:\n  - tools: [ { name: read_file, args: { path: notes.txt } } ]\n    then: { body: filed }\n",
    );
    place.file("notes.txt", "a note");
    place.file("guard.sh", program);
    place.file("rondo.toml", format!("[hook.guard]\nargv = [\"sh\", \"guard.sh\"]\ncwd = \"workspace\"\n{settings}\n"));
    place
}

fn with_path(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(words);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
}

fn run(place: &Place) -> Finished {
    Running::of(with_path(place, &["run", "clerk", "--offline", "--json", "--trust"])).finish()
}

fn said(program: &str, at: &str) -> Finished {
    run(&place(at, "fail", program, ""))
}

#[test]
fn a_program_that_has_nothing_to_say_lets_calls_through_and_reads_what_they_are() {
    for at in KINDS {
        for program in ["cat >> asked", "cat >> asked; echo '{\"decision\":\"continue\"}'"] {
            let place = place(at, "fail", program, "");
            let ran = run(&place).exits(0);
            assert_eq!(ran.event("said")["text"], "filed", "{at}");
            let asked = std::fs::read_to_string(place.path().join("asked")).unwrap();
            let asked: Vec<serde_json::Value> = asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(asked.len(), if at == "model" { 2 } else { 1 });
            let first = &asked[0];
            assert_eq!((&first["version"], &first["hook"], &first["at"]), (&1.into(), &"guard".into(), &at.into()));
            assert_eq!((&first["role"], &first["visit"], &first["attempt"]), (&"clerk".into(), &1.into(), &0.into()));
            let call = &first["call"];
            if at == "tool" {
                assert_eq!((&call["tool"], &call["arguments"]["path"]), (&"read_file".into(), &"notes.txt".into()));
                assert_eq!(call["effect"]["kind"], "reads");
            } else {
                assert_eq!(call["tools"][0]["parameters"]["type"], "object");
                assert!(
                    call["messages"][0]["parts"][0]["text"].as_str().unwrap().starts_with("Write to ada@example.com.")
                );
            }
        }
    }
}

#[test]
fn a_program_answers_in_place_of_what_lies_behind_it() {
    let answer = |text: &str| format!("printf '%s' '{{\"decision\":\"answer\",\"text\":\"{text}\"}}'");
    let kept = answer(r"---\nstatus: done\n---\n\nby the hook");
    for at in ["turn", "model"] {
        let ran = said(&kept, at).exits(0);
        assert_eq!(ran.event("said")["text"], "by the hook", "{at}");
        assert_eq!(ran.event("hook_answered")["node"], "command");
        assert!(ran.events("tool_started").is_empty());
    }
    let ran = said(&answer("from the hook"), "tool").exits(0);
    assert_eq!(ran.event("tool_finished")["answered_by"], "command");
    assert_eq!(ran.event("hook_answered")["node"], "command");
    // One that breaks the role's contract is no answer to a turn; a model's is sent back as any other.
    assert_eq!(said(&answer("no status"), "turn").exits(1).event("thread_finished")["reason"], "RN1507");
}

#[test]
fn a_denied_tool_call_is_told_to_the_model_and_a_denied_request_ends_the_step() {
    for program in ["echo 'not on Sundays' >&2; exit 2", "echo '{\"decision\":\"deny\",\"reason\":\"not on Sundays\"}'"]
    {
        // A denial is no failure, so that nothing bypasses it.
        for on_error in ["fail", "bypass"] {
            let denied = |at: &str| run(&place(at, on_error, program, ""));
            let ran = denied("tool").exits(0);
            assert_eq!(ran.event("tool_finished")["failed"], true);
            assert_eq!(ran.event("said")["text"], "filed");
            for at in ["turn", "model"] {
                let ran = denied(at).exits(1);
                assert_eq!(ran.event("thread_finished")["reason"], "RN1505", "{at}");
                assert!(ran.events("tool_started").is_empty());
            }
        }
    }
    // Where no edge routes it, the run stops and says what was not permitted.
    let place = place("model", "fail", "echo 'not on Sundays'; exit 2", "");
    let workflow = std::fs::read_to_string(place.path().join("clerk/workflow.yaml")).unwrap();
    place.file(
        "clerk/workflow.yaml",
        workflow.lines().filter(|line| !line.contains("on_error: { to")).collect::<Vec<_>>().join("\n"),
    );
    let ran = run(&place).exits(3);
    let error = ran.event("error");
    assert_eq!(
        (&error["code"], &error["message"]),
        (&"RN1505".into(), &"the hook command denied the model call: not on Sundays".into())
    );
}

/// Programs that come to no decision, and the code of that.
const FAILING: [(&str, &str); 7] = [
    ("echo oh; echo wrong >&2; exit 1", "RN1506"),
    ("kill -KILL $$", "RN1506"),
    ("sleep 600", "RN1506"),
    ("yes", "RN1506"),
    ("head -c 1000 /dev/urandom", "RN1507"),
    ("echo '{\"decision\":\"allow\"}'", "RN1507"),
    ("echo '{\"decision\":\"continue\",\"because\":1}'", "RN1507"),
];

/// Time enough for a shell on a busy machine, and little enough to wait for.
const SHORT: &str = "timeout = \"2s\"";

#[test]
fn a_program_that_comes_to_no_decision_has_failed() {
    for (program, code) in FAILING {
        for at in KINDS {
            let ran = run(&place(at, "fail", program, SHORT)).exits(1);
            assert_eq!(ran.event("thread_finished")["reason"], code, "{program} at {at}");
            if program == "sleep 600" {
                break;
            }
        }
    }
}

#[test]
fn a_program_that_failed_is_bypassed_where_file_and_operator_agree_and_it_is_said() {
    for (program, code) in FAILING {
        let ran = run(&place("tool", "bypass", program, SHORT)).exits(0);
        assert_eq!(ran.event("said")["text"], "filed", "{program}");
        let warned = ran.events("hook_report").iter().any(|event| event.to_string().contains(code));
        assert!(warned, "{program}: {:?}", ran.lines);
    }
    for at in KINDS {
        run(&place(at, "bypass", "exit 1", "on_error = \"bypass\"")).exits(0);
        let strict = run(&place(at, "bypass", "exit 1", "on_error = \"fail\"")).exits(1);
        assert_eq!(strict.event("thread_finished")["reason"], "RN1506", "{at}");
    }
}

/// Without an edge for it the run stops, and continues where it was once the program works.
#[test]
fn a_run_that_stopped_on_a_program_goes_on_when_it_works() {
    for at in KINDS {
        let place = place(at, "fail", "[ -e ready ] || exit 1", "");
        let workflow = std::fs::read_to_string(place.path().join("clerk/workflow.yaml")).unwrap();
        let lines: Vec<&str> = workflow.lines().filter(|line| !line.contains("on_error: { to")).collect();
        place.file("clerk/workflow.yaml", lines.join("\n"));
        assert_eq!(run(&place).exits(9).event("error")["code"], "RN1506", "{at}");
        place.file("ready", "");
        let resumed = Running::of(with_path(&place, &["resume", "--json", "--trust"])).finish().exits(0);
        assert_eq!(resumed.event("said")["text"], "filed", "{at}");
    }
}

#[test]
fn a_program_that_is_not_declared_refuses_the_run_before_anything_is_stored() {
    let place = place("tool", "bypass", "", "");
    place.file("rondo.toml", "[hook.other]\nargv = [\"true\"]\n");
    for settings in ["[hook.other]\nargv = [\"true\"]\n", ""] {
        place.file("rondo.toml", settings);
        let ran = run(&place).exits(3);
        let error = ran.event("error");
        assert_eq!(error["code"], "RN1504");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("[hook.guard]") && message.contains("the hook command"), "{message}");
        assert!(ran.events("thread_started").is_empty());
    }
    let threads = Running::of(with_path(&place, &["threads", "--json"])).finish();
    assert!(threads.lines.is_empty(), "{threads:?}");
}

#[test]
fn a_program_sees_the_workspace_and_not_the_store_or_the_settings() {
    let program = "{ cat notes.txt; cat rondo.toml .rondo/* || echo hidden; } > seen 2>&1";
    let place = place("tool", "fail", program, "");
    run(&place).exits(0);
    let seen = std::fs::read_to_string(place.path().join("seen")).unwrap();
    assert!(seen.starts_with("a note") && seen.ends_with("hidden\n") && !seen.contains("argv"), "{seen}");
}

#[test]
fn no_tool_replaces_a_program_that_decides_what_tools_may_do() {
    let place = place("tool", "fail", "cat >> asked", "[grant]\ntools = [\"read_file\", \"write_file\", \"shell\"]");
    let workflow = std::fs::read_to_string(place.path().join("clerk/workflow.yaml")).unwrap();
    place.file("clerk/workflow.yaml", workflow.replace("[read_file]", "[read_file, write_file, shell]"));
    place.file(
        "clerk/script.yaml",
        "clerk:\n  - tools:\n      - { name: write_file, args: { path: guard.sh, text: exit 0 } }\n      \
         - { name: shell, args: { script: echo exit 0 > guard.sh } }\n    then: { body: filed }\n",
    );
    let ran = run(&place).exits(0);
    let calls = ran.events("tool_finished");
    assert!(calls.len() == 2 && calls.iter().all(|call| call["failed"] == true), "{calls:?}");
    assert_eq!(std::fs::read_to_string(place.path().join("guard.sh")).unwrap(), "cat >> asked");
}

#[test]
fn the_guard_of_the_documentation_denies_what_lies_in_secrets() {
    let place = place("tool", "fail", "", "");
    place.file("guard.sh", std::fs::read_to_string(fixture("hooks/guard.sh")).unwrap());
    place.file("secrets/key.txt", "a key");
    for (path, is_denied) in [
        ("notes.txt", false),
        ("secrets/key.txt", true),
        ("./secrets/key.txt", true),
        ("secrets", true),
        ("s\\x65crets/key.txt", true),
        ("secrets.txt", false),
    ] {
        place.file("secrets.txt", "no secret");
        place.file(
            "clerk/script.yaml",
            format!("clerk:\n  - tools: [ {{ name: read_file, args: {{ path: \"{path}\" }} }} ]\n    then: {{ body: filed }}\n"),
        );
        let ran = run(&place).exits(0);
        assert_eq!(ran.event("tool_finished")["failed"], is_denied, "{path}");
    }
}

#[test]
fn the_mask_of_the_documentation_takes_addresses_out_and_what_was_sent_can_be_proven() {
    let place = place("model", "fail", "", "timeout = \"30s\"");
    place.file("mask.py", std::fs::read_to_string(fixture("hooks/mask.py")).unwrap());
    place.file("rondo.toml", "[hook.guard]\nargv = [\"python3\", \"mask.py\"]\ntimeout = \"30s\"\n");
    run(&place).exits(0);
    let verified = Running::of(with_path(&place, &["verify", "--json"])).finish().exits(0).event("verified");
    assert_eq!((&verified["requests"], &verified["faults"]), (&2.into(), &0.into()));
    let words = ["messages", "last", "--role", "clerk", "--visit", "1", "--json"];
    let messages = Running::of(with_path(&place, &words)).finish().exits(0).json();
    let text = |request: &serde_json::Value| request["messages"][0]["parts"][0]["text"].as_str().unwrap().to_owned();
    assert!(messages.iter().all(|request| text(request).starts_with("Write to [an address].")), "{messages:?}");
    assert!(messages.iter().all(|request| !request["asked"].is_null()), "{messages:?}");
}

/// The page shows the programs that the tests above run.
#[test]
fn the_documentation_shows_what_is_tested() {
    let page = std::fs::read_to_string(fixture("../../engine/docs/hooks.md")).unwrap();
    for (language, program) in [("sh", "hooks/guard.sh"), ("python", "hooks/mask.py")] {
        let text = std::fs::read_to_string(fixture(program)).unwrap();
        assert!(page.contains(&format!("```{language}\n{text}```\n")), "{program} differs from what the page shows");
    }
}

/// Calls a tool in each visit, then answers.
struct Acting {
    seen: Arc<Mutex<Vec<ModelCall>>>,
}

impl Model for Acting {
    fn complete<'a>(&'a self, call: &'a ModelCall, _: &'a dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, Fault>> {
        self.seen.lock().unwrap().push(call.clone());
        let has_acted = call.conversation.messages().last().is_some_and(|last| last.role() == Speaker::Tool);
        let tool = ToolUse { arguments: r#"{"n":1}"#.to_owned(), id: "t1".to_owned(), name: "act".to_owned() };
        let asks = ModelReply::asking([tool]);
        let first = ModelAnswer { reply: asks, usage: None, cost_usd: None };
        let then = answer("---\nstatus: done\n---\n\nfrom the model".to_owned());
        Box::pin(std::future::ready(Ok(if has_acted { then } else { first })))
    }
}

/// What a run in memory came to.
struct Ran {
    store: Arc<MemoryStore>,
    thread: ThreadId,
    /// What the model was asked.
    seen: Vec<ModelCall>,
    /// The arguments that reached the tool.
    acted: Vec<String>,
}

/// Runs two visits of a role that calls a tool with effects, in memory, with a program before its calls of one kind.
async fn in_memory(at: &str, program: &str) -> Ran {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let checked = checked(&format!(
        "rondo: 1\nname: w\nroles: {{ a: {{ system: You act., tools: [act], history: exact }} }}\ngraph:\n  \
         start: {{ to: a, prompt: go }}\n  a:\n    done: {{ to: a, prompt: again, max: 1, on_max: {{ to: end }} }}\n    \
         on_error: {{ to: fail, reason: \"{{{{ output.code }}}}\" }}\nhooks: [ {{ use: command, name: guard, at: {at} }} ]\n"
    ));
    let workspace = tempfile::tempdir().unwrap();
    let acted = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&acted);
    let act = Arc::new(FnTool::new("act", Effect::External, move |arguments: &Value, _: &str| {
        noted.lock().unwrap().push(arguments.to_text());
        Ok("acted".to_owned())
    }));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model: Arc<dyn Model> = Arc::new(Acting { seen: Arc::clone(&seen) });
    let processes = Processes::new(ProcessSettings {
        launcher: binary(),
        workspace: workspace.path().to_owned(),
        read: Vec::new(),
        write: vec![".".into()],
        hidden: Vec::new(),
        read_only: Vec::new(),
        protected: Vec::new(),
        ceilings: rondo_agent_kit::sandbox::process::Limits::default(),
        sandbox: true,
        env: BTreeMap::new(),
    });
    let argv = ["sh", "-c", program].map(str::to_owned).to_vec();
    let guard = HookProgram {
        pinned: rondo_agent_kit::pinned::Pinned::default(),
        argv,
        working_dir: WorkingDir::Private,
        access: Access::Write,
        timeout: Some(Duration::from_secs(30)),
        is_required: false,
        processes: Arc::new(processes),
    };
    let hook_resources =
        HookResources { programs: BTreeMap::from([("guard".to_owned(), guard)]), ..HookResources::default() };
    let run_config = RunConfig { hook_resources, ..equipped(&checked.workflow, &model, vec![act]) };
    let handle = start_with(&engine, &checked, Value::empty_object(), run_config).await;
    let thread = handle.thread.clone();
    let (_, ended) = follow(handle).await;
    assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
    let (seen, acted) = (seen.lock().unwrap().clone(), acted.lock().unwrap().clone());
    Ran { store, thread, seen, acted }
}

impl Ran {
    fn status(&self, seq: u64) -> String {
        self.store.step(&self.thread, seq).unwrap().unwrap().0.step.status.to_string()
    }

    /// Holds every request to what can be rebuilt, and gives how many there are.
    fn proven(&self) -> usize {
        let row = self.store.row(&self.thread).unwrap().unwrap();
        let mut count = 0;
        let mut prove = |request: rebuild::Request| {
            assert!(request.is_proven(), "{:?}", request.fault);
            count += 1;
            true
        };
        rebuild::requests(&*self.store, &self.thread, &row, &|_| true, &mut prove).unwrap();
        count
    }
}

#[tokio::test]
async fn what_a_program_rewrote_is_what_the_model_is_sent_and_can_be_proven() {
    let system = r#"echo '{"decision":"rewrite","call":{"system":"You sing."}}'"#;
    for at in ["turn", "model"] {
        let ran = in_memory(at, system).await;
        assert_eq!(ran.seen.len(), 4, "{at}");
        assert!(ran.seen.iter().all(|call| call.head.system == "You sing."), "{at}");
        assert_eq!(ran.proven(), 4, "{at}");
    }
    let messages = r#"echo '{"decision":"rewrite","call":{"messages":[{"role":"user","parts":[{"kind":"text","text":"Sing."}]}]}}'"#;
    let ran = in_memory("turn", messages).await;
    assert!(ran.seen.iter().all(|call| call.conversation.messages()[0] == &Message::user("Sing.")));
    assert_eq!(ran.proven(), 4);
}

#[tokio::test]
async fn rewritten_arguments_reach_the_tool_and_those_that_were_asked_stand_in_the_thread() {
    let ran = in_memory("tool", r#"echo '{"decision":"rewrite","call":{"arguments":{"n":2}}}'"#).await;
    assert_eq!(ran.acted, [r#"{"n":2}"#, r#"{"n":2}"#]);
    assert!(ran.seen[1].conversation.messages()[1].tool_calls().next().unwrap().arguments.contains(r#""n":1"#));
    assert_eq!(ran.proven(), 4);
}

/// A program that fails in front of a tool with effects leaves no doubt: the tool was not reached.
#[tokio::test]
async fn a_failure_before_a_tool_with_effects_is_routed_and_leaves_no_doubt() {
    let ran = in_memory("tool", "exit 1").await;
    assert_eq!((ran.status(1).as_str(), ran.acted.len()), ("error", 0));
}

#[tokio::test]
async fn a_turn_that_a_program_answered_is_part_of_what_the_role_is_told_later() {
    let answer = r#"case $(cat) in *'"visit":1,'*)
        printf '%s' '{"decision":"answer","text":"---\nstatus: done\n---\n\nby the hook"}';; esac"#;
    let ran = in_memory("turn", answer).await;
    assert_eq!(ran.seen.len(), 2);
    let told = ran.seen[0].conversation.messages();
    assert!(told[1].role() == Speaker::Assistant && told[1].text().ends_with("by the hook"), "{told:?}");
    assert_eq!(ran.proven(), 2);
}
