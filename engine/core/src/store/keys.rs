//! Key bytes. They are documented in `engine/docs/store-format.md`, golden tests check them, and a change needs a new
//! key kind.
//!
//! Laws. Every key starts with two bytes for its kind, which are never reused for another; a kind belongs to one
//! [`Family`]. Numbers are big-endian, so that keys sort numerically. A thread is the 16 bytes of its id, which sort
//! by time of creation. Text in the middle of a key ends with a zero byte, which no name contains; a hook's space may
//! be any text and is preceded by its length instead.

#![expect(missing_docs, reason = "engine/docs/store-format.md says what each key and value holds")]

use std::ops::{Range, RangeInclusive};

use rondo_protocol::digest::Digest;
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::{VisitIndex, VisitKey};

/// A column family, which is stored, read and compacted as a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Family {
    /// Objects by digest.
    Objects,
    /// Steps by thread and number.
    Steps,
    /// Steps by digest, and steps by role and visit.
    Index,
    /// Notes by thread and number.
    Notes,
    /// Rows by thread, rows of lanes by thread and lane, lists by thread and number; batches and their lines.
    Threads,
    /// Journals by thread, lane and position.
    Journal,
    /// Private key spaces of hooks.
    Hooks,
    /// Data about the store itself.
    Meta,
}

impl Family {
    /// Every family, in opening order.
    pub const ALL: [Self; 8] =
        [Self::Objects, Self::Steps, Self::Index, Self::Notes, Self::Threads, Self::Journal, Self::Hooks, Self::Meta];

