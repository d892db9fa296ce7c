//! The most memory that the program takes, whatever it is sent, told or given to list. It must have been built.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rondo_protocol::Value;
use rondo_protocol::event::Durability;
use rondo_protocol::id::ThreadId;
use rondo_store::{Commit, Row, StepStore};
use rondo_tests::{follow, start};
use serde_json::json;

use crate::durable::open;
use crate::support::{Watched, engine, from_environment, print, quick, rondo, runtime, two_roles, watched};

/// More than any machine's memory should be given to.
const ENDLESS_BYTES: u64 = 10_000_000_000;
const SMALL_BYTES: u64 = 1000;
/// A little less than the largest answer.
const LARGE_ANSWER_BYTES: u64 = 7 << 20;
const AT_ONCE: usize = 64;
/// The text of one event.
const PIECE_BYTES: u64 = 10_000;
/// How many commits wait at once while a store is filled.
const COMMITS: u64 = 1000;

const WORKFLOW: &str = "rondo: 1\nname: one\ninput: { number: { type: integer, default: 0 } }\nroles:\n  \
    a: { system: x, tools: [zeros], retry: { attempts: 1 } }\ngraph:\n  start: { to: a, prompt: go }\n  \
    a: { done: { to: end } }\n";
const SCRIPT: &str = "a:\n  - tools: [ { name: zeros } ]\n    then: { body: done }\n";

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

/// A folder with a workflow of one role, whose tool writes so many bytes.
fn folder(tool_bytes: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let settings = format!(
        "[tool.zeros]\nargv = [\"head\", \"-c\", \"{tool_bytes}\", \"/dev/zero\"]\neffect = \"pure\"\n[grant]\ntools = [\"zeros\"]\n"
    );
    let inputs = (0..AT_ONCE).map(|number| format!("{{\"number\":{number}}}\n")).collect::<Vec<_>>().concat();
    for (name, text) in
        [("workflow.yaml", WORKFLOW), ("script.yaml", SCRIPT), ("rondo.toml", &settings), ("inputs.jsonl", &inputs)]
    {
        std::fs::write(work.join(name), text).expect("a file");
    }
    folder
}

/// A model server on loopback that gives answers of so many bytes. Returns its address and how many it has sent.
fn provider(answer_bytes: u64) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let sent = Arc::clone(&counted);
            // A client that has heard enough goes away.
            std::thread::spawn(move || answer(stream, answer_bytes, &sent));
        }
    });
    (address, sent)
}

fn answer(mut stream: TcpStream, answer_bytes: u64, sent: &AtomicU64) -> std::io::Result<()> {
    let mut request = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while request.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        line.clear();
    }
    std::io::copy(&mut request.take(length), &mut std::io::sink())?;
    let event = |delta: serde_json::Value, reason: Option<&str>| {
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] }))
    };
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    stream.write_all(event(json!({ "content": "---\nstatus: done\n---\n\n" }), None).as_bytes())?;
    let piece = event(json!({ "content": "tide pool ".repeat(1000) }), None);
    for _ in 0..answer_bytes.div_ceil(PIECE_BYTES) {
        stream.write_all(piece.as_bytes())?;
        sent.fetch_add(PIECE_BYTES, Ordering::Relaxed);
    }
    stream.write_all(event(json!({}), Some("stop")).as_bytes())?;
    stream.write_all(b"data: [DONE]\n\n")
}

/// Runs the workflow against such a provider. Returns how many bytes it sent, too.
fn asking(answer_bytes: u64, words: &[&str]) -> (Watched, u64) {
    let folder = folder(SMALL_BYTES);
    let (address, sent) = provider(answer_bytes);
    let mut command = run(folder.path(), words);
    let watched = watched(command.env("OPENAI_BASE_URL", address).env("RONDO_MODEL", "fake"));
    (watched, sent.load(Ordering::Relaxed))
}

fn run(folder: &Path, words: &[&str]) -> Command {
    let mut command = rondo(folder);
    command.args(["run", "workflow.yaml", "--json", "--trust"]).args(words);
    command
}

fn code(watched: &Watched) -> String {
    watched.code.map_or_else(|| "a signal".to_owned(), |code| format!("exit {code}"))
}

