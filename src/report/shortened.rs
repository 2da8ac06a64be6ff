//! Labels cut to a length.

/// The first letters of a text, at most so many; what is cut ends in `mark`.
pub(super) fn shortened(text: &str, letters: usize, mark: &str) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept = letters.saturating_sub(mark.chars().count());
    let kept: String = text.chars().take(kept).collect();
    format!("{}{mark}", kept.trim_end())
}