    /// Its name in the database.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

const OBJECT: [u8; 2] = *b"ob";
const STEP: [u8; 2] = *b"st";
pub(super) const PLACE: [u8; 2] = *b"pl";
pub(super) const VISIT: [u8; 2] = *b"vi";
pub(super) const COMPACTION: [u8; 2] = *b"vc";
pub(super) const NOTE: [u8; 2] = *b"no";
const ROW: [u8; 2] = *b"th";
pub(super) const LANE: [u8; 2] = *b"tl";
pub(super) const LIST: [u8; 2] = *b"te";
pub(super) const BATCH: [u8; 2] = *b"tb";
pub(super) const BATCH_LINE: [u8; 2] = *b"ti";
pub(super) const RECORD: [u8; 2] = *b"jo";
pub(super) const HOOK: [u8; 2] = *b"hk";

/// Every kind of key with its family. Those of the store itself follow below.
const KINDS: [([u8; 2], Family); 13] = [
    (OBJECT, Family::Objects),
    (STEP, Family::Steps),
    (PLACE, Family::Index),
    (VISIT, Family::Index),
    (COMPACTION, Family::Index),
    (NOTE, Family::Notes),
    (ROW, Family::Threads),
    (LANE, Family::Threads),
    (LIST, Family::Threads),
    (BATCH, Family::Threads),
    (BATCH_LINE, Family::Threads),
    (RECORD, Family::Journal),
    (HOOK, Family::Hooks),
];

/// The family of a key, by its kind.
pub fn family_of(key: &[u8]) -> Option<Family> {
    if [FORMAT, LEDGER, IMPORT].contains(&key) {
        return Some(Family::Meta);
    }
    KINDS.iter().find(|(kind, _)| key.starts_with(kind)).map(|(_, family)| *family)
}

/// The thread that a key belongs to; `None` for keys of objects, batches, hooks and the store itself.
pub fn thread_of(key: &[u8]) -> Option<ThreadId> {
    let (kind, rest) = key.split_first_chunk::<2>()?;
    match *kind {
        STEP | VISIT | COMPACTION | NOTE | ROW | LANE | LIST | RECORD => rest.first_chunk().copied().map(thread),
        PLACE => placed(key).map(|(thread, _)| thread),
        _ => None,
    }
}

/// Whether the key of a visit or a compaction has its shape.
pub(super) fn is_visit(key: &[u8]) -> bool {
    let names =
        key.get(18..).and_then(<[u8]>::split_last_chunk::<8>).and_then(|(names, _)| std::str::from_utf8(names).ok());
    let names = names.and_then(|names| names.strip_suffix('\0')?.split_once('\0'));
    names.is_some_and(|(lane, role)| LanePath::new(lane).is_ok() && RoleName::new(role).is_ok())
}

/// Whether the key of a hook's value has its shape.
pub(super) fn is_hook(key: &[u8]) -> bool {
    let space = key.get(2..).and_then(<[u8]>::split_first_chunk::<2>);
    space.is_some_and(|(length, space)| space.len() >= usize::from(u16::from_be_bytes(*length)))
}

/// The number of the store's format, in [`Family::Meta`]. Its value always has four bytes and no version.
pub const FORMAT: &[u8] = b"mefm";

/// The key of [`super::codec::Ledger`], in [`Family::Meta`].
pub const LEDGER: &[u8] = b"melg";

/// The key of [`super::codec::ImportMark`], in [`Family::Meta`].
pub const IMPORT: &[u8] = b"meim";

/// How many bytes of a digest a place key holds. The others are compared with the step itself.
const PLACE_DIGEST_BYTES: usize = 16;

/// The rows of all threads after `after`, in [`Family::Threads`].
pub fn rows(after: Option<&ThreadId>) -> Range<Vec<u8>> {
    let all = below(ROW.to_vec());
    after.map_or(all.start, |thread| behind(row(thread)))..all.end
}

/// The row of a thread, in [`Family::Threads`].
pub fn row(thread: &ThreadId) -> Vec<u8> {
    of_thread(ROW, thread)
}

pub fn thread_of_row(key: &[u8]) -> Option<ThreadId> {
    key.strip_prefix(&ROW)?.try_into().ok().map(thread)
}

/// The row of an open lane, in [`Family::Threads`].
pub fn lane(thread: &ThreadId, lane: &LanePath) -> Vec<u8> {
    join(LANE, &[&thread_bytes(thread), lane.as_str().as_bytes()])
}

/// The rows of a thread's open lanes after `after`, in [`Family::Threads`].
pub fn lanes(thread: &ThreadId, after: Option<&LanePath>) -> Range<Vec<u8>> {
    let all = below(of_thread(LANE, thread));
    after.map_or(all.start, |path| behind(lane(thread, path)))..all.end
}

pub fn lane_of_row(key: &[u8]) -> Option<LanePath> {
    LanePath::new(std::str::from_utf8(key.strip_prefix(&LANE)?.get(16..)?).ok()?).ok()
}

/// The list of the `each` that step `opened_by` opened, in [`Family::Threads`].
pub fn list(thread: &ThreadId, opened_by: u64) -> Vec<u8> {
    numbered(LIST, thread, opened_by)
}

/// The lists of a thread, in [`Family::Threads`].
pub fn lists(thread: &ThreadId) -> Range<Vec<u8>> {
    below(of_thread(LIST, thread))
}

/// A batch, in [`Family::Threads`].
pub fn batch(batch: &BatchId) -> Vec<u8> {
    join(BATCH, &[&id_bytes(batch.as_str())])
}

/// All batches after `after`, in [`Family::Threads`].
pub fn batches(after: Option<&BatchId>) -> Range<Vec<u8>> {
    let all = below(BATCH.to_vec());
    after.map_or(all.start, |id| behind(batch(id)))..all.end
}

pub fn batch_of(key: &[u8]) -> Option<BatchId> {
    key.strip_prefix(&BATCH)?.try_into().ok().map(batch_with)
}

/// The batch with these 128 bits.
pub(crate) fn batch_with(bytes: [u8; 16]) -> BatchId {
    let (unix_ms, random) = id_parts(bytes);
    BatchId::from_parts(unix_ms, random)
}

/// The batch in the key of one of its lines.
pub fn batch_of_line(key: &[u8]) -> Option<BatchId> {
    let (id, _line) = key.strip_prefix(&BATCH_LINE)?.split_last_chunk::<4>()?;
    id.try_into().ok().map(batch_with)
}

/// A line of a batch, in [`Family::Threads`].
pub fn batch_line(batch: &BatchId, line: u32) -> Vec<u8> {
    join(BATCH_LINE, &[&id_bytes(batch.as_str()), &line.to_be_bytes()])
}

/// The lines of a batch from `from` on, in [`Family::Threads`].
pub fn batch_lines(batch: &BatchId, from: u32) -> Range<Vec<u8>> {
    batch_line(batch, from)..below(join(BATCH_LINE, &[&id_bytes(batch.as_str())])).end
}

/// Everything of a thread but its row and the locations of its steps.
pub fn of(thread: &ThreadId) -> [(Family, Range<Vec<u8>>); 7] {
    let kinds = [
        (Family::Steps, STEP),
        (Family::Notes, NOTE),
        (Family::Index, VISIT),
        (Family::Index, COMPACTION),
        (Family::Threads, LANE),
        (Family::Threads, LIST),
        (Family::Journal, RECORD),
    ];
    kinds.map(|(family, kind)| (family, below(of_thread(kind, thread))))
}

/// An object, in [`Family::Objects`].
pub fn object(digest: Digest) -> Vec<u8> {
    join(OBJECT, &[digest.as_bytes()])
}

/// All objects, in [`Family::Objects`].
pub fn objects() -> Range<Vec<u8>> {
    below(OBJECT.to_vec())
}

/// The digest in the key of an object.
pub fn object_of(key: &[u8]) -> Option<Digest> {
    key.strip_prefix(&OBJECT)?.try_into().ok().map(Digest)
}

/// A step, in [`Family::Steps`].
pub fn step(thread: &ThreadId, seq: u64) -> Vec<u8> {
    numbered(STEP, thread, seq)
}

/// The steps of a thread from number `from` to its end, in [`Family::Steps`].
pub fn steps(thread: &ThreadId, from: u64) -> Range<Vec<u8>> {
    step(thread, from)..below(of_thread(STEP, thread)).end
}

/// The note of a step, in [`Family::Notes`].
pub fn note(thread: &ThreadId, seq: u64) -> Vec<u8> {
    numbered(NOTE, thread, seq)
}

/// The notes of a thread from number `from` to its end, in [`Family::Notes`].
pub fn notes(thread: &ThreadId, from: u64) -> Range<Vec<u8>> {
    note(thread, from)..below(of_thread(NOTE, thread)).end
}

/// The number at the end of a step's or a note's key.
pub fn seq(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.last_chunk()?))
}

