//! Batches: a thread for each line of a file, results in order, whatever stops the process.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::binary::{Finished, Place, Running};

/// Ends as its input says: done, failed, waiting, or stopped by a script that has run out.
const WORKFLOW: &str = r#"
rondo: 1
name: sorter
input:
  topic: string
  way: { type: string, enum: [write, fail, ask, stop], default: write }
  count: { type: integer, default: 1 }
roles:
  writer: { system: You write. }
  person: { kind: human, output: { ok: } }
  lost: { system: You are lost. }
graph:
  start:
    - { when: "input.way == 'fail'", to: fail, reason: "{{ input.topic }} is not wanted" }
    - { when: "input.way == 'ask'", to: person, prompt: Fine? }
    - { when: "input.way == 'stop'", to: lost, prompt: Where am I? }
    - else: { to: writer, prompt: "Write about {{ input.topic }}." }
  writer: { done: { to: end } }
  person: { ok: { to: end } }
  lost: { done: { to: end } }
result: { topic: "{{ input.topic }}", count: "{{ input.count }}" }
"#;

fn place() -> Place {
    let place = Place::new();
    place.file("sorter/workflow.yaml", WORKFLOW);
    place.file("sorter/script.yaml", "writer: [ { body: written } ]\n");
    place
}

fn batch(place: &Place, lines: &str, words: &[&str]) -> Finished {
    place.file("in.jsonl", lines);
    place.run([&["run", "sorter", "--offline", "--input-file", "in.jsonl"], words].concat())
}

/// The results, without the ids of threads.
fn results(run: &Finished) -> Vec<Value> {
    let results = run.json().into_iter().map(|mut line| {
        if let Some(thread) = line["thread"].as_str() {
            assert_eq!(thread.len(), 26);
            line["thread"] = json!("...");
        }
        line
    });
    results.collect()
}

const MIXED: &str = r#"{"topic": "tides"}
{"topic": "rain", "way": "fail"}

{"topic": 7, "way": "paint"}
{"topic": "snow", "way": "ask"}
{"topic": "fog", "way": "stop"}
{"topic": "hail", "count": 3}
"#;

#[test]
fn each_line_has_a_result_in_order_and_the_table_says_why_lines_have_none() {
    let place = place();
    let run = batch(&place, MIXED, &["--concurrency", "6"]).exits(1);
    insta::assert_json_snapshot!("mixed_results", results(&run));
    let text = &run.stderr;
    // Times and ids differ from run to run.
    let told = text.lines().filter(|line| !line.starts_with("batch ") && !line.contains("resume --batch"));
    let told = told.map(|line| line.strip_prefix("6 lines in ").map_or(line, |rest| rest.split_once(": ").unwrap().1));
    let told: Vec<&str> = told.collect();
    insta::assert_snapshot!("mixed_told", told.join("\n"));
}

#[test]
fn batches_are_listed_with_what_became_of_their_lines() {
    let place = place();
    assert!(place.run(["batches"]).exits(0).text().contains("no batches yet"));
    batch(&place, MIXED, &["--tag", "nightly"]).exits(1);
    let listed = place.run(["batches", "--json"]).exits(0).event("batch");
    assert_eq!(
        (&listed["name"], &listed["tags"], &listed["lines"]),
        (&json!("sorter"), &json!(["nightly"]), &json!(6))
    );
    let statuses = json!({ "done": 2, "failed": 1, "cancelled": 0, "stopped": 1, "waiting": 1, "running": 0,
        "invalid": 1, "not_begun": 0 });
    assert_eq!(listed["statuses"], statuses);
    let text = place.run(["batches"]).exits(0).text();
    assert!(text.contains("2 done, 1 failed, 1 stopped, 1 waiting, 1 invalid"), "{text}");
}

#[test]
fn the_exit_is_that_of_the_first_line_that_stopped_unless_one_failed() {
    let place = place();
    let line = |way: &str| format!("{{\"topic\": \"a\", \"way\": \"{way}\"}}\n");
    for (ways, exit) in [
        (&["write", "write"][..], 0),
        (&["write", "ask", "stop"], 75),
        (&["write", "stop", "ask"], 5),
        (&["paint", "stop"], 2),
        (&["stop", "paint", "fail"], 1),
    ] {
        let lines: String = ways.iter().map(|way| line(way)).collect();
        batch(&place, &lines, &[]).exits(exit);
    }
}

