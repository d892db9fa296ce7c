//! The records of a shelf in its backing: key bytes and value formats of version 1.
//!
//! | key | value |
//! |---|---|
//! | `b\|` key | version, payload |
//! | `c\|` key | version, sequence, time kept, 0 or 1 and time of expiry, payload length, role, tool, about, sum, check |
//! | `f\|` SHA-256 of the label | version, role, tool, one number a figure, check |
//!
//! Numbers are 8 bytes, big-endian; texts and `about` follow their length in 2 bytes. The *sum* is SHA-256 over
//! `shelf entry\n`, the key, how many bytes of the card stand before the sum, these, and the payload. The *check* is
//! the first 16 bytes of SHA-256 over the record's key and all of the record before it. So a card is checked when it is
//! read, and a payload against its card. A first byte above the version is a newer version's record, of which nothing
//! else is known.
//!
//! Payloads stand before cards and cards before figures, so that reading on behind the last card or the last figure
//! comes upon no payload.

use sha2::{Digest as _, Sha256};

use super::entry::{Card, Key, Label};
use super::figures::{Counts, FIGURES};

/// What the first byte of each record says.
const VERSION: u8 = 1;
/// The most bytes of `about`.
pub(super) const ABOUT_MAX_BYTES: usize = 4096;
/// Sequences end here, so that counting on from one that was read never overflows.
const SEQUENCE_MAX: u64 = 1 << 62;
const SUM_BYTES: usize = 32;
const CHECK_BYTES: usize = 16;
/// Both keys of an entry, prefixes included, and the version byte of its payload.
const OVERHEAD_BYTES: u64 = 2 * 34 + 1;

/// What keys of cards begin with.
pub(super) const CARDS: &[u8] = b"c|";
/// What keys of payloads begin with.
pub(super) const PAYLOADS: &[u8] = b"b|";
/// What keys of figures begin with.
pub(super) const FIGURE_RECORDS: &[u8] = b"f|";

/// Why a record gives nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// A newer version wrote it.
    Newer,
    /// It is not what was written.
    Damaged,
}

/// The two records of an entry, as they are written.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) card: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// The key of a card.
pub(super) fn card_key(key: &Key) -> Vec<u8> {
    [CARDS, &key.0].concat()
}

/// The key of a payload.
pub(super) fn payload_key(key: &Key) -> Vec<u8> {
    [PAYLOADS, &key.0].concat()
}

/// The key of a label's figures.
pub(super) fn figures_key(label: &Label) -> Vec<u8> {
    let mut named = Vec::new();
    put_bytes(&mut named, label.role().as_bytes());
    put_bytes(&mut named, label.tool().as_bytes());
    [FIGURE_RECORDS, Sha256::digest(&named).as_slice()].concat()
}

/// The key of an entry, of the key of one of its records.
pub(super) fn entry_key(record_key: &[u8]) -> Option<Key> {
    record_key.get(2..)?.try_into().ok().map(Key)
}

/// Seals an entry: its card with sum and size filled in, and both records.
pub(super) fn seal(key: &Key, mut card: Card, payload: &[u8]) -> (Card, Records) {
    let mut bytes = fields(&card);
    card.sum = sum(key, &bytes, payload);
    bytes.extend_from_slice(&card.sum);
    let check = check(&card_key(key), &bytes);
    bytes.extend_from_slice(&check);
    card.size_bytes = size_bytes(bytes.len(), card.payload_bytes);
    let mut record = Vec::with_capacity(payload.len().saturating_add(1));
    record.push(VERSION);
    record.extend_from_slice(payload);
    (card, Records { card: bytes, payload: record })
}

/// Reads a card.
pub(super) fn read_card(key: &Key, record: &[u8]) -> Result<Card, Unusable> {
    let body = checked(&card_key(key), record)?;
    card(body, record.len()).ok_or(Unusable::Damaged)
}

fn card(body: &[u8], record_len: usize) -> Option<Card> {
    let mut rest = Rest(body);
    let sequence = rest.number().filter(|sequence| *sequence < SEQUENCE_MAX)?;
    let kept_at_ms = rest.number()?;
    let ends = rest.take(1)? != [0];
    let expires_at_ms = Some(rest.number()?).filter(|_| ends);
    let payload_bytes = rest.number()?;
    let label = rest.label()?;
    let about = rest.bytes()?.to_vec();
    let sum = rest.take(SUM_BYTES)?.try_into().ok()?;
    let size_bytes = size_bytes(record_len, payload_bytes);
    let card = Card { label, kept_at_ms, expires_at_ms, payload_bytes, about, size_bytes, sequence, sum };
    rest.0.is_empty().then_some(card)
}

