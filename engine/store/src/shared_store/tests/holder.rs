//! A scripted holder of a store.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::super::drivers::ClientId;
use super::super::frame;
use super::super::message::{Request, Response};
use super::super::socket::{self, listen};

/// Responds at the store in `folder` with `respond`, until that returns nothing; then it ends at once.
pub(super) fn serve(
    folder: &Path,
    respond: impl FnMut(Request) -> Option<Response> + Send + 'static,
) -> JoinHandle<()> {
    let listener = listen(folder).unwrap();
    let respond = Arc::new(Mutex::new(respond));
    let open = Arc::new(Mutex::new(Vec::new()));
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let waker = listener.try_clone().unwrap();
    std::thread::spawn(move || {
        for stream in waker.incoming() {
            let Ok(stream) = stream else { return };
            open.lock().unwrap().push(stream.try_clone().unwrap());
            let (respond, open, ended) = (Arc::clone(&respond), Arc::clone(&open), ended.clone());
            std::thread::spawn(move || {
                while let Ok(Some((_, request))) = frame::receive::<(ClientId, Request)>(&stream, &mut frame::at_once) {
                    let response = match request {
                        Request::Join { .. } => Some(Response::Joined(ClientId(1))),
                        Request::Hello { .. } => Some(Response::Done),
                        request => (respond.lock().unwrap())(request),
                    };
                    let Some(response) = response else {
                        for stream in open.lock().unwrap().iter() {
                            let _ = stream.shutdown(std::net::Shutdown::Both);
                        }
                        let _ = ended.send(());
                        return;
                    };
                    frame::send(&stream, &response, &mut frame::at_once).unwrap();
                }
            });
        }
    });
    let socket = folder.join(socket::FILE);
    let inode = std::fs::metadata(&socket).unwrap().ino();
    std::thread::spawn(move || {
        let _listener = listener;
        let _ = end.recv();
        // The next holder may have replaced it.
        if std::fs::metadata(&socket).is_ok_and(|now| now.ino() == inode) {
            let _ = std::fs::remove_file(socket);
        }
    })
}