/// The location of a step, in [`Family::Index`]; the value is empty.
pub fn place(digest: Digest, thread: &ThreadId, seq: u64) -> Vec<u8> {
    join(PLACE, &[place_digest(&digest), &thread_bytes(thread), &seq.to_be_bytes()])
}

/// The possible locations of a step with a digest, in [`Family::Index`].
pub fn places(digest: Digest) -> Range<Vec<u8>> {
    below(join(PLACE, &[place_digest(&digest)]))
}

/// The possible locations of a digest in one thread, in [`Family::Index`].
pub(crate) fn places_in(digest: Digest, thread: &ThreadId) -> Range<Vec<u8>> {
    below(join(PLACE, &[place_digest(&digest), &thread_bytes(thread)]))
}

/// The thread and number in the key of a place.
pub fn placed(key: &[u8]) -> Option<(ThreadId, u64)> {
    let rest = key.strip_prefix(&PLACE)?.get(PLACE_DIGEST_BYTES..)?;
    let (id, number) = rest.split_first_chunk::<16>()?;
    Some((thread(*id), u64::from_be_bytes(number.try_into().ok()?)))
}

/// A record found by role and visit, in [`Family::Index`]; the value is its number.
pub fn visit(thread: &ThreadId, key: &VisitKey) -> Vec<u8> {
    numbered_visit(thread, key.index, (&key.lane, &key.role), key.visit)
}

/// A role's records in a lane within visits, in [`Family::Index`].
pub fn visits(
    thread: &ThreadId,
    index: VisitIndex,
    of: (&LanePath, &RoleName),
    visits: &RangeInclusive<u64>,
) -> Range<Vec<u8>> {
    numbered_visit(thread, index, of, *visits.start())..behind(numbered_visit(thread, index, of, *visits.end()))
}

/// One record of a journal, in [`Family::Journal`].
pub fn record(thread: &ThreadId, lane: &LanePath, position: u32) -> Vec<u8> {
    join(RECORD, &[&thread_bytes(thread), lane.as_str().as_bytes(), &[0], &position.to_be_bytes()])
}

/// The journal of a lane, in [`Family::Journal`].
pub fn records(thread: &ThreadId, lane: &LanePath) -> Range<Vec<u8>> {
    below(join(RECORD, &[&thread_bytes(thread), lane.as_str().as_bytes(), &[0]]))
}

