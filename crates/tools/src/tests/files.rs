//! The folder that file functions may use: nothing leads out of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use tempfile::TempDir;

use super::client_for;
use super::functions::call_function;
use crate::functions::{FunctionRegistry, UserFiles};

/// A folder `root` next to a folder with a secret, with links of every kind from the first to the second.
pub(super) fn create_folders() -> (TempDir, FunctionRegistry) {
    let base = TempDir::new().expect("a folder");
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    fs::create_dir_all(root.join("sub")).expect("folders");
    fs::create_dir_all(&outside).expect("folders");
    fs::write(outside.join("secret.txt"), "hidden").expect("a file");
    fs::write(root.join("note.txt"), "hello").expect("a file");
    fs::write(root.join("sub/inner.txt"), "inner").expect("a file");
    fs::write(root.join("bytes.bin"), [0xff, 0xfe]).expect("a file");
    symlink(outside.join("secret.txt"), root.join("link.txt")).expect("a link");
    symlink(&outside, root.join("linked")).expect("a link");
    symlink("../..", root.join("sub/up")).expect("a link");
    symlink("note.txt", root.join("inside-link")).expect("a link");
    let registry = FunctionRegistry::new(client_for(&[])).with_files(UserFiles::new(root));
    (base, registry)
}

pub(super) async fn read_file(registry: &FunctionRegistry, path: &str) -> Result<Value, StepFailure> {
    call_function(registry, "tool::file_read", &[("path", path.into())]).await
}

pub(super) async fn write_file(registry: &FunctionRegistry, path: &str, content: &str) -> Result<Value, StepFailure> {
    call_function(registry, "tool::file_write", &[("path", path.into()), ("content", content.into())]).await
}

#[tokio::test]
async fn files_below_the_folder_are_read_and_written() {
    let (base, registry) = create_folders();
    let root = base.path().join("root");
    for (path, expected) in [("note.txt", "hello"), ("./sub//inner.txt", "inner")] {
        assert_eq!(read_file(&registry, path).await.expect(path), expected.into());
    }
    let absolute = root.join("note.txt").display().to_string();
    assert_eq!(read_file(&registry, &absolute).await.expect("a path below the folder"), "hello".into());

    let result = write_file(&registry, "new/deep/é.txt", "Grüße").await.expect("written");
    assert_eq!(result, Value::map([("path", "new/deep/é.txt".into()), ("bytes", Value::from(7))]));
    assert_eq!(fs::read_to_string(root.join("new/deep/é.txt")).expect("a file"), "Grüße");

    fs::set_permissions(root.join("note.txt"), fs::Permissions::from_mode(0o600)).expect("a mode");
    write_file(&registry, "note.txt", "again").await.expect("written over");
    assert_eq!(fs::read_to_string(root.join("note.txt")).expect("a file"), "again");
    let mode = fs::metadata(root.join("note.txt")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let drafts = fs::read_dir(&root).expect("a folder").flatten();
    assert_eq!(drafts.filter(|entry| entry.file_name().to_string_lossy().ends_with(".tmp")).count(), 0);
}

#[tokio::test]
async fn several_files_are_written_at_once() {
    let (base, registry) = create_folders();
    let write = async |files: Value| call_function(&registry, "write_files", &[("files", files)]).await;
    let files = Value::map([("story/1.md", "Once".into()), ("story/2.md", Value::from("upon"))]);
    assert_eq!(write(files).await.expect("written"), "ok".into());
    let written = |path: &str| fs::read_to_string(base.path().join("root").join(path)).expect("a file");
    assert_eq!((written("story/1.md"), written("story/2.md")), ("Once".to_owned(), "upon".to_owned()));
    let outside = write(Value::map([("../outside/new.txt", Value::from("x"))])).await;
    assert_eq!(outside.expect_err("refused").code, Code::FileDenied);
    assert!(!base.path().join("outside/new.txt").exists());
    assert_eq!(write("text".into()).await.expect_err("refused").code, Code::ArgumentMissing);
}

#[tokio::test]
async fn nothing_leads_out_of_the_folder() {
    let (base, registry) = create_folders();
    let outside = base.path().join("outside/secret.txt").display().to_string();
    let paths = [
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "sub/..",
        "..",
        "/etc/passwd",
        &outside,
        "link.txt",
        "linked/secret.txt",
        "linked/new.txt",
        "sub/up/outside/secret.txt",
        "inside-link",
        "a\0b",
    ];
    for path in paths {
        let error = read_file(&registry, path).await.expect_err(path);
        assert_eq!(error.code, Code::FileDenied, "read {path:?}: {error}");
        let error = write_file(&registry, path, "overwritten").await.expect_err(path);
        assert_eq!(error.code, Code::FileDenied, "write {path:?}: {error}");
    }
    assert_eq!(fs::read_to_string(&outside).expect("a file"), "hidden");
    assert_eq!(fs::read_dir(base.path().join("outside")).expect("a folder").count(), 1);
    assert!(fs::symlink_metadata(base.path().join("root/link.txt")).expect("still there").is_symlink());
}

#[tokio::test]
async fn what_is_no_text_file_is_refused() {
    let (base, registry) = create_folders();
    let root = base.path().join("root");
    fs::File::create(root.join("large")).and_then(|file| file.set_len((10 << 20) + 1)).expect("a file");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    for path in ["sub", "missing.txt", "note.txt/x", "bytes.bin", "large", "pipe", "", "."] {
        let error = read_file(&registry, path).await.expect_err(path);
        assert_eq!(error.code, Code::FileFailed, "{path:?}: {error}");
    }
    for path in ["sub", "note.txt/x", "pipe", ""] {
        assert_eq!(write_file(&registry, path, "x").await.expect_err(path).code, Code::FileFailed, "{path:?}");
    }
    assert!(write_file(&registry, "big", &"x".repeat((10 << 20) + 1)).await.is_err());
}

#[tokio::test]
async fn without_a_folder_the_configuration_key_is_named() {
    let registry = FunctionRegistry::new(client_for(&[]));
    for result in [read_file(&registry, "x").await, write_file(&registry, "x", "y").await] {
        let error = result.expect_err("no folder");
        assert_eq!(error.code, Code::FileDenied);
        assert!(error.message.contains("files.root"), "{error}");
    }
}
