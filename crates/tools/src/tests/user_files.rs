//! The files of users: each has their own, with a quota, and reads those of the operator.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{EffectContext, Functions};
use tempfile::TempDir;

use super::files::{create_folders, read_file, write_file};
use super::functions::call_with_values;
use super::{NoChildEffects, client_for, test_context};
use crate::functions::{FunctionRegistry, UserFiles};

/// Calls a file function on behalf of a user.
async fn call_as(
    registry: &FunctionRegistry,
    user: &str,
    id: &str,
    arguments: &[(&str, Value)],
) -> Result<Value, StepFailure> {
    let context = EffectContext { user: user.into(), ..test_context() };
    registry.call_function(&call_with_values(id, arguments), &context, &NoChildEffects).await
}

async fn read_as(registry: &FunctionRegistry, user: &str, path: &str) -> Result<Value, StepFailure> {
    call_as(registry, user, "tool::file_read", &[("path", path.into())]).await
}

async fn write_as(registry: &FunctionRegistry, user: &str, path: &str, content: &str) -> Result<Value, StepFailure> {
    call_as(registry, user, "tool::file_write", &[("path", path.into()), ("content", content.into())]).await
}

/// The files of `create_folders`, with a folder for each user other than `local`.
fn create_user_folders(limit: Option<u64>) -> (TempDir, FunctionRegistry) {
    let (base, _) = create_folders();
    let files = UserFiles::new(base.path().join("root")).with_operator("local").with_limit(Arc::new(move |_| limit));
    (base, FunctionRegistry::new(client_for(&[])).with_files(files))
}

#[tokio::test]
async fn users_have_files_of_their_own_and_read_those_of_the_operator() {
    let (base, registry) = create_user_folders(None);
    for user in ["ann", "bob"] {
        assert_eq!(read_as(&registry, user, "note.txt").await.expect("shared"), "hello".into());
        write_as(&registry, user, "note.txt", &format!("of {user}")).await.expect("written");
        write_as(&registry, user, "deep/diary.txt", &format!("diary of {user}")).await.expect("written");
    }
    for user in ["ann", "bob"] {
        assert_eq!(read_as(&registry, user, "note.txt").await.expect("own"), format!("of {user}").into());
        assert_eq!(read_as(&registry, user, "deep/diary.txt").await.expect("own"), format!("diary of {user}").into());
    }
    assert_eq!(read_file(&registry, "note.txt").await.expect("the operator's"), "hello".into());
    assert_eq!(read_file(&registry, ".users/ann/note.txt").await.expect("the operator reads all"), "of ann".into());
    let own = base.path().join("root/.users/ann");
    assert_eq!(fs::metadata(&own).expect("a folder").permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn no_path_leads_to_the_files_of_another_user() {
    let (base, registry) = create_user_folders(None);
    write_as(&registry, "ann", "diary.txt", "private").await.expect("written");
    let absolute = base.path().join("root/.users/ann/diary.txt").display().to_string();
    let paths = [
        ".users/ann/diary.txt",
        "./.users/ann/diary.txt",
        ".USERS/ann/diary.txt",
        ".users//./ann/diary.txt",
        "sub/../.users/ann/diary.txt",
        "../ann/diary.txt",
        &absolute,
    ];
    for path in paths {
        let error = read_as(&registry, "bob", path).await.expect_err(path);
        assert!(matches!(error.code, Code::FileFailed | Code::FileDenied), "{path}: {error}");
    }
    for path in paths {
        // A write either fails or stays in the writer's folder.
        let _ = write_as(&registry, "bob", path, "forged").await;
    }
    assert_eq!(read_as(&registry, "ann", "diary.txt").await.expect("unchanged"), "private".into());
}

#[tokio::test]
async fn the_files_of_a_user_have_a_quota() {
    let (_base, registry) = create_user_folders(Some(10));
    write_as(&registry, "ann", "a.txt", "12345678").await.expect("fits");
    let error = write_as(&registry, "ann", "b.txt", "123").await.expect_err("too much");
    assert_eq!(error.code, Code::QuotaExceeded, "{error}");
    assert!(error.message.contains("8 of 10 bytes (quota file_bytes)"), "{error}");
    assert!(read_as(&registry, "ann", "b.txt").await.is_err(), "nothing was written");
    write_as(&registry, "ann", "a.txt", "1234").await.expect("a smaller file replaces one");
    write_as(&registry, "ann", "b.txt", "123456").await.expect("fits now");
    assert!(write_as(&registry, "ann", "..", "x").await.is_err());
    write_as(&registry, "bob", "b.txt", "1234567890").await.expect("another user has another quota");
    write_file(&registry, "large.txt", &"x".repeat(100)).await.expect("the operator has none");
}
