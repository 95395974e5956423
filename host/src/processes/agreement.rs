//! What has to be the same on all ranks, as text that each tells the others. Whatever a plan depends on is in it.

use allfold_kernels::protocol::abi::{Algorithm, Dtype, ReduceOp, WorkspaceLayout};

use super::{Meeting, host};
use crate::error::{Error, Result};
use crate::options::Options;

/// What a communicator is made for, line by line; in the order in which a difference is told.
type Description = Vec<(&'static str, String)>;

/// What ranks compare before anything is allocated: version, host, and what `options` and `layout` say.
///
/// # Errors
/// [`Error::Host`] where this host does not say which it is.
pub(crate) fn describe(backend: &'static str, options: &Options, layout: &WorkspaceLayout) -> Result<Vec<u8>> {
    let mut lines: Description = vec![("the version of allfold", env!("CARGO_PKG_VERSION").to_owned())];
    lines.extend(host::identity()?);
    lines.push(("what ranks run on", backend.to_owned()));
    lines.extend(of_options(options));
    // Where kernels of one version number differ all the same.
    lines.push(("the layout of a workspace", format!("{layout:?}")));
    Ok(lines.into_iter().flat_map(|(what, value)| format!("{what}\t{value}\n").into_bytes()).collect())
}

fn of_options(options: &Options) -> Description {
    // Each by its name, so that a new option is seen here.
    let Options {
        protocol,
        custom,
        delays, // How long is a rank's own; but where there are any, paths are not tried.
        trace,
        dtypes,
        ops,
        inputs,
        algorithms,
        tuning,
        capacity_bytes,
        landing_bytes,
        max_blocks,
        early_launch: _, // A rank's own.
        timeout: _,      // A rank's own.
        on_timeout: _,   // A rank's own.
        compare_calls,
        stamps: _, // Of a rank's own kernels.
        last_epoch,
        cpu_shape,
        connect_timeout: _, // A rank's own.
        captured_calls: _,  // A rank's own: what it captures is compared when it finishes.
        self_test,
    } = options;
    let dtypes = Dtype::ALL.into_iter().filter(|dtype| dtypes.contains(dtype)).map(Dtype::name);
    let ops = ReduceOp::ALL.into_iter().filter(|&op| op != ReduceOp::Sum && ops.contains(&op)).map(ReduceOp::name);
    let algorithms = Algorithm::ALL.into_iter().filter(|algorithm| algorithms.contains(algorithm)).map(Algorithm::name);
    let or_default = |number: Option<u64>| number.map_or("the default".to_owned(), |number| number.to_string());
    vec![
        ("Options::protocol", protocol.name().to_owned()),
        ("Options::custom", custom.map_or("none".to_owned(), |protocol| format!("{:#x}", protocol.encode()))),
        ("Options::delays", if delays.is_some() { "some" } else { "none" }.to_owned()),
        ("Options::trace", trace.to_string()),
        ("Options::dtypes", format!("[{}]", dtypes.collect::<Vec<_>>().join(", "))),
        ("Options::ops", format!("[{}]", ops.collect::<Vec<_>>().join(", "))),
        // In order: the first is what a call gets that asks for none.
        ("Options::inputs", format!("[{}]", inputs.iter().map(|input| input.name()).collect::<Vec<_>>().join(", "))),
        ("Options::algorithms", format!("[{}]", algorithms.collect::<Vec<_>>().join(", "))),
        (
            "Options::tuning",
            tuning
                .as_ref()
                .map_or("none".to_owned(), |table| format!("a table of fingerprint {:#x}", table.fingerprint())),
        ),
        ("Options::capacity_bytes", capacity_bytes.to_string()),
        ("Options::landing_bytes", or_default(*landing_bytes)),
        ("Options::max_blocks", or_default(max_blocks.map(u64::from))),
        ("Options::compare_calls", compare_calls.to_string()),
        ("Options::last_epoch", last_epoch.to_string()),
        ("Options::cpu_shape", format!("{cpu_shape:?}")),
        ("Options::self_test", self_test.name().to_owned()),
    ]
}

/// Compares what [`describe`] said on each rank; `mine` is what this rank has prepared, and its description.
///
/// # Errors
/// That of `mine`; [`Error::Disagreement`] for the first line that is not the same on all, on each rank the same;
/// [`Error::RankFailed`], [`Error::Rendezvous`].
pub(crate) fn agree<T>(meeting: &Meeting<'_>, mine: Result<(T, Vec<u8>)>) -> Result<T> {
    let ((prepared, _), descriptions) = meeting.step(mine, |(_, description)| description.clone())?;
    compare(&descriptions)?;
    Ok(prepared)
}

fn compare(descriptions: &[Vec<u8>]) -> Result<()> {
    let texts: Vec<_> = descriptions.iter().map(|text| String::from_utf8_lossy(text)).collect();
    let mut lines: Vec<_> = texts.iter().map(|text| text.lines()).collect();
    loop {
        let line: Vec<_> = lines.iter_mut().map(Iterator::next).collect();
        if line.iter().all(Option::is_none) {
            return Ok(());
        }
        if line.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(disagreement(&line));
        }
    }
}

