//! The table of docs/performance.md.

use super::PeerRow;

/// The rows as a Markdown table, one section for each workload.
pub(crate) fn format_table(rows: &[PeerRow]) -> String {
    let mut table = String::from(
        "| workload | system | stored in | ms, median [min..max] | its time / ours | peak MB |\n\
         |---|---|---|---|---|---|\n",
    );
    let mut last = "";
    for row in rows {
        let workload = match row.workload == last {
            true => String::new(),
            false => format!("{}: {}", row.workload, row.what),
        };
        last = &row.workload;
        let times = match &row.seconds {
            Ok(seconds) => {
                let [median, min, max] = [seconds.median, seconds.min, seconds.max].map(format_milliseconds);
                format!("{median} [{min}..{max}]")
            }
            Err(why) => format!("not measured: {}", why.replace('|', "/")),
        };
        let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        let peak = row.peak_mb.map(|peak| format!("{peak:.0}")).unwrap_or_default();
        let system = format!("{} {}", row.peer, row.version);
        let cells = [workload.as_str(), system.trim(), &row.stored, &times, &ratio, &peak];
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

fn format_milliseconds(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    let digits = match milliseconds {
        many if many >= 100.0 => 0,
        some if some >= 1.0 => 1,
        _ => 3,
    };
    format!("{milliseconds:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::SampleStats;

    #[test]
    fn a_peer_that_is_not_installed_is_a_row() {
        let row = |peer: &str, seconds: Result<SampleStats, String>, ratio| PeerRow {
            workload: "W1".to_owned(),
            what: "chain".to_owned(),
            peer: peer.to_owned(),
            version: "1.2.3".to_owned(),
            stored: "memory".to_owned(),
            seconds,
            ratio,
            peak_mb: None,
        };
        let rows = [
            row("flowloom", Ok(SampleStats::from_seconds(vec![0.0001, 0.0002, 0.0004])), None),
            row("other", Ok(SampleStats::from_seconds(vec![0.002])), Some(10.0)),
            row("missing", Err("not installed".to_owned()), None),
        ];
        let expected = "\
| workload | system | stored in | ms, median [min..max] | its time / ours | peak MB |
|---|---|---|---|---|---|
| W1: chain | flowloom 1.2.3 | memory | 0.200 [0.100..0.400] |  |  |
|  | other 1.2.3 | memory | 2.0 [2.0..2.0] | 10.00 |  |
|  | missing 1.2.3 | memory | not measured: not installed |  |  |
";
        assert_eq!(format_table(&rows), expected);
    }
}
