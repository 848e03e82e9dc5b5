//! P5: the canonical form against an independent model of JSON values and their many spellings.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::value::RawValue;
use unavez_core::json::{Fields, NotCanonical, canonical, canonical_of};

fn form(text: impl AsRef<[u8]>) -> Result<String, NotCanonical> {
    canonical(text.as_ref()).map(|form| String::from_utf8(form.as_bytes().to_vec()).unwrap())
}

/// A JSON value as its author means it, apart from any spelling.
#[derive(Clone, Debug)]
enum Json {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// ± digits x 10^exponent.
#[derive(Clone, Debug)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i32,
}

impl Decimal {
    /// The value in units of 10^-40, as sign and digits: plain positional notation, apart from the form.
    fn units(&self) -> (bool, String) {
        let zeros = usize::try_from(self.exponent + 40).unwrap();
        let units = format!("{}{}", self.digits, "0".repeat(zeros));
        let units = units.trim_start_matches('0').to_owned();
        (self.negative && !units.is_empty(), units)
    }
}

fn same(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Null, Json::Null) => true,
        (Json::Bool(one), Json::Bool(other)) => one == other,
        (Json::Number(one), Json::Number(other)) => one.units() == other.units(),
        (Json::Text(one), Json::Text(other)) => one == other,
        (Json::Array(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.iter().any(|(n, other)| n == name && same(one, other)))
        }
        _ => false,
    }
}

/// Spells a value in one of its many ways; `whim` decides which.
struct Speller<'a> {
    whim: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    text: String,
}

impl Speller<'_> {
    fn spell(value: &Json, whim: &[u8]) -> String {
        let mut speller = Speller { whim: whim.iter().cycle(), text: String::new() };
        speller.space();
        speller.value(value);
        speller.space();
        speller.text
    }

    fn choose(&mut self, below: usize) -> usize {
        usize::from(*self.whim.next().unwrap()) % below
    }

    fn space(&mut self) {
        let spaces = ["", "", "", " ", "\t", "\r\n", "  "];
        let chosen = self.choose(spaces.len());
        self.text.push_str(spaces[chosen]);
    }

    fn value(&mut self, value: &Json) {
        match value {
            Json::Null => self.text.push_str("null"),
            Json::Bool(value) => write!(self.text, "{value}").unwrap(),
            Json::Number(value) => self.number(value),
            Json::Text(value) => self.string(value),
            Json::Array(items) => self.list('[', ']', items, |speller, item| speller.value(item)),
            Json::Object(members) => {
                let mut members = members.clone();
                let by = self.choose(members.len() + 1).min(members.len());
                members.rotate_left(by);
                if self.choose(2) == 0 {
                    members.reverse();
                }
                self.list('{', '}', &members, |speller, (name, value)| {
                    speller.string(name);
                    speller.space();
                    speller.text.push(':');
                    speller.space();
                    speller.value(value);
                });
            }
        }
    }

    fn list<T>(&mut self, open: char, close: char, items: &[T], spell: impl Fn(&mut Self, &T)) {
        self.text.push(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.space();
            spell(self, item);
            self.space();
        }
        self.text.push(close);
    }

    /// Puts the point anywhere in the digits and makes up for it in the exponent.
    fn number(&mut self, value: &Decimal) {
        let behind = self.choose(value.digits.len() + 3);
        let padded = format!("{}{}", "0".repeat(3), value.digits);
        let (integer, fraction) = padded.split_at(padded.len() - behind);
        let integer = integer.trim_start_matches('0');
        let zeros = self.choose(3);
        self.text.push_str(if value.negative { "-" } else { "" });
        self.text.push_str(if integer.is_empty() { "0" } else { integer });
        if behind + zeros > 0 {
            write!(self.text, ".{fraction}{}", "0".repeat(zeros)).unwrap();
        }
        let exponent = value.exponent + i32::try_from(behind).unwrap();
        if exponent != 0 || self.choose(2) == 0 {
            let sign = if exponent < 0 { "-" } else { ["", "+"][self.choose(2)] };
            let e = ["e", "E"][self.choose(2)];
            let zeros = "0".repeat(self.choose(20));
            write!(self.text, "{e}{sign}{zeros}{}", exponent.abs()).unwrap();
        }
    }

    fn string(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            let short = "\"\"\\\\//\u{8}b\u{c}f\nn\rr\tt";
            let short =
                short.chars().step_by(2).zip(short.chars().skip(1).step_by(2)).find(|(c, _)| *c == character);
            match (self.choose(3), short) {
                (0, Some((_, letter))) => write!(self.text, "\\{letter}").unwrap(),
                (1, _) if !matches!(character, '\0'..='\u{1f}' | '"' | '\\') => self.text.push(character),
                _ => {
                    let upper = self.choose(2) == 0;
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let digits = if upper { format!("{unit:04X}") } else { format!("{unit:04x}") };
                        write!(self.text, "\\u{digits}").unwrap();
                    }
                }
            }
        }
        self.text.push('"');
    }
}