/// A line's name and value.
fn parts(line: Option<&str>) -> (&str, &str) {
    line.and_then(|line| line.split_once('\t')).unwrap_or(("more", "nothing"))
}

/// The error for a line that differs, as each rank has it.
fn disagreement(line: &[Option<&str>]) -> Error {
    let what = line.iter().map(|&line| parts(line).0).next().unwrap_or_default().to_owned();
    Error::disagreement(what, line.iter().map(|&line| parts(line).1.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Delays, OnTimeout};

    fn layout() -> WorkspaceLayout {
        WorkspaceLayout::new(2, 128, 128, 128).expect("it is small")
    }

    fn of(options: &Options) -> Vec<u8> {
        describe("CPU ranks", options, &layout()).expect("there is /proc")
    }

    #[test]
    fn ranks_alike_agree_whatever_the_order_of_what_has_none() {
        let options = Options::default();
        let mut turned = options.clone();
        turned.dtypes.reverse();
        turned.ops.push(ReduceOp::Sum); // Which is always there.
        turned.algorithms.reverse();
        turned.timeout = None;
        turned.on_timeout = OnTimeout::Trap;
        compare(&[of(&options), of(&turned), of(&options)]).expect("nothing differs that matters");
    }

    #[test]
    fn the_first_difference_is_named_with_its_ranks() {
        let options = Options::default();
        let other = Options { capacity_bytes: 4096, last_epoch: 3, ..Options::default() };
        let error = compare(&[of(&options), of(&other), of(&options)]).expect_err("they differ");
        assert_eq!(
            error.to_string(),
            "ranks disagree on Options::capacity_bytes: 67108864 on ranks [0, 2], 4096 on ranks [1]"
        );
    }

    #[test]
    fn some_delays_are_as_good_as_others_and_none_are_not_nor_is_a_trace_or_another_operation() {
        let of_delays =
            |nanoseconds| of(&Options { delays: Some(Delays { nanoseconds, one_in: 2 }), ..Options::default() });
        compare(&[of_delays(1), of_delays(2)]).expect("how long is a rank's own");
        let traced = of(&Options { trace: true, ..Options::default() });
        let ops = of(&Options { ops: vec![ReduceOp::Max], ..Options::default() });
        for (other, what) in [(of_delays(1), "Options::delays"), (traced, "Options::trace"), (ops, "Options::ops")] {
            let error = compare(&[of(&Options::default()), other]).expect_err("they differ");
            assert!(matches!(&error, Error::Disagreement { what: differs, .. } if differs == what), "{error}");
        }
    }

    #[test]
    fn b98_b105_ranks_of_another_host_user_or_container_are_named() {
        let here = of(&Options::default());
        let identity = host::identity().expect("there is /proc");
        assert_eq!(identity.len(), 5);
        for (number, (what, value)) in identity.into_iter().enumerate() {
            // Some of four ranks are elsewhere: each rank has the same word for it, and it says who.
            for elsewhere in 1..15_u32 {
                let line = format!("{what}\t{value}\n");
                let text = String::from_utf8(here.clone()).expect("text");
                assert!(text.contains(&line), "{text}");
                let there = text.replace(&line, &format!("{what}\tanother {number}\n")).into_bytes();
                let is_there = |rank: u32| elsewhere >> rank & 1 == 1;
                let said: Vec<_> =
                    (0..4).map(|rank| if is_there(rank) { there.clone() } else { here.clone() }).collect();
                let Err(Error::Disagreement { what: differs, values }) = compare(&said) else { panic!("{what}") };
                let ranks = |there| (0..4).filter(|&rank| is_there(rank) == there).collect::<Vec<_>>();
                assert_eq!(differs, what);
                assert!(values.contains(&(format!("another {number}"), ranks(true))), "{values:?}");
                assert!(values.contains(&(value.clone(), ranks(false))), "{values:?}");
            }
        }
    }

    #[test]
    fn what_another_version_says_is_a_difference_and_no_panic() {
        for other in [&b""[..], b"\xff\xfe\n\n\t\t", b"the version of allfold\t9.9.9\n"] {
            let said = [of(&Options::default()), other.to_vec()];
            let error = compare(&said).expect_err("they differ");
            assert!(error.to_string().starts_with("ranks disagree on the version of allfold: "), "{error}");
            let error = compare(&[said[1].clone(), said[0].clone()]).expect_err("they differ");
            assert!(matches!(error, Error::Disagreement { .. }), "{error}");
        }
    }
}
