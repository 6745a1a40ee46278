//! `glassline cameras`: finds cameras, and prints the lines to paste.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_onvif::{
    self as onvif, Camera, Credentials, DISCOVERY_PORT, Device, Scope, StreamProfile, Trust,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::exit::Failure;
use crate::{output, password};

/// Longest time for answers that makes sense.
const PATIENCE_MAX_S: u64 = 60;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Addresses to ask, ADDRESS or ADDRESS:PORT; without one, all networks of this machine by
    /// multicast.
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// User at the cameras; the password is asked for, piped in, or in GLASSLINE_CAMERA_PASSWORD.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Time for answers, in seconds.
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=PATIENCE_MAX_S))]
    wait: u64,
    /// Print JSON in place of the list and the lines.
    #[arg(long)]
    json: bool,
}

/// A camera, and what it says about its streams.
struct Found {
    device: Device,
    /// The reason for people if it does not tell.
    profiles: Result<Vec<StreamProfile>, String>,
    /// A name for the stream in the configuration.
    name: String,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let scope = options.scope()?;
    let credentials = options.credentials()?;
    let progress = progress(options, quiet);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::runtime(format_args!("cannot start: {error}")))?;
    let found = runtime.block_on(found(options, &scope, credentials.as_ref(), &progress));
    progress.finish_and_clear();
    let found = found?;
    if options.json {
        let list: Vec<_> = found.iter().map(Found::json).collect();
        output::print(&output::json(&json!({ "cameras": list })))?;
    } else {
        output::print(&listing(&found, options.user.as_deref()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Searches for cameras, and asks each for its streams.
async fn found(
    options: &Options,
    scope: &Scope,
    credentials: Option<&Credentials>,
    progress: &ProgressBar,
) -> Result<Vec<Found>, Failure> {
    let devices = onvif::find(scope, Duration::from_secs(options.wait)).await;
    let devices = devices.map_err(|error| {
        Failure::runtime(format_args!("cannot ask the network for cameras: {error}"))
    })?;
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for device in devices {
        progress.set_message(format!("asking {}", device.address.ip()));
        let profiles = stream_profiles(&device, credentials).await;
        found.push(Found {
            profiles: profiles.map_err(|error| error.to_string()),
            name: name(&device, &mut names),
            device,
        });
    }
    Ok(found)
}

async fn stream_profiles(
    device: &Device,
    credentials: Option<&Credentials>,
) -> Result<Vec<StreamProfile>, onvif::Error> {
    // Cameras sign their certificates themselves; the password goes as a digest.
    let (ip, trust) = (device.address.ip(), Trust::Anyone);
    let camera = Camera::connect(&device.service, ip, trust, credentials.cloned()).await?;
    camera.stream_profiles().await
}

impl Options {
    fn scope(&self) -> Result<Scope, Failure> {
        if self.addresses.is_empty() {
            return Ok(Scope::Networks);
        }
        let resolve = |text: &String| {
            let resolved = match text.parse::<IpAddr>() {
                Ok(ip) => Ok(vec![SocketAddr::new(ip, DISCOVERY_PORT)]),
                Err(_) if text.contains(':') => text.to_socket_addrs().map(Iterator::collect),
                Err(_) => (text.as_str(), DISCOVERY_PORT)
                    .to_socket_addrs()
                    .map(Iterator::collect),
            };
            resolved.map_err(|error| Failure::usage(format_args!("{text}: {error}")))
        };
        let lists = self.addresses.iter().map(resolve);
        let lists = lists.collect::<Result<Vec<Vec<_>>, _>>()?;
        Ok(Scope::Addresses(lists.concat()))
    }

    fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        let Some(user) = self.user.clone() else {
            return Ok(None);
        };
        let password = match std::env::var("GLASSLINE_CAMERA_PASSWORD") {
            Ok(password) => password,
            Err(_) => password::ask(&user)?,
        };
        Ok(Some(Credentials { user, password }))
    }
}

/// A line on a terminal that shows that something happens.
fn progress(options: &Options, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("a template of ours");
    let line = ProgressBar::new_spinner().with_style(style);
    line.set_message(format!("waiting {} s for answers of cameras", options.wait));
    line.enable_steady_tick(Duration::from_millis(100));
    line
}

/// Returns a stream name for the device that none of `taken` has.
fn name(device: &Device, taken: &mut BTreeSet<String>) -> String {
    let told = device.name.as_ref().or(device.hardware.as_ref());
    let told = told.map(String::as_str).unwrap_or_default();
    let mut name = String::new();
    for c in told.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => name.push(c),
            _ if name.is_empty() || name.ends_with('-') => {}
            _ => name.push('-'),
        }
    }
    name.truncate(40);
    let name = match name.trim_end_matches('-') {
        "" => "camera",
        name => name,
    };
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    let free = names
        .find(|it| !taken.contains(it))
        .expect("without an end");
    taken.insert(free.clone());
    free
}

