//! A site's files, a check with its condition, its limits, the areas that it requires and its own file: whatever they hold, they are taken or refused with a reason.

use rdma_doctor::check::{Catalogue, SiteConfig, SiteFile};
use rdma_doctor::cli::require;

/// Tries one input.
pub fn run(bytes: &[u8]) {
    // The first byte chooses the file, the others are what it holds.
    let [which, text @ ..] = bytes else { return };
    let text = String::from_utf8_lossy(text).into_owned();
    // Limits are those of the built-in checks; a check needs no other.
    let (inside, mut catalogue) = match which % 4 {
        1 => {
            if let Err(refused) = require::of_site(&text) {
                assert!(!refused.is_empty());
            }
            return;
        }
        2 => {
            let mut catalogue = Catalogue::embedded().expect("the built-in checks are valid");
            let config = SiteConfig::read("config.toml".into(), text);
            if let Err(refused) = config.and_then(|config| config.apply(&mut catalogue)) {
                assert!(!refused.to_string().is_empty());
            }
            return;
        }
        0 => (
            "limits.toml",
            Catalogue::embedded().expect("the built-in checks are valid"),
        ),
        _ => ("site/fuzzed.toml", Catalogue::default()),
    };
    let file = SiteFile {
        inside: inside.into(),
        name: inside.into(),
        text,
    };
    if let Err(refused) = catalogue.add_site([file]) {
        assert!(!refused.to_string().is_empty());
    }
}
