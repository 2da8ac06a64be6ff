//! The whole: what each node gives to it, in place of its facts, and how that is joined.

pub mod area_line;
mod contribution;
mod counts;
mod damage;
mod evidence;
mod failure;
mod given;
mod inventory;
mod node_head;
mod open_question;
pub mod peers;
pub mod relations;
pub mod remedy;
mod waived_finding;
mod wording;

pub use area_line::AreaLine;
pub use contribution::{Contribution, is_empty, is_figure_alone, is_left_open};
pub use counts::Counts;
pub use evidence::{EvidenceLine, Pass};
pub use failure::{Failure, Key};
pub use node_head::{NodeHead, RecordedNode};
pub use open_question::{OpenQuestion, UnwordedQuestion};
pub use waived_finding::WaivedFinding;
pub use wording::Writer;