/// Returns the table of cameras and the lines for the configuration.
fn listing(found: &[Found], user: Option<&str>) -> String {
    let mut text = String::new();
    if found.is_empty() {
        return "no camera answered; cameras answer in their own network only: name their addresses to ask elsewhere, \
                and see whether ONVIF is turned on in the camera\n"
            .to_owned();
    }
    for Found {
        device, profiles, ..
    } in found
    {
        let words = [&device.name, &device.hardware, &device.location];
        let words: Vec<_> = words.into_iter().flatten().map(String::as_str).collect();
        let _ = writeln!(text, "{}  {}", device.address.ip(), words.join(", "));
        match profiles {
            Ok(profiles) => {
                for profile in profiles {
                    let _ = writeln!(text, "  {}", described(profile));
                }
            }
            Err(reason) => {
                let hint = match user {
                    None => " (give --user NAME)",
                    Some(_) => "",
                };
                let _ = writeln!(text, "  {reason}{hint}");
            }
        }
    }
    text += "\nsources:\n";
    for Found {
        profiles,
        name,
        device,
    } in found
    {
        let best = profiles.iter().flatten().max_by_key(|it| size(it));
        match best {
            Some(main) => {
                let url = with_user(main, user);
                let _ = match sub_stream(main, profiles.iter().flatten()) {
                    Some(sub) => {
                        let sub = with_user(sub, user);
                        writeln!(text, "  {name}: {{layers: [{url}, {sub}]}}")
                    }
                    None => writeln!(text, "  {name}: {url}"),
                };
            }
            None => {
                let ip = device.address.ip();
                let _ = writeln!(text, "  # {name}: rtsp://USER:PASSWORD@{ip}/PATH");
            }
        }
    }
    text
}

fn size(profile: &StreamProfile) -> Option<(u32, u32)> {
    profile.profile.video.as_ref()?.size
}

/// Returns the stream beside `main` that viewers get whose network is too slow for `main`: the largest of at most
/// half of its pixels, in H.264 if there is one.
fn sub_stream<'a>(
    main: &StreamProfile,
    profiles: impl Iterator<Item = &'a StreamProfile>,
) -> Option<&'a StreamProfile> {
    let pixels = |it: &StreamProfile| size(it).map_or(0, |(w, h)| u64::from(w) * u64::from(h));
    let is_h264 = |it: &StreamProfile| {
        let video = it.profile.video.as_ref();
        video.is_some_and(|it| it.encoding.eq_ignore_ascii_case("H264"))
    };
    let is_rtsp = |it: &StreamProfile| it.url.scheme() == main.url.scheme();
    let half = pixels(main) / 2;
    let smaller = profiles.filter(|it| (1..=half).contains(&pixels(it)) && is_rtsp(it));
    smaller.max_by_key(|it| (is_h264(it), pixels(it)))
}

fn described(stream: &StreamProfile) -> String {
    let size = size(stream).map(|(width, height)| format!(" {width}x{height}"));
    let (profile, size) = (&stream.profile, size.unwrap_or_default());
    let encoding = profile.video.as_ref().map(|it| it.encoding.as_str());
    let encoding = encoding.unwrap_or("no video");
    format!("{}: {encoding}{size}  {}", profile.name, stream.url)
}

/// Returns the URL for the configuration, in quotes where YAML needs them. The password is for the
/// reader to fill in: it is not printed.
fn with_user(profile: &StreamProfile, user: Option<&str>) -> String {
    let mut url = profile.url.clone();
    if let Some(user) = user {
        // Fails only for URLs that cannot have a user.
        let _ = (url.set_username(user), url.set_password(Some("PASSWORD")));
    }
    format!("'{}'", url.as_str().replace('\'', "''"))
}

