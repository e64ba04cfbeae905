//! Reads the whole database and reports damage: a small one always, a large one for `flowloom doctor --read-data`.

use flowloom_app::config::Config;
use flowloom_app::listing::count_noun;
use flowloom_store::{CheckedRows, Damage, Store, StoreError};

use super::{DoctorCheck, passed_check};
use crate::terminal::measure::count_columns;

/// Width of a line of a value, so that the report fits into 80 columns.
const VALUE_WIDTH: usize = 59;

/// Damages that are listed; a broken disk has more than anyone reads.
const MAX_DAMAGES: usize = 100;

/// Advice for a damaged database.
const REPAIR_ADVICE: &str = "stop the server, keep a copy of the database, and restore a backup: flowloom restore FILE --replace \
                   (on Postgres: pg_restore)";

/// Size up to which a database is read without being asked for, in bytes: reading it takes seconds.
const MAX_SMALL_BYTES: u64 = 64 << 20;

/// Reads the database if it is small; otherwise explains how to have it read.
pub(super) fn check_small_data(config: &Config) -> Vec<DoctorCheck> {
    // The row of the database names the reason why it cannot be opened.
    let Ok(store) = Store::open_with(&config.store_settings()) else { return Vec::new() };
    match store.size_bytes() {
        Ok(bytes) if bytes <= MAX_SMALL_BYTES => read_data(|note| store.check_database(note)),
        _ => vec![passed_check("stored data", "not read; flowloom doctor --read-data", "")],
    }
}

/// Reads the whole database, whatever its size.
pub(super) fn check_all_data(config: &Config) -> Vec<DoctorCheck> {
    read_data(|note| Store::open_with(&config.store_settings())?.check_database(note))
}

/// A line for each damage that `check` finds, and what to do.
fn read_data(check: impl FnOnce(&mut dyn FnMut(Damage)) -> Result<CheckedRows, StoreError>) -> Vec<DoctorCheck> {
    let (mut count, mut damages) = (0, Vec::new());
    let mut note = |damage: Damage| {
        count += 1;
        if damages.len() < MAX_DAMAGES {
            damages.push(damage);
        }
    };
    let checked = check(&mut note);
    let failed = |name: &str, value: &str| {
        let value = wrap_words(value, VALUE_WIDTH);
        DoctorCheck { is_fine: false, ..passed_check(name, value, "") }
    };
    let mut rows: Vec<DoctorCheck> = damages.iter().map(|damage| failed("damage", &damage.problem)).collect();
    match checked {
        Ok(CheckedRows { runs, events }) if count == 0 => {
            rows.push(passed_check("stored data", format!("{runs} runs with {events} events are intact"), ""));
        }
        Ok(CheckedRows { runs, events }) => {
            rows.push(failed(
                "stored data",
                &format!(
                    "{} in {} with {}; {REPAIR_ADVICE}",
                    count_noun(count, "problem"),
                    count_noun(runs as usize, "run"),
                    count_noun(events as usize, "event")
                ),
            ));
        }
        Err(error) => rows.push(failed("stored data", &error.to_string())),
    }
    rows
}

/// Breaks a text into lines between words.
fn wrap_words(text: &str, width: usize) -> String {
    let mut wrapped = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = count_columns(word);
        if column > 0 {
            let breaks = column + 1 + length > width;
            wrapped.push(if breaks { '\n' } else { ' ' });
            column = if breaks { 0 } else { column + 1 };
        }
        wrapped.push_str(word);
        column += length;
    }
    wrapped
}
