//! `unavez call METHOD URL`: the retrying client on the command line, for scripts and cron.
//!
//! 1. Standard output is the body of the final answer, byte for byte, and nothing else. What happens goes to standard
//!    error, the key before the first attempt: whoever is interrupted after it can still ask.
//! 2. The exit code is the result: 0 done, 1 refused, 4 unknown. An unknown one comes with the command that asks again.
//!    Nothing that cannot be written changes it, but that an answer which is lost here as well is 5.
//! 3. Without `--again` nothing is known to have been sent before, so a refusal of the first attempt is believed. With it,
//!    only the answer that the server keeps for the key is (P32).

mod again;
mod body;
mod key;
mod secret;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Response};
use unavez_client::{
    BreakerLimits, BudgetLimits, Client, Event, Key, Last, Listen, Operation, OperationParts, Outcome,
    Preset, Received, Resolve, Unknown, Wire,
};

use self::body::Body;
use self::key::KeyOf;
use self::secret::{MASK, Secrets};
use crate::exit::{Exit, Failure};
use crate::output::{harmless, tell};
use crate::{client, duration, number};

/// Headers that say where a request goes and where it ends. A wrong one sends half an operation, or another one.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Flags of `unavez call`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unavez call --key charge:o-1001 POST http://127.0.0.1:8080/v1/charges -d @charge.json
      one charge, however often the answer is lost
  unavez call --key-of charge:order_id POST http://127.0.0.1:8080/v1/charges -d @charge.json
      the same, with the key taken from the body: charge:o-1001
  unavez call --preset stripe --api-key-file key POST https://api.stripe.com/v1/charges \\
      -H 'Content-Type: application/x-www-form-urlencoded' -d amount=500

A key names one operation: sent again with it, it takes effect once. Without --key and --key-of a
POST or PATCH gets one that is printed before the first attempt; a script that may be killed names
its own.

Exit codes:
  0  done: the body of the answer is on standard output
  1  refused, for good: so is the refusal
  2  wrong use: nothing was sent
  4  unknown: it may have happened, so do not start anew with another key
  5  done or refused, as standard error says, and standard output did not take the answer
On 4 the command that asks again is printed. Once an attempt may have been received it has --again,
with which a refusal counts only if it is the answer kept for the key: what refuses now may never
have seen that attempt. A loop of your own does the same, and leaves what stays unknown to a person:
  again=
  for i in 1 2 3 4 5; do
    unavez call $again --key K POST URL 2>said; code=$?
    [ $code -eq 4 ] || break
    grep -q '^unknown: nothing happened yet' said || again=--again
    sleep 60
  done
  cat said >&2; exit $code")]
pub(crate) struct CallArgs {
    /// POST, PATCH, PUT, DELETE, GET …
    #[arg(value_name = "METHOD", value_parser = method)]
    method: Method,

    /// Where to: http://… or https://…
    #[arg(value_name = "URL")]
    url: String,

    /// The key of the operation
    #[arg(long, value_name = "KEY", value_parser = key::parse)]
    key: Option<Key>,

    /// Make the key of a word and members of the JSON body, such as charge:order_id
    #[arg(long, value_name = "WORD:MEMBER", value_parser = KeyOf::parse)]
    key_of: Option<KeyOf>,

    /// Send no key: the request is then sent again only if nothing of it had left
    #[arg(long)]
    no_key: bool,

    /// An earlier call with this key may have been received
    #[arg(long)]
    again: bool,

    /// The body: text, @FILE, or @- for standard input. JSON unless a header says otherwise
    #[arg(short = 'd', long, value_name = "DATA")]
    data: Option<Body>,

    /// A header, `Name: value`; may be given several times
    #[arg(short = 'H', long, value_name = "HEADER", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,

    /// File with the API key on its first line, sent as `Authorization: Bearer …`
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// What kind of server it is: any, unavez, ietf, stripe, mercadopago, adyen, paypal, square
    #[arg(long, value_name = "NAME", default_value = "any", value_parser = preset)]
    preset: Named,

    /// How often to send again at most
    #[arg(long, value_name = "N", default_value = "4", value_parser = number::within(0..=100_u32))]
    retries: u32,

    /// How long one attempt may take
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_positive)]
    timeout: Duration,

    /// How long all of it may take
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse_positive)]
    deadline: Duration,

    /// Say nothing on standard error but a key made for this call, and how what is unknown is resolved
    #[arg(short, long)]
    quiet: bool,
}

/// A preset by its name.
#[derive(Clone, Debug)]
pub(crate) struct Named(Preset);

