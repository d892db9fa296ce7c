//! The halves of a character in the JSON of a server: an escape such as `\ud83d` means a character only together with its
//! other half (RFC 8259, 8.2). Some servers cut a character into two pieces, each in an event of its own.
//!
//! Laws: a half at the end of a text and one at the beginning of a text in the next event are joined; any other becomes
//! U+FFFD; all else stays as it came. At most one event is held back.

/// The length of an escape, `\ud83d`.
const ESCAPE: usize = 6;

/// U+FFFD, as an escape.
const REPLACEMENT: &str = "\\ufffd";

/// The events of a stream, of which one may wait for the next.
#[derive(Debug, Default)]
pub(super) struct Halves {
    held: Option<String>,
}

impl Halves {
    /// The bytes that wait for the next event.
    pub(super) fn pending_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, String::len)
    }

    /// Takes the next event. Returns the events that can be read now.
    pub(super) fn push(&mut self, mut event: String) -> impl Iterator<Item = String> + use<> {
        let before = self.held.take().map(|mut held| {
            let from = lone(&held).into_iter().rfind(|half| half.ends_text(&held));
            let to = lone(&event).into_iter().find(|half| half.begins_text(&event));
            if let (Some(from), Some(to)) = (from, to) {
                let high: String = held.drain(from.at..from.at + ESCAPE).collect();
                event.insert_str(to.at, &high);
            }
            mended(held)
        });
        let is_open = lone(&event).iter().any(|half| half.ends_text(&event));
        let now = if is_open {
            self.held = Some(event);
            None
        } else {
            Some(mended(event))
        };
        before.into_iter().chain(now)
    }

    /// The event that waited for another.
    pub(super) fn end(&mut self) -> Option<String> {
        self.held.take().map(mended)
    }
}

/// JSON in which no half stands alone.
pub(super) fn mended(mut json: String) -> String {
    for Half { at, .. } in lone(&json) {
        json.replace_range(at..at + ESCAPE, REPLACEMENT);
    }
    json
}

#[derive(Debug, Clone, Copy)]
struct Half {
    at: usize,
    is_first: bool,
}

impl Half {
    fn at(json: &str, at: usize) -> Option<Self> {
        let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
        match u16::from_str_radix(digits, 16).ok()? {
            0xd800..=0xdbff => Some(Self { at, is_first: true }),
            0xdc00..=0xdfff => Some(Self { at, is_first: false }),
            _ => None,
        }
    }

    fn ends_text(self, json: &str) -> bool {
        self.is_first && json.as_bytes().get(self.at + ESCAPE) == Some(&b'"')
    }

    fn begins_text(self, json: &str) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| json.as_bytes().get(at));
        !self.is_first && before == Some(&b'"')
    }
}

/// The halves that stand alone, in their order.
fn lone(json: &str) -> Vec<Half> {
    let (mut all, mut at) = (Vec::new(), 0);
    while let Some(found) = json.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        at += match (Half::at(json, at), Half::at(json, at + ESCAPE)) {
            (Some(Half { is_first: true, .. }), Some(Half { is_first: false, .. })) => 2 * ESCAPE,
            (Some(half), _) => {
                all.push(half);
                ESCAPE
            }
            // The character behind a backslash belongs to it.
            (None, _) => 2,
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(events: &[&str]) -> Vec<String> {
        let mut halves = Halves::default();
        let mut read: Vec<String> = events.iter().flat_map(|event| halves.push((*event).to_owned())).collect();
        read.extend(halves.end());
        read
    }

    #[test]
    fn what_is_whole_stays_as_it_came() {
        for event in
            [r#"{"a":"\ud83d\ude00 \u00e9 😀","b":"\\ud83d"}"#, r#""\\\\ud83d""#, "[DONE]", "", "\\", "\\é", "\\u"]
        {
            assert_eq!(read(&[event]), [event]);
        }
    }

    #[test]
    fn a_lone_half_is_replaced_and_nothing_else_is_lost() {
        for (event, wanted) in [
            (r#"{"a":"x\ud83d y"}"#, r#"{"a":"x\ufffd y"}"#),
            (r#"{"a":"x\uD83D"}"#, r#"{"a":"x\ufffd"}"#),
            (r#"{"a":"\ude00\ud83d\ud83d\ude00"}"#, r#"{"a":"\ufffd\ufffd\ud83d\ude00"}"#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
        ] {
            assert_eq!(read(&[event]), [wanted]);
        }
        assert_eq!(read(&[r#""\ud83d""#, r#""x""#, r#""\ude00""#]), [r#""\ufffd""#, r#""x""#, r#""\ufffd""#]);
    }

    #[test]
    fn the_halves_of_two_events_are_joined() {
        let events = [r#"{"a":"x\ud83d"}"#, r#"{"a":"\ude00y\ud83d"}"#, r#"{"a":"\ude01"}"#, "[DONE]"];
        let wanted = [r#"{"a":"x"}"#, r#"{"a":"\ud83d\ude00y"}"#, r#"{"a":"\ud83d\ude01"}"#, "[DONE]"];
        assert_eq!(read(&events), wanted);
    }
}
