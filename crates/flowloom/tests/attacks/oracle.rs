//! The canary oracle: values that only their owners may see, and where an attack could have brought them.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::HttpCall;
use crate::world::World;

/// The beginning of every canary. No input contains it.
const CANARY_MARK: &str = "cAnArY0f";

/// How long the harmless request after an attack may take.
pub(crate) const NEXT_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The owner of the value of a canary.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Canary {
    /// A configured secret.
    Secret,
    /// A variable of the environment.
    Environment,
    /// The key of a provider of models.
    ProviderKey,
    /// A file outside of the served folder.
    File,
    /// An object of the tenant ann.
    Tenant,
}

/// The canaries that belong into no record at all.
const NEVER_RECORDED: [Canary; 4] = [Canary::Secret, Canary::Environment, Canary::ProviderKey, Canary::File];

/// The value of a canary.
pub(crate) fn canary_value(canary: Canary) -> String {
    format!("{CANARY_MARK}{canary:?}7Qz")
}

/// Finds a canary in a text, plain or in an encoding that an attack might choose.
pub(crate) fn find_canary(text: &str) -> Option<String> {
    let needles = encode_mark();
    let (at, needle) = needles.iter().find_map(|needle| Some((text.find(needle.as_str())?, needle)))?;
    let shown: String = text[at..].chars().take(needle.len() + 40).collect();
    Some(shown)
}

/// The mark as it is, and in common encodings.
fn encode_mark() -> Vec<String> {
    let bytes = CANARY_MARK.as_bytes();
    let hex = |separator: &str| {
        let pairs = bytes.iter().map(|byte| format!("{byte:02x}"));
        pairs.collect::<Vec<_>>().join(separator)
    };
    let mut all = vec![
        CANARY_MARK.to_owned(),
        CANARY_MARK.chars().rev().collect(),
        hex(""),
        hex("").to_uppercase(),
        hex(" "),
        hex("%").to_uppercase(),
        bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(","),
        bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
        CANARY_MARK.chars().map(|c| c.to_string()).collect::<Vec<_>>().join(" "),
        CANARY_MARK.chars().map(|c| c.to_string()).collect::<Vec<_>>().join("\\u0000"),
    ];
    all.extend((0..3).map(encode_base64_middle));
    all
}

/// The characters of Base64 that only depend on the mark if it begins `shift` bytes after a multiple of three.
fn encode_base64_middle(shift: usize) -> String {
    use base64::Engine as _;
    let padded = [&b"\0\0\0"[..shift], CANARY_MARK.as_bytes()].concat();
    let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(padded);
    let first = (shift * 8).div_ceil(6);
    let whole = (shift + CANARY_MARK.len()) * 8 / 6;
    encoded[first..whole].to_owned()
}

/// Checks what must hold after every attack: nothing forbidden was contacted, nothing was printed, changed or sent, and
/// the server answers. `seen` is everything that the attacker received.
pub(crate) fn check_world(world: &World, seen: &str) -> Result<(), String> {
    if let Some(canary) = find_canary(seen) {
        return Err(format!("a canary is in the response: {canary}"));
    }
    let contacts = world.forbidden.take_contacts();
    if !contacts.is_empty() {
        return Err(format!("a forbidden address was contacted: {contacts:?}"));
    }
    let sent = world.receiver.take_requests().join("\n");
    if let Some(canary) = find_canary(&sent) {
        return Err(format!("a canary was sent: {canary}"));
    }
    if let Some(canary) = find_canary(&world.server.read_log()) {
        return Err(format!("a canary was printed: {canary}"));
    }
    check_outside(world)?;
    check_next_request(&world.server.address)
}

/// Checks that the folder outside of the served one is as before.
fn check_outside(world: &World) -> Result<(), String> {
    let entries = std::fs::read_dir(world.outside.path()).expect("the folder").flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let content = std::fs::read_to_string(world.outside.path().join("canary.txt")).unwrap_or_default();
    let is_same = names == ["canary.json", "canary.txt"] && content == canary_value(Canary::File);
    is_same.then_some(()).ok_or_else(|| format!("the folder outside was changed: {names:?}"))
}

/// Checks that a server answers a harmless request in time. A machine may be busy once, so the second try counts.
pub(crate) fn check_next_request(address: &str) -> Result<(), String> {
    let mut tried = String::new();
    for _ in 0..2 {
        let since = Instant::now();
        let call = HttpCall { method: "GET", path: "/health/live", headers: vec![], body: b"" };
        let status = call.send_within(address, NEXT_REQUEST_TIMEOUT).status;
        if status == 200 && since.elapsed() <= NEXT_REQUEST_TIMEOUT {
            return Ok(());
        }
        tried += &format!(" status {status} after {:?};", since.elapsed());
    }
    Err(format!("the next request was not answered:{tried}"))
}

/// Checks what must hold after all attacks: the records have no canary, and ann's objects are still there.
pub(crate) fn check_records(world: &World) -> Result<(), String> {
    check_database_files(&world.place.path("data"))?;
    let served = world.list_served();
    if served != world.served {
        return Err(format!("the served folder has changed: {served:?}, before: {:?}", world.served));
    }
    for path in ["/api/v1/memory/ann", "/api/v1/workflows/mine/source", "/api/v1/threads/graph/secret-thread"] {
        let reply = world.call("ann", "GET", path, "");
        if find_canary(&reply.text).is_none() {
            return Err(format!("ann's own {path} has changed: {}", reply.text));
        }
    }
    Ok(())
}

/// Searches the files of a database for canaries that belong into no record.
pub(crate) fn check_database_files(folder: &Path) -> Result<(), String> {
    for entry in std::fs::read_dir(folder).expect("the data folder").flatten().filter(|entry| entry.path().is_file()) {
        let bytes = std::fs::read(entry.path()).expect("readable");
        let found = NEVER_RECORDED.into_iter().find(|canary| {
            let needle = canary_value(*canary).into_bytes();
            bytes.windows(needle.len()).any(|window| window == needle)
        });
        if let Some(canary) = found {
            return Err(format!("the canary {canary:?} is in {}", entry.path().display()));
        }
    }
    Ok(())
}
