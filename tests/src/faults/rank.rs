//! A rank with its communicator, and calls whose results it checks.

use allfold::{
    Algorithm, CallOptions, Communicator, Dtype, Error, InputMode, Memory, RankBuffers, ReduceOp, Registered,
    Registration,
};

/// Bytes of a call at most.
pub const BYTES: usize = 4096;

/// A call of a rank's.
#[derive(Clone, Copy)]
pub struct Call {
    pub dtype: Dtype,
    pub elems: usize,
    pub algorithm: Algorithm,
    pub input: InputMode,
    pub grid: Option<(u32, u32)>,
}

/// A rank with its communicator, and memory that others can reach.
pub struct Rank {
    pub comm: Communicator,
    memory: Memory,
    name: Option<Registration>,
    pub rank: u32,
    pub world: u32,
}

impl Rank {
    pub fn new(mut comm: Communicator) -> allfold::Result<Rank> {
        let rank = comm.local_ranks().start as u32;
        let memory = Memory::host(4 * BYTES)?;
        // SAFETY: the memory lives as long as the communicator.
        let name = unsafe { comm.register(&[memory.span()]) }?;
        Ok(Rank { world: comm.world() as u32, comm, memory, name: Some(name), rank })
    }

    /// Makes a call and checks what comes of it.
    pub fn call(&mut self, call: Call, number: u32) -> Result<(), Error> {
        match call.dtype {
            Dtype::F32 => self.call_of::<f32>(call, number),
            Dtype::I32 => self.call_of::<i32>(call, number),
            Dtype::F16 | Dtype::Bf16 => unreachable!("no cell has it"),
        }
    }

    fn call_of<T: allfold::Element + Value>(&mut self, call: Call, number: u32) -> Result<(), Error> {
        let data = self.memory.as_mut_slice::<T>().expect("host memory");
        let (input, output) = data.split_at_mut(data.len() / 2);
        let (input, output) = (&mut input[..call.elems], &mut output[..call.elems]);
        let of = |rank: u32, elem: usize| T::of((rank + 1) * (1 + (number + elem as u32) % 5));
        input.iter_mut().enumerate().for_each(|(elem, x)| *x = of(self.rank, elem));
        output.fill(T::of(77));
        let registered = match (call.input, self.name) {
            (InputMode::Registered, Some(name)) if !call.algorithm.pushes() => {
                Registered::By { input: name, output: name }
            }
            _ => Registered::No,
        };
        let options = CallOptions {
            algorithm: Some(call.algorithm),
            input: Some(call.input),
            registered,
            blocks: call.grid.map(|(blocks, _)| blocks),
            threads: call.grid.map(|(_, threads)| threads),
        };
        // Left as it is until the call has returned.
        let buffers = [RankBuffers::new(&*input, &mut *output)];
        self.comm.all_reduce_with(&buffers, ReduceOp::Sum, &options)?;
        let all = (0..self.world).map(|rank| rank + 1).sum::<u32>();
        for (elem, &x) in output.iter().enumerate() {
            let wanted = T::of(all * (1 + (number + elem as u32) % 5));
            assert_eq!(x, wanted, "element {elem} of call {number} of rank {} of {}", self.rank, self.world);
        }
        Ok(())
    }
}

trait Value: Copy + PartialEq + std::fmt::Debug {
    fn of(number: u32) -> Self;
}

impl Value for f32 {
    fn of(number: u32) -> f32 {
        number as f32
    }
}

impl Value for i32 {
    fn of(number: u32) -> i32 {
        number as i32
    }
}
