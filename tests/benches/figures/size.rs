//! What a step takes in the store, beside what was said in it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rondo_protocol::Value;
use rondo_protocol::event::Durability;
use rondo_tests::{follow, start};

use crate::durable::open;
use crate::support::{BODY, answer, engine, print, quick, runtime, two_roles};

pub fn bytes() {
    for steps in [2_000_u64, 20_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), Durability::Log);
        let count = Arc::new(AtomicU64::new(0));
        let checked = two_roles(steps, "outputs");
        runtime().block_on(async {
            let mut handle = start(&engine(Arc::clone(&store)), &checked, Value::empty_object(), quick(&count)).await;
            handle.events.close();
            follow(handle).await;
        });
        drop(store);
        let said = "Go on with this: ".len() + BODY.len() + answer().len();
        let stored = size(folder.path()) / steps;
        let transcript = answer().len() + 300;
        let most = said * 3 / 2 + 800;
        let name = format!("bytes of a step in the store, {steps} steps, transcript and log included");
        print(&name, &format!("{stored} bytes"), &format!("{said} said; at most {most} + transcript {transcript}"));
    }
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
