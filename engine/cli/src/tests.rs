//! Tests whole commands, from their arguments to their output.

use std::io::Write;
use std::sync::{Arc, Mutex};

use clap::{CommandFactory, Parser};

use super::*;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The stdout, failure text and exit code of a command.
#[derive(Debug)]
struct Said {
    exit: u8,
    out: String,
    failure: String,
}

fn rondo(words: &[&str]) -> Said {
    let line = CommandLine::try_parse_from(std::iter::once("rondo").chain(words.iter().copied())).expect("good words");
    let captured = Captured::default();
    let mut output = Output::to(Box::new(captured.clone()), words.contains(&"--json"));
    let (exit, failure) = match line.verb.run(&mut output) {
        Ok(exit) => (exit, String::new()),
        Err(failure) => (failure.exit(), report::text(&failure, Style::PLAIN)),
    };
    let out = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    Said { exit: exit.code(), out, failure }
}

/// Text with ids, digests and times replaced.
fn redacted(text: &str) -> String {
    let mut redacted = String::new();
    let mut word = String::new();
    let close = |word: &mut String, redacted: &mut String| {
        let is_hex = word.chars().all(|c| c.is_ascii_hexdigit());
        let is_time = word
            .strip_suffix("ms")
            .or_else(|| word.strip_suffix('s'))
            .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.'));
        match word.len() {
            64 if is_hex => redacted.push_str("[digest]"),
            26 if word.starts_with('0') => redacted.push_str("[thread]"),
            13 if word.chars().all(|c| c.is_ascii_digit()) => redacted.push_str("[at_ms]"),
            _ if is_time || redacted.ends_with("\"duration_ms\":") => redacted.push_str("[time]"),
            _ => redacted.push_str(word),
        }
        word.clear();
    };
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '.' {
            word.push(c);
        } else {
            close(&mut word, &mut redacted);
            redacted.push(c);
        }
    }
    close(&mut word, &mut redacted);
    redacted
}

/// A folder with the files of `rondo init`, and its store.
struct Demo {
    folder: tempfile::TempDir,
}

impl Demo {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let said = rondo(&["init", folder.path().to_str().unwrap()]);
        assert_eq!(said.exit, 0, "{said:?}");
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    fn rondo(&self, words: &[&str]) -> Said {
        let store = self.path("store");
        let mut all = words.to_vec();
        all.extend(["--store", &store]);
        rondo(&all)
    }

    fn run(&self) -> Said {
        let said = self.rondo(&["run", &self.path("workflow.yaml"), "--offline", "--quiet"]);
        assert_eq!(said.exit, 0, "{said:?}");
        said
    }
}

#[test]
fn help_of_every_verb_reads_well() {
    let mut command = CommandLine::command().term_width(100);
    command.build();
    let mut text = command.render_help().to_string();
    for verb in command.get_subcommands_mut() {
        let help = verb.render_help();
        text = format!("{text}\n=== {}\n{help}", verb.get_name());
    }
    insta::assert_snapshot!(text);
}

#[test]
fn what_init_writes_is_valid_and_is_never_written_over() {
    let demo = Demo::new();
    let checked = rondo(&["validate", &demo.path("workflow.yaml")]);
    assert_eq!((checked.exit, checked.out.as_str(), checked.failure.as_str()), (0, "", ""));
    std::fs::write(demo.path("workflow.yaml"), "mine").unwrap();
    let again = rondo(&["init", demo.folder.path().to_str().unwrap()]);
    assert_eq!(again.exit, 2);
    assert!(again.failure.contains("nothing was written"), "{}", again.failure);
    assert_eq!(std::fs::read_to_string(demo.path("workflow.yaml")).unwrap(), "mine");
}

#[test]
fn a_run_is_shown_listed_and_proven() {
    let demo = Demo::new();
    insta::assert_snapshot!("run", demo.run().out);
    insta::assert_snapshot!("show", redacted(&demo.rondo(&["show"]).out));
    insta::assert_snapshot!("threads", redacted(&demo.rondo(&["threads"]).out));
    insta::assert_snapshot!("verify", redacted(&demo.rondo(&["verify"]).out));
    let messages = demo.rondo(&["messages", "--role", "writer", "--visit", "2"]);
    insta::assert_snapshot!("messages", redacted(&messages.out));
}

