use std::os::unix::fs::symlink;

use super::*;

const OWN: Owner = Owner { id: [1; 16], tag: [2; 32] };

fn store() -> (tempfile::TempDir, std::path::PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(".rondo");
    make(&folder).unwrap();
    fs::create_dir(folder.join("db")).unwrap();
    fs::write(folder.join("db/000001.log"), "").unwrap();
    (root, folder)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_folder_is_made_for_its_owner_alone_and_closed_when_it_is_open() {
    let (_root, folder) = store();
    assert_eq!(fs::read_to_string(folder.join(".gitignore")).unwrap(), "*\n");
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(folder.join("db/000001.log"), Permissions::from_mode(0o666)).unwrap();
    make(&folder).unwrap();
    assert_eq!((mode(&folder), mode(&folder.join("db")), mode(&folder.join("db/000001.log"))), (0o700, 0o700, 0o600));
}

#[test]
fn a_store_says_whose_it_is() {
    let (root, folder) = store();
    assert_eq!(look(&root.path().join("none")), Ok(FolderState::Nothing));
    assert_eq!(look(&folder), Ok(FolderState::Store(None)));
    sign(&folder, OWN).unwrap();
    assert_eq!(look(&folder), Ok(FolderState::Store(Some(OWN))));
    for nonsense in ["", "zz\n", &OWN.to_text()[1..], "\u{e9}\u{e9}"] {
        fs::write(folder.join(OWNER), nonsense).unwrap();
        assert_eq!(look(&folder), Ok(FolderState::Store(None)), "{nonsense:?}");
    }
    assert_eq!(unsign(&folder), Ok(true));
    assert_eq!(unsign(&folder), Ok(false));
}

#[test]
fn a_store_whose_making_ended_before_it_was_signed_is_none_yet() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(".rondo");
    make(&folder).unwrap();
    for file in ["lock", NEW_OWNER] {
        fs::write(folder.join(file), "").unwrap();
        assert_eq!(look(&folder), Ok(FolderState::Nothing), "{file}");
    }
    sign(&folder, OWN).unwrap();
    assert_eq!(look(&folder), Ok(FolderState::Store(Some(OWN))));
}

#[test]
fn links_and_files_that_are_none_are_refused_wherever_they_lie() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let attempts: [&dyn Fn(&Path); 8] = [
        &|store| symlink(&victim, store.join("lock")).unwrap(),
        &|store| symlink(&victim, store.join("anchor")).unwrap(),
        &|store| symlink("/nowhere", store.join("owner")).unwrap(),
        &|store| symlink(&victim, store.join("socket")).unwrap(),
        &|store| symlink(&victim, store.join("db/CURRENT")).unwrap(),
        &|store| symlink(outside.path(), store.join("recovery-1")).unwrap(),
        &|store| fs::hard_link(&victim, store.join("db/000002.log")).unwrap(),
        &|store| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                store.join("db/000003.log"),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR,
                0,
            )
            .unwrap();
        },
    ];
    for (at, attempt) in attempts.iter().enumerate() {
        let (_root, folder) = store();
        let _ = fs::remove_file(folder.join("lock"));
        attempt(&folder);
        assert!(matches!(look(&folder), Err(Error::Unsafe { .. })), "attempt {at}");
        assert!(make(&folder).is_err(), "attempt {at}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    let root = tempfile::tempdir().unwrap();
    symlink(outside.path(), root.path().join(".rondo")).unwrap();
    assert!(matches!(make(&root.path().join(".rondo")), Err(Error::Unsafe { .. })));
}
