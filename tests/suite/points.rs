//! Each collective of each type, for tests that try them all.

use rdma_doctor::measure::plan::collective::{Collective, DataType, Reduction};

/// What a point is to do.
pub(crate) struct Wanted {
    pub(crate) collective: Collective,
    pub(crate) dtype: DataType,
    pub(crate) op: Reduction,
    pub(crate) in_place: bool,
    pub(crate) bytes: u64,
}

/// All collectives of all types: sums out of place and in place, the largest, and the smallest in place, each of so many bytes. What all-to-all and
/// send-recv do is not done in place.
pub(crate) fn all(sizes: [u64; 4]) -> impl Iterator<Item = Wanted> {
    let [sum, sum_in_place, max, min] = sizes;
    let ways = [
        (false, Reduction::Sum, sum),
        (true, Reduction::Sum, sum_in_place),
        (false, Reduction::Max, max),
        (true, Reduction::Min, min),
    ];
    Collective::ALL.iter().copied().flat_map(move |collective| {
        let moves = matches!(collective, Collective::AllToAll | Collective::SendRecv);
        DataType::ALL.iter().copied().flat_map(move |dtype| {
            let ways = ways.into_iter();
            let done = ways.filter(move |(in_place, ..)| !(*in_place && moves));
            done.map(move |(in_place, op, bytes)| Wanted {
                collective,
                dtype,
                op,
                in_place,
                bytes,
            })
        })
    })
}