#[test]
fn json_lines_are_those_of_the_interface_and_the_same_each_time() {
    let demo = Demo::new();
    let run = demo.rondo(&["run", &demo.path("workflow.yaml"), "--offline", "--json"]);
    assert_eq!(run.exit, 0, "{run:?}");
    insta::assert_snapshot!("run_json", redacted(&run.out));
    let show = demo.rondo(&["show", "last", "--json"]).out;
    insta::assert_snapshot!("show_json", redacted(&show));
    assert_eq!(show, demo.rondo(&["show", "last", "--json"]).out);
    let threads = demo.rondo(&["threads", "--json"]).out;
    assert_eq!(threads.trim_end(), show.lines().next().unwrap());
}

#[test]
fn a_thread_is_meant_by_the_beginning_of_its_id() {
    let demo = Demo::new();
    demo.run();
    let line: serde_json::Value = serde_json::from_str(demo.rondo(&["threads", "--json"]).out.trim()).unwrap();
    let id = line["thread"].as_str().unwrap();
    assert_eq!(demo.rondo(&["show", &id[..10], "--json"]).exit, 0);
    assert_eq!(demo.rondo(&["show", "zzzz"]).exit, 2);
    demo.run();
    let both = demo.rondo(&["show", &id[..1]]);
    assert_eq!(both.exit, 2);
    assert!(both.failure.contains("RN1402") && both.failure.contains(id), "{}", both.failure);
}

#[test]
fn a_store_that_is_not_there_holds_no_threads() {
    let demo = Demo::new();
    assert_eq!(demo.rondo(&["threads", "--json"]).out, "");
    assert_eq!(demo.rondo(&["show"]).exit, 2);
    assert_eq!(demo.rondo(&["resume"]).exit, 2);
    assert!(!std::path::Path::new(&demo.path("store")).exists(), "looking makes nothing");
}

#[test]
fn a_finished_thread_is_resumed_to_its_end_and_not_cancelled() {
    let demo = Demo::new();
    let run = demo.run();
    let resumed = demo.rondo(&["resume", "last", "--quiet"]);
    assert_eq!((resumed.exit, resumed.out), (0, run.out));
    assert_eq!(demo.rondo(&["resume"]).exit, 2, "nothing is unfinished");
    let cancelled = demo.rondo(&["cancel", "last", "--json"]);
    assert!(cancelled.exit != 0 && cancelled.failure.contains("RN1407"), "{cancelled:?}");
}

#[test]
fn a_script_that_runs_out_is_exit_5_and_can_be_mended() {
    let demo = Demo::new();
    let script = std::fs::read_to_string(demo.path("script.yaml")).unwrap();
    let (short, _) = script.split_once("  - status: approved").unwrap();
    std::fs::write(demo.path("script.yaml"), short).unwrap();
    let run = demo.rondo(&["run", &demo.path("workflow.yaml"), "--offline", "--json"]);
    assert_eq!(run.exit, 5, "{run:?}");
    assert!(run.out.lines().last().unwrap().contains("RN0705"), "{}", run.out);
    std::fs::write(demo.path("script.yaml"), &script).unwrap();
    let resumed = demo.rondo(&["resume", "--json"]);
    assert_eq!(resumed.exit, 0, "{resumed:?}");
    assert!(resumed.out.lines().next().unwrap().contains("thread_resumed"), "{}", resumed.out);
}

#[test]
fn without_a_provider_a_run_is_exit_5_and_names_offline() {
    let demo = Demo::new();
    std::fs::write(demo.path("rondo.toml"), "[provider.openai]\nkey_env = \"RONDO_TEST_NO_SUCH_KEY\"\n").unwrap();
    // The settings of the working folder apply here, so this can only be tested without any key.
    if std::env::var_os("OPENAI_API_KEY").is_none() && std::env::var_os("OPENAI_BASE_URL").is_none() {
        let run = demo.rondo(&["run", &demo.path("workflow.yaml")]);
        assert_eq!(run.exit, 5, "{run:?}");
        assert!(run.failure.contains("--offline"), "{}", run.failure);
        assert!(!std::path::Path::new(&demo.path("store")).exists(), "nothing is begun");
    }
}

