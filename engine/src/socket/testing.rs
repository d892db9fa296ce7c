//! A holder of a store that does what a test says.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::drivers::GuestId;
use super::wire::{Answer, Ask};
use super::{frame, listen};
use crate::store::Commit;

/// What it is asked.
pub(crate) enum Told {
    /// To store a commit.
    Commit(Box<Commit>),
    /// Something else, but for what makes a guest.
    Other(Ask),
}

/// Answers beside the store in `folder` as `answer` says, until that gives nothing: then it ends at once.
pub(crate) fn serve(folder: &Path, answer: impl FnMut(Told) -> Option<Answer> + Send + 'static) -> JoinHandle<()> {
    let listener = listen(folder).unwrap();
    let answer = Arc::new(Mutex::new(answer));
    let open = Arc::new(Mutex::new(Vec::new()));
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let waker = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        for stream in waker.incoming() {
            let Ok(stream) = stream else { return };
            open.lock().unwrap().push(stream.try_clone().unwrap());
            let (answer, open, ended) = (Arc::clone(&answer), Arc::clone(&open), ended.clone());
            std::thread::spawn(move || {
                while let Ok(Some(ask)) = frame::receive::<Ask>(&stream, &mut frame::at_once) {
                    let answered = match ask {
                        Ask::Join { .. } => Some(Answer::Joined { guest: GuestId(1) }),
                        Ask::Hello { .. } => Some(Answer::Hello),
                        Ask::Commit { commit, .. } => (answer.lock().unwrap())(Told::Commit(commit)),
                        ask => (answer.lock().unwrap())(Told::Other(ask)),
                    };
                    let Some(answered) = answered else {
                        for stream in open.lock().unwrap().iter() {
                            let _ = stream.shutdown(std::net::Shutdown::Both);
                        }
                        let _ = ended.send(());
                        return;
                    };
                    frame::send(&stream, &answered, &mut frame::at_once).unwrap();
                }
            });
        }
    });
    let socket = folder.join(super::FILE);
    std::thread::spawn(move || {
        let _listener = listener;
        let _ = end.recv();
        let _ = std::fs::remove_file(socket);
    })
}
