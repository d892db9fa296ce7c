//! Prefixes: what `rondo prefix` does on a long thread, beside a scan of the same steps.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use rondo_author::prefix;
use rondo_protocol::Value;
use rondo_protocol::event::Durability;
use rondo_protocol::object::Transcript;
use rondo_tests::{follow, start};

use crate::durable::open;
use crate::support::{engine, print, quick, runtime, two_roles_with};

const STEPS: u64 = 10_000;

/// The thread of 10,000 steps, two roles whose conversations grow to 10,000 messages each, walked and compared.
pub fn thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(folder.path(), Durability::Log);
    let count = Arc::new(AtomicU64::new(0));
    let checked = two_roles_with("condensed", STEPS, "outputs");
    let thread = runtime().block_on(async {
        let mut handle = start(&engine(Arc::clone(&store)), &checked, Value::empty_object(), quick(&count)).await;
        handle.events.close();
        let thread = handle.thread.clone();
        follow(handle).await;
        thread
    });
    let row = store.row(&thread).expect("a store").expect("a row");
    let scan = || {
        let started = Instant::now();
        let mut entries = 0;
        store
            .steps(&thread, 1..=row.seq, &mut |stored, _| {
                let transcript = stored.step.transcript.map(|digest| {
                    let kind = rondo_protocol::digest::Kind::Transcript;
                    rondo_core::conversation::rebuild::object::<Transcript>(&*store, kind, digest)
                        .expect("a transcript")
                });
                entries += transcript.map_or(0, |transcript| transcript.entries.len());
                true
            })
            .expect("a scan");
        std::hint::black_box(entries);
        started.elapsed()
    };
    let compare = || {
        let started = Instant::now();
        let mut visits = 0_u64;
        let sums = prefix::visits(&*store, &thread, &row, &prefix::Prices::new(), &mut |visit| {
            assert!(visit.broke.is_none(), "{visit:?}");
            visits += 1;
            true
        });
        std::hint::black_box(sums.expect("a walk"));
        assert_eq!(visits, row.seq, "each step is a visit");
        started.elapsed()
    };
    scan();
    let (compared, scanned) = (compare(), scan());
    let ratio = compared.as_secs_f64() / scanned.as_secs_f64();
    let reference = format!("{} ms scan and decode: {ratio:.1} x", scanned.as_millis());
    print("rondo prefix, a thread of 10,000 steps", &format!("{} ms", compared.as_millis()), &reference);
}
