//! Reports: one self-contained HTML page each, with inline styles and charts, no scripts, nothing loaded from anywhere.
//!
//! A measurement makes a [`Chapter`], which stands on a page of its own or with others on one page.
//!
//! A page is readable in light and dark, on a phone and on paper. Every text that comes from outside is escaped; the
//! only unescaped pieces are charts that this module has rendered from templates of its own.

mod accept;
mod all;
mod break_;
mod breaker;
mod chart;
mod day;
mod fleet;
mod herd;
mod naming;
mod strip;

use std::{
    fs::{self, OpenOptions},
    io::ErrorKind,
    path::Path,
};

use askama::Template;

use crate::{Error, Lang};

pub use accept::accept;
pub use all::all;
pub use break_::break_;
pub use breaker::breaker;
pub use day::day;
pub use fleet::fleet;
pub use herd::herd;
pub use naming::keys;

/// One measurement as a page tells it.
#[derive(Debug, Clone)]
pub struct Chapter {
    /// The command that measures it, without its flags.
    command: &'static str,
    /// What came out, in a sentence.
    headline: String,
    /// Whether it came out as it should.
    held: bool,
    /// Everything that shows it, as HTML.
    body: String,
    lang: Lang,
}

/// What came out, and whether it should.
struct Headline {
    says: String,
    held: bool,
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    lang: Lang,
    chapter: &'a Chapter,
    made_at: String,
}

impl Chapter {
    fn new(command: &'static str, headline: Headline, body: &impl Template, lang: Lang) -> Self {
        let Headline { says, held } = headline;
        Self { command, headline: says, held, body: rendered(body), lang }
    }

    /// The command that measures it, without its flags.
    pub fn command(&self) -> &'static str {
        self.command
    }

    /// What came out, in a sentence.
    pub fn headline(&self) -> &str {
        &self.headline
    }

    /// Whether it came out as it should.
    pub fn held(&self) -> bool {
        self.held
    }

    /// A page of its own.
    pub fn page(&self) -> String {
        rendered(&Page { lang: self.lang, chapter: self, made_at: now() })
    }
}

/// Sees beforehand whether [`write()`] can write there. Leaves nothing behind and changes nothing.
///
/// # Errors
///
/// When the file cannot be written; names it.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.write(true);
    let opened = match options.clone().create_new(true).open(path) {
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path).map(drop),
        Err(error) => Err(error),
    };
    opened.map_err(|error| unwritable(path, &error))
}

/// Writes a page to a file, replacing what was there.
///
/// # Errors
///
/// When the file cannot be written; names it.
pub fn write(path: &Path, page: &str) -> Result<(), Error> {
    fs::write(path, page).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    let path = path.display();
    Error::unreachable((
        format!("report {path} cannot be written: {error}"),
        format!("no se puede escribir el informe {path}: {error}"),
    ))
}

/// Renders a template of this crate.
fn rendered(template: &impl Template) -> String {
    template.render().expect("a template that only writes to memory has nothing to fail on")
}

