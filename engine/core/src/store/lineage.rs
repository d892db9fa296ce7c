//! Reads a thread together with the threads it was forked from: a fork stores only the records after its base.

use std::ops::RangeInclusive;

use rondo_protocol::Digest;
use rondo_protocol::id::{LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;

use super::chain::{self, ChainVerifier, missing};
use super::error::Damage;
use super::keys::{self, Family};
use super::{Error, Read, Row, StoredRecord, VisitIndex};

/// A thread that stores a part of another one's records.
struct Holder {
    thread: ThreadId,
    /// The numbers of that part.
    seqs: RangeInclusive<u64>,
}

/// The holders of a thread's records up to `through`, the newest first: the thread itself, then its bases.
fn holders<R: Read + ?Sized>(store: &R, thread: &ThreadId, row: Row, mut through: u64) -> Result<Vec<Holder>, Error> {
    let mut holders = Vec::new();
    let (mut thread, mut base) = (thread.clone(), row.base);
    loop {
        let shared = base.as_ref().map_or(0, |base| base.seq);
        if shared < through {
            holders.push(Holder { thread: thread.clone(), seqs: shared + 1..=through });
        }
        let Some(before) = base else { return Ok(holders) };
        through = through.min(before.seq);
        let Some(row) = store.row(&before.thread)? else {
            let what = format!("thread {}, which thread {thread} was forked from, is missing", before.thread);
            return Err(Damage::new(what).of_thread(&thread).into());
        };
        (thread, base) = (before.thread, row.base);
    }
}

/// See [`Read::scan`].
pub fn scan<R: Read + ?Sized>(
    store: &R,
    thread: &ThreadId,
    seqs: RangeInclusive<u64>,
    visit: &mut dyn FnMut(StoredRecord, Note) -> bool,
) -> Result<(), Error> {
    let Some(mut row) = store.row(thread)? else { return Ok(()) };
    // It may hold a large result, which no step needs.
    row.origin = Vec::new();
    let (from, to) = (*seqs.start().max(&1), *seqs.end().min(&row.seq));
    if from > to {
        return Ok(());
    }
    // Also reads the record before the range: the first one of the range must follow it.
    let first = from.saturating_sub(1).max(1);
    let place = |digest| place(store, thread, digest);
    let mut chain = ChainVerifier::new(thread, first, &place);
    let mut goes_on = true;
    for Holder { thread: holder, seqs } in holders(store, thread, row.clone(), to)?.into_iter().rev() {
        let seqs = *seqs.start().max(&first)..=*seqs.end();
        if seqs.is_empty() || !goes_on {
            continue;
        }
        store.own_records(&holder, seqs, &mut |stored| {
            let seq = stored.seq;
            let located = |error: Error| error.at(Family::Steps, &keys::step(&holder, seq), Some(thread));
            let record = chain.step(&stored).map_err(located)?;
            if seq == row.seq {
                chain.end(&row).map_err(located)?;
            }
            goes_on = seq < from || visit(record, stored.note);
            Ok(goes_on)
        })?;
    }
    if !goes_on {
        return Ok(());
    }
    if chain.next() <= to {
        let is_deleted = store.row(thread)?.is_none();
        return Err(if is_deleted {
            Error::Conflict { thread: thread.clone() }
        } else {
            missing(thread, chain.next(), Family::Steps)
        });
    }
    let mut beyond = false;
    if to == row.seq {
        store.own_records(thread, to.saturating_add(1)..=u64::MAX, &mut |_| {
            beyond = true;
            Ok(false)
        })?;
    }
    if !beyond {
        return Ok(());
    }
    // A record after the row's last is damage, unless it was committed during this scan.
    match store.row(thread)? {
        Some(newer) if newer.seq > row.seq => Ok(()),
        Some(_) => {
            let what = format!("thread {thread} continues behind its last step {}", row.seq);
            Err(Damage::new(what).of_thread(thread).into())
        }
        None => Err(Error::Conflict { thread: thread.clone() }),
    }
}

/// See [`Read::record_at`].
pub fn record_at<R: Read + ?Sized>(
    store: &R,
    thread: &ThreadId,
    seq: u64,
) -> Result<Option<(StoredRecord, Note)>, Error> {
    if let Some(found) = store.own_record(thread, seq)? {
        return Ok(Some(found));
    }
    let Some(row) = store.row(thread)?.filter(|row| (1..=row.seq).contains(&seq)) else { return Ok(None) };
    match holders(store, thread, row, seq)?.first() {
        Some(holder) if holder.thread != *thread => {
            store.own_record(&holder.thread, seq)?.map(Some).ok_or_else(|| missing(&holder.thread, seq, Family::Steps))
        }
        _ => Err(missing(thread, seq, Family::Steps)),
    }
}

/// See [`Read::visits`] and [`Read::compactions`].
pub fn visits<R: Read + ?Sized>(
    store: &R,
    thread: &ThreadId,
    index: VisitIndex,
    of: (&LanePath, &RoleName),
    visits: RangeInclusive<u64>,
) -> Result<Vec<(u64, u64)>, Error> {
    let Some(row) = store.row(thread)?.filter(|row| row.base.is_some()) else {
        return store.own_visits(thread, index, of, visits);
    };
    let mut all = Vec::new();
    for Holder { thread, seqs } in holders(store, thread, row, u64::MAX)?.into_iter().rev() {
        let own = store.own_visits(&thread, index, of, visits.clone())?;
        all.extend(own.into_iter().filter(|(_, seq)| seqs.contains(seq)));
    }
    Ok(all)
}

/// See [`Read::place`].
pub fn place<R: Read + ?Sized>(store: &R, thread: &ThreadId, digest: Digest) -> Result<Option<u64>, Error> {
    if let Some(seq) = store.own_place(thread, digest)? {
        return Ok(Some(seq));
    }
    let Some(row) = store.row(thread)?.filter(|row| row.base.is_some()) else { return Ok(None) };
    for Holder { thread, seqs } in holders(store, thread, row, u64::MAX)? {
        if let Some(seq) = store.own_place(&thread, digest)?.filter(|seq| seqs.contains(seq)) {
            return Ok(Some(seq));
        }
    }
    Ok(None)
}

/// See [`Read::trunk_head`].
pub fn trunk_head<R: Read + ?Sized>(store: &R, thread: &ThreadId, at: u64) -> Result<Option<Digest>, Error> {
    for seq in (1..=at).rev() {
        let Some((stored, _)) = store.record_at(thread, seq)? else { break };
        if chain::is_of_trunk(&stored.record) {
            return Ok(Some(stored.digest));
        }
    }
    Ok(None)
}
