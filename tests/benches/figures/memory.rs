//! A step without durability, at the beginning of a thread and far on, beside the floor: hashing and writing the
//! canonical bytes that a step has.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rondo_protocol::Value;
use rondo_protocol::call::ModelCall;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{LanePath, RoleName, Status};
use rondo_protocol::message::Message;
use rondo_protocol::object::{EdgeTaken, Entry, ModelReply, RecordKind, Step, Transcript};
use rondo_store::MemoryStore;
use rondo_tests::{FnModel, follow, start};

use crate::support::{answer, engine, median, print, runtime, touch_memory, two_roles, us};

const STEPS: u64 = 100_000;
const WINDOW: usize = 1_000;
/// How many windows are looked at, of which the median counts.
const WINDOWS: usize = 7;
/// More than the store grows to, so that no page is asked of the host while it is measured.
const TOUCHED_BYTES: usize = 1 << 30;

pub fn step() {
    touch_memory(TOUCHED_BYTES);
    let floor = floor();
    let windows = windows(STEPS, false);
    // The first window holds the start.
    let early = median(windows.get(1..=WINDOWS).unwrap_or_default());
    let late = median(windows.get(windows.len().saturating_sub(WINDOWS)..).unwrap_or_default());
    let reference = format!("{} hashing and canonical bytes alone", us(floor));
    print("step without durability, from step 1,000 on", &us(early), &reference);
    print(
        "step without durability, up to step 100,000",
        &us(late),
        &format!("{:.2} x the early ones, at most 1.3 wanted", late.as_secs_f64() / early.as_secs_f64()),
    );
}

/// What somebody who reads all events adds to a step.
pub fn reader() {
    let steps = STEPS / 5;
    let [alone, read] = [false, true].map(|is_read| median(windows(steps, is_read).get(1..).unwrap_or_default()));
    let more = read.saturating_sub(alone);
    let reference = format!("{} as many values through a channel; {} a step alone", us(channel(alone)), us(alone));
    print("a step whose events are read, more", &us(more), &reference);
}

/// What it adds to work of this length when the values of a step go through a channel to a task that waits for them.
fn channel(work: Duration) -> Duration {
    const EVENTS: usize = 5;
    let window = || {
        runtime().block_on(async {
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            let sending = tokio::spawn(async move {
                let mut busy = Duration::ZERO;
                for _ in 0..WINDOW {
                    let started = Instant::now();
                    while started.elapsed() < work {
                        std::hint::spin_loop();
                    }
                    let worked = Instant::now();
                    for _ in 0..EVENTS {
                        sender.send(worked).expect("a receiver");
                    }
                    tokio::task::yield_now().await;
                    busy += worked.elapsed();
                }
                busy
            });
            while receiver.recv().await.is_some() {}
            sending.await.expect("no panic")
        }) / u32::try_from(WINDOW).unwrap_or(1)
    };
    median(&std::array::from_fn::<_, WINDOWS, _>(|_| window()))
}

/// The time of a step in each thousand of them, of which the first holds the start.
fn windows(steps: u64, is_read: bool) -> Vec<Duration> {
    let at: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let marks = Arc::clone(&at);
    let model = FnModel(move |call: &ModelCall| {
        if call.site.visit % (WINDOW as u64 / 2) == 1 && call.site.role.as_str() == "a" {
            marks.lock().expect("a lock").push(Instant::now());
        }
        Ok(answer())
    });
    let checked = two_roles(steps, "outputs");
    runtime().block_on(async {
        let engine = engine(Arc::new(MemoryStore::default()));
        let mut handle = start(&engine, &checked, Value::empty_object(), Arc::new(model)).await;
        if !is_read {
            handle.events.close();
        }
        follow(handle).await;
    });
    let at = at.lock().expect("a lock");
    at.windows(2)
        .filter_map(|pair| match pair {
            [from, to] => Some(to.duration_since(*from) / u32::try_from(WINDOW).unwrap_or(1)),
            _ => None,
        })
        .collect()
}

/// What hashing a step of the same size costs: two messages, their chain, the request, the transcript and the step.
fn floor() -> Duration {
    let digest = Digest::of_bytes(Kind::Step, b"");
    let reply = ModelReply::said(answer());
    let transcript = Transcript { entries: vec![Entry::Model { asked: None, head: digest, reply, request: digest }] };
    let prompt = format!("Go on with this: {}", crate::support::BODY);
    let step = Step {
        answer: answer(),
        edge: EdgeTaken {
            files: Vec::new(),
            from: "a".to_owned(),
            prompt: prompt.clone(),
            status: Status::new("done").ok(),
        },
        kind: RecordKind::Step,
        lane: LanePath::trunk(),
        observations: Vec::new(),
        output: Value::empty_object(),
        prev: vec![digest],
        role: RoleName::new("a").expect("a name"),
        start: digest,
        status: Status::new("done").expect("a status"),
        transcript: Some(digest),
    };
    let message = Message::user(prompt);
    let rounds = 3_000;
    let window = || {
        let started = Instant::now();
        for _ in 0..rounds {
            let message = Digest::of(Kind::Message, &message).expect("canonical").0;
            let link = Digest::of_parts(Kind::Messages, &[digest.as_bytes(), message.as_bytes()]);
            std::hint::black_box(Digest::of_parts(Kind::Request, &[digest.as_bytes(), link.as_bytes()]));
            std::hint::black_box(Digest::of(Kind::Transcript, &transcript).expect("canonical"));
            std::hint::black_box(Digest::of(Kind::Step, &step).expect("canonical"));
        }
        started.elapsed() / rounds
    };
    median(&std::array::from_fn::<_, WINDOWS, _>(|_| window()))
}
