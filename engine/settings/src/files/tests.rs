use std::os::unix::fs::symlink;

use super::*;

#[test]
fn a_workflow_reads_its_own_folder_and_nothing_else() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("prompts")).unwrap();
    std::fs::write(folder.path().join("prompts/a.md"), "text").unwrap();
    symlink("prompts/a.md", folder.path().join("inside")).unwrap();
    symlink(outside.path().join("secret"), folder.path().join("outside")).unwrap();
    symlink(outside.path(), folder.path().join("away")).unwrap();
    let files = FolderFiles::new(folder.path());
    assert_eq!(files.read("prompts/a.md", 10), Ok("text".to_owned()));
    assert_eq!(files.read("./inside", 10), Ok("text".to_owned()));
    let absolute = outside.path().join("secret").to_string_lossy().into_owned();
    for bad in ["outside", "away/secret", "../secret", "prompts/../../x", absolute.as_str()] {
        assert_eq!(files.read(bad, 10), Err(FileError::Outside), "{bad}");
    }
    for bad in ["none", "", "prompts"] {
        assert!(files.read(bad, 10).is_err(), "{bad}");
    }
}

#[test]
fn pipes_and_devices_do_not_block() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let refused = FileError::Refused("it is a pipe or a device, not a plain file".to_owned());
    assert_eq!(read_bounded(&pipe, 10), Err(refused.clone()));
    assert_eq!(read_bounded(Path::new("/dev/zero"), 10), Err(refused.clone()));
    assert_eq!(FolderFiles::new(folder.path()).read("pipe", 10), Err(refused));
}

#[test]
fn a_pipe_that_is_named_is_read_if_somebody_writes_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let written = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::write(pipe, "text"))
    };
    assert_eq!(read_named(&pipe, 10), Ok("text".to_owned()));
    written.join().unwrap().unwrap();
    assert_eq!(read_named(&pipe, 10), Err(FileError::Refused("it is a pipe, and nobody writes to it".to_owned())));
    assert_eq!(read_named(Path::new("/dev/null"), 10), Ok(String::new()));
    assert_eq!(read_named(folder.path(), 10), Err(is_a_folder()));
}

#[test]
fn size_and_encoding_are_held() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "12345").unwrap();
    assert_eq!(read_bounded(&file, 5), Ok("12345".to_owned()));
    assert_eq!(read_bounded(&file, 4), Err(FileError::TooLarge(4)));
    std::fs::write(&file, b"ab\xff").unwrap();
    assert_eq!(read_bounded(&file, 5), Err(FileError::NotText { line: 1, byte: 0xff, mend: "mend that line" }));
}
