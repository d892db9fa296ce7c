//! Three terminals on one store: whoever ends first, by whatever means, the others go on, and each shell has its
//! terminal back as it was.

use rondo_tests::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};

use crate::binary::{Place, binary};

const WORKFLOW: &str = r#"
rondo: 1
name: slow
input: { topic: string }
roles:
  first: { system: You speak. }
  second: { system: You answer. }
graph:
  start: { to: first, prompt: "{{ input.topic }}" }
  first: { done: { to: second, prompt: "{{ body }}" } }
  second: { done: { to: end } }
"#;

/// What ends a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// Ctrl-C in its terminal.
    Interrupt,
    /// `kill -9`.
    Kill,
    /// Its thread has ended.
    Finished,
}

const WAYS: [End; 3] = [End::Interrupt, End::Kill, End::Finished];

/// Starts the run of a terminal, and waits until its second role speaks.
fn starts(terminal: &Terminal, number: usize) {
    terminal.types(&format!("rondo run slow --script script.yaml -i topic=t{number} & echo $! > pid{number}; fg\n"));
    terminal.until(|screen| screen.contents().contains("second, visit 1"));
}

/// Ends the run of a terminal, and waits for the prompt.
fn ends(place: &Place, terminal: &Terminal, number: usize) {
    match WAYS[number] {
        End::Interrupt => terminal.types("\u{3}"),
        End::Kill => {
            let pid = std::fs::read_to_string(place.path().join(format!("pid{number}"))).unwrap();
            kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        }
        End::Finished => {
            let threads = place.run(["threads", "--json"]).exits(0).json();
            place.run(["cancel", threads[number]["thread"].as_str().unwrap()]).exits(0);
        }
    }
    terminal.prompted();
}

#[test]
fn each_of_three_terminals_returns_to_its_prompt_when_its_own_run_ends() {
    let path = format!("{}:/usr/bin:/bin", binary().parent().unwrap().display());
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let place = Place::new();
        place.file("slow/workflow.yaml", WORKFLOW);
        place.file(
            "script.yaml",
            "first: [ { status: done, body: one } ]\nsecond: [ { delay_ms: 600000, status: done, body: two } ]\n",
        );
        let home = place.home();
        let variables = [("HOME", home.to_str().unwrap()), ("PATH", path.as_str())];
        let terminals = [0; 3].map(|_| Terminal::start(&place.path(), &variables, (24, 60)));
        for (number, terminal) in terminals.iter().enumerate() {
            starts(terminal, number);
        }
        for (at, number) in order.into_iter().enumerate() {
            ends(&place, &terminals[number], number);
            for other in &order[at + 1..] {
                assert!(!terminals[*other].is_prompted(), "{order:?}: {other} ended with {number}");
            }
            // Nobody can give back what a killed process has changed.
            assert!(WAYS[number] == End::Kill || terminals[number].is_restored(), "{order:?}: {number}");
        }
        let standing = place.run(["threads", "--json"]).exits(0).json();
        let standing: Vec<&str> = standing.iter().map(|line| line["status"].as_str().unwrap()).collect();
        assert_eq!(standing, ["stopped", "stopped", "cancelled"], "{order:?}");
    }
}
