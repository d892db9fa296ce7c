//! What was asked in a thread before this run of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::digest::Kind;
use rondo_protocol::id::{LanePath, ThreadId};
use rondo_protocol::object::{Entry, Transcript};

use super::journal::Journal;
use crate::hook::Past;
use crate::rebuild;
use crate::store::{Error, StepStore};

/// The steps and the journal of a thread.
pub struct StoredPast {
    /// Where they are.
    pub store: Arc<dyn StepStore>,
    /// Which thread.
    pub thread: ThreadId,
}

impl Past for StoredPast {
    fn requests(&self, lane: &LanePath) -> Result<BTreeMap<Digest, u32>, Error> {
        let mut answered: BTreeMap<Digest, u32> = BTreeMap::new();
        let mut count = |request: Digest| *answered.entry(request).or_default() += 1;
        let seq = self.store.row(&self.thread)?.map_or(0, |row| row.seq);
        let mut transcripts = Vec::new();
        if seq > 0 {
            self.store.scan(&self.thread, 1..=seq, &mut |stored, _| {
                transcripts.extend(stored.step.transcript.filter(|_| stored.step.lane == *lane));
                true
            })?;
        }
        for digest in transcripts {
            let transcript: Transcript = rebuild::object(&*self.store, Kind::Transcript, digest)?;
            for entry in transcript.entries {
                if let Entry::Model { asked, request, .. } = entry {
                    count(request);
                    asked.into_iter().for_each(&mut count);
                }
            }
        }
        let journal = Journal::read(&*self.store, &self.thread, lane)?;
        for record in journal.models() {
            count(record.request);
            if record.rewritten {
                count(record.asked);
            }
        }
        Ok(answered)
    }
}
