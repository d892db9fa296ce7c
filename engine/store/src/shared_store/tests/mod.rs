mod holder;
mod store;

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;

use super::drivers::Drivers;
use super::message::{Request, Response, VERSION};
use super::socket::{FILE, connect, listen};
use super::*;
use crate::CancelOutcome;

/// Longer than any test.
const FOREVER: Duration = Duration::from_hours(1);

fn join(folder: &Path) -> Result<UnixStream, io::Error> {
    connect(folder)
}

#[test]
fn the_socket_is_for_its_user_alone_and_one_that_was_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a".repeat(60)).join("b".repeat(60));
    std::fs::create_dir_all(&deep).unwrap();
    for folder in [folder.path(), &deep] {
        let left = listen(folder).unwrap();
        drop(left);
        assert!(join(folder).is_err(), "nobody listens");
        let listener = listen(folder).unwrap();
        let mode = std::fs::metadata(folder.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(join(folder).is_ok() && listener.accept().is_ok());
    }
}

#[test]
fn frames_go_both_ways_whatever_their_size_and_end_with_the_connection() {
    let (left, right) = UnixStream::pair().unwrap();
    let (sender, received) = mpsc::channel();
    let reading = std::thread::spawn(move || {
        while let Ok(Some(text)) = frame::receive::<String>(&right, &mut frame::at_once) {
            sender.send(text.len()).unwrap();
        }
    });
    for length in [0, 1, 70_000, 17 << 20] {
        frame::send(&left, &"x".repeat(length), &mut frame::at_once).unwrap();
        assert_eq!(received.recv(), Ok(length));
    }
    drop(left);
    reading.join().unwrap();
}

#[test]
fn a_length_that_is_not_true_and_bytes_that_are_no_message_are_refused() {
    use std::io::Write as _;
    for bytes in [&[0xff, 0xff, 0xff, 0xff, 1][..], &[0, 0, 0, 2, b'{', b'}'], &[0, 0, 0, 1, b'"']] {
        let (mut left, right) = UnixStream::pair().unwrap();
        left.write_all(bytes).unwrap();
        let refused = frame::receive::<String>(&right, &mut frame::at_once).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
    }
    let (mut left, right) = UnixStream::pair().unwrap();
    left.write_all(&[0, 0, 0, 9, b'"']).unwrap();
    drop(left);
    assert_eq!(frame::receive::<String>(&right, &mut frame::at_once).unwrap(), None, "cut off");
}

#[test]
fn whoever_does_not_answer_is_given_up() {
    let (left, _right) = UnixStream::pair().unwrap();
    left.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    frame::send(&left, &Request::Hello { version: VERSION.to_owned() }, &mut frame::at_once).unwrap();
    let silent = frame::receive::<Response>(&left, &mut frame::at_once).unwrap_err();
    assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_thread_is_driven_by_one_and_by_nobody_once_that_is_gone() {
    let drivers = Drivers::default();
    let thread = rondo_protocol::id::ThreadId::from_parts(1, 2);
    let (sender, told) = mpsc::channel();
    let client = drivers.join(Box::new(move |thread| sender.send(thread.clone()).unwrap()));
    let other = drivers.join(Box::new(|_| ()));
    assert_eq!([1, 2].map(|_| drivers.take(&thread, Some(client))), [Some(true); 2]);
    assert_eq!([Some(other), None].map(|driver| drivers.take(&thread, driver)), [Some(false); 2]);
    let none = Duration::ZERO;
    assert_eq!(drivers.cancel(&thread, &|_| (), none), Some(CancelOutcome::Pending));
    assert_eq!(told.try_recv().as_ref(), Ok(&thread));
    drivers.remove(client);
    assert_eq!((drivers.all(), drivers.cancel(&thread, &|_| (), none)), (Vec::new(), Some(CancelOutcome::NotDriven)));
    assert_eq!(drivers.take(&thread, Some(client)), None, "it is gone");
    assert_eq!(drivers.take(&thread, None), Some(true));
    assert_eq!(drivers.cancel(&thread, &|thread| drivers.leave(thread, None), none), Some(CancelOutcome::Left));
    drivers.take(&thread, None);
    drivers.close();
    assert_eq!(drivers.cancel(&thread, &|_| (), FOREVER), None, "the next holder is asked");
}
