//! The trace as a browser shows it: events of the Chrome trace format, which Perfetto reads too. A rank is a process there, a block a thread.

use allfold::{BlockTrace, Phase};
use serde_json::{Value, json};

use super::report::Report;

/// The whole file.
///
/// # Errors
/// It cannot be written as JSON.
pub fn json(report: &Report) -> serde_json::Result<String> {
    let zero = report.blocks.iter().map(|block| block.began_ns).min().unwrap_or(0);
    let picture = Picture { zero };
    let mut events: Vec<Value> = (0..report.ranks).map(|rank| named_rank(report, rank)).collect();
    let mut named: Vec<_> = report.blocks.iter().map(|block| (block.rank, block.block)).collect();
    named.sort_unstable();
    named.dedup();
    events.extend(named.into_iter().map(named_block));
    events.extend(report.blocks.iter().flat_map(|block| picture.block(block)));
    events.extend(picture.arrows(report));
    let about = json!({
        "allfold": report.version, "date": report.date, "device": report.device, "ranks": report.ranks,
        "bytes": report.bytes, "dtype": "bf16", "algorithm": report.algorithm, "graph": report.graph,
        "clocks_within_ns": report.within_ns,
    });
    let whole = json!({ "traceEvents": events, "displayTimeUnit": "ns", "otherData": about });
    Ok(serde_json::to_string(&whole)? + "\n")
}

fn named_rank(report: &Report, rank: usize) -> Value {
    let place = report.devices.get(rank).map_or("CPU".to_owned(), |ordinal| format!("GPU {ordinal}"));
    json!({ "ph": "M", "name": "process_name", "pid": rank, "args": { "name": format!("rank {rank} on {place}") } })
}

fn named_block((rank, block): (u32, u32)) -> Value {
    json!({ "ph": "M", "name": "thread_name", "pid": rank, "tid": block, "args": { "name": format!("block {block}") } })
}

/// What a block does between two of its marks.
#[derive(Clone, Copy)]
enum Doing {
    /// Up to where it tells something.
    Working,
    WaitingAt(Phase),
}

struct Picture {
    /// Where times are counted from.
    zero: u64,
}

impl Picture {
    fn micros(&self, ns: u64) -> f64 {
        ns.saturating_sub(self.zero) as f64 / 1e3
    }

    /// A call of a block, and within it what it worked and waited for.
    fn block(&self, block: &BlockTrace) -> Vec<Value> {
        let mut marks: Vec<(u64, Doing)> = Vec::new();
        for phase in Phase::ALL {
            let at = block.phases[phase as usize];
            marks.extend(at.told_ns.map(|ns| (ns, Doing::Working)));
            marks.extend(at.came_ns.map(|ns| (ns, Doing::WaitingAt(phase))));
        }
        // A push has no barriers: its second step has the place of the middle one.
        let pushed = block.phases[Phase::Landing as usize].told_ns.is_some();
        marks.sort_by_key(|(ns, _)| *ns);
        marks.extend(block.ended_ns.map(|ns| (ns, Doing::Working)));
        let end = marks.iter().map(|(ns, _)| *ns).max().unwrap_or(block.began_ns);
        let name = match block.ended_ns {
            Some(_) => format!("call {}", block.epoch),
            None => format!("call {}, not ended", block.epoch),
        };
        let slice = |name: &str, cat: &str, from: u64, to: u64| {
            json!({
                "ph": "X", "name": name, "cat": cat, "pid": block.rank, "tid": block.block,
                "ts": self.micros(from), "dur": to.saturating_sub(from) as f64 / 1e3, "args": { "call": block.epoch },
            })
        };
        let mut events = vec![slice(&name, "call", block.began_ns, end)];
        let mut from = block.began_ns;
        for (to, doing) in marks {
            if to > from {
                events.push(match doing {
                    Doing::Working => slice("works", "work", from, to),
                    Doing::WaitingAt(Phase::Middle) if pushed => slice("waits for the sums of peers", "wait", from, to),
                    Doing::WaitingAt(phase) => slice(&format!("waits for {}", phase.waits_for()), "wait", from, to),
                });
            }
            from = from.max(to);
        }
        events
    }

    /// From each rank that came last to those that waited for it, block by block.
    fn arrows(&self, report: &Report) -> Vec<Value> {
        let mut events = Vec::new();
        for (call, at) in report.calls.iter().flat_map(|call| call.phases.iter().map(move |at| (call, at))) {
            let of_call = report.blocks.iter().filter(|block| block.epoch == call.epoch);
            let (last, others): (Vec<_>, Vec<_>) = of_call.partition(|block| block.rank == at.last);
            for other in others {
                let from = last.iter().find(|block| block.block == other.block).or(last.first());
                let told = from.and_then(|from| from.phases[at.phase as usize].told_ns);
                let (Some(from), Some(told), Some(came)) = (from, told, other.phases[at.phase as usize].came_ns) else {
                    continue;
                };
                let id = events.len();
                let end = |ph: &str, block: &BlockTrace, ns: u64| {
                    json!({
                        "ph": ph, "bp": "e", "id": id, "name": "came last", "cat": "late",
                        "pid": block.rank, "tid": block.block, "ts": self.micros(ns),
                    })
                };
                events.extend([end("s", from, told), end("f", other, came)]);
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use allfold::PhaseTrace;

    use super::super::late::Call;
    use super::*;

    #[test]
    fn slices_lie_in_their_call_and_an_arrow_goes_from_who_was_late_to_who_waited() {
        let block = |rank: u32, told: u64, came: u64| {
            let mut phases = [PhaseTrace::default(); Phase::COUNT];
            phases[0] = PhaseTrace { told_ns: Some(told), came_ns: Some(came) };
            BlockTrace { rank, block: 0, epoch: 9, began_ns: 5_000, phases, ended_ns: Some(came + 500) }
        };
        let blocks = vec![block(0, 6_000, 9_000), block(1, 8_000, 8_000)];
        let report = Report {
            device: "two GPUs".into(),
            devices: vec![0, 1],
            ranks: 2,
            bytes: 64,
            algorithm: None,
            graph: false,
            version: "0",
            date: String::new(),
            calls: Call::all(&blocks),
            blocks,
            within_ns: 100,
        };
        let picture: Value = serde_json::from_str(&json(&report).expect("it can be written")).expect("it is JSON");
        let events = picture["traceEvents"].as_array().expect("events");
        let of = |cat: &str, pid: u32| events.iter().filter(|e| e["cat"] == cat && e["pid"] == pid).collect::<Vec<_>>();
        let [call] = of("call", 0)[..] else { panic!("one call") };
        assert_eq!((call["ts"].as_f64(), call["dur"].as_f64()), (Some(0.0), Some(4.5)));
        let [wait] = of("wait", 0)[..] else { panic!("one wait") };
        assert_eq!((wait["ts"].as_f64(), wait["dur"].as_f64()), (Some(1.0), Some(3.0)));
        assert_eq!(wait["name"], "waits for the start barrier");
        assert!(of("wait", 1).is_empty(), "rank 1 did not wait");
        assert_eq!(of("late", 1)[0]["ph"], "s");
        assert_eq!((of("late", 0)[0]["ph"].as_str(), of("late", 0)[0]["ts"].as_f64()), (Some("f"), Some(4.0)));
    }
}
