//! Every exit status, and what it means. Compatible with Nagios plugins.

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Nothing failed, and every required area was examined.
    Healthy = 0,
    /// Warnings only.
    Warnings = 1,
    /// At least one error.
    Errors = 2,
    /// No error, but a required area was not examined, something is damaged, or there was nothing to examine.
    Undecided = 3,
    /// The command line is not understood.
    Usage = 64,
    /// An input (a recording, a check) is unreadable or invalid.
    Input = 65,
    /// The doctor's own failure.
    Internal = 70,
    /// No report could be written by the deadline.
    Deadline = 124,
}

impl Exit {
    /// All statuses, in the order of the manual page.
    pub const ALL: [Exit; 8] = [
        Exit::Healthy,
        Exit::Warnings,
        Exit::Errors,
        Exit::Undecided,
        Exit::Usage,
        Exit::Input,
        Exit::Internal,
        Exit::Deadline,
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The status of this number; what no doctor ends with is a fault in itself.
    pub fn from_code(code: u64) -> Self {
        let is = |exit: &Exit| u64::from(exit.code()) == code;
        Exit::ALL.into_iter().find(is).unwrap_or(Exit::Internal)
    }

    /// The meaning, for the manual page.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Healthy => "nothing failed, and every required area was examined",
            Exit::Warnings => "warnings only",
            Exit::Errors => "at least one error",
            Exit::Undecided => {
                "undecided: no error, but a required area was not examined, something did not answer, or there was nothing to examine"
            }
            Exit::Usage => "the command line is not understood",
            Exit::Input => "an input (a recording, a check) is unreadable or invalid",
            Exit::Internal => "the doctor's own failure",
            Exit::Deadline => "no report could be written by the deadline",
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit.code())
    }
}
