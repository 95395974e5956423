//! What every backend needs to know before a communicator is made: can it be, how large are its workspaces; and a word
//! about a protocol that is not known to be sound.

use allfold_kernels::protocol::abi::{
    AREA_ALIGN_BYTES, Algorithm, Dtype, GENERATIONS, MAX_RANKS, PACK_BYTES, ReduceOp, WorkspaceLayout,
};
use allfold_kernels::protocol::preset::Preset;
use allfold_kernels::protocol::share::part_packs;
use allfold_kernels::protocol::soundness::Soundness;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::plan::{self, Limits};

/// Ranks, layout of a workspace, and the limits that follow from both for ranks of one process; the grid's are the
/// backend's to fill in.
///
/// `landing_bytes`: of a landing slot times the ranks, if the options do not say.
pub(crate) fn prepare(world: usize, options: &Options, landing_bytes: u64) -> Result<(u32, WorkspaceLayout, Limits)> {
    if !(1..=MAX_RANKS).contains(&world) {
        return Err(Error::WorldSize { world });
    }
    let ranks = world as u32;
    for &input in &options.inputs {
        let mut algorithms = options.algorithms.iter();
        if !options.algorithms.is_empty() && !algorithms.any(|&algorithm| options.form(algorithm, input).is_some()) {
            return Err(Error::NoSuchForm { preset: options.protocol, input });
        }
    }
    if let (true, Some(dtype)) = (options.stressed(), options.dtypes.iter().find(|&&dtype| dtype != Dtype::Bf16)) {
        return Err(Error::NotDeclared { what: dtype.name(), option: "delays or trace, which are for bf16" });
    }
    if let (true, Some(op)) = (options.stressed(), options.ops.iter().find(|&&op| op != ReduceOp::Sum)) {
        return Err(Error::NotDeclared { what: op.name(), option: "delays or trace, which are for sums" });
    }
    // One rank alone follows no protocol.
    for (algorithm, input, protocol) in plan::forms(options, ranks).filter(|_| world > 1) {
        let name = if options.custom.is_some() { "custom" } else { options.protocol.name() };
        match protocol.soundness(algorithm, input) {
            Soundness::Sound => {}
            Soundness::RestsOn(what) => tracing::info!(protocol = name, ?algorithm, ?input, "rests on {what:?}"),
            Soundness::NotKnown(why) => {
                tracing::warn!(protocol = name, ?algorithm, ?input, "not known to be sound: {why}")
            }
        }
    }
    let too_large = Error::CapacityTooLarge { capacity_bytes: options.capacity_bytes };
    let Ok(capacity_bytes) = usize::try_from(options.capacity_bytes) else { return Err(too_large) };
    let Some(capacity_bytes) = capacity_bytes.checked_next_multiple_of(PACK_BYTES) else { return Err(too_large) };
    let staging_bytes = if options.inputs.iter().any(|input| input.staged()) { capacity_bytes } else { 0 };
    let two_shot = options.algorithms.contains(&Algorithm::TwoShot);
    let packs = capacity_bytes / PACK_BYTES;
    let scratch_bytes = if two_shot { part_packs(packs as u64, ranks) as usize * PACK_BYTES } else { 0 };
    let pushes = plan::forms(options, ranks).any(|(algorithm, ..)| algorithm.pushes());
    let landing_bytes = options.landing_bytes.unwrap_or(landing_bytes / u64::from(ranks));
    if landing_bytes > most_landing_bytes(ranks) {
        return Err(Error::LandingTooLarge { landing_bytes, most_bytes: most_landing_bytes(ranks) });
    }
    let landing_bytes = if pushes && world > 1 { (landing_bytes as usize).next_multiple_of(PACK_BYTES) } else { 0 };
    let slot_bytes = if landing_bytes > 0 { landing_bytes.saturating_add(PACK_BYTES) } else { 0 };
    let layout = WorkspaceLayout::new(ranks, scratch_bytes, staging_bytes, slot_bytes);
    let layout = if options.trace { layout.and_then(WorkspaceLayout::with_marks) } else { layout };
    let Some(layout) = layout else { return Err(too_large) };
    let limits = Limits {
        world: ranks,
        max_blocks: 0,
        max_threads: [0; Algorithm::ALL.len()],
        staging_bytes: staging_bytes as u64,
        scratch_bytes: scratch_bytes as u64,
        landing_bytes: landing_bytes as u64,
        reaches_buffers: true,
    };
    Ok((ranks, layout, limits))
}

/// The most [`Options::captured_calls`]: 128 MiB of rows.
const MOST_CAPTURED_CALLS: u32 = 1 << 20;

/// Whether ranks in several processes can have room for the captured calls that `options` ask for.
pub(crate) fn check_captured_calls(options: &Options) -> Result<()> {
    let (calls, most) = (options.captured_calls, MOST_CAPTURED_CALLS);
    if calls > most {
        return Err(Error::CapturedCallsTooLarge { calls, most });
    }
    let what = match (options.custom, options.stressed(), options.protocol) {
        _ if calls == 0 => return Ok(()),
        (None, false, Preset::Allfold) => return Ok(()),
        (Some(_), ..) => "a custom protocol",
        (None, true, _) => "a run with delays or trace",
        (None, false, other) => other.name(),
    };
    // Kernels that look up their buffers are compiled for one protocol.
    Err(Error::NotDeclared { what, option: "captured_calls, which is for protocol allfold without delays and trace" })
}

/// Bytes of the largest landing slot: 32 bits count the packs of all those that a rank has, each of which has one more.
fn most_landing_bytes(ranks: u32) -> u64 {
    let slots = GENERATIONS as u64 * u64::from(ranks.saturating_sub(1).max(1));
    (u64::from(u32::MAX) * PACK_BYTES as u64 / slots) / AREA_ALIGN_BYTES as u64 * AREA_ALIGN_BYTES as u64
        - AREA_ALIGN_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_landing_slot_has_a_layout_and_a_larger_one_is_refused() {
        for world in 2..=MAX_RANKS {
            let of = |landing_bytes| {
                let options = Options { landing_bytes: Some(landing_bytes), ..Options::default() };
                prepare(world, &options, 0)
            };
            let most = most_landing_bytes(world as u32);
            let (_, layout, limits) = of(most).expect("it is the largest");
            assert_eq!(limits.landing_bytes, most);
            assert!(
                u64::from(layout.landing_generation_packs(world as u32)) * GENERATIONS as u64 <= u64::from(u32::MAX)
            );
            let error = of(most + 1).expect_err("it is larger");
            assert!(
                matches!(error, Error::LandingTooLarge { landing_bytes, most_bytes }
                    if (landing_bytes, most_bytes) == (most + 1, most)),
                "{error}"
            );
        }
    }
}
