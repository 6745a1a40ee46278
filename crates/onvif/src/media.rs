//! The media service of a camera: which streams there are, and their URLs.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use glassline_trust::Trust;
use url::Url;

use super::envelope::{self, LocalName as _};
use super::{Credentials, Device, Error, StreamProfile, http};

/// Most profiles that are asked for their URL. Cameras have two to six.
const PROFILES_MAX: usize = 16;

const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";
const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// Asks a camera for its profiles and the URL of each. Waits at most five seconds for each response.
///
/// # Errors
/// Returns [`Error`], which names the camera's URL.
pub async fn stream_profiles(
    device: &Device,
    credentials: Option<&Credentials>,
) -> Result<Vec<StreamProfile>, Error> {
    let mut camera = Camera {
        service: &device.service,
        ip: device.address.ip(),
        credentials,
        ahead: 0,
    };
    camera.ahead = camera.clock().await;
    let media = camera.media_service().await?;
    camera.profiles(&media).await
}

struct Camera<'a> {
    service: &'a Url,
    /// Address at which all of the camera's URLs are asked.
    ip: IpAddr,
    credentials: Option<&'a Credentials>,
    /// Seconds by which the camera's clock is ahead of ours. A camera refuses a digest of another time.
    ahead: i64,
}

impl Camera<'_> {
    /// Returns how far the camera's clock is ahead, which it tells everybody; 0 if it does not.
    async fn clock(&self) -> i64 {
        let body = format!("<GetSystemDateAndTime xmlns=\"{DEVICE}\"/>");
        let asked = self.ask(self.service, "GetSystemDateAndTime", &body, false, |root| {
            let utc = envelope::element(root, "UTCDateTime").ok_or("no UTCDateTime")?;
            let number = |name: &str| -> Option<i64> { envelope::text(utc, name)?.parse().ok() };
            let fields = ["Year", "Month", "Day", "Hour", "Minute", "Second"].map(number);
            let [
                Some(year),
                Some(month),
                Some(day),
                Some(hour),
                Some(minute),
                Some(second),
            ] = fields
            else {
                return Err("no whole date".to_owned());
            };
            Ok(days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
        });
        asked.await.map_or(0, |theirs| theirs.saturating_sub(unix_seconds()))
    }

    /// Returns the URL of the media service, at the camera's address.
    async fn media_service(&self) -> Result<Url, Error> {
        let body = format!(
            "<GetCapabilities xmlns=\"{DEVICE}\"><Category>Media</Category></GetCapabilities>"
        );
        let found = self.ask(self.service, "GetCapabilities", &body, true, |root| {
            let media = envelope::element(root, "Media");
            let address = media.and_then(|it| envelope::text(it, "XAddr"));
            Ok(address.and_then(|it| Url::parse(it).ok()))
        });
        let found = found.await?.ok_or_else(|| Error::NoMedia(self.service.clone()))?;
        // The password's digest goes to the camera that was found, to no other machine.
        let mut media = self.service.clone();
        media.set_path(found.path());
        media.set_query(found.query());
        Ok(media)
    }

    async fn profiles(&self, media: &Url) -> Result<Vec<StreamProfile>, Error> {
        let body = format!("<GetProfiles xmlns=\"{MEDIA}\"/>");
        let found = self.ask(media, "GetProfiles", &body, true, |root| {
            let profiles = root
                .descendants()
                .filter(|it| it.has_tag_name_of("Profiles"));
            let found = profiles.filter_map(|profile| {
                let token = profile.attribute("token")?.to_owned();
                let name = envelope::text(profile, "Name").unwrap_or(&token);
                let encoder = envelope::element(profile, "VideoEncoderConfiguration");
                let encoding = encoder.and_then(|it| envelope::text(it, "Encoding"));
                let size = encoder.and_then(|it| {
                    let number = |name| envelope::text(it, name)?.parse().ok();
                    Some((number("Width")?, number("Height")?))
                });
                let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
                Some((token.clone(), shown, encoding.map(str::to_owned), size))
            });
            Ok(found.take(PROFILES_MAX).collect::<Vec<_>>())
        });
        let mut profiles = Vec::new();
        for (token, name, encoding, size) in found.await? {
            profiles.push(StreamProfile {
                url: self.stream_url(media, &token).await?,
                name,
                encoding,
                size,
            });
        }
        Ok(profiles)
    }

    async fn stream_url(&self, media: &Url, token: &str) -> Result<Url, Error> {
        let body = format!(
            "<GetStreamUri xmlns=\"{MEDIA}\"><StreamSetup>\
             <Stream xmlns=\"{SCHEMA}\">RTP-Unicast</Stream>\
             <Transport xmlns=\"{SCHEMA}\"><Protocol>RTSP</Protocol></Transport></StreamSetup>\
             <ProfileToken>{}</ProfileToken></GetStreamUri>",
            envelope::escaped(token)
        );
        self.ask(media, "GetStreamUri", &body, true, |root| {
            let text = envelope::text(root, "Uri").ok_or("no Uri")?;
            let mut url = Url::parse(text).map_err(|error| format!("{text:?}: {error}"))?;
            if !matches!(url.scheme(), "rtsp" | "rtsps") {
                return Err(format!("{url} is not RTSP"));
            }
            // Some cameras write credentials into it, which would be printed.
            let _ = (url.set_username(""), url.set_password(None));
            Ok(url)
        })
        .await
    }

    /// Sends a request and reads the response with `read`.
    async fn ask<T>(
        &self,
        url: &Url,
        request: &'static str,
        body: &str,
        with_credentials: bool,
        read: impl FnOnce(roxmltree::Node<'_, '_>) -> Result<T, String>,
    ) -> Result<T, Error> {
        let created = created(unix_seconds().saturating_add(self.ahead));
        let credentials = self.credentials.filter(|_| with_credentials);
        let credentials = credentials.map(|it| (it, rand::random(), created.as_str()));
        let envelope = envelope::request(body, credentials);
        // Cameras sign their certificates themselves; the password goes as a digest.
        let sent = http::post(url, self.ip, Trust::Anyone, envelope).await;
        let http::Reply { status, text } = sent.map_err(|source| Error::Unreachable {
            url: url.clone(),
            source,
        })?;
        if status.as_u16() == 401 {
            return Err(Error::Unauthorized(url.clone()));
        }
        let unusable = |reason: String| Error::Unusable {
            url: url.clone(),
            reason: format!("{request}: {reason}"),
        };
        let document = match envelope::parse(&text) {
            Ok(document) => document,
            Err(_) if !status.is_success() => {
                let (url, reason) = (url.clone(), format!("HTTP {status}"));
                return Err(Error::Refused { url, reason });
            }
            Err(reason) => return Err(unusable(reason)),
        };
        match envelope::fault(&document) {
            Some((_, true)) => return Err(Error::Unauthorized(url.clone())),
            Some((reason, false)) => {
                let url = url.clone();
                return Err(Error::Refused { url, reason });
            }
            None => {}
        }
        read(document.root()).map_err(unusable)
    }
}

fn unix_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(0))
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // March is the first month, so that a leap day is the last day of its year.
    let year = year.clamp(0, 9999) - i64::from(month <= 2);
    let month = (month.clamp(1, 12) + 9) % 12;
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    days + (153 * month + 2) / 5 + day.clamp(1, 31) - 1 - 719_468
}

/// Returns a time since 1970 as `2026-01-31T23:59:59Z`.
fn created(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    // 146,097 days are 400 years.
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let rest = day - (365 * year + year / 4 - year / 100);
    let month = (5 * rest + 2) / 153;
    let day = rest - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_704_067_199, "2023-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(created(seconds), text);
        }
        for day in (0..80_000).step_by(7) {
            let text = created(day * 86_400);
            let part = |range: std::ops::Range<usize>| text[range].parse().expect("digits");
            assert_eq!(
                days_since_1970(part(0..4), part(5..7), part(8..10)),
                day,
                "{text}"
            );
        }
    }
}
