//! The records of a cache in its table: key bytes and value formats of version 2.
//!
//! | key | value |
//! |---|---|
//! | `b\|` key | version, payload |
//! | `c\|` key | version, sequence, time kept, 0 or 1 and time of expiry, payload length, role, tool, about, tag, check |
//! | `f\|` SHA-256 of the label | version, role, tool, one number a metric, check |
//!
//! Numbers are 8 bytes, big-endian; texts and `about` follow their length in 2 bytes. *Tag* and *check* are HMAC-SHA256 by
//! the user's secret: the tag over `cache entry\n`, the key, how many bytes of the entry stand before the tag, these, and
//! the payload; the check, cut to 16 bytes, over the record's key and all of the record before it. So an entry is checked
//! when a cache is opened, and a payload against its entry when it is read. A record of another version is a foreign one.
//!
//! Payloads stand before entries and entries before metrics, so that reading on behind the last entry or the last metric
//! comes upon no payload.

use rondo_core::secret::Secret;
use rondo_core::store::codec::Fields;
use sha2::{Digest as _, Sha256};

use super::entry::{Entry, Key, Label};
use super::metrics::{Counts, METRICS};

/// What the first byte of each record says.
const VERSION: u8 = 2;
/// The most bytes of a caller's own on an entry.
pub(crate) const ABOUT_MAX_BYTES: usize = 4096;
/// Sequences end here, so that counting on from one that was read never overflows.
const SEQUENCE_MAX: u64 = 1 << 62;
const TAG_BYTES: usize = 32;
const CHECK_BYTES: usize = 16;
/// Both keys of an entry, prefixes included, and the version byte of its payload.
const OVERHEAD_BYTES: u64 = 2 * 34 + 1;

/// What keys of entries begin with.
pub(super) const ENTRIES: &[u8] = b"c|";
pub(super) const PAYLOADS: &[u8] = b"b|";
pub(super) const METRIC_RECORDS: &[u8] = b"f|";

/// The two records of an entry, as they are written.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) entry: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

pub(super) fn entry_key(key: &Key) -> Vec<u8> {
    [ENTRIES, &key.0].concat()
}

pub(super) fn payload_key(key: &Key) -> Vec<u8> {
    [PAYLOADS, &key.0].concat()
}

pub(super) fn metrics_key(label: &Label) -> Vec<u8> {
    let mut named = Vec::new();
    put_bytes(&mut named, label.role().as_bytes());
    put_bytes(&mut named, label.tool().as_bytes());
    [METRIC_RECORDS, Sha256::digest(&named).as_slice()].concat()
}

/// The key of an entry, of the key of one of its records.
pub(super) fn key_of(record_key: &[u8]) -> Option<Key> {
    record_key.get(2..)?.try_into().ok().map(Key)
}

/// Seals an entry: itself with tag and size filled in, and both records.
pub(super) fn seal(secret: &Secret, key: &Key, mut entry: Entry, payload: &[u8]) -> (Entry, Records) {
    let mut bytes = fields(&entry);
    entry.tag = tag(secret, key, &bytes, payload);
    bytes.extend_from_slice(&entry.tag);
    let record = close(secret, &entry_key(key), bytes);
    entry.size_bytes = size_bytes(record.len(), entry.payload_bytes);
    (entry, Records { entry: record, payload: [&[VERSION], payload].concat() })
}

/// Reads an entry, if it is what was written.
pub(super) fn read_entry(secret: &Secret, key: &Key, record: &[u8]) -> Option<Entry> {
    let mut fields = Fields { rest: checked(secret, &entry_key(key), record)? };
    let sequence = fields.u64().filter(|sequence| *sequence < SEQUENCE_MAX)?;
    let kept_at_ms = fields.u64()?;
    let ends = fields.u8()? != 0;
    let expires_at_ms = Some(fields.u64()?).filter(|_| ends);
    let payload_bytes = fields.u64()?;
    let label = read_label(&mut fields)?;
    let about = read_bytes(&mut fields)?.to_vec();
    let tag = fields.array()?;
    let size_bytes = size_bytes(record.len(), payload_bytes);
    let entry = Entry { label, kept_at_ms, expires_at_ms, payload_bytes, about, size_bytes, sequence, tag };
    fields.rest.is_empty().then_some(entry)
}

