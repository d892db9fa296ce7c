//! A run that is recorded on what a test holds in its hands: paper that runs out, and what is on it.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rondo_agent_kit::model::recorded::{Cassette, Recorder, Title};
use rondo_core::{Ended, Engine, RunConfig, SystemEnv};
use rondo_hooks::registry;
use rondo_protocol::Value;
use rondo_protocol::call::{FaultClass, ModelCall};
use rondo_protocol::diagnostic::Code;
use rondo_store::{MemoryStore, Read, Status};
use rondo_tests::{FnModel, checked, follow, run_config, start_with};

/// What a recording is written on.
#[derive(Debug, Clone)]
pub struct Paper {
    text: Arc<Mutex<Vec<u8>>>,
    /// How many bytes it takes.
    size: usize,
}

impl Paper {
    /// Paper that takes so many bytes.
    pub fn of(size: usize) -> Self {
        Self { text: Arc::default(), size }
    }

    /// A recorder that writes on it.
    pub fn recorder(&self) -> Arc<Recorder> {
        let title = Title { workflow: "test".to_owned(), start: None };
        Arc::new(Recorder::new(&title, self.clone()).unwrap())
    }

    /// What is on it.
    pub fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut text = self.text.lock().unwrap();
        if text.len() + bytes.len() > self.size {
            return Err(ErrorKind::StorageFull.into());
        }
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const PAIR: &str = r#"
rondo: 1
name: pair
roles:
  a: { system: x, retry: { attempts: 3, backoff: 1ms } }
  b: { system: y }
graph:
  start: { to: a, prompt: go }
  a: { done: { to: b, prompt: next }, on_error: { to: b, prompt: "failed" } }
  b: { done: { to: end } }
"#;

#[tokio::test]
async fn a_recording_that_cannot_be_written_stops_the_run_before_the_next_call() {
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(Arc::clone(&store) as _, Arc::new(SystemEnv::default()), registry());
    let checked = checked(PAIR);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let model = FnModel(move |_: &ModelCall| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok("---\nstatus: done\n---\n".to_owned())
    });
    let given = run_config(&checked.workflow, &(Arc::new(model) as _));
    let recorder = Some(Paper::of(200).recorder());
    let on_paper = RunConfig { recorder, ..given.clone() };
    let handle = start_with(&engine, &checked, Value::empty_object(), on_paper).await;
    let thread = handle.thread.clone();
    let Ended::Stopped(fault) = follow(handle).await.1 else { panic!("it must stop") };
    assert_eq!((fault.code, fault.class), (Code::RecordingFailed, FaultClass::Recording));
    // What was paid for is in the thread, and nothing more was paid for.
    let row = store.row(&thread).unwrap().unwrap();
    assert_eq!((asked.load(Ordering::SeqCst), row.seq, row.status), (1, 1, Status::Stopped));

    // It continues without a recording.
    let resumed = engine.resume(&thread, |_, _| Ok::<_, rondo_core::Error>(given)).await.unwrap();
    let rondo_core::Resumed::Running(handle) = resumed else { panic!("it must go on") };
    assert!(matches!(follow(handle).await.1, Ended::Finished(_)));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_recorded_run_comes_to_the_same_head_when_it_is_played() {
    let engine = || Engine::new(Arc::new(MemoryStore::default()), Arc::new(SystemEnv::default()), registry());
    let checked = checked(PAIR);
    let model = FnModel(|call: &ModelCall| Ok(format!("---\nstatus: done\n---\n\nI am {}.\n", call.site.role)));
    let paper = Paper::of(1 << 20);
    let recorder = paper.recorder();
    let given = run_config(&checked.workflow, &(Arc::new(model) as _));
    let on_paper = RunConfig { recorder: Some(Arc::clone(&recorder)), ..given };
    let run = async |run_config| {
        let (events, ended) = follow(start_with(&engine(), &checked, Value::empty_object(), run_config).await).await;
        assert!(matches!(ended, Ended::Finished(_)), "{ended:?}");
        let steps = events.into_iter().filter_map(|event| match event.what {
            rondo_protocol::event::What::StepCommitted { step, .. } => Some(step),
            _ => None,
        });
        steps.collect::<Vec<_>>()
    };
    let steps = run(on_paper).await;
    recorder.finish().unwrap();
    let cassette = Arc::new(Cassette::read("paper", &paper.text()).unwrap());
    assert_eq!(cassette.attempts(), 2);
    let played = run_config(&checked.workflow, &(cassette as _));
    assert_eq!(run(played).await, steps);
}
