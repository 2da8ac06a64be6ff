//! Words that say nothing as the whole name of a function.

/// A function is a verb in the field's words, or a noun for what it returns. These are neither:
/// whoever reads the call does not learn what happens.
const VAGUE: [(&str, &str); 4] = [
    (
        "how two things stand to each other, without the things",
        "about above across after against along among around aside at away back because before behind below beside \
         between beyond by during except in inside near of off on out outside over past since than then through to \
         together toward under until up upon when where while within without",
    ),
    (
        "which of some things, without the things",
        "again alone also another any anything apart both each either elsewhere every everything few here many more \
         most much neither no nobody none nothing one other others own same several some something such that them \
         there these they this those three two what whatever which whichever who whole whose why",
    ),
    (
        "that something is, was said or was done, without what",
        "be became been came did do does done gave give given go goes gone had happened have heard held is keeps kept \
         left like made make makes met needs put said saw say says see seen tell tells told took was went were",
    ),
    (
        "a thing of any kind",
        "desk fate gist home lot odd part piece seat sight state states stuff thing things way ways",
    ),
];

/// Whether a name says nothing.
pub(crate) fn is_vague(name: &str) -> bool {
    let mut words = VAGUE.iter().flat_map(|(_, words)| words.split_whitespace());
    words.any(|word| word == name)
}
