//! The last step that two threads share.

use rondo_core::store::{Damage, Error, Read};
use rondo_protocol::Digest;
use rondo_protocol::id::LanePath;

use super::Side;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parting {
    /// The last common step with its number: all steps of the first thread up to it are in both.
    pub common: Option<(u64, Digest)>,
    /// The number in the second thread of the last common step of the trunk; 0 if there is none. Behind it only lanes
    /// have common steps.
    pub(super) trunk_of_b: u64,
}

pub fn parting(store: &dyn Read, a: Side<'_>, b: Side<'_>) -> Result<Parting, Error> {
    // Each step of the trunk names the one before it, directly or through lanes. So a common one has all earlier ones.
    let (mut low, mut high) = (0, a.seq);
    let mut common = None;
    while low < high {
        let middle = low.midpoint(high.saturating_add(1));
        let (seq, digest) = on_trunk(store, a, middle)?;
        let is_common = match digest {
            Some(digest) => holds(store, b, digest)?,
            None => true,
        };
        if is_common {
            low = middle;
            common = digest.map(|digest| (seq, digest)).or(common);
        } else {
            high = seq.saturating_sub(1);
        }
    }
    let trunk_of_b = common.map(|(_, digest)| store.place(b.thread, digest)).transpose()?.flatten().unwrap_or(0);
    for seq in common.map_or(0, |(seq, _)| seq).saturating_add(1)..=a.seq {
        let Some((stored, _)) = store.record_at(a.thread, seq)? else { break };
        if !holds(store, b, stored.digest)? {
            break;
        }
        common = Some((seq, stored.digest));
    }
    Ok(Parting { common, trunk_of_b })
}

/// Whether a thread has the step with a digest.
pub(super) fn holds(store: &dyn Read, side: Side<'_>, digest: Digest) -> Result<bool, Error> {
    Ok(store.place(side.thread, digest)?.is_some_and(|seq| seq <= side.seq))
}

/// The step of the trunk at `seq`, or the one that opened the lanes to which the step at `seq` belongs: its number and
/// digest; 0 and `None` for lanes that were opened by the start.
fn on_trunk(store: &dyn Read, side: Side<'_>, mut seq: u64) -> Result<(u64, Option<Digest>), Error> {
    loop {
        let found = store.record_at(side.thread, seq)?;
        let missing = || Damage::new(format!("step {seq} of thread {} is missing", side.thread));
        let (stored, note) = found.ok_or_else(missing)?;
        if stored.record.lane().is_none_or(LanePath::is_trunk) {
            return Ok((seq, Some(stored.digest)));
        }
        let before = match (note.opened_by.first(), stored.record.prev().first()) {
            (Some(opened_by), _) => Some(*opened_by),
            // Not every record in a lane notes who opened the lane; the steps before it do.
            (None, Some(before)) => store.place(side.thread, *before)?,
            (None, None) => None,
        };
        match before.unwrap_or(0) {
            0 => return Ok((0, None)),
            before if before < seq => seq = before,
            _ => return Err(Damage::new(format!("step {seq} of thread {} follows a later one", side.thread)).into()),
        }
    }
}
