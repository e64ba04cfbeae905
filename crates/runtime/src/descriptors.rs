//! File descriptors, of which a process has a limited number. Work that needs one waits instead of failing: connections of
//! callers, outgoing calls and processes of sandboxes each have their share, and an operation that finds none left is repeated.

use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::Semaphore;

use crate::fair::{FairPermit, FairSemaphore, user_share};

/// Number of descriptors that are left to everything without a share: the database, idle connections.
const RESERVED_DESCRIPTORS: u64 = 512;

/// How often an operation is attempted: for a minute.
const MAX_ATTEMPTS: u32 = 1200;

/// Pause between two attempts.
pub const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The system's error numbers for too many open files: of this process, and of the machine.
const OUT_OF_DESCRIPTORS: [i32; 2] = [24, 23];

/// The fraction of all descriptors that each kind of sandbox may use for its processes.
const SANDBOX_FRACTION: u64 = 8;

/// Raises the soft limit of this process to the hard limit. Returns how many descriptors the connections of callers may
/// use, and the same number of outgoing calls.
pub fn raise_limit() -> usize {
    let share = share_of(raise_soft_limit());
    usize::try_from(share).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

/// How many processes a kind of sandbox may have at the same time, if each uses `descriptors` of this process; at least one.
pub fn max_sandbox_processes(descriptors: u64) -> usize {
    let processes = raise_soft_limit() / SANDBOX_FRACTION / descriptors.max(1);
    usize::try_from(processes).unwrap_or(usize::MAX).max(1)
}

/// Raises the soft limit of this process to the hard limit, and returns the limit.
fn raise_soft_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        limit = raised;
    }
    limit.current.unwrap_or(u64::MAX)
}

fn share_of(limit: u64) -> u64 {
    limit.saturating_sub(RESERVED_DESCRIPTORS).max(limit / 4)
}

/// Waits until an outgoing call of a user may use a descriptor, and keeps it until the permit is dropped. Users share the
/// descriptors fairly. A call that holds a permit must not wait for another one.
pub async fn acquire_for_call(user: &Arc<str>) -> FairPermit {
    static CALLS: OnceLock<FairSemaphore> = OnceLock::new();
    let calls = CALLS.get_or_init(|| {
        let permits = raise_limit();
        FairSemaphore::new("calls", permits, user_share(permits))
    });
    calls.acquire_permit(user).await
}

/// Repeats an operation as long as it fails because no descriptor is left. Such a failure must be without effect.
pub async fn retry_without_descriptors<T, E, F>(mut attempt: impl FnMut() -> F) -> Result<T, E>
where
    E: Error + 'static,
    F: Future<Output = Result<T, E>>,
{
    for _ in 1..MAX_ATTEMPTS {
        let result = attempt().await;
        if !result.as_ref().is_err_and(|error| is_out_of_descriptors(error)) {
            return result;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    attempt().await
}

/// Whether an error, or one of its causes, is that no descriptor is left.
pub fn is_out_of_descriptors(error: &(dyn Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.any(|error| {
        let number = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        number.is_some_and(|number| OUT_OF_DESCRIPTORS.contains(&number))
    })
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[test]
    fn a_small_limit_is_shared_too() {
        assert_eq!([64, 1024, 1 << 20].map(share_of), [16, 512, (1 << 20) - 512]);
    }

    #[tokio::test]
    async fn an_operation_waits_for_a_descriptor_and_reports_other_failures() {
        let mut left = 3;
        let opened = retry_without_descriptors(|| {
            left -= 1;
            ready(if left > 0 { Err(io::Error::from_raw_os_error(24)) } else { Ok("open") })
        });
        assert_eq!(opened.await.expect("a descriptor in the end"), "open");
        let refused = retry_without_descriptors(|| ready(Err::<(), _>(io::Error::from_raw_os_error(111))));
        assert_eq!(refused.await.expect_err("refused").raw_os_error(), Some(111));
    }
}
