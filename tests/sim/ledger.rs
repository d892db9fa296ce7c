//! The ledger of a provider: whatever stops a run, nothing that was answered is asked again, nothing is asked twice, and
//! what a thread says that it has spent is what was billed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::binary::Running;
use crate::client::Client;
use crate::random::{Random, seed};
use crate::server::{Act, Request, Server};

const LANES: usize = 4;

const WORKFLOW: &str = r#"rondo: 1
name: ledger
input: { items: { type: array, items: { type: string }, default: [ebb, flood, neap, spring] } }
roles:
  plan: { system: You plan. }
  work: { system: You work. }
  sum: { system: You sum. }
graph:
  start: { to: plan, prompt: Plan. }
  plan:
    done: { to: work, each: input.items, as: item, prompt: "Do {{ item }}.", join: { to: sum, prompt: Sum up. } }
  work:
    done: { to: work, prompt: More of it., max: 2, on_max: { to: sum } }
  sum:
    done: { to: plan, prompt: Once more., max: 1, on_max: { to: end } }
"#;

/// What was answered: each request with how often, and the tokens of all.
#[derive(Default)]
struct Ledger {
    answered: BTreeMap<String, u32>,
    prompt_tokens: u64,
    output_tokens: u64,
}

/// A thread and who bills for it.
struct Round {
    number: u64,
    random: Random,
    client: Client,
    ledger: Arc<Mutex<Ledger>>,
    /// Whether the next request of a lane is refused.
    refuses: Arc<AtomicBool>,
    /// How many answers may have been lost, and asked for again: one in each lane for each process that was killed.
    losable: usize,
    _server: Server,
}