/// The journals of all lanes of a thread, in [`Family::Journal`].
pub fn records_of(thread: &ThreadId) -> Range<Vec<u8>> {
    below(of_thread(RECORD, thread))
}

/// The lane in the key of a journal record.
pub fn lane_of_record(key: &[u8]) -> Option<LanePath> {
    let rest = key.strip_prefix(&RECORD)?.get(16..)?;
    let (lane, _position) = rest.split_last_chunk::<4>()?;
    LanePath::new(std::str::from_utf8(lane.strip_suffix(&[0])?).ok()?).ok()
}

/// The position at the end of a record's key, or the number of a line.
pub fn position(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*key.last_chunk()?))
}

/// A value of a hook, in [`Family::Hooks`]. `None` if the space's name is longer than 65,535 bytes.
pub fn hook(space: &str, key: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(space.len()).ok()?;
    Some(join(HOOK, &[&length.to_be_bytes(), space.as_bytes(), key]))
}

/// The values of a hook from the key `from` on, in [`Family::Hooks`].
pub fn hooks(space: &str, from: &[u8]) -> Option<Range<Vec<u8>>> {
    Some(hook(space, from)?..below(hook(space, b"")?).end)
}

/// The hook's own part of a key in its space.
pub fn hook_key<'a>(space: &str, key: &'a [u8]) -> Option<&'a [u8]> {
    key.get(HOOK.len() + 2 + space.len()..)
}

fn numbered_visit(thread: &ThreadId, index: VisitIndex, (lane, role): (&LanePath, &RoleName), visit: u64) -> Vec<u8> {
    let kind = match index {
        VisitIndex::Steps => VISIT,
        VisitIndex::Compactions => COMPACTION,
    };
    let (lane, role) = (lane.as_str().as_bytes(), role.as_str().as_bytes());
    join(kind, &[&thread_bytes(thread), lane, &[0], role, &[0], &visit.to_be_bytes()])
}

fn numbered(kind: [u8; 2], thread: &ThreadId, seq: u64) -> Vec<u8> {
    join(kind, &[&thread_bytes(thread), &seq.to_be_bytes()])
}

fn of_thread(kind: [u8; 2], thread: &ThreadId) -> Vec<u8> {
    join(kind, &[&thread_bytes(thread)])
}

fn join(kind: [u8; 2], parts: &[&[u8]]) -> Vec<u8> {
    let length = kind.len() + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut key = Vec::with_capacity(length);
    key.extend_from_slice(&kind);
    for part in parts {
        key.extend_from_slice(part);
    }
    key
}

fn place_digest(digest: &Digest) -> &[u8] {
    digest.as_bytes().get(..PLACE_DIGEST_BYTES).unwrap_or_default()
}

/// The least key greater than `key`.
fn behind(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// All keys that start with `prefix`, which contains a byte other than 0xff: its first byte is that of a kind.
fn below(prefix: Vec<u8>) -> Range<Vec<u8>> {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    prefix..end
}

pub fn thread_bytes(thread: &ThreadId) -> [u8; 16] {
    id_bytes(thread.as_str())
}

/// The 128 bits of an id: 26 digits of 5 bits, of which the first is below 8.
pub(crate) fn id_bytes(id: &str) -> [u8; 16] {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'h' => byte - b'a' + 10,
        b'j' | b'k' => byte - b'j' + 18,
        b'm' | b'n' => byte - b'm' + 20,
        b'p'..=b't' => byte - b'p' + 22,
        _ => byte.saturating_sub(b'v') + 27,
    };
    id.bytes().fold(0_u128, |bits, byte| bits << 5 | u128::from(digit(byte))).to_be_bytes()
}

/// The id with these 128 bits.
pub fn thread(bytes: [u8; 16]) -> ThreadId {
    let (unix_ms, random) = id_parts(bytes);
    ThreadId::from_parts(unix_ms, random)
}

