//! Files in the place of those that a run is given. No template reads their contents.

use rondo_protocol::Value;
use rondo_protocol::file::File;

use super::SampleSize;
use super::text::{USUAL_CHARS, words};

/// A file as it stands in the input of a thread: a text with a short name, or a picture with a long one.
pub(super) fn of(extent: SampleSize) -> Value {
    match extent {
        SampleSize::Least => File::new("a.txt", *b"a").named(),
        SampleSize::Most => {
            let (name, media_type) = (format!("{}.png", words(USUAL_CHARS)), "image/png".to_owned());
            File { name, media_type, bytes: [0_u8].into() }.named()
        }
    }
}
