//! Forks: they share steps without copying, go on under edited files, and never change the thread they left.

use serde_json::Value;

use crate::binary::{Finished, Place, fixture};

/// A plan, a person's consent, a text and a verdict.
const WORKFLOW: &str = "rondo: 1
name: pipeline
input: { topic: string }
roles:
  planner: { system: You plan., output: { planned: { points: \"string[]\", \"size?\": integer } } }
  approver: { kind: human, output: { approved: { \"note?\": string }, refused: {} } }
  writer: { system: You write., output: { written: {} } }
  judge: { system: You judge., output: { good: {}, bad: {} } }
limits: { steps: 20 }
graph:
  start: { to: planner, prompt: \"Plan {{ input.topic }}.\" }
  planner: { planned: { to: approver, prompt: \"Fine?\" } }
  approver:
    approved: { to: writer, prompt: \"Write about {{ steps.planner.output.points | length }} points.\" }
    refused: { to: fail, reason: refused }
  writer: { written: { to: judge, prompt: \"Judge: {{ body }}\" } }
  judge: { good: { to: end }, bad: { to: writer, prompt: \"Again.\", max: 2, on_max: { to: end } } }
";

const SCRIPT: &str = "
planner:
  - { status: planned, fields: { points: [a, b] } }
approver:
  - { status: approved, fields: { note: go } }
writer:
  - { status: written, body: First. }
  - { status: written, body: Second. }
judge:
  - { status: bad }
  - { status: good }
";

/// A script of the first `steps` answers of a run.
fn script(steps: usize) -> String {
    let given = |role: &str, count: usize| {
        let all: Vec<&str> = SCRIPT.split(&format!("\n{role}:\n")).nth(1).unwrap().lines().collect();
        let own = all.into_iter().take_while(|line| line.starts_with("  - ")).take(count);
        let own: Vec<&str> = own.collect();
        if own.is_empty() { format!("{role}: []") } else { format!("{role}:\n{}", own.join("\n")) }
    };
    let order = ["planner", "approver", "writer", "judge", "writer", "judge"];
    let count = |role: &str| order.iter().take(steps).filter(|other| **other == role).count();
    ["planner", "approver", "writer", "judge"].map(|role| given(role, count(role))).join("\n")
}

/// A thread that stopped, or waits, after so many steps.
fn paused_after(steps: usize) -> Place {
    let place = Place::new();
    let file = place.file("workflow.yaml", WORKFLOW);
    let script = place.file("some.yaml", script(steps));
    place.file("script.yaml", SCRIPT);
    let ran = place.run(["run", &file, "--script", &script, "-i", "topic=tea", "--json"]);
    assert_eq!(thread(&place)["totals"]["steps"], steps, "{ran:?}");
    place
}

fn threads(place: &Place) -> Vec<Value> {
    place.run(["threads", "--json"]).exits(0).json()
}

fn thread(place: &Place) -> Value {
    threads(place).pop().unwrap()
}

fn first(place: &Place) -> String {
    threads(place)[0]["thread"].as_str().unwrap().to_owned()
}

fn steps(place: &Place, thread: &str) -> Vec<Value> {
    let shown = place.run(["show", thread, "--json"]).exits(0).json();
    shown.into_iter().filter(|line| line["event"] == "step").collect()
}

fn fork(place: &Place, words: &[&str]) -> Finished {
    let base = first(place);
    place.run([&["fork", &base, "--script", "script.yaml", "--json"], words].concat())
}

#[test]
fn without_a_name_the_thread_that_has_not_ended_is_forked_or_the_last_if_all_have() {
    let place = paused_after(6);
    let ended = first(&place);
    let forked = |place: &Place| place.run(["fork", "--at", "2", "--dry-run", "--json"]).exits(0).event("fork");
    assert_eq!(forked(&place)["thread"], *ended);
    let script = place.file("some.yaml", script(2));
    place.run(["run", "workflow.yaml", "--script", &script, "-i", "topic=tea", "--json"]);
    let stopped = thread(&place)["thread"].clone();
    place.run(["run", "workflow.yaml", "--script", "script.yaml", "-i", "topic=tea", "--json"]).exits(0);
    assert_eq!(forked(&place)["thread"], stopped);
}

#[test]
fn a_fork_at_any_step_goes_on_to_the_same_head_and_copies_nothing() {
    let place = paused_after(6);
    let base = first(&place);
    let whole = place.run(["show", &base, "--json"]).exits(0).lines;
    let head = thread(&place)["head"].clone();
    for at in 1..=6 {
        let ran = fork(&place, &["--at", &at.to_string()]).exits(0);
        assert_eq!(ran.event("thread_resumed")["seq"], at);
        assert_eq!(ran.event("thread_finished")["head"], head, "at {at}");
        let made = ran.events("step_committed").len();
        assert_eq!(made, 6 - at, "shared steps are not made again");
        place.run(["verify", "last", "--json"]).exits(0);
    }
    // By digest, and a fork of a fork.
    let digest = steps(&place, &base)[2]["step"].as_str().unwrap()[..10].to_owned();
    let ran = fork(&place, &["--at", &digest]).exits(0);
    assert_eq!(ran.event("thread_resumed")["seq"], 3);
    let fork_of_fork = place.run(["fork", "last", "--at", "5", "--script", "script.yaml", "--json"]).exits(0);
    assert_eq!(fork_of_fork.event("thread_finished")["head"], head);
    assert_eq!(place.run(["show", &base, "--json"]).exits(0).lines, whole, "the thread itself is as it was");
    for (words, code) in [(&["--at", "7"][..], "RN1417"), (&["--at", "0"], "RN1417"), (&["--at", "beef"], "RN1417")] {
        assert_eq!(fork(&place, words).exits(2).event("error")["code"], code, "{words:?}");
    }
}

#[test]
fn an_answer_put_in_branches_the_thread() {
    let place = paused_after(6);
    let answer = place.file("answer.md", "---\nstatus: good\n---\n\nEnough.\n");
    let ran = fork(&place, &["--at", "4", "--answer", &answer]).exits(0);
    assert_eq!(ran.event("thread_finished")["outcome"], "done");
    let made = steps(&place, "last");
    assert_eq!((made.len(), &made[3]["status"], &made[3]["body"]), (4, &"good".into(), &"Enough.\n".into()));
    assert_eq!(made[3]["transcript"], Value::Null);
    place.run(["verify", "last", "--json"]).exits(0);
    // A person's answer is JSON.
    let answer = place.file("answer.json", r#"{"status":"refused"}"#);
    assert_eq!(
        fork(&place, &["--at", "2", "--answer", &answer]).exits(1).event("thread_finished")["reason"],
        "refused"
    );
    let before = threads(&place).len();
    for wrong in ["good", "---\nstatus: perhaps\n---\n"] {
        let answer = place.file("wrong.md", wrong);
        assert_eq!(fork(&place, &["--at", "4", "--answer", &answer]).exits(2).event("error")["code"], "RN1416");
    }
    assert_eq!(threads(&place).len(), before, "a refused fork leaves nothing");
}

/// What becomes of a thread that is moved to an edited file.
#[derive(Debug)]
enum Moved {
    /// No step would have been different.
    Safe,
    /// From this step on.
    Changed(u64),
    /// Kept whole it is refused, because of this step.
    Contradicts(u64),
    /// From this step on; kept whole it is refused, because nothing leads on from its last step.
    Stuck(u64),
}

/// Edits against threads that are paused at each role: every pair is classified.
#[test]
fn an_edited_file_is_compared_with_the_past() {
    use Moved::{Changed, Contradicts, Safe, Stuck};
    let renamed = WORKFLOW.replace("writer", "author");
    let without = WORKFLOW
        .replace("  writer: { system: You write., output: { written: {} } }\n", "")
        .replace("  writer: { written: { to: judge, prompt: \"Judge: {{ body }}\" } }\n", "");
    let without = without
        .replace("to: writer, prompt: \"Write", "to: judge, prompt: \"Write")
        .replace("bad: { to: writer, prompt: \"Again.\", max: 2, on_max: { to: end } }", "bad: { to: end }");
    let edit = |old: &str, new: &str| {
        assert!(WORKFLOW.contains(old), "{old}");
        WORKFLOW.replace(old, new)
    };
    // Each edit with what becomes of a thread paused after 1 (waiting), 2, 3, 4 and 5 steps; then of one kept whole.
    let matrix: Vec<(&str, String, [Moved; 5])> = vec![
        (
            "role added",
            edit("limits:", "  helper: { system: You help. }\nlimits:")
                .replace("good: { to: end }", "good: { to: helper }")
                .replace("graph:\n", "graph:\n  helper: { done: { to: end } }\n"),
            [Safe, Safe, Safe, Safe, Safe],
        ),
        ("role removed", without, [Safe, Safe, Stuck(3), Changed(3), Stuck(3)]),
        ("role renamed", renamed, [Safe, Safe, Stuck(3), Changed(3), Stuck(3)]),
        (
            "edge moved",
            edit("bad: { to: writer, prompt: \"Again.\"", "bad: { to: planner, prompt: \"Again.\""),
            [Safe, Safe, Safe, Safe, Changed(5)],
        ),
        (
            "schema widened",
            edit("\"size?\": integer", "\"size?\": integer, \"more?\": string"),
            [Changed(1), Changed(1), Changed(1), Changed(1), Changed(1)],
        ),
        (
            "schema narrowed",
            edit("points: \"string[]\", \"size?\": integer", "points: { type: array, maxItems: 1, items: { type: string } }"),
            [Contradicts(1), Contradicts(1), Contradicts(1), Contradicts(1), Contradicts(1)],
        ),
        (
            "status removed",
            edit("good: {}, bad: {}", "good: {}").replace(
                ", bad: { to: writer, prompt: \"Again.\", max: 2, on_max: { to: end } }",
                "",
            ),
            [Safe, Safe, Safe, Contradicts(4), Contradicts(4)],
        ),
        (
            "prompt edited",
            edit("Write about", "Please write about"),
            [Safe, Safe, Changed(3), Changed(3), Changed(3)],
        ),
        ("system text edited", edit("You judge.", "You judge well."), [Safe, Safe, Safe, Changed(4), Changed(4)]),
        ("limit changed", edit("steps: 20", "steps: 30"), [Safe, Safe, Safe, Safe, Safe]),
        (
            "role of the person removed",
            edit("  approver: { kind: human, output: { approved: { \"note?\": string }, refused: {} } }\n", "")
                .replace("to: approver, prompt: \"Fine?\"", "to: writer, prompt: \"Write.\"")
                .replace("  approver:\n    approved: { to: writer, prompt: \"Write about {{ steps.planner.output.points | length }} points.\" }\n    refused: { to: fail, reason: refused }\n", ""),
            [Safe, Stuck(2), Changed(2), Changed(2), Changed(2)],
        ),
    ];
    for (paused, at) in (1..=5).zip(0_usize..) {
        let place = paused_after(paused);
        for (name, text, expected) in &matrix {
            let file = place.file("edited.yaml", text);
            let plan = fork(&place, &["--with", &file, "--dry-run"]).exits(0).event("fork");
            let whole = fork(&place, &["--with", &file, "--dry-run", "--at", "last"]);
            let what = format!("{name}, paused after {paused}: {plan}");
            match &expected[at] {
                Safe => {
                    assert_eq!((&plan["changed"], &plan["at"]), (&Value::Null, &paused.into()), "{what}");
                    whole.exits(0);
                }
                Changed(seq) => {
                    assert_eq!((&plan["changed"]["seq"], &plan["at"]), (&(*seq).into(), &(seq - 1).into()), "{what}");
                    assert_eq!(plan["again"]["steps"], paused as u64 - (seq - 1), "{what}");
                    whole.exits(0);
                }
                Contradicts(seq) => {
                    let error = whole.exits(2).event("error");
                    assert_eq!(error["code"], "RN1416", "{what}");
                    assert!(error["message"].as_str().unwrap().contains(&format!("step {seq} ")), "{what}: {error}");
                }
                Stuck(seq) => {
                    assert_eq!((&plan["changed"]["seq"], &plan["at"]), (&(*seq).into(), &(seq - 1).into()), "{what}");
                    let kept = whole.exits(2).event("error");
                    assert_eq!(kept["code"], "RN1416", "{what}: {kept}");
                }
            }
        }
        assert_eq!(threads(&place).len(), 1, "a dry run and a refused fork leave nothing");
    }
}

/// A thread moved whole to an edited file keeps its steps, records the move, and is proven afterwards.
#[test]
fn a_thread_moves_to_an_edited_file_and_stays_proven() {
    let place = paused_after(3);
    let edited = WORKFLOW.replace("You judge.", "You judge well.").replace("Judge: ", "Please judge: ");
    let file = place.file("edited.yaml", &edited);
    let ran = fork(&place, &["--with", &file, "--at", "last"]).exits(0);
    assert_eq!(ran.event("thread_finished")["outcome"], "done");
    let all = place.run(["show", "last", "--json"]).exits(0).json();
    let rebind = all.iter().find(|line| line["event"] == "rebind").unwrap();
    assert_eq!(rebind["seq"], 4);
    assert_eq!((&all[1]["start"], rebind["to"].is_string()), (&all[1]["start"], true));
    let judged = all.iter().find(|line| line["role"] == "judge").unwrap();
    assert_eq!(judged["edge"]["prompt"], "Please judge: First.");
    assert_eq!(judged["prev"], serde_json::json!([rebind["step"]]));
    place.run(["verify", "last", "--json"]).exits(0);
    // A changed prompt without `--at` shares what it leaves as it is.
    let edited = WORKFLOW.replace("Write about", "Please write about");
    let file = place.file("edited.yaml", &edited);
    let ran = fork(&place, &["--with", &file]).exits(0);
    assert_eq!(ran.event("thread_resumed")["seq"], 3, "two shared steps and the move");
    // What was kept when the thread moved is kept when it moves again: only later steps are compared.
    let moved = thread(&place)["thread"].as_str().unwrap().to_owned();
    let again = place.file("again.yaml", edited.replace("You judge.", "You judge very well."));
    let plan = place.run(["fork", &moved, "--with", &again, "--dry-run", "--json"]).exits(0).event("fork");
    assert_eq!((&plan["changed"]["role"], &plan["changed"]["seq"]), (&"judge".into(), &5.into()), "{plan}");
    // A changed input is a changed definition; the other inputs stay.
    let ran = fork(&place, &["-i", "topic=coffee"]).exits(0);
    assert_eq!(ran.event("thread_started")["event"], "thread_started", "nothing is shared");
    assert_eq!(steps(&place, "last")[0]["edge"]["prompt"], "Plan coffee.");
}

/// Edits are found behind a compaction, and in the role that writes its text.
#[test]
fn an_edit_after_a_compaction_is_found() {
    let place = Place::new();
    for file in ["workflow.yaml", "script.yaml"] {
        std::fs::copy(format!("{}/{file}", fixture("compaction")), place.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(place.path().join("workflow.yaml")).unwrap();
    place.run(["run", "workflow.yaml", "--offline", "-i", "topic=tides", "-q"]).exits(0);
    let compaction = place.run(["show", "last", "--json"]).exits(0).events("compaction")[0]["seq"].as_u64().unwrap();
    for (old, new, seq) in
        [("You keep what matters.", "You keep all.", compaction), ("Edit: {{ body }}", "Edit this: {{ body }}", 2)]
    {
        let file = place.file("edited.yaml", text.replace(old, new));
        let plan = place.run(["fork", "last", "--with", &file, "--dry-run", "--json"]).exits(0).event("fork");
        assert_eq!(plan["changed"]["seq"], seq, "{new}: {plan}");
    }
    let file = place.file("edited.yaml", text.replace("max: 5", "max: 1"));
    let plan = place.run(["fork", "last", "--with", &file, "--dry-run", "--json"]).exits(0).event("fork");
    assert!(plan["changed"]["seq"].as_u64().unwrap() > compaction - 1, "{plan}");
}

#[test]
fn a_key_in_a_changed_input_enters_no_fork() {
    const WORKFLOW: &str = "rondo: 1\nname: two\ninput: { topic: string, \"more?\": string }\n\
        roles: { a: { system: A. }, b: { system: B. } }\n\
        graph:\n  start: { to: a, prompt: \"Go {{ input.topic }}.\" }\n\
        \x20 a: { done: { to: b, prompt: \"{% if input.more %}{{ input.more }}{% endif %}\" } }\n\
        \x20 b: { done: { to: end } }\n";
    const KEY: &str = "k-0123456789";
    let place = Place::new();
    place.file("workflow.yaml", WORKFLOW);
    let say = "[ { status: done, body: One. }, { status: done, body: Two. } ]";
    place.file("script.yaml", format!("a: {say}\nb: {say}\n"));
    place.run(["run", "workflow.yaml", "--script", "script.yaml", "-i", "topic=tea"]).exits(0);
    let base = first(&place);
    let mut command = place.command([
        "fork",
        &base,
        "--at",
        "1",
        "--script",
        "script.yaml",
        "-i",
        &format!("more=see {KEY}"),
        "--json",
    ]);
    command.env("OPENAI_API_KEY", KEY);
    let fork = crate::binary::Running::of(command).finish().exits(0).event("thread_resumed");
    let fork = fork["thread"].as_str().unwrap();
    let exported = place.run(["export", fork]).exits(0).text();
    assert!(exported.contains("see ") && !exported.contains(KEY), "{exported}");
    place.run(["verify", fork]).exits(0);
}

/// A fork that waits continues with the script that it was made with.
#[test]
fn a_fork_with_a_script_of_its_own_keeps_it() {
    let place = paused_after(1);
    let unattended = SCRIPT.replace("approver:\n  - { status: approved, fields: { note: go } }\n", "");
    place.file("other.yaml", unattended.replace("First.", "Other."));
    place.run(["fork", "last", "--at", "last", "--script", "other.yaml"]).exits(75);
    place.run(["answer", "last", "--status", "approved"]).exits(0);
    let fork = thread(&place)["thread"].as_str().unwrap().to_owned();
    let written = steps(&place, &fork).into_iter().find(|step| step["role"] == "writer").unwrap();
    assert_eq!(written["body"], "Other.");
}