/// The 48 bits of an id's time, and its random ones.
fn id_parts(bytes: [u8; 16]) -> (u64, u128) {
    let bits = u128::from_be_bytes(bytes);
    (u64::try_from(bits >> 80).unwrap_or_default(), bits)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            if byte.is_ascii_graphic() {
                text.push(char::from(*byte));
            } else {
                write!(text, "\\{byte:02x}").unwrap();
            }
            text
        })
    }

    #[test]
    fn key_bytes_stay_as_they_are() {
        let thread = ThreadId::new("01jd8x3k5mzqw7v2r9t4bcefgh").unwrap();
        let lane = LanePath::new("critic[2]").unwrap();
        let role = RoleName::new("writer").unwrap();
        let digest = Digest(std::array::from_fn(|at| u8::try_from(at).unwrap() + 0x80));
        let trunk = LanePath::trunk();
        let found = |index, lane: &LanePath| {
            let key = VisitKey { index, lane: lane.clone(), role: role.clone(), visit: 3 };
            visit(&thread, &key)
        };
        let keys = [
            ("objects  object", object(digest)),
            ("steps    step", step(&thread, 258)),
            ("index    place", place(digest, &thread, 258)),
            ("index    visit", found(VisitIndex::Steps, &lane)),
            ("index    visit", found(VisitIndex::Steps, &trunk)),
            ("index    compaction", found(VisitIndex::Compactions, &lane)),
            ("notes    note", note(&thread, 258)),
            ("threads  row", row(&thread)),
            ("threads  lane", self::lane(&thread, &lane)),
            ("threads  list", list(&thread, 258)),
            ("threads  batch", batch(&BatchId::new(thread.as_str()).unwrap())),
            ("threads  line of a batch", batch_line(&BatchId::new(thread.as_str()).unwrap(), 258)),
            ("journal  record", record(&thread, &lane, 7)),
            ("hooks    value", hook("log", b"k1").unwrap()),
            ("meta     format", FORMAT.to_vec()),
            ("meta     ledger", LEDGER.to_vec()),
            ("meta     import", IMPORT.to_vec()),
        ];
        let page = keys.iter().map(|(name, key)| format!("{name}: {}", hex(key))).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(page);
    }

    #[test]
    fn no_key_kind_begins_with_another() {
        let kinds = [&KINDS.map(|(kind, _)| kind)[..], &[*b"me"]].concat();
        for (at, kind) in kinds.iter().enumerate() {
            assert!(!kinds.iter().skip(at + 1).any(|other| other == kind), "{kind:?} is used twice");
        }
    }

    fn any_thread() -> impl Strategy<Value = ThreadId> {
        (0..1_u64 << 48, any::<u128>()).prop_map(|(ms, random)| ThreadId::from_parts(ms, random))
    }

    proptest! {
        #[test]
        fn a_thread_id_survives_its_key_and_keys_sort_like_ids(a in any_thread(), b in any_thread()) {
            prop_assert_eq!(thread_of_row(&row(&a)), Some(a.clone()));
            prop_assert_eq!(row(&a).cmp(&row(&b)), a.cmp(&b));
        }

        #[test]
        fn steps_sort_by_number_and_stay_within_their_thread(thread in any_thread(), other in any_thread(), a: u64, b: u64) {
            prop_assert_eq!(step(&thread, a).cmp(&step(&thread, b)), a.cmp(&b));
            prop_assert!(steps(&thread, 0).contains(&step(&thread, a)));
            prop_assert_eq!(steps(&thread, 0).contains(&step(&other, a)), thread == other);
            prop_assert_eq!(seq(&step(&thread, a)), Some(a));
        }

        #[test]
        fn a_lane_survives_its_key_and_a_page_begins_behind_it(thread in any_thread(), a in 0..100_u32, b in 0..100_u32) {
            let [one, other] = [a, b].map(|index| LanePath::new(&format!("critic[{index}]")).unwrap());
            let key = lane(&thread, &one);
            prop_assert_eq!(lane_of_row(&key), Some(one.clone()));
            prop_assert_eq!(lanes(&thread, Some(&other)).contains(&key), one > other);
            prop_assert!(lanes(&thread, None).contains(&key));
            prop_assert!(!rows(None).contains(&key));
        }

        #[test]
        fn a_hook_sees_its_own_space_only(space in "[a-z\0]{0,6}", other in "[a-z\0]{0,6}", key: Vec<u8>) {
            let range = hooks(&space, b"").unwrap();
            let stored = hook(&other, &key).unwrap();
            prop_assert_eq!(range.contains(&stored), space == other);
            prop_assert_eq!(hook_key(&other, &stored), Some(key.as_slice()));
        }
    }
}