/// Values from so small a world that two of them are often equal, or nearly.
fn value() -> impl Strategy<Value = Json> {
    let number = (any::<bool>(), "0|1|10|2|25|250|9007199254740992|9007199254740993", -3..4_i32)
        .prop_map(|(negative, digits, exponent)| Json::Number(Decimal { negative, digits, exponent }));
    let text = prop::sample::select(vec![
        "",
        "a",
        "b",
        "\"",
        "\\",
        "\n",
        "\u{e9}",
        "\u{1f600}",
        "\u{fffd}",
        "a/\u{1}",
    ]);
    let leaf = prop_oneof![
        1 => Just(Json::Null),
        1 => any::<bool>().prop_map(Json::Bool),
        4 => number,
        2 => text.clone().prop_map(|text| Json::Text(text.to_owned())),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let members = prop::collection::btree_map(text.clone(), inner.clone(), 0..3);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Json::Array),
            members.prop_map(|members| {
                Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

fn whim() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..40)
}

/// JSON's own characters in any order: mostly no JSON, but nearly.
fn json_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\"a\"", "\"a\":", "\"b\":1", "\\u0061", "\\ud800",
        "\\udc00", "\\n", "-", "+", "0", "1", "12", ".", "e", "E", "5e-7", "true", "false", "null", "nul",
        " ", "\n", "\u{1}", "\u{e9}", "\u{feff}",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat().into_bytes())
}

/// As far as floats tell the numbers apart; exactness is the other tests' matter.
fn same_to_serde(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (one, other) {
        (Number(one), Number(other)) => {
            let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
            (one - other).abs() <= one.abs() * 1e-12
        }
        (Array(one), Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_to_serde(one, other))
        }
        (Object(one), Object(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| one.0 == other.0 && same_to_serde(one.1, other.1))
        }
        _ => one == other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) })]

    #[test]
    fn p5_every_spelling_of_a_value_has_one_form(value in value(), one in whim(), other in whim()) {
        let (one, other) = (Speller::spell(&value, &one), Speller::spell(&value, &other));
        prop_assert_eq!(form(&one), form(&other), "{}\n{}", one, other);
        prop_assert!(form(one).is_ok());
    }

    #[test]
    fn p5_forms_are_equal_exactly_for_equal_values(one in value(), other in value(), whims in (whim(), whim())) {
        let texts = (Speller::spell(&one, &whims.0), Speller::spell(&other, &whims.1));
        prop_assert_eq!(form(&texts.0) == form(&texts.1), same(&one, &other), "{}\n{}", texts.0, texts.1);
    }

    /// Decimals alone, since they are what is often done wrong.
    #[test]
    fn p5_numbers_are_equal_exactly_as_decimals(
        one in ("[0-9]{1,3}0{0,3}", -6..6_i32, any::<bool>()),
        other in ("[0-9]{1,3}0{0,3}", -6..6_i32, any::<bool>()),
        whims in (whim(), whim()),
    ) {
        let number = |(digits, exponent, negative)| Json::Number(Decimal { negative, digits, exponent });
        let (one, other) = (number(one), number(other));
        let texts = (Speller::spell(&one, &whims.0), Speller::spell(&other, &whims.1));
        prop_assert_eq!(form(&texts.0) == form(&texts.1), same(&one, &other), "{}\n{}", texts.0, texts.1);
    }

    /// The form is JSON, means what the text meant, and is its own form.
    #[test]
    fn p5_the_form_is_json_of_the_same_value(value in value(), whim in whim()) {
        let text = Speller::spell(&value, &whim);
        let form = form(&text).unwrap();
        let [meant, kept] = [&text, &form].map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap());
        prop_assert!(same_to_serde(&meant, &kept), "{}\n{}", text, form);
        prop_assert_eq!(self::form(&form), Ok(form));
    }

    /// Unparsable is exactly what serde_json's grammar refuses.
    #[test]
    fn c104_the_grammar_is_that_of_serde_json(text in json_like()) {
        let grammatical = serde_json::from_slice::<&RawValue>(&text).is_ok();
        let read = canonical(&text);
        let shown = String::from_utf8_lossy(&text);
        prop_assert_eq!(read != Err(NotCanonical::Unparsable), grammatical, "{:?} {:?}", shown, read);
    }

    #[test]
    fn c104_no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in json_like()) {
        let fields = Fields::except(["/a/0", "/b"]).unwrap();
        for text in [bytes, text] {
            let read = canonical(&text);
            let chosen = canonical_of(&text, &fields);
            prop_assert_eq!(read.is_ok(), chosen.is_ok());
            prop_assert_eq!(read.err(), chosen.err());
        }
    }
}