#[test]
fn events_name_their_line() {
    let place = place();
    let run = batch(&place, MIXED, &["--json"]).exits(1);
    let started = run.event("batch_started");
    assert_eq!((&started["line"], &started["lines"]), (&Value::Null, &json!(6)));
    let lines: Vec<u64> = run.events("line").iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [1, 2, 4, 5, 6, 7]);
    for event in run.json().iter().filter(|event| event["event"] != "batch_started") {
        assert!(lines.contains(&event["line"].as_u64().unwrap()), "{event}");
    }
    let finished = run.events("thread_finished");
    let of = |line: u64| finished.iter().find(|event| event["line"] == line).unwrap()["outcome"].clone();
    assert_eq!((of(1), of(2), of(7)), (json!("done"), json!("failed"), json!("done")));
}

#[test]
fn resume_goes_on_with_what_has_not_ended_and_gives_every_result() {
    let place = place();
    let run = batch(&place, MIXED, &[]).exits(1);
    let id = place.run(["threads", "--json"]).exits(0);
    assert_eq!(id.json().len(), 5);
    place.file("sorter/script.yaml", "lost: [ { body: found } ]\n");
    std::fs::remove_file(place.path().join("in.jsonl")).unwrap();
    let waiting = results(&run)[3]["line"].as_u64();
    assert_eq!(waiting, Some(5));
    place.run(["answer", "--status", "ok", "--offline"]).exits(0);
    let resumed = place.run(["resume", "--batch", "last"]).exits(1);
    let ends = |run: &Finished| run.json().iter().map(|line| line["outcome"].clone()).collect::<Vec<_>>();
    assert_eq!(ends(&run), [json!("done"), json!("failed"), json!(null), json!(null), json!(null), json!("done")]);
    assert_eq!(
        ends(&resumed),
        [json!("done"), json!("failed"), json!(null), json!("done"), json!("done"), json!("done")]
    );
    // No line ran twice.
    assert_eq!(place.run(["threads", "--json"]).exits(0).json().len(), 5);
    place.run(["resume", "--batch", "7zzz"]).exits(2);
}

#[test]
fn a_killed_batch_gives_the_same_bytes_after_resume() {
    const LINES: usize = 300;
    let lines = (0..LINES).fold(String::new(), |lines, number| lines + &format!("{{\"topic\": \"t{number}\"}}\n"));
    let whole = batch(&place(), &lines, &["--concurrency", "64"]).exits(0);
    let place = place();
    place.file("in.jsonl", &lines);
    let words = ["run", "sorter", "--offline", "--input-file", "in.jsonl", "--concurrency", "64"];
    let mut running = place.start(words);
    for _ in 0..20 {
        running.line().unwrap();
    }
    running.kill();
    place.file("in.jsonl", "");
    let resumed = place.run(["resume", "--batch", "last"]).exits(0);
    assert_eq!(results(&resumed), results(&whole));
    assert_eq!(place.run(["threads", "--json"]).exits(0).json().len(), LINES);
    let numbers: Vec<u64> = resumed.json().iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=u64::try_from(LINES).unwrap()).collect::<Vec<_>>());
}

#[test]
fn fail_fast_stops_at_the_first_line_that_is_not_done() {
    let place = place();
    let mut lines = "{\"topic\": \"rain\", \"way\": \"fail\"}\n".to_owned();
    lines.push_str(&"{\"topic\": \"a\"}\n".repeat(200));
    let run = batch(&place, &lines, &["--fail-fast", "--concurrency", "1"]).exits(1);
    assert!(run.json().len() < 100, "{}", run.json().len());
    assert!(run.stderr.contains(" not begun"), "{}", run.stderr);
    // An invalid line is known before anything is paid for.
    let place = self::place();
    let run = batch(&place, MIXED, &["--fail-fast"]).exits(2);
    assert_eq!(run.json(), Vec::<Value>::new());
    assert_eq!(place.run(["threads", "--json"]).exits(0).json().len(), 0);
}

