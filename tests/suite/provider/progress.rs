//! What a run shows while it continues: in terminals that are narrow or change their size, without words, and with all of
//! them.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use vt100::Screen;

use super::client::Client;
use super::server::{Act, EVENTS, Server, delta};

const PAIR: &str = "
rondo: 1
name: pair
roles:
  writer: { system: You write., output: { drafted: {} } }
  editor: { system: You judge., output: { approved: {}, hopeless: {} } }
graph:
  start: { to: writer, prompt: Write. }
  writer: { drafted: { to: editor, prompt: Judge. } }
  editor: { approved: { to: end }, hopeless: { to: fail, reason: the draft is beyond repair } }
";

/// Dollars per million tokens: an answer of [`answer`] costs 0.11 dollars.
const PRICES: &str = "[model.default]\nprice = { input = 100, output = 1000 }\n";

const DRAFT: &str = "---\nstatus: drafted\n---\n\nLow tide.\n";

/// What an editor says that never comes to an end.
const WORDS: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" of tides\"},\"finish_reason\":null}]}\n\n";

fn answer(text: &str) -> Act {
    Act::answer(text, [1000, 0, 10])
}

/// The rows of the live lines, which begin with a spinner, and all other rows.
fn rows(screen: &Screen) -> (Vec<String>, Vec<String>) {
    let rows = screen.contents().lines().map(|row| row.trim_end().to_owned()).collect::<Vec<_>>();
    rows.into_iter().partition(|row| row.starts_with(|first| ('\u{2800}'..='\u{28ff}').contains(&first)))
}

/// Whether the last row is the only live line, and has these parts in that order.
fn is_live(screen: &Screen, parts: &[&str]) -> bool {
    let (live, others) = rows(screen);
    let [live] = live.as_slice() else { return false };
    let is_last = screen.contents().trim_end().ends_with(live) && !others.iter().any(|row| row.contains("visit"));
    let mut rest = Some(live.as_str());
    for part in parts {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    is_last && rest.is_some()
}

fn client(server: &Server, workflow: &str) -> Client {
    let client = server.client(workflow);
    client.settings(PRICES);
    client
}

#[test]
fn a_live_line_keeps_to_one_row_of_a_terminal_of_40_columns() {
    let server = Server::new(|number| match number {
        0 => answer(DRAFT),
        1 => answer("no front matter"),
        _ => {
            let begun = format!("{EVENTS}{}", delta("content", "---\nstatus: approved\n---\n\nA word"));
            Act::Drip(begun, WORDS, Duration::from_millis(5))
        }
    });
    let client = client(&server, PAIR);
    let terminal = client.terminal((16, 40));
    terminal.types("rondo run workflow.yaml\n");
    // The figures of the refused answer leave little room for words.
    terminal.until(|screen| is_live(screen, &["editor, visit 1", "0s", "1000 in"]));
    terminal.until(|screen| is_live(screen, &["editor, visit 1", "1s", "1000 in"]));
    terminal.resize((16, 100));
    terminal.until(|screen| {
        is_live(screen, &["editor, visit 1", "1000 in, 10 out  $0.1100  1 answer refused", "of tides"])
    });
    terminal.types("\u{3}");
    terminal.prompted();
    assert!(terminal.is_restored());
}

#[test]
fn a_live_line_follows_the_size_of_the_terminal_though_nobody_speaks() {
    let (speak, told) = channel();
    let told = Mutex::new(told);
    let server = Server::new(move |number| {
        if number == 0 {
            told.lock().unwrap().recv_timeout(crate::binary::PATIENCE).unwrap();
        }
        answer(if number == 0 { DRAFT } else { "---\nstatus: approved\n---\n" })
    });
    let client = client(&server, &PAIR.replace("writer", "writer_whose_name_is_longer_than_half_a_line"));
    let terminal = client.terminal((16, 80));
    terminal.types("rondo run workflow.yaml\n");
    for (columns, name) in [
        (80, "writer_whose_name_is_longer_than_half_a…"),
        (40, "writer_whose_name_i…"),
        (60, "writer_whose_name_is_longer_t…"),
        (110, "writer_whose_name_is_longer_than_half_a_line, visit 1"),
        (40, "writer_whose_name_i…"),
    ] {
        // A frame for the old width that arrives at a narrower terminal wraps, and a part of it stays. Right behind a
        // frame there is none on its way.
        let before = terminal.screen().contents();
        terminal.until(|screen| screen.contents() != before);
        terminal.resize((16, columns));
        terminal.until(|screen| is_live(screen, &[name, "s"]));
    }
    speak.send(()).unwrap();
    terminal.prompted();
    assert!(terminal.is_restored());
    let screen = terminal.screen();
    let (live, others) = rows(&screen);
    assert_eq!(live, [] as [&str; 0], "{}", screen.contents());
    assert!(others.iter().any(|row| row.contains("2. editor: approved")), "{}", screen.contents());
}

#[test]
fn a_quiet_run_still_says_why_it_failed() {
    let server = Server::new(|number| match number % 2 {
        0 => answer(DRAFT),
        _ => answer("---\nstatus: hopeless\n---\n"),
    });
    let client = client(&server, PAIR);
    let run = client.run(&["run", "workflow.yaml", "-q"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), "failed: the draft is beyond repair\n"));
    let run = client.run(&["run", "workflow.yaml", "-q", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(1), ""));
    assert_eq!(run.event("thread_finished")["reason"], "the draft is beyond repair");

    let terminal = client.terminal((16, 40));
    terminal.types("rondo run workflow.yaml -q\n");
    terminal.until(|screen| screen.contents().contains("failed: the draft is beyond repair"));
    terminal.prompted();
    let (live, others) = rows(&terminal.screen());
    assert_eq!((live.len(), others.len()), (0, 3), "{others:?}");
}

#[test]
fn a_verbose_run_streams_texts_in_full() {
    let lines: Vec<String> =
        (1..=300).map(|number| format!("Line {number} of a long draft about the tides.")).collect();
    let text = format!("---\nstatus: drafted\n---\n\n{}\n", lines.join("\n"));
    let draft = text.clone();
    let server = Server::new(move |number| match number {
        0 => answer(&draft),
        1 => answer("---\nstatus: approved\n---\n\nGood.\n"),
        // The last line is not complete.
        _ => Act::Hang(format!("{EVENTS}{}", delta("content", text.trim_end()))),
    });
    let client = client(&server, PAIR);
    let run = client.run(&["run", "workflow.yaml", "-v"]).exits(0);
    let told: Vec<&str> = run.stderr.lines().map(str::trim).filter(|line| line.starts_with("Line ")).collect();
    assert!(told == lines, "{}", run.stderr);
    assert!(run.stderr.contains("Good."), "{}", run.stderr);

    // On a terminal each line stands when it is complete, while the role speaks.
    let terminal = client.terminal((16, 80));
    terminal.types("rondo run workflow.yaml -v\n");
    terminal.until(|screen| is_live_below(screen, "Line 299 of a long draft about the tides.", "Line 300"));
    terminal.types("\u{3}");
    terminal.prompted();
    assert!(terminal.is_restored());
}

/// Whether a row ends with `said`, and the last one is a live line that has `saying`.
fn is_live_below(screen: &Screen, said: &str, saying: &str) -> bool {
    let (live, others) = rows(screen);
    others.iter().any(|row| row.ends_with(said)) && matches!(live.as_slice(), [live] if live.contains(saying))
}
