//! The layout of an operation in a rank's buffers.

use crate::measure::plan::collective::Collective;
use crate::measure::plan::run::Point;

/// The offsets of input and output, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Whether both share one buffer.
    pub(super) in_place: bool,
    /// Where the input begins in the first buffer.
    pub(super) send: usize,
    /// Its length in bytes.
    pub(super) send_bytes: usize,
    /// Where the output begins in the last buffer.
    pub(super) receive: usize,
    /// Its length in bytes.
    pub(super) receive_bytes: usize,
    sizes: [usize; 2],
}

impl Layout {
    /// The layout of an operation. In place it is NCCL's own (`nccl.h`): a rank's part is at its
    /// offset among all parts.
    ///
    /// # Errors
    ///
    /// The operation has no in-place form, or does not fit in memory.
    pub(super) fn of(point: &Point, rank: usize, ranks: usize) -> Result<Self, String> {
        let size = point.dtype.size();
        let elements = usize::try_from(point.bytes).map_err(|e| e.to_string())? / size;
        let shape = point.collective.shape(elements, ranks);
        let (send_bytes, receive_bytes) = (shape.send * size, shape.receive * size);
        let (mut send, mut receive) = (0, 0);
        if point.in_place {
            match point.collective {
                Collective::AllReduce | Collective::Broadcast | Collective::Reduce => {}
                Collective::AllGather | Collective::Gather => send = rank * send_bytes,
                Collective::ReduceScatter | Collective::Scatter => receive = rank * receive_bytes,
                Collective::AllToAll | Collective::SendRecv => {
                    return Err("NCCL does not do it in place".to_owned());
                }
            }
        }
        Ok(Layout {
            in_place: point.in_place,
            send,
            send_bytes,
            receive,
            receive_bytes,
            sizes: if point.in_place {
                [send_bytes.max(receive_bytes), 0]
            } else {
                [send_bytes, receive_bytes]
            },
        })
    }

    /// The sizes of the buffers.
    pub(super) fn buffers(&self) -> &[usize] {
        if self.in_place {
            self.sizes.get(..1).unwrap_or_default()
        } else {
            &self.sizes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::plan::collective::{DataType, Reduction};

    fn layout(collective: Collective, in_place: bool) -> Result<Layout, String> {
        let point = Point {
            collective,
            bytes: 4096,
            dtype: DataType::Float32,
            op: Reduction::Sum,
            in_place,
            iterations: 1,
            awaited: false,
            adaptive: false,
            gpu_memory: false,
            warmups: Some(0),
            trials: 1,
        };
        Layout::of(&point, 3, 4)
    }

    #[test]
    fn parts_stand_where_nccl_wants_them() {
        let of = |collective, in_place| {
            let l = layout(collective, in_place).unwrap();
            (
                l.send,
                l.send_bytes,
                l.receive,
                l.receive_bytes,
                l.buffers().to_vec(),
            )
        };
        use Collective as C;
        assert_eq!(
            of(C::AllReduce, false),
            (0, 4096, 0, 4096, vec![4096, 4096])
        );
        assert_eq!(of(C::AllReduce, true), (0, 4096, 0, 4096, vec![4096]));
        assert_eq!(
            of(C::AllGather, false),
            (0, 1024, 0, 4096, vec![1024, 4096])
        );
        assert_eq!(of(C::AllGather, true), (3072, 1024, 0, 4096, vec![4096]));
        assert_eq!(of(C::Gather, true), (3072, 1024, 0, 4096, vec![4096]));
        assert_eq!(
            of(C::ReduceScatter, true),
            (0, 4096, 3072, 1024, vec![4096])
        );
        assert_eq!(of(C::Scatter, false), (0, 4096, 0, 1024, vec![4096, 1024]));
        assert_eq!(of(C::AllToAll, false), (0, 4096, 0, 4096, vec![4096, 4096]));
        assert!(layout(C::AllToAll, true).is_err());
        assert!(layout(C::SendRecv, true).is_err());
    }
}