fn answer(request: &Request, ledger: &Mutex<Ledger>, refuses: &AtomicBool) -> Act {
    if request.body.contains("You work.") && refuses.swap(false, Ordering::SeqCst) {
        return Act::refusal(400, "", r#"{"error":{"message":"no"}}"#);
    }
    let mut hasher = DefaultHasher::new();
    request.body.hash(&mut hasher);
    std::thread::sleep(Duration::from_millis(2 + hasher.finish() % 40));
    let prompt_tokens = 10 + request.body.len() as u64 / 4;
    let mut ledger = ledger.lock().unwrap();
    *ledger.answered.entry(request.body.clone()).or_default() += 1;
    ledger.prompt_tokens += prompt_tokens;
    ledger.output_tokens += 5;
    Act::answer("---\nstatus: done\n---\n\nDone with it.", [prompt_tokens, 0, 5])
}

impl Round {
    fn new(number: u64) -> Self {
        let (ledger, refuses) = (Arc::<Mutex<Ledger>>::default(), Arc::<AtomicBool>::default());
        let kept = (Arc::clone(&ledger), Arc::clone(&refuses));
        let server = Server::reading(move |_, request| answer(request, &kept.0, &kept.1));
        let client = server.client(WORKFLOW).with("OPENAI_API_KEY", "k");
        client.file("workflows/ledger/workflow.yaml", WORKFLOW);
        Self { number, random: Random::of(seed(), number), client, ledger, refuses, losable: 0, _server: server }
    }

    fn pause(&mut self, at_most_ms: usize) {
        std::thread::sleep(Duration::from_millis(self.random.below(at_most_ms) as u64));
    }

    fn ended(&self, running: Running, codes: &[i32]) {
        let finished = running.finish();
        assert!(
            finished.code.is_some_and(|code| codes.contains(&code)),
            "round {}: {:?} {:?} {}",
            self.number,
            finished.code,
            finished.lines.last(),
            finished.stderr
        );
    }

    fn signalled(&mut self, words: &[&str]) {
        let mut running = self.client.start(words);
        // Its thread is there.
        running.line();
        self.pause(700);
        let signal = if self.random.is_one_in(1, 2) { Signal::TERM } else { Signal::INT };
        running.signal(signal);
        self.ended(running, &[0, 130, 143]);
    }

    fn killed(&mut self, words: &[&str]) {
        let mut running = self.client.start(words);
        // Its thread is there.
        running.line();
        self.pause(700);
        running.kill();
        self.losable += LANES;
    }

    fn refused(&mut self) {
        let running = self.client.start(&["run", "ledger", "--json"]);
        self.pause(500);
        self.refuses.store(true, Ordering::SeqCst);
        self.ended(running, &[0, 5]);
    }

    fn limited(&mut self) {
        let limit = format!("tokens={}", 300 + self.random.below(8000));
        self.ended(self.client.start(&["run", "ledger", "--json", "--limit", &limit]), &[0, 4]);
        self.ended(self.client.start(&["resume", "last", "--json", "--limit", "tokens=9000000"]), &[0]);
    }

    fn raced(&mut self) {
        self.signalled(&["run", "ledger", "--json"]);
        let processes = 2 + self.random.below(31);
        let running: Vec<_> = (0..processes).map(|_| self.client.start(&["resume", "last", "--json"])).collect();
        for one in running {
            self.ended(one, &[0, 7]);
        }
    }

    /// Equal calls of a client, some of which it cancels.
    fn called(&mut self) {
        let mut command = self.client.command(&["mcp"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut send = |message: Value| {
            to.write_all(format!("{message}\n").as_bytes()).unwrap();
            to.flush().unwrap();
        };
        let hello =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "ledger", "arguments": {}}});
        let last = 1 + self.random.below(4) as u64;
        for id in 1..=last {
            send(call(id));
            // The first has not ended when the last begins.
            self.pause(40);
            if id < last && self.random.is_one_in(2, 3) {
                let params = json!({"requestId": id, "reason": "enough"});
                send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
            }
        }
        let answered = from.lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let answered = answered.into_iter().find(|message| message["id"] == last).unwrap();
        assert_eq!(answered["result"]["structuredContent"]["status"], "done", "round {}: {answered}", self.number);
        drop(to);
        child.wait().unwrap();
    }

    /// The thread continues to its end, and the books agree.
    fn settled(self) {
        let number = self.number;
        for _ in 0..3 {
            let finished = self.client.start(&["resume", "last", "--json"]).finish();
            if finished.code == Some(0) {
                break;
            }
        }
        let threads = self.client.lines(&["threads", "--json"]);
        assert_eq!((threads.len(), &threads[0]["status"]), (1, &json!("done")), "round {number}: {threads:?}");
        let ledger = self.ledger.lock().unwrap();
        let again: usize = ledger.answered.values().map(|times| *times as usize - 1).sum();
        assert!(again <= self.losable, "round {number}: {again} answers were asked for again");
        let (said, billed) = (&threads[0]["totals"], [ledger.prompt_tokens, ledger.output_tokens]);
        let said = ["prompt_tokens", "output_tokens"].map(|key| said[key].as_u64().unwrap());
        let is_all = if self.losable == 0 { said == billed } else { said[0] <= billed[0] && said[1] <= billed[1] };
        assert!(is_all, "round {number}: it says {said:?} and was billed {billed:?}");
    }
}

/// One round.
///
/// # Panics
/// If the books do not agree.
pub fn round(number: u64) {
    let mut round = Round::new(number);
    let run = ["run", "ledger", "--json"];
    match number % 6 {
        0 => round.signalled(&run),
        1 => round.refused(),
        2 => round.limited(),
        3 => round.raced(),
        4 => round.called(),
        _ => round.killed(&run),
    }
    // Whatever stopped it may be followed by something else.
    while round.client.store().exists() && round.random.is_one_in(1, 2) {
        let resume = ["resume", "last", "--json"];
        match round.random.below(3) {
            0 => round.killed(&resume),
            _ => round.signalled(&resume),
        }
    }
    round.settled();
}

/// Rounds from `first` on, some at once.
pub fn rounds(first: u64, count: u64) {
    std::thread::scope(|scope| {
        for number in first..first + count {
            scope.spawn(move || round(number));
        }
    });
}

/// How many rounds are at once, and how often that, at each change of the code.
pub const AT_ONCE: u64 = 6;
const TIMES: u64 = 4;

#[test]
fn what_was_answered_is_asked_once_and_counted() {
    (0..TIMES).for_each(|time| rounds(time * AT_ONCE, AT_ONCE));
    println!("{} rounds; RONDO_TEST_SEED={}", TIMES * AT_ONCE, seed());
}