/// When the page was made, to the minute, in UTC.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::Chapter;
    use crate::{
        Lang, Mutation,
        accept::{self, Outcome, Test},
        all, break_, breaker, day,
        fleet::{Figures, Intent, Loss, Sweep, World},
        herd, naming,
    };

    fn world(total_charged: u64) -> World {
        World {
            requests: 2,
            executions: 2,
            ledger_charges: 2,
            orders_charged_twice: 0,
            orders_not_charged: 0,
            total_charged,
            overcharge: total_charged - 100,
            undercharge: 0,
            overcharge_percent: crate::money::percent(total_charged - 100, 100),
            unconfirmed: 0,
            found_by_key_status: 0,
        }
    }

    fn figures(loss: f64) -> Figures {
        Figures {
            seed: 1,
            orders: 1,
            loss: Loss::new(loss).expect("a share"),
            attempts: 4,
            mutation: None,
            intent: Intent { charges: 1, total: 100 },
            before: Some(world(250)),
            after: world(100),
        }
    }

    fn pages(lang: Lang) -> [String; 7] {
        sample().chapters(&all::Options::default(), lang).each_ref().map(Chapter::page)
    }

    fn page_of_all(lang: Lang) -> String {
        super::all(&all::Options::default(), &sample(), lang)
    }

    fn sample() -> all::Report {
        let test = Test {
            name: "two-tenants",
            result: Outcome::Failed,
            passed: false,
            charges: 1,
            total: 500,
            expected_charges: 2,
            detail: ("answered <script>alert('é')</script> & more", "…").into(),
        };
        let accept = accept::Report { passed: 0, failed: 1, skipped: 1, mutation: None, tests: vec![test] };
        let broken = break_::Broken {
            name: Mutation::NoFence,
            predicted: vec!["lost-owner"],
            breaks: vec!["lost-owner"],
            as_predicted: true,
            observed: [("lost-owner", break_::Observed { charges: 2, total: 1_000 })].into(),
        };
        let break_ = break_::Report { mutations: vec![broken] };
        all::Report {
            fleet: figures(0.15),
            sweep: Sweep { orders: 1, points: vec![figures(0.0), figures(0.9)] },
            rules: all::trace(&accept, &break_),
            accept,
            break_,
            keys: naming::sample(),
            day: day::sample(),
            herd: herd::sample(),
            breaker: breaker::sample(),
        }
    }

    #[test]
    fn a_page_stands_alone() {
        for lang in [Lang::En, Lang::Es] {
            for page in pages(lang).into_iter().chain([page_of_all(lang)]) {
                assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
                // To another place of the same page, no further.
                let page = page.replace("href=\"#", "");
                for loads in ["<script", "<link", "<img", "<iframe", "src=", "href=", "@import", "url("] {
                    assert!(!page.contains(loads), "the page has {loads}");
                }
            }
        }
    }

    #[test]
    fn one_page_has_every_chapter_and_every_rule() {
        let page = page_of_all(Lang::En);
        for chapter in sample().chapters(&all::Options::default(), Lang::En) {
            let name = chapter.command.rsplit(' ').next().expect("a command");
            assert!(page.contains(&format!("<a href=\"#{name}\">")), "no link to {name}");
            assert!(page.contains(&format!("<section class=\"chapter\" id=\"{name}\">")), "no {name}");
        }
        for traced in sample().rules {
            assert!(page.contains(&format!("<b>{}</b> {}", traced.rule, traced.title.say(Lang::En))));
        }
        assert!(page.contains("unavez lab day --seed 42") && page.contains("unavez lab fleet --seed 42"));
        assert!(!page.contains("<h1>Lost answers"), "a chapter's title is no title of the page");
    }

    /// Words that are in nearly every sentence of the one language and in none of the other.
    const ENGLISH: [&str; 16] = [
        "the", "of", "and", "was", "were", "with", "is", "not", "which", "it", "that", "what", "each", "for",
        "by", "to",
    ];
    const SPANISH: [&str; 14] =
        ["el", "los", "las", "que", "una", "un", "del", "para", "con", "se", "su", "por", "y", "cada"];

    /// What a person reads of a page: its text without styles, commands and programs.
    fn read(page: &str) -> String {
        let mut text = page.to_owned();
        for quoted in ["style", "pre", "code"] {
            while let Some(start) = text.find(&format!("<{quoted}")) {
                let end = format!("</{quoted}>");
                let length = text[start..].find(&end).expect("every element ends") + end.len();
                text.replace_range(start..start + length, " ");
            }
        }
        text.split('<')
            .map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text))
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn check_language(text: &str, foreign: &[&str], what: &str) {
        let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
        let found: Vec<&str> = words.filter(|word| foreign.contains(&word.to_lowercase().as_str())).collect();
        assert!(found.is_empty(), "{what} has {found:?}: {text}");
    }

    #[test]
    fn no_page_and_no_table_lacks_its_translation() {
        for (lang, foreign) in [(Lang::En, SPANISH.as_slice()), (Lang::Es, ENGLISH.as_slice())] {
            let (mut report, options) = (sample(), all::Options::default());
            // Where a test saw something, it says so in both languages; this one quotes a page.
            report.accept.tests[0].detail = ("seen", "visto").into();
            for chapter in report.chapters(&options, lang) {
                check_language(&read(&chapter.page()), foreign, chapter.command);
            }
            check_language(&read(&super::all(&options, &report, lang)), foreign, "the page of all");
            for table in [
                report.fleet.render(lang),
                report.accept.render(lang),
                report.break_.render(lang),
                report.keys.render(lang),
                report.day.render(lang),
                report.herd.render(lang),
                report.breaker.render(lang),
                report.render(&options, lang),
            ] {
                check_language(&anstream::adapter::strip_str(&table).to_string(), foreign, "a table");
            }
        }
    }

    #[test]
    fn templates_hold_no_words_of_their_own() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        for template in std::fs::read_dir(folder).expect("the templates") {
            let path = template.expect("a file").path();
            if path.extension().is_none_or(|extension| extension != "html") {
                continue;
            }
            let mut text = std::fs::read_to_string(&path).expect("a template is text");
            while let Some(start) =
                text.find(['{']).filter(|&at| text[at..].starts_with("{{") || text[at..].starts_with("{%"))
            {
                let end = if text[start..].starts_with("{{") { "}}" } else { "%}" };
                let length = text[start..].find(end).expect("every expression ends") + 2;
                text.replace_range(start..start + length, "");
            }
            let words =
                read(&text).replace("unavez lab all", "").replace("unavez", "").replace("doctype html", "");
            assert!(!words.contains(|letter: char| letter.is_alphabetic()), "{}: {words}", path.display());
        }
    }

    #[test]
    fn what_came_from_outside_is_escaped() {
        let [_, page, ..] = pages(Lang::En);
        assert!(page.contains("answered &#60;script&#62;alert(&#39;é&#39;)&#60;/script&#62; &#38; more"));
    }

    #[test]
    fn a_test_without_a_mark_or_a_column_is_explained() {
        let [_, _, page, ..] = pages(Lang::En);
        let note = page.split("No piece here makes ").nth(1).expect("tests are without a mark here");
        let note = note.split("</p>").next().expect("a paragraph");
        assert!(note.contains("two-tenants") && !note.contains("lost-owner"), "{note}");
        assert!(note.contains("after-kill has no column"), "{note}");
    }

    #[test]
    fn charges_are_counted_in_words_that_fit() {
        let [_, page, ..] = pages(Lang::En);
        assert!(page.contains("1 of 2 charges · $500"), "{page}");
    }

    #[test]
    fn the_chart_has_both_lines_on_both_screens() {
        let [page, ..] = pages(Lang::En);
        assert_eq!(
            page.matches("before: 150.0 %").count(),
            2,
            "the label of the last point, wide and on a phone"
        );
        assert_eq!(page.matches("after: 0.0 %").count(), 2);
    }

    #[test]
    fn a_herd_shows_every_way_of_waiting_and_both_halves() {
        let [.., page, _] = pages(Lang::En);
        assert_eq!(page.matches("class=\"chart strip\"").count(), 6, "a strip for each way of waiting");
        assert_eq!(page.matches("class=\"card ").count(), 4, "two by two");
        assert_eq!(page.matches("class=\"card before\"").count(), 2, "without memory, both are bad");
        assert!(page.contains("unavez lab herd --seed 42 --clients 1000"));
    }

    #[test]
    fn a_breaker_shows_its_probes_in_every_world() {
        let [.., page] = pages(Lang::En);
        assert_eq!(page.matches("class=\"chart strip\"").count(), 6, "three worlds, wide and on a phone");
        assert_eq!(
            page.matches("class=\"mark bad\"").count(),
            4,
            "a probe and its repeat, wide and on a phone"
        );
    }

    #[test]
    fn a_page_names_its_seeds_and_its_command() {
        let [page, ..] = pages(Lang::En);
        assert!(page.contains("unavez lab fleet --seed 42 --orders 1000 --loss 0.15 --attempts 4"));
        assert!(page.contains("random.Random(1), random.Random(2)"));
    }

    #[test]
    fn a_page_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let nowhere = folder.path().join("no/such/page.html");
        for path in [nowhere.as_path(), folder.path()] {
            for refused in [super::write(path, "page"), super::check_writable(path)] {
                let error = refused.expect_err("no such folder, or no file");
                assert!(error.to_string().contains(&path.display().to_string()), "{error}");
                assert_eq!(error.exit_code(), 3);
            }
        }
    }

    #[test]
    fn to_see_whether_a_page_can_be_written_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page.html");
        super::check_writable(&path).expect("a new file");
        assert!(!path.exists());
        super::write(&path, "page").expect("written");
        super::check_writable(&path).expect("an old file");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "page");
    }
}
