//! What is handed to a store, encoded and checked as far as that does not depend on what is stored, so that it is done
//! by whoever hands it over and not by the writer, which everybody waits for.

use rondo_protocol::event::Durability;
use rondo_protocol::id::{LanePath, ThreadId};

use super::commit::Place;
use super::keys::{self, Family};
use super::tables::Change;
use super::{Commit, Error, JournalRecord, MAX_COMMIT_BYTES, MAX_NAME_BYTES, codec};

/// A commit that is ready to be written.
pub(super) struct Prepared {
    /// Behind what it stands.
    pub(super) place: Place,
    /// All that it writes and deletes, but for journals.
    pub(super) changes: Vec<Change>,
    /// Lanes whose journal it clears.
    pub(super) clear_journal: Vec<LanePath>,
    /// Whether it must be on the device when it is acknowledged.
    pub(super) must_sync: bool,
    /// Lanes that it closes.
    pub(super) closed: Vec<LanePath>,
    /// What the ledger's chain takes of it.
    pub(super) link: [u8; LINK_BYTES],
}

/// The row's key, its version and the step's digest.
const LINK_BYTES: usize = 18 + 8 + 32;

impl Prepared {
    /// Encodes `commit`.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub(super) fn of(commit: Commit, durability: Durability) -> Result<Self, Error> {
        commit.check()?;
        let place = commit.place();
        let Commit { thread, row, step, objects, lanes, lists, clear_journal, expected: _ } = commit;
        let mut changes = Vec::with_capacity(5 + objects.len() + lanes.len() + lists.len());
        let mut change = |family, key, value| changes.push(Change { family, key, value });
        for (kind, digest, bytes) in objects {
            change(Family::Objects, keys::object(digest), Some(codec::write_object(kind, &bytes)));
        }
        let row_key = keys::row(&thread);
        let mut link = [0; LINK_BYTES];
        let digest = step.as_ref().map_or([0; 32], |step| step.digest.0);
        let parts = row_key.iter().copied().chain(row.version.to_be_bytes()).chain(digest);
        for (byte, part) in link.iter_mut().zip(parts) {
            *byte = part;
        }
        if let Some(step) = step {
            let (digest, seq) = (step.digest, step.seq);
            let value = codec::write_step(digest, step.visit, &step.bytes);
            change(Family::Steps, keys::step(&thread, seq), Some(value));
            change(Family::Notes, keys::note(&thread, seq), Some(codec::write_note(&step.note)?));
            change(Family::Index, keys::place(digest, &thread, seq), Some(Vec::new()));
            let visit = keys::visit(&thread, &step.lane, &step.role, step.visit);
            change(Family::Index, visit, Some(codec::write_seq(seq)));
        }
        let mut closed = Vec::new();
        for (lane, row) in lanes {
            change(Family::Threads, keys::lane(&thread, &lane), row.as_ref().map(codec::write_lane));
            if row.is_none() {
                closed.push(lane);
            }
        }
        for (opened_by, list) in lists {
            let value = list.map(|list| codec::write_list(&list));
            change(Family::Threads, keys::list(&thread, opened_by), value);
        }
        change(Family::Threads, row_key, Some(codec::write_row(&row)));
        Ok(Self { must_sync: durability == Durability::Sync, place, changes, clear_journal, closed, link })
    }

    /// Which thread.
    pub(super) fn thread(&self) -> &ThreadId {
        &self.place.thread
    }

    /// How much it writes.
    pub(super) fn size_bytes(&self) -> usize {
        self.changes.iter().map(Change::size_bytes).sum()
    }
}

/// Refuses journal records that are too large.
///
/// # Errors
/// [`Error::Malformed`].
pub(super) fn check_records(thread: &ThreadId, records: &[JournalRecord]) -> Result<(), Error> {
    if records.iter().any(|record| record.lane.as_str().len() > MAX_NAME_BYTES)
        || records.iter().map(|record| record.bytes.len()).sum::<usize>() > MAX_COMMIT_BYTES
    {
        return Err(Error::Malformed { what: format!("thread {thread}: journal records are too large") });
    }
    Ok(())
}

/// The change that writes a journal record.
pub(super) fn record(thread: &ThreadId, record: &JournalRecord) -> Change {
    let key = keys::record(thread, &record.lane, record.position);
    Change { family: Family::Journal, key, value: Some(codec::write_record(&record.bytes)) }
}

/// The change that writes a value of a hook's private key space, or deletes it.
///
/// # Errors
/// [`Error::Malformed`].
pub(super) fn hook_value(space: &str, key: &[u8], value: Option<&[u8]>) -> Result<Change, Error> {
    let malformed = || Error::Malformed { what: "the name of a hook's key space is too long".to_owned() };
    let key = keys::hook(space, key).ok_or_else(malformed)?;
    Ok(Change { family: Family::Hooks, key, value: value.map(codec::write_hook) })
}