impl Found {
    fn json(&self) -> serde_json::Value {
        let device = &self.device;
        let profiles = self.profiles.as_ref().map(|profiles| {
            let all = profiles.iter().map(|it| {
                let (width, height) = size(it).unzip();
                let encoding = it.profile.video.as_ref().map(|it| &it.encoding);
                json!({ "name": it.profile.name, "encoding": encoding, "width": width, "height": height, "url": it.url.as_str() })
            });
            all.collect::<Vec<_>>()
        });
        json!({
            "id": device.id,
            "address": device.address.ip(),
            "name": device.name,
            "hardware": device.hardware,
            "location": device.location,
            "service": device.service.as_str(),
            "stream": self.name,
            "profiles": profiles.as_ref().ok(),
            "failure": profiles.err(),
        })
    }
}

#[cfg(test)]
mod tests {
    use glassline_onvif::{Profile, Video};

    use super::*;

    fn device(name: Option<&str>) -> Device {
        Device {
            id: "urn:uuid:1".to_owned(),
            address: "192.0.2.20:3702".parse().expect("an address"),
            name: name.map(str::to_owned),
            hardware: Some("P3245-V".to_owned()),
            location: None,
            service: "http://192.0.2.20/onvif/device_service"
                .parse()
                .expect("a URL"),
        }
    }

    fn profile(size: (u32, u32), path: &str) -> StreamProfile {
        StreamProfile {
            profile: Profile {
                token: "p".to_owned(),
                name: "main".to_owned(),
                video: Some(Video {
                    encoding: "H264".to_owned(),
                    size: Some(size),
                    frame_rate: None,
                    bitrate_bps: None,
                    h264_profile: None,
                }),
                audio: None,
                axes: None,
                has_back_channel: false,
            },
            url: format!("rtsp://192.0.2.20/{path}").parse().expect("a URL"),
        }
    }

    #[test]
    fn names_of_cameras_become_different_names_of_streams() {
        let mut taken = BTreeSet::new();
        let mut of = |told: Option<&str>| name(&device(told), &mut taken);
        assert_eq!(of(Some("Front Door (2nd)")), "front-door-2nd");
        assert_eq!(of(Some("front door 2nd!")), "front-door-2nd-2");
        assert_eq!(of(None), "p3245-v");
        assert_eq!(of(Some("ä")), "camera");
        assert_eq!(of(Some("ö")), "camera-2");
        let long = "x".repeat(200);
        assert_eq!(of(Some(&long)).len(), 40);
    }

    #[test]
    fn the_best_profile_is_printed_as_a_line_of_the_configuration() {
        let found = |profiles| Found {
            device: device(Some("Hall")),
            profiles,
            name: "hall".to_owned(),
        };
        let profiles = vec![
            profile((640, 360), "sub"),
            profile((1920, 1080), "main?a='b'"),
        ];
        let text = listing(&[found(Ok(profiles))], Some("me"));
        let line = text.lines().last().expect("a line");
        assert_eq!(
            line,
            "  hall: {layers: ['rtsp://me:PASSWORD@192.0.2.20/main?a=''b''', \
             'rtsp://me:PASSWORD@192.0.2.20/sub']}"
        );
        let config = format!("sources:\n{line}\n");
        let config =
            glassline_config::Config::from_yaml(&config, "pasted").expect("a configuration");
        assert_eq!(config.sources.len(), 1);
        assert!(text.contains("192.0.2.20  Hall, P3245-V"), "{text}");
        let similar = vec![profile((1600, 900), "a"), profile((1920, 1080), "b")];
        let text = listing(&[found(Ok(similar))], None);
        assert!(text.ends_with("  hall: 'rtsp://192.0.2.20/b'\n"), "{text}");
        let refused = listing(&[found(Err("it asks for a user".to_owned()))], None);
        assert!(
            refused.contains("it asks for a user (give --user NAME)"),
            "{refused}"
        );
        assert!(refused.contains("  # hall: rtsp://USER:PASSWORD@192.0.2.20/PATH"));
        assert!(listing(&[], None).contains("no camera answered"));
    }
}
