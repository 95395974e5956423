//! What the self-test asks of CPU ranks.

use std::time::Duration;

use super::ranks::CpuRanks;
use crate::arguments::Peers;
use crate::buffers::{Place, RawBuffers};
use crate::error::Result;
use crate::self_test::{Bench, Finding, Trial};

/// Input and output of a rank, in packs.
pub(crate) struct Buffers {
    input: Vec<u128>,
    output: Vec<u128>,
}

impl Bench for CpuRanks {
    type Buffers = Buffers;

    fn buffers(&self, bytes: usize) -> Result<Vec<Buffers>> {
        let packs = || vec![0; bytes.div_ceil(size_of::<u128>())];
        Ok(self.workspaces.members.ranks().map(|_| Buffers { input: packs(), output: packs() }).collect())
    }

    fn call(&mut self, trial: &Trial, limit: Duration, buffers: &mut [Buffers]) -> Result<Vec<Finding>> {
        let Trial { request, plan, pattern, epoch } = trial;
        let bytes = pattern.bytes();
        let mut raw = Vec::new();
        for (rank, buffers) in self.workspaces.members.ranks().zip(&mut *buffers) {
            bytemuck::cast_slice_mut(&mut buffers.input)[..bytes].copy_from_slice(&pattern.input(rank));
            // No sum.
            buffers.output.fill(u128::MAX);
            let (input, output) = (buffers.input.as_ptr() as u64, buffers.output.as_mut_ptr() as u64);
            let (input_elems, output_elems) = (request.elems, request.elems);
            raw.push(RawBuffers { input, output, input_elems, output_elems, place: Place::Host });
        }
        let usual = self.workspaces;
        self.workspaces = usual.within(limit);
        // SAFETY: the buffers are borrowed, and have room for the request, which is that of the pattern.
        let done = unsafe { self.all_reduce(request, plan, &raw, &Peers::Local) };
        self.workspaces = usual;
        done?;
        let found = self.workspaces.members.ranks().zip(self.areas.local()).zip(buffers);
        let found = found.map(|((rank, area), buffers)| {
            let word = area.left();
            match word.stop {
                Some(stop) => Finding::left(rank, stop, word, area.started(*epoch)),
                None => Finding::ended(bytemuck::cast_slice(&buffers.output)[..bytes].to_vec()),
            }
        });
        Ok(found.collect())
    }

    fn reset(&self, last_epoch: u64) -> Result<()> {
        self.areas.local().for_each(|area| area.clear(&self.workspaces.layout, last_epoch));
        Ok(())
    }
}