pub fn reply() {
    let (small, _) = asking(SMALL_BYTES, &[]);
    let (endless, sent) = asking(ENDLESS_BYTES, &[]);
    let (small_mib, small_code, endless_code) = (mebibytes(small.peak_bytes), code(&small), code(&endless));
    let (mb, ms) = (sent / 1_000_000, endless.elapsed.as_millis());
    print(
        "peak memory, a model reply of 10 GB",
        &mebibytes(endless.peak_bytes),
        &format!("{small_mib} one of 1 KB ({small_code}); {endless_code} in {ms} ms, when {mb} MB were sent"),
    );
}

pub fn tool() {
    let [small, endless] =
        [SMALL_BYTES, ENDLESS_BYTES].map(|bytes| watched(&mut run(folder(bytes).path(), &["--offline"])));
    print(
        "peak memory, a tool that writes 10 GB",
        &mebibytes(endless.peak_bytes),
        &format!(
            "{} one that writes 1 KB ({}); {} in {:.1} s",
            mebibytes(small.peak_bytes),
            code(&small),
            code(&endless),
            endless.elapsed.as_secs_f64()
        ),
    );
}

pub fn at_once() {
    for at_once in [1, 8, AT_ONCE] {
        let concurrency = at_once.to_string();
        let words = ["--input-file", "inputs.jsonl", "--concurrency", &concurrency];
        let [small, large] = [SMALL_BYTES, LARGE_ANSWER_BYTES].map(|bytes| asking(bytes, &words).0);
        print(
            &format!("peak memory, {AT_ONCE} answers of 7 MiB, {at_once} at once"),
            &mebibytes(large.peak_bytes),
            &format!(
                "{} as many of 1 KB ({}); {} in {:.1} s",
                mebibytes(small.peak_bytes),
                code(&small),
                code(&large),
                large.elapsed.as_secs_f64()
            ),
        );
    }
}

/// Adds so many threads, each with the row of a thread that has run.
fn add_threads(folder: &Path, threads: u64) {
    let store = open(folder, Durability::Log);
    let row = |store: &Arc<dyn StepStore>, thread: &ThreadId| store.row(thread).expect("a store").expect("a row");
    runtime().block_on(async {
        let model = quick(&Arc::default());
        let mut handle = start(&engine(Arc::clone(&store)), &two_roles(2, "none"), Value::empty_object(), model).await;
        handle.events.close();
        let thread = handle.thread.clone();
        follow(handle).await;
        let ran = row(&store, &thread);
        for first in (1..threads).step_by(usize::try_from(COMMITS).unwrap_or(1)) {
            let commits = (first..threads.min(first + COMMITS)).map(|number| {
                store.commit(Commit {
                    thread: ThreadId::from_parts(thread.unix_ms() + number, u128::from(number)),
                    expected: 0,
                    row: Row { version: 1, seq: 0, head: None, ..ran.clone() },
                    step: None,
                    objects: Vec::new(),
                    lanes: Vec::new(),
                    lists: Vec::new(),
                    clear_journal: Vec::new(),
                })
            });
            for commit in commits.collect::<Vec<_>>() {
                commit.await.expect("a commit");
            }
        }
    });
}

pub fn list() {
    let threads = from_environment("RONDO_BENCH_THREADS", 100_000);
    let [few, many] = [1, threads].map(|threads| {
        let folder = folder(SMALL_BYTES);
        add_threads(&folder.path().join("work/.rondo"), threads);
        [&["threads"][..], &["threads", "--json"], &["threads", "--json", "-n", "10"]]
            .map(|words| watched(rondo(folder.path()).args(words)))
    });
    for ((words, few), many) in ["", " --json", " --json -n 10"].into_iter().zip(few).zip(many) {
        print(
            &format!("peak memory, `rondo threads{words}`, {threads} threads"),
            &mebibytes(many.peak_bytes),
            &format!(
                "{} with one ({}); {} in {:.1} s",
                mebibytes(few.peak_bytes),
                code(&few),
                code(&many),
                many.elapsed.as_secs_f64()
            ),
        );
    }
}
