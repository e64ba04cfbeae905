//! How a caller of a webhook proves who it is: by the hook's secret, or by a signature of the body.

use axum::http::{HeaderMap, HeaderName, header};
use flowloom_app::config::Config;
use flowloom_app::keys::hash_secret;
use flowloom_app::secrets::read_webhook_secret;
use flowloom_store::HookRow;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Header with the secret.
pub(crate) const SECRET_HEADER: HeaderName = HeaderName::from_static("x-hook-secret");

/// Header with `sha256=` and the HMAC-SHA256 of the body under the secret, in hex.
pub(crate) const SIGNATURE_HEADER: HeaderName = HeaderName::from_static("x-hub-signature-256");

/// The credential that a caller of a webhook sends.
pub(crate) struct HookCredential {
    secret_hash: Option<String>,
    signature: Option<Vec<u8>>,
}

impl HookCredential {
    pub(crate) fn read(headers: &HeaderMap) -> HookCredential {
        let sent = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = || sent(&header::AUTHORIZATION)?.strip_prefix("Bearer ");
        HookCredential {
            secret_hash: sent(&SECRET_HEADER).or_else(bearer).map(hash_secret),
            signature: sent(&SIGNATURE_HEADER).and_then(|text| text.strip_prefix("sha256=")).and_then(decode_hex),
        }
    }

    /// Whether it has the secret of a hook whose callers send the secret. Compares hashes, so that timing reveals nothing.
    pub(crate) fn knows_secret(&self, hook: &HookRow) -> bool {
        hook.secret_hash.is_some() && self.secret_hash == hook.secret_hash
    }

    /// Whether it may authenticate a call of a hook, as far as that is known without the body: the secret is the
    /// hook's, or there is a signature for a hook whose callers sign.
    pub(crate) fn may_authenticate(&self, hook: &HookRow) -> bool {
        let may_be_signed = || hook.secret_hash.is_none() && hook.secret_name.is_some() && self.signature.is_some();
        self.knows_secret(hook) || may_be_signed()
    }

    /// Whether it authenticates a call of a hook with this body. Compares signatures in constant time.
    pub(crate) fn authenticates_call(&self, hook: &HookRow, config: &Config, body: &str) -> bool {
        if hook.secret_hash.is_some() {
            return self.knows_secret(hook);
        }
        let read = |name| read_webhook_secret(config, &hook.user, name);
        let Some(secret) = hook.secret_name.as_deref().and_then(read) else { return false };
        let Some(signature) = &self.signature else { return false };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return false };
        mac.update(body.as_bytes());
        mac.verify_slice(signature).is_ok()
    }
}

/// Decodes hex digits.
fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect::<Option<Vec<u8>>>().filter(|_| hex.len().is_multiple_of(2))
}