#[test]
fn inputs_are_held_to_what_the_workflow_declares() {
    let demo = Demo::new();
    let workflow = std::fs::read_to_string(demo.path("workflow.yaml")).unwrap();
    let declared = "  topic: string\n  words: integer\n  tags: \"string[]\"";
    let needy = workflow.replace("  topic: { type: string, default: tide pools }", declared);
    std::fs::write(demo.path("workflow.yaml"), needy).unwrap();
    let file = demo.path("workflow.yaml");
    let run = |inputs: &[&str]| {
        let mut words = vec!["run", file.as_str(), "--offline", "--quiet"];
        words.extend(inputs);
        let said = demo.rondo(&words);
        format!("exit {}\n{}", said.exit, said.failure.replace(&demo.path(""), ""))
    };
    insta::assert_snapshot!("inputs_missing", run(&[]));
    insta::assert_snapshot!("inputs_wrong", run(&["-i", "topic=a", "-i", "words=many", "-i", "tags=[]"]));
    insta::assert_snapshot!("inputs_unknown", run(&["-i", "topik=a"]));
    insta::assert_snapshot!("inputs_not_key_value", run(&["-i", "topic"]));
    insta::assert_snapshot!("inputs_no_file", run(&["-i", "topic=@none.md"]));
    assert!(run(&["-i", "topic=42", "-i", "words=3", "-i", "tags=[\"a\"]"]).starts_with("exit 0"));
}

#[test]
fn faults_of_a_file_of_inputs_are_told_with_their_places() {
    let demo = Demo::new();
    let workflow = demo.path("workflow.yaml");
    let mut told = String::new();
    for (name, text) in [
        ("all.jsonl", "{\"topic\":\"one\"}\n\n  [1]\n"),
        ("all.jsonl", "{}\r\n\t{\"topic\": 1, \"topik\": \"a\"}\r\n"),
        ("all.jsonl", "\u{feff}{\"topic\": \"é\", x}\n"),
        ("all.jsonl", "{}\n{\"topic\": \"a\", \"topic\": \"b\"}"),
        ("one.json", "\n{\"topic\":\n  tides}\n"),
        ("one.json", "\n  7"),
        ("one.json", ""),
    ] {
        std::fs::write(demo.path(name), text).unwrap();
        let bad = demo.rondo(&["run", &workflow, "--offline", "--input-file", &demo.path(name)]);
        assert_eq!(bad.exit, 2, "{text:?}: {bad:?}");
        told.push_str(&bad.failure.replace(&demo.path(""), ""));
    }
    insta::assert_snapshot!(told);
}

#[test]
fn explain_prints_pages_and_finds_the_nearest_code() {
    assert!(rondo(&["explain", "rn1401"]).out.starts_with("# RN1401: no such thread"));
    let listed = rondo(&["explain"]).out;
    assert!(rondo::protocol::diagnostic::Code::ALL.iter().all(|code| listed.contains(code.as_str())), "{listed}");
    for (topic, told) in [
        ("workflow", "# The workflow file"),
        ("exit-codes", "# Exit codes"),
        ("truncate", "truncate (workflow, Filters)\n  example: `{{ \"tide"),
        ("join", "join (workflow, Edges)"),
    ] {
        assert!(rondo(&["explain", topic]).out.contains(told), "{topic}");
    }
    assert!(rondo(&["explain", "truncat"]).failure.contains("did you mean truncate?"));
    let unknown = rondo(&["explain", "RN9999"]);
    assert_eq!(unknown.exit, 2);
}

#[test]
fn faults_of_a_file_are_lines_with_places() {
    let demo = Demo::new();
    let workflow = std::fs::read_to_string(demo.path("workflow.yaml")).unwrap();
    std::fs::write(demo.path("workflow.yaml"), workflow.replace("to: editor", "to: editr")).unwrap();
    let said = rondo(&["validate", &demo.path("workflow.yaml")]);
    assert_eq!(said.exit, 2);
    insta::assert_snapshot!("validate", said.out.replace(&demo.path(""), ""));
    let json = rondo(&["validate", &demo.path("workflow.yaml"), "--json"]).out;
    let line: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(line["event"], "diagnostic");
    assert!(line["line"].is_u64() && line["column"].is_u64() && line["code"].is_string(), "{line}");
}