/// Runs `unavez call`.
pub(crate) fn run(args: &CallArgs) -> Result<Exit, Failure> {
    let operation = operation(args)?;
    let api_key = args.api_key_file.as_deref().map(client::read_api_key).transpose()?;
    let client = client(args, api_key.as_deref())?;
    let told = Told { quiet: args.quiet };
    match operation.key() {
        // Nobody else knows it, so it is said whatever is to be kept quiet.
        Some(key) if is_made(args) => tell(&format!("key {} (made for this call)", key.as_str())),
        Some(key) => told.line(&format!("key {}", key.as_str())),
        None => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::unavailable(format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(client.call_heard(&operation, &told));
    match outcome.map_err(|unfit| Failure::usage(unfit.to_string()))? {
        Outcome::Done(answer) => settled(&told, "done", &answer, Exit::Done),
        Outcome::Refused(answer) => settled(&told, "refused", &answer, Exit::CheckFailed),
        Outcome::Unknown(unknown) => Ok(unresolved(args, &unknown, &Secrets::of(args, api_key.as_deref()))),
    }
}

fn is_made(args: &CallArgs) -> bool {
    args.key.is_none() && args.key_of.is_none()
}

fn operation(args: &CallArgs) -> Result<Operation, Failure> {
    let usage = |unfit: unavez_client::Unfit| Failure::usage(unfit.to_string());
    if args.url.contains(MASK) {
        return Err(Failure::usage(format!("where the address has {MASK} it has to be filled in")));
    }
    let body = args.data.as_ref().map(Body::read).transpose()?;
    let mut operation = Operation::new(args.method.clone(), &args.url).map_err(usage)?;
    for (name, value) in &args.header {
        operation = operation.add_header(name.clone(), value.clone());
    }
    let has_type = args.header.iter().any(|(name, _)| name == CONTENT_TYPE);
    operation = match (key::chosen(args, body.as_deref())?, args.no_key) {
        (Some(key), _) => operation.with_key(key),
        (None, true) => operation.without_key(),
        (None, false) => operation,
    };
    operation = match body {
        Some(body) if has_type => operation.with_body(body),
        Some(body) => operation.with_json(body),
        None => operation,
    };
    let received = if args.again { Received::Perhaps } else { Received::No };
    Operation::from_parts(OperationParts { received, ..operation.into_parts() }).map_err(usage)
}

fn client(args: &CallArgs, api_key: Option<&str>) -> Result<Client, Failure> {
    let attempts = args.retries.saturating_add(1);
    // One call is no traffic: what bounds it are its own attempts, sent and asked.
    let budget = BudgetLimits { reserve: attempts.saturating_mul(2), ..BudgetLimits::default() };
    let breaker = BreakerLimits { failures: u32::MAX, ..BreakerLimits::default() };
    let mut builder = Client::builder(args.preset.0.clone())
        .with_attempts(attempts)
        .with_budget(budget)
        .with_breaker(breaker)
        .with_attempt_timeout(args.timeout)
        .with_deadline(args.deadline);
    if let Some(api_key) = api_key {
        let bearer = format!("Bearer {api_key}");
        let value = HeaderValue::from_str(&bearer).expect("an API key is printable ASCII");
        builder = builder.add_header(AUTHORIZATION, value);
    }
    if args.url.starts_with("https:") {
        let no_roots =
            |error| Failure::unavailable(format!("the system's certificates cannot be read: {error}"));
        return builder.build().map_err(no_roots);
    }
    Ok(builder.build_over(Wire::plain()))
}

/// A line on standard error for each thing that happens.
struct Told {
    quiet: bool,
}

impl Told {
    fn line(&self, text: &str) {
        if !self.quiet {
            tell(text);
        }
    }
}

impl Listen for Told {
    fn on(&self, event: &Event<'_>) {
        if !matches!(event, Event::Sending { .. }) {
            self.line(&event.to_string());
        }
    }
}

fn settled(told: &Told, result: &str, answer: &Response<bytes::Bytes>, exit: Exit) -> Result<Exit, Failure> {
    told.line(&format!("{result}: {}", answer.status()));
    print_body(answer.body()).map_err(|error| {
        let status = answer.status();
        let failure =
            Failure::unwritten(format!("{result}: {status}, but its answer cannot be written: {error}"));
        failure.with_help("the same call with the same key gets the answer again where the server keeps it")
    })?;
    Ok(exit)
}

/// The bytes as they came; to a terminal, what it would obey is taken out. A reader that went away wants no more of it.
fn print_body(body: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = if stdout.is_terminal() {
        writeln!(stdout, "{}", harmless(&String::from_utf8_lossy(body)))
    } else {
        stdout.write_all(body).and_then(|()| stdout.flush())
    };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn unresolved(args: &CallArgs, unknown: &Unknown, secrets: &Secrets) -> Exit {
    let bold = anstyle::Style::new().bold();
    let mut text = format!("{bold}unknown:{bold:#} {unknown}");
    if let Last::Answer(answer) = &unknown.last
        && !answer.body().is_empty()
    {
        let body = secrets.masked(answer.body());
        text.push_str(&format!("\nthe last answer said: {}", client::excerpt(body.as_bytes())));
    }
    if let Some(url) = &unknown.key_status {
        text.push_str(&format!("\nwhat the server knows of the key: {url}"));
    }
    if let (Some(key), true) = (&unknown.key, unknown.resolve != Resolve::Look) {
        text.push_str("\nto ask again, with the same key and the same body:\n  ");
        text.push_str(&again::command(args, key, unknown.received));
        if again::is_masked(args) {
            text.push_str("\nfill in what is shown as … before you run it: it may be a secret");
        }
    }
    tell(&text);
    Exit::Unknown
}

fn method(text: &str) -> Result<Method, String> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "POST" | "PATCH" | "PUT" | "DELETE" | "GET" | "HEAD" | "OPTIONS" => {
            Ok(upper.parse().expect("it is one of HTTP"))
        }
        _ => Err("expected POST, PATCH, PUT, DELETE, GET, HEAD or OPTIONS".to_owned()),
    }
}

/// `Name: value`. The message does not show the value, which may be a secret.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("expected `Name: value`")?;
    let name: HeaderName = name.trim().parse().map_err(|_| "the name is no header's name")?;
    if FRAMING.contains(&name.as_str()) {
        return Err(format!("{name} is for the connection to set"));
    }
    if value.contains(MASK) {
        return Err(format!("the value of {name} has to be filled in"));
    }
    let value = HeaderValue::from_str(value.trim()).map_err(|_| "the value has a control character")?;
    Ok((name, value))
}

fn preset(name: &str) -> Result<Named, String> {
    let all = Preset::all();
    let names = || all.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    all.iter()
        .find(|preset| preset.name == name)
        .cloned()
        .map(Named)
        .ok_or_else(|| format!("expected one of {}", names()))
}
