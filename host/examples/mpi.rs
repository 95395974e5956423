//! A process for each rank, started by MPI: each sums its own vector with those of the others. It uses the public API alone.
//!
//! ```sh
//! cargo build --features mpi --example mpi
//! mpirun -n 4 target/debug/examples/mpi
//! ```

use std::time::{Duration, Instant};

use allfold::rendezvous::{Mpi, Rendezvous};
use allfold::{Communicator, RankBuffers, ReduceOp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Ranks have threads of their own, which do not call MPI.
    let started = mpi::initialize_with_threading(mpi::Threading::Funneled);
    let (universe, _) = started.ok_or("MPI is in use already")?;
    let ranks = Mpi::join(&universe.world(), Instant::now() + Duration::from_secs(60))?;
    let (rank, world) = (ranks.rank(), ranks.world());

    // Rank r gives r + 1, r + 2, …
    let mut data: Vec<f32> = (1..=1000).map(|number| (rank + number) as f32).collect();
    let mut communicator = Communicator::connect_cpu(&ranks)?;
    communicator.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum)?;

    // The sum over all ranks r of r + number.
    let ranks_sum = world * (world - 1) / 2;
    if (1..=1000).zip(&data).any(|(number, &sum)| sum != (world * number + ranks_sum) as f32) {
        return Err(format!("rank {rank}: a sum is wrong").into());
    }
    println!("rank {rank} of {world}: {} sums, the first {}", data.len(), data[0]);
    Ok(())
}