#[test]
fn rows_and_standard_input_are_batches_too() {
    let place = place();
    place.file("in.csv", "topic,count\n\"tides, and\nmore\",4\nrain,\nsnow,two\nfog,1,2\n");
    let run = place.run(["run", "sorter", "--offline", "--input-file", "in.csv"]).exits(2);
    insta::assert_json_snapshot!("rows", results(&run));
    let unknown = place.file("bad.csv", "topik\na\n");
    let bad = place.run(["run", "sorter", "--offline", "--input-file", &unknown]).exits(2);
    assert!(bad.stderr.contains("did you mean `topic`?"), "{}", bad.stderr);
    let given = |words: &[&str], text: &str| {
        let mut command = place.command([&["run", "sorter"], words].concat());
        let mut running = command.stdin(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        given(&["--offline", "--input-file", "-"], "{\"topic\": \"a\"}\n{\"topic\": \"b\"}\n").lines().count(),
        2
    );
    assert!(given(&["--offline", "--input-file", "-"], "{\n\"topic\": \"a\"}\n").contains("\"topic\": \"a\""));
    assert!(given(&["--offline", "-i", "topic=@-"], "from a pipe").contains("from a pipe"));
    assert!(given(&["-i", "topic=a", "--script", "-"], "writer: [ { body: b } ]\n").contains("\"topic\": \"a\""));
}

#[test]
fn what_spreadsheets_write_is_read_or_refused_by_its_place() {
    let place = place();
    let numbers = |text: &str| {
        place.file("in.csv", text);
        let run = place.run(["run", "sorter", "--offline", "--input-file", "in.csv"]).exits(0);
        results(&run).iter().map(|result| result["line"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(numbers("\u{feff}topic;count\r\n\r\ntides;4\r\n\"fog\r\nand snow\";\r\nrain;1\r\n"), [3, 4, 6]);
    assert_eq!(numbers("topic\tcount\ntides\t4\n"), [2]);
    place.file("in.csv", "topic,count\ntides,4\nrain,\"4\nsnow,5\n");
    let open = place.run(["run", "sorter", "--offline", "--input-file", "in.csv"]).exits(2);
    assert!(open.stderr.contains("in.csv:3:6") && open.stderr.contains("RN1405"), "{}", open.stderr);
    assert_eq!(open.lines.len(), 0);
    place.file("in.csv", "topic,count,topic\ntides,4,rain\n");
    let twice = place.run(["run", "sorter", "--offline", "--input-file", "in.csv"]).exits(2);
    assert!(twice.stderr.contains("in.csv:1:13") && twice.stderr.contains("names `topic` twice"), "{}", twice.stderr);
}

/// Lines keep the numbers of their file, with gaps, through everything that reads a batch again.
#[test]
fn a_batch_with_gaps_between_its_lines_is_whole_wherever_it_is_read_again() {
    for (name, text) in
        [("in.csv", "topic\r\na\r\n\r\nb\r\n"), ("in.jsonl", "\n{\"topic\":\"a\"}\n\n{\"topic\":\"b\"}\n")]
    {
        let place = place();
        place.file(name, text);
        let ran = results(&place.run(["run", "sorter", "--offline", "--input-file", name]).exits(0));
        assert_eq!(ran.iter().map(|result| &result["line"]).collect::<Vec<_>>(), [2, 4], "{name}");
        place.run(["fsck"]).exits(0);
        place.run(["backup", "copy"]).exits(0);
        let exported = place.run(["export", "--all"]).exits(0).text();
        place.file("all.jsonl", &(exported + "\n"));
        place.run(["import", "all.jsonl", "--store", "other"]).exits(0);
        for store in ["copy", "other"] {
            place.run(["fsck", "--store", store]).exits(0);
            let again = place.run(["resume", "--batch", "last", "--offline", "--store", store]).exits(0);
            assert_eq!(results(&again), ran, "{name} {store}");
        }
    }
}

#[test]
fn a_key_in_a_line_reaches_no_file() {
    let place = place();
    let key = "sk-abcdefghijklmnop1234567890";
    place.file("in.jsonl", format!("{{\"topic\": \"{key}\"}}\n"));
    let mut command = place.command(["run", "sorter", "--offline", "--input-file", "in.jsonl"]);
    command.env("OPENAI_API_KEY", key);
    let run = Running::of(command).finish().exits(0);
    assert_eq!(run.json()[0]["result"]["topic"], "[redacted:OPENAI_API_KEY]");
    let files = std::fs::read_dir(place.store().join("db")).unwrap();
    for file in files {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(key.len()).any(|part| part == key.as_bytes()));
    }
}
