//! Any GGUF file, from a path or an address. Its header is read before it is added under its name.

use std::path::{Path, PathBuf};

use reqwest::{Client, Response, Url};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

use super::{DownloadFolder, check_sha256, file_error};
use crate::error::PullError;
use crate::gguf;

/// Ending of the names of model files.
const MODEL_FILE_ENDING: &str = ".gguf";

/// Where a model file is downloaded from.
#[derive(Clone, Debug)]
pub struct ModelAddress {
    /// The address.
    pub url: Url,
    /// SHA-256 that the file must have.
    pub sha256: Option<String>,
}

/// Copies the GGUF file at `source` into `cache_dir` as `local:NAME`, and returns its path there. `sha256` is the checksum
/// that the file must have. Fails if the name has other characters than letters, digits, `.`, `_` and `-`, if the
/// source is not GGUF or has another checksum, or if a file cannot be written.
pub fn copy_model(cache_dir: &Path, source: &Path, name: &str, sha256: Option<&str>) -> Result<PathBuf, PullError> {
    let target = target_file(cache_dir, name)?;
    check_model(source)?;
    if let Some(sha256) = sha256 {
        check_sha256(source, sha256)?;
    }
    let folder = DownloadFolder::new(cache_dir)?;
    let copy = folder.0.join("model");
    std::fs::copy(source, &copy).map_err(|error| file_error(source, error))?;
    std::fs::rename(&copy, &target).map_err(|error| file_error(&target, error))?;
    Ok(target)
}

/// Downloads a GGUF file into `cache_dir` as `local:NAME`, and returns its path there. `progress` is called with the bytes
/// that have arrived and, if the server states it, the length of the file. Fails if the name is invalid, if the
/// download is not complete, if what arrives is not GGUF or has another checksum, or if a file cannot be written.
pub async fn download_model(
    cache_dir: &Path,
    client: &Client,
    address: &ModelAddress,
    name: &str,
    mut progress: impl FnMut(u64, Option<u64>),
) -> Result<PathBuf, PullError> {
    let target = target_file(cache_dir, name)?;
    let folder = DownloadFolder::new(cache_dir)?;
    let arrived = folder.0.join("model");
    let sent = client.get(address.url.clone()).send().await.and_then(Response::error_for_status);
    let response = sent.map_err(PullError::from_request)?;
    write_body(response, &arrived, &mut progress).await?;
    let checked = match &address.sha256 {
        Some(sha256) => check_sha256(&arrived, sha256),
        None => Ok(()),
    };
    checked.and_then(|()| check_model(&arrived)).map_err(|error| name_address(error, &address.url))?;
    std::fs::rename(&arrived, &target).map_err(|error| file_error(&target, error))?;
    Ok(target)
}

/// The same error with the address instead of the file that the download went to, which is removed.
fn name_address(error: PullError, url: &Url) -> PullError {
    match error {
        PullError::NotAModel { reason, .. } => PullError::NotAModel { file: url.to_string(), reason },
        PullError::WrongChecksum { actual, expected, .. } => {
            PullError::WrongChecksum { file: PathBuf::from(url.as_str()), actual, expected }
        }
        other => other,
    }
}

async fn write_body(
    mut response: Response,
    file: &Path,
    progress: &mut impl FnMut(u64, Option<u64>),
) -> Result<(), PullError> {
    let length = response.content_length();
    let mut out = File::create(file).await.map_err(|error| file_error(file, error))?;
    let mut arrived = 0;
    while let Some(part) = response.chunk().await.map_err(PullError::from_request)? {
        out.write_all(&part).await.map_err(|error| file_error(file, error))?;
        arrived += part.len() as u64;
        progress(arrived, length);
    }
    out.flush().await.map_err(|error| file_error(file, error))
}

fn check_model(file: &Path) -> Result<(), PullError> {
    let not_a_model =
        |error: gguf::HeaderError| PullError::NotAModel { file: file.display().to_string(), reason: error.to_string() };
    gguf::read_header(file).map(|_| ()).map_err(not_a_model)
}

fn target_file(cache_dir: &Path, name: &str) -> Result<PathBuf, PullError> {
    let is_simple = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_simple) {
        return Err(PullError::InvalidName { name: name.to_owned() });
    }
    Ok(cache_dir.join(format!("{name}{MODEL_FILE_ENDING}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::tests::model_bytes;

    #[test]
    fn a_file_is_added_under_its_name_and_only_if_it_is_a_model() {
        let (cache, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (model, text) = (folder.path().join("m.gguf"), folder.path().join("t.gguf"));
        std::fs::write(&model, model_bytes()).unwrap();
        std::fs::write(&text, "GGUF but not really").unwrap();
        let added = copy_model(cache.path(), &model, "tiny-1.0", None).unwrap();
        assert_eq!(added, cache.path().join("tiny-1.0.gguf"));
        assert!(matches!(copy_model(cache.path(), &text, "t", None), Err(PullError::NotAModel { .. })));
        let wrong = copy_model(cache.path(), &model, "other", Some("00"));
        assert!(matches!(wrong, Err(PullError::WrongChecksum { .. })), "{wrong:?}");
        for name in ["", "../up", ".hidden", "a b"] {
            assert!(
                matches!(copy_model(cache.path(), &model, name, None), Err(PullError::InvalidName { .. })),
                "{name}"
            );
        }
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1, "nothing else is left behind");
    }
}