/// The payload in a record, if it is the one that the entry was sealed with.
pub(super) fn read_payload<'a>(secret: &Secret, key: &Key, entry: &Entry, record: &'a [u8]) -> Option<&'a [u8]> {
    let payload = record.strip_prefix(&[VERSION])?;
    (tag(secret, key, &fields(entry), payload) == entry.tag).then_some(payload)
}

/// An entry's record up to its tag.
fn fields(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    bytes.push(VERSION);
    put_number(&mut bytes, entry.sequence);
    put_number(&mut bytes, entry.kept_at_ms);
    bytes.push(u8::from(entry.expires_at_ms.is_some()));
    put_number(&mut bytes, entry.expires_at_ms.unwrap_or(0));
    put_number(&mut bytes, entry.payload_bytes);
    put_bytes(&mut bytes, entry.label.role().as_bytes());
    put_bytes(&mut bytes, entry.label.tool().as_bytes());
    put_bytes(&mut bytes, &entry.about);
    bytes
}

fn size_bytes(record_len: usize, payload_bytes: u64) -> u64 {
    payload_bytes.saturating_add(record_len as u64).saturating_add(OVERHEAD_BYTES)
}

pub(super) fn write_metrics(secret: &Secret, label: &Label, numbers: &[u64; METRICS]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put_bytes(&mut bytes, label.role().as_bytes());
    put_bytes(&mut bytes, label.tool().as_bytes());
    for number in numbers {
        put_number(&mut bytes, *number);
    }
    close(secret, &metrics_key(label), bytes)
}

/// Reads a label's metrics, if they are what was written.
pub(super) fn read_metrics(secret: &Secret, record_key: &[u8], record: &[u8]) -> Option<(Label, Counts)> {
    let mut fields = Fields { rest: checked(secret, record_key, record)? };
    let label = read_label(&mut fields)?;
    let mut numbers = [0; METRICS];
    for number in &mut numbers {
        *number = fields.u64()?;
    }
    fields.rest.is_empty().then(|| (label, Counts::new(numbers)))
}

fn close(secret: &Secret, record_key: &[u8], mut record: Vec<u8>) -> Vec<u8> {
    let check = secret.tag_of(&[record_key, &record]);
    record.extend(check.into_iter().take(CHECK_BYTES));
    record
}

/// The bytes between a record's version and its check.
fn checked<'a>(secret: &Secret, record_key: &[u8], record: &'a [u8]) -> Option<&'a [u8]> {
    let (sealed, stored) = record.split_at_checked(record.len().checked_sub(CHECK_BYTES)?)?;
    let body = sealed.strip_prefix(&[VERSION])?;
    secret.tag_of(&[record_key, sealed]).starts_with(stored).then_some(body)
}

fn tag(secret: &Secret, key: &Key, fields: &[u8], payload: &[u8]) -> [u8; TAG_BYTES] {
    secret.tag_of(&[b"cache entry\n", &key.0, &(fields.len() as u64).to_be_bytes(), fields, payload])
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes());
}

/// Labels and `about` are far shorter than the length can say.
fn put_bytes(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend_from_slice(text);
}

fn read_bytes<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let length = u16::from_be_bytes(fields.array()?);
    let (bytes, rest) = fields.rest.split_at_checked(usize::from(length))?;
    fields.rest = rest;
    Some(bytes)
}

fn read_label(fields: &mut Fields<'_>) -> Option<Label> {
    let role = str::from_utf8(read_bytes(fields)?).ok()?;
    let tool = str::from_utf8(read_bytes(fields)?).ok()?;
    Some(Label::new(role, tool))
}
