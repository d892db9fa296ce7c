use proptest::prelude::*;

use super::super::output::Output;
use super::super::plan::Streams;
use super::*;
use crate::redact::Redactor;

fn apart(max_bytes: usize) -> Output {
    Output::new(Streams::Apart, max_bytes, &Redactor::default())
}

/// Reads the frames of `pipe`, received in pieces of `cut` bytes, into `apart`.
fn received(apart: &mut Output, pipe: &[u8], cut: usize) -> io::Result<()> {
    let mut received = Received::default();
    for bytes in pipe.chunks(cut) {
        received.bytes.extend_from_slice(bytes);
        while let Some(frame) = received.next()? {
            if let Frame::Part(stream, part) = frame {
                apart.take(stream, &part);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn both_streams_come_out_as_they_went_in_however_they_were_cut(
        parts in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
        cut in 1_usize..9,
    ) {
        let mut pipe = Vec::new();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for (is_stdout, part) in &parts {
            let (stream, all) =
                if *is_stdout { (Stream::Stdout, &mut stdout) } else { (Stream::Stderr, &mut stderr) };
            pipe.extend(frame(stream, part).unwrap());
            all.extend_from_slice(part);
        }
        let mut apart = apart(1 << 20);
        received(&mut apart, &pipe, cut).unwrap();
        let both = u64::try_from(stdout.len() + stderr.len()).unwrap();
        prop_assert!(!apart.is_full(both) && (both == 0 || apart.is_full(both - 1)));
        let (out, err) = apart.into_streams();
        prop_assert_eq!(out, stdout);
        let mut text = self::apart(0);
        text.take(Stream::Stderr, &stderr);
        prop_assert_eq!(err, text.into_streams().1);
    }

    #[test]
    fn whatever_comes_is_taken_or_is_a_fault(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut apart = apart(64);
        let _ = received(&mut apart, &bytes, 7);
        let (stdout, stderr) = apart.into_streams();
        prop_assert!(stdout.len() <= 64 && stderr.len() <= 64 << 10);
    }
}

#[test]
fn a_byte_too_many_on_stdout_is_a_flood_and_a_long_frame_is_broken() {
    let mut full = apart(3);
    full.take(Stream::Stdout, b"abc");
    assert!(!full.is_full(100));
    full.take(Stream::Stdout, b"d");
    assert!(full.is_full(100));

    let mut apart = apart(3);
    assert!(received(&mut apart, &[1, 0xFF, 0xFF, 0xFF, 0xFF, 0], 6).is_err());
    assert!(received(&mut apart, &[4, 0, 0, 0, 1, 0], 6).is_err());
    assert!(received(&mut apart, &[3, 0, 0, 0, 0], 5).is_err(), "a connection without its socket");
}
