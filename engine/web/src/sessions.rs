//! Sessions of browsers. They live in memory: a server that starts anew knows none.
//!
//! A session begins with the token, or with a code that works once. Its key goes in the header `Authorization` of each
//! request, so that no other port and no other site is ever sent it, as cookies would be.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rondo::failure::Failure;
use rondo::protocol::Digest;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::access::drawn;

const CODE_LASTS: Duration = Duration::from_mins(10);

/// How long a session lasts without a request, and at most.
const SESSION_RESTS: Duration = Duration::from_hours(12);
const SESSION_LASTS: Duration = Duration::from_hours(7 * 24);

/// The most codes and sessions at once; another one takes the place of the oldest.
const MAX_CODES: usize = 16;
const MAX_SESSIONS: usize = 64;

/// The sessions of a server. Keys and codes are kept as digests, whose comparison tells nothing about them.
#[derive(Default)]
pub struct Sessions(Mutex<Known>);

#[derive(Default)]
struct Known {
    codes: Vec<(Digest, Instant)>,
    /// The least recently used first.
    sessions: Vec<Session>,
}

struct Session {
    key: Digest,
    begun: Instant,
    used: Instant,
    /// Cancelled when the session is dropped.
    ended: CancellationToken,
    _end: DropGuard,
}

impl Sessions {
    pub fn code(&self, now: Instant) -> Result<String, Failure> {
        let code = drawn()?;
        let codes = &mut self.0.lock().codes;
        if codes.len() >= MAX_CODES {
            codes.remove(0);
        }
        codes.push((Digest::sha256(code.as_bytes()), now));
        Ok(code)
    }

    /// Uses a code up. Returns whether it was one.
    pub fn take_code(&self, code: &str, now: Instant) -> bool {
        let given = Digest::sha256(code.as_bytes());
        let codes = &mut self.0.lock().codes;
        codes.retain(|(_, drawn)| now.duration_since(*drawn) < CODE_LASTS);
        let before = codes.len();
        codes.retain(|(code, _)| *code != given);
        codes.len() < before
    }

    pub fn begin(&self, now: Instant) -> Result<String, Failure> {
        let key = drawn()?;
        let ended = CancellationToken::new();
        let session = Session {
            key: Digest::sha256(key.as_bytes()),
            begun: now,
            used: now,
            _end: ended.clone().drop_guard(),
            ended,
        };
        let sessions = &mut self.0.lock().sessions;
        if sessions.len() >= MAX_SESSIONS {
            sessions.remove(0);
        }
        sessions.push(session);
        Ok(key)
    }

    /// Whether a key is that of a session. Returns what is cancelled when that ends.
    pub fn admit(&self, key: &str, now: Instant) -> Option<CancellationToken> {
        let given = Digest::sha256(key.as_bytes());
        let sessions = &mut self.0.lock().sessions;
        let is_open = |session: &mut Session| {
            now.duration_since(session.used) < SESSION_RESTS && now.duration_since(session.begun) < SESSION_LASTS
        };
        sessions.retain_mut(is_open);
        let at = sessions.iter().position(|session| session.key == given)?;
        let session = Session { used: now, ..sessions.remove(at) };
        let ended = session.ended.clone();
        sessions.push(session);
        Some(ended)
    }

    pub fn end(&self, key: &str) {
        let given = Digest::sha256(key.as_bytes());
        self.0.lock().sessions.retain(|session| session.key != given);
    }

    pub fn end_all(&self) {
        *self.0.lock() = Known::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_begins_one_session_within_ten_minutes() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let code = sessions.code(now).unwrap();
        assert!(!sessions.take_code("another", now));
        assert!(sessions.take_code(&code, now + CODE_LASTS / 2));
        assert!(!sessions.take_code(&code, now), "it works once");
        let late = sessions.code(now).unwrap();
        assert!(!sessions.take_code(&late, now + CODE_LASTS));
        let codes: Vec<String> = (0..=MAX_CODES).map(|_| sessions.code(now).unwrap()).collect();
        assert!(!sessions.take_code(&codes[0], now), "the oldest gave way");
        assert!(codes[1..].iter().all(|code| sessions.take_code(code, now)));
    }

    #[test]
    fn a_session_ends_when_it_rests_too_long_is_too_old_or_is_revoked() {
        let (sessions, begun) = (Sessions::default(), Instant::now());
        let (key, other) = (sessions.begin(begun).unwrap(), sessions.begin(begun).unwrap());
        assert!(sessions.admit("none", begun).is_none());
        let ended = sessions.admit(&key, begun).unwrap();
        sessions.end(&key);
        assert!(ended.is_cancelled() && sessions.admit(&key, begun).is_none());
        let mut now = begun;
        while now.duration_since(begun) + SESSION_RESTS / 2 < SESSION_LASTS {
            now += SESSION_RESTS / 2;
            assert!(sessions.admit(&other, now).is_some(), "it is in use");
        }
        assert!(sessions.admit(&other, begun + SESSION_LASTS).is_none());
        let resting = sessions.begin(now).unwrap();
        assert!(sessions.admit(&resting, now + SESSION_RESTS).is_none());
        let first = sessions.begin(now).unwrap();
        let more: Vec<String> = (0..MAX_SESSIONS).map(|_| sessions.begin(now).unwrap()).collect();
        assert!(sessions.admit(&first, now).is_none(), "the oldest gave way");
        sessions.end_all();
        assert!(sessions.admit(&more[0], now).is_none());
    }
}