/// The payload in a record, if it is the one that the card was sealed with.
pub(super) fn read_payload<'a>(key: &Key, card: &Card, record: &'a [u8]) -> Result<&'a [u8], Unusable> {
    match record.split_first() {
        Some((&VERSION, payload)) if sum(key, &fields(card), payload) == card.sum => Ok(payload),
        Some((&version, _)) if version > VERSION => Err(Unusable::Newer),
        _ => Err(Unusable::Damaged),
    }
}

/// A card's record up to its sum.
fn fields(card: &Card) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    bytes.push(VERSION);
    put_number(&mut bytes, card.sequence);
    put_number(&mut bytes, card.kept_at_ms);
    bytes.push(u8::from(card.expires_at_ms.is_some()));
    put_number(&mut bytes, card.expires_at_ms.unwrap_or(0));
    put_number(&mut bytes, card.payload_bytes);
    put_bytes(&mut bytes, card.label.role().as_bytes());
    put_bytes(&mut bytes, card.label.tool().as_bytes());
    put_bytes(&mut bytes, &card.about);
    bytes
}

fn size_bytes(card_len: usize, payload_bytes: u64) -> u64 {
    payload_bytes.saturating_add(card_len as u64).saturating_add(OVERHEAD_BYTES)
}

/// The record of a label's figures.
pub(super) fn write_figures(label: &Label, counts: &Counts) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put_bytes(&mut bytes, label.role().as_bytes());
    put_bytes(&mut bytes, label.tool().as_bytes());
    counts.numbers().iter().for_each(|number| put_number(&mut bytes, *number));
    let check = check(&figures_key(label), &bytes);
    bytes.extend_from_slice(&check);
    bytes
}

/// Reads a label's figures.
pub(super) fn read_figures(record_key: &[u8], record: &[u8]) -> Result<(Label, Counts), Unusable> {
    let mut rest = Rest(checked(record_key, record)?);
    let label = rest.label().ok_or(Unusable::Damaged)?;
    let mut numbers = [0; FIGURES];
    for number in &mut numbers {
        *number = rest.number().ok_or(Unusable::Damaged)?;
    }
    if rest.0.is_empty() { Ok((label, Counts::new(numbers))) } else { Err(Unusable::Damaged) }
}

/// What stands between a record's version and its check.
fn checked<'a>(record_key: &[u8], record: &'a [u8]) -> Result<&'a [u8], Unusable> {
    let (&version, _) = record.split_first().ok_or(Unusable::Damaged)?;
    if version > VERSION {
        return Err(Unusable::Newer);
    }
    let end = record.len().checked_sub(CHECK_BYTES).ok_or(Unusable::Damaged)?;
    let (sealed, stored) = record.split_at_checked(end).ok_or(Unusable::Damaged)?;
    match sealed.split_first() {
        Some((&VERSION, body)) if check(record_key, sealed) == stored => Ok(body),
        _ => Err(Unusable::Damaged),
    }
}

fn sum(key: &Key, fields: &[u8], payload: &[u8]) -> [u8; SUM_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"shelf entry\n");
    hash.update(key.0);
    hash.update((fields.len() as u64).to_be_bytes());
    hash.update(fields);
    hash.update(payload);
    hash.finalize().into()
}

fn check(record_key: &[u8], bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hash = Sha256::new();
    hash.update(record_key);
    hash.update(bytes);
    let whole: [u8; 32] = hash.finalize().into();
    let mut first = [0; CHECK_BYTES];
    first.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
    first
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_be_bytes());
}

/// Labels and `about` are far shorter than the length can say.
fn put_bytes(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend_from_slice(text);
}

/// What is left to read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.take(2)?.try_into().ok().map(u16::from_be_bytes)?;
        self.take(usize::from(len))
    }

    fn label(&mut self) -> Option<Label> {
        let role = str::from_utf8(self.bytes()?).ok()?;
        let tool = str::from_utf8(self.bytes()?).ok()?;
        Some(Label::new(role, tool))
    }
}
