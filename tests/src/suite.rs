//! What a property is, what it is given, and how a list of them is run.

use std::cell::Cell;
use std::time::{Duration, Instant};

use allfold::{Algorithm, Communicator, Dtype, InputMode, Options, Preset, Soundness};
use anyhow::{Context, Result, ensure};

use crate::batch;
use crate::call::Call;
use crate::machine::Machine;

/// Bytes of a rank's memory that one batch takes at most, unless one call needs more.
const BATCH_BYTES: usize = 16 << 20;

/// How long a rank waits for another, unless a property says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Something that has to be so on every machine.
#[derive(Clone, Copy)]
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// What it says, in a line.
    pub says: &'static str,
    /// Finds out.
    pub check: fn(&Bench) -> Result<Outcome>,
}

/// How the check of a property that does not fail ends.
pub enum Outcome {
    /// It holds.
    Holds,
    /// It could not be checked here, and why.
    Skipped(String),
}

/// What a property is checked on.
pub struct Bench<'m> {
    /// The ranks.
    pub machine: &'m dyn Machine,
    /// Fewer and smaller calls.
    pub quick: bool,
    /// Calls of the stress property; 0: it is skipped.
    pub stress_calls: u64,
    checked: Cell<u64>,
}

impl<'m> Bench<'m> {
    /// A bench on `machine`.
    pub fn new(machine: &'m dyn Machine, quick: bool, stress_calls: u64) -> Bench<'m> {
        Bench { machine, quick, stress_calls, checked: Cell::new(0) }
    }

    /// The world sizes to try.
    pub fn worlds(&self) -> std::ops::RangeInclusive<usize> {
        let most = self.machine.most_ranks();
        if self.machine.in_processes() { most..=most } else { 1..=most }
    }

    /// The [`sound_forms`] of `preset`.
    pub fn forms(&self, preset: Preset, world: usize) -> Vec<(Algorithm, InputMode)> {
        sound_forms(preset, world)
    }

    /// Whether ranks are threads of the CPU.
    pub fn on_cpu(&self) -> bool {
        self.machine.devices().is_none()
    }

    /// For the protocol `preset` with every input mode that it has, room for `capacity_bytes` of every dtype, and a limit to each wait.
    pub fn options(&self, preset: Preset, capacity_bytes: usize) -> Options {
        let has = |input: &InputMode| Algorithm::ALL.iter().any(|&a| preset.protocol(a, *input).is_some());
        let landing_packs = Dtype::ALL.map(|dtype| u64::from(dtype.landing_packs())).into_iter().max().unwrap_or(1);
        Options {
            protocol: preset,
            inputs: InputMode::ALL.into_iter().filter(has).collect(),
            capacity_bytes: capacity_bytes as u64,
            landing_bytes: Some(landing_packs * capacity_bytes as u64),
            timeout: Some(TIMEOUT),
            ..Options::default()
        }
    }

    /// A communicator over the first `world` ranks.
    ///
    /// # Errors
    /// The library's.
    pub fn communicator(&self, world: usize, options: Options) -> Result<Communicator> {
        self.machine.communicator(world, options).with_context(|| format!("making a communicator of {world} ranks"))
    }

    /// Runs the calls in batches and checks all that they write; see [`batch::run`].
    ///
    /// # Errors
    /// As [`batch::run`].
    pub fn run(&self, comm: &mut Communicator, calls: &[Call]) -> Result<()> {
        let mut rest = calls;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take_while(|call| {
                bytes += call.footprint_bytes();
                bytes <= BATCH_BYTES
            });
            let (batch, later) = rest.split_at(fits.count().max(1));
            self.run_one(comm, batch)?;
            rest = later;
        }
        Ok(())
    }

    /// Runs the calls as one batch; the outputs are `[call][rank]`.
    ///
    /// # Errors
    /// As [`batch::run`].
    pub fn run_one(&self, comm: &mut Communicator, calls: &[Call]) -> Result<Vec<Vec<Vec<u8>>>> {
        let world = comm.world();
        let outputs = batch::run(self.machine, comm, calls).with_context(|| format!("{world} ranks"))?;
        self.count(calls.len() as u64);
        Ok(outputs)
    }

    /// Notes that `checks` more things were found right.
    pub fn count(&self, checks: u64) {
        self.checked.set(self.checked.get() + checks);
    }

    /// Finds out whether `property` holds: how many things were found right, or why it was skipped.
    ///
    /// # Errors
    /// It does not hold, or nothing at all was checked.
    pub fn check(&self, property: &Property) -> Result<std::result::Result<u64, String>> {
        self.checked.set(0);
        match (property.check)(self)? {
            Outcome::Skipped(why) => Ok(Err(why)),
            Outcome::Holds => {
                ensure!(self.checked.get() > 0, "nothing was checked");
                Ok(Ok(self.checked.get()))
            }
        }
    }

    /// Checks all `properties`, with a line for each and one for all; true when none failed.
    pub fn report(&self, properties: &[Property]) -> bool {
        println!("{}", self.machine.name());
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        for property in properties {
            let begun = Instant::now();
            let verdict = match self.check(property) {
                Ok(Ok(checks)) => {
                    passed += 1;
                    format!("ok ({checks} checked)")
                }
                Ok(Err(why)) => {
                    skipped += 1;
                    format!("SKIPPED {why}")
                }
                Err(error) => {
                    failed += 1;
                    format!("FAILED {error:#}")
                }
            };
            println!("{:48} {:8.2} s  {verdict}", property.name, begun.elapsed().as_secs_f64());
        }
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        failed == 0
    }
}

/// The forms of `preset` for `world` ranks that are sound, or rest on a named assumption.
pub fn sound_forms(preset: Preset, world: usize) -> Vec<(Algorithm, InputMode)> {
    let mut forms = Vec::new();
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.takes(world as u32)) {
        for input in InputMode::ALL {
            let soundness = preset.protocol(algorithm, input).map(|protocol| protocol.soundness(algorithm, input));
            match soundness {
                Some(Soundness::Sound | Soundness::RestsOn(_)) => forms.push((algorithm, input)),
                Some(Soundness::NotKnown(_)) | None => {}
            }
        }
    }
    forms
}

/// Whether a form may be used in place.
pub fn in_place((algorithm, input): (Algorithm, InputMode)) -> bool {
    match algorithm {
        Algorithm::OneShot | Algorithm::Exchange => input.staged(),
        Algorithm::TwoShot | Algorithm::OneShotPush | Algorithm::TwoShotPush | Algorithm::OnePass => true,
    }
}
