//! The rules, each with its section of draft-pantos-hls-rfc8216bis-22 and the advice for it.

use super::finding::Rule;

macro_rules! rules {
    ($($kind:ident $constant:ident = $name:literal, $section:literal, $change:literal;)*) => {
        $(
            #[doc = concat!("Rule `", $name, "` of §", $section, ".")]
            pub const $constant: Rule = Rule::$kind($name, $section, $change);
        )*
    };
}

rules! {
    must NOT_IDENTIFIED = "type", "4", "serve it as application/vnd.apple.mpegurl, or under a path that ends in .m3u8";
    must VERSION_TOO_LOW = "version-too-low", "8", "raise EXT-X-VERSION";
    should VERSION_TOO_HIGH = "version-too-high", "6.2.1", "lower EXT-X-VERSION, which keeps older players";
    must NO_TARGET_DURATION = "no-target-duration", "4.4.3.1", "add EXT-X-TARGETDURATION";
    must SEGMENT_TOO_LONG = "segment-too-long", "4.4.3.1", "cut segments earlier, or declare a longer target duration from the start";
    must FRACTION_IN_OLD_VERSION = "fraction-in-old-version", "4.4.4.1", "raise EXT-X-VERSION to 3";
    must LIVE_WITH_TYPE = "live-with-type", "6.2.2", "leave EXT-X-PLAYLIST-TYPE out of playlists that lose segments";
    must NO_MAP = "no-map", "3.1.2", "add EXT-X-MAP before the first fMP4 segment";
    must NO_PART_INF = "no-part-inf", "4.4.3.7", "add EXT-X-PART-INF";
    must PART_TOO_LONG = "part-too-long", "4.4.4.9", "cut parts at the target; a fixed PART-TARGET of configuration, not a measured one, keeps the bound true";
    must PART_TOO_SHORT = "part-too-short", "4.4.4.9", "cut parts by the clock of the video, or by configuration, and not by packets of audio";
    should PARTS_TOO_OLD = "parts-too-old", "6.2.2", "leave out EXT-X-PART that are more than three target durations from the end";
    must PARTS_DIFFER_FROM_SEGMENT = "parts-differ-from-segment", "3.2", "give the segment the sum of the durations of its parts";
    should PARTS_OF_I_FRAMES = "parts-of-i-frames", "4.4.4.9", "leave parts out of I-frame playlists";
    must NO_PART_HOLD_BACK = "no-part-hold-back", "4.4.3.8", "add PART-HOLD-BACK to EXT-X-SERVER-CONTROL";
    must PART_HOLD_BACK_TOO_SHORT = "part-hold-back-too-short", "4.4.3.8", "set PART-HOLD-BACK to three times PART-TARGET";
    should PART_HOLD_BACK_SHORT = "part-hold-back-short", "4.4.3.8", "set PART-HOLD-BACK to three times PART-TARGET";
    must HOLD_BACK_TOO_SHORT = "hold-back-too-short", "4.4.3.8", "set HOLD-BACK to three times the target duration, or leave it out";
    must SKIP_BOUNDARY_TOO_SHORT = "skip-boundary-too-short", "4.4.3.8", "set CAN-SKIP-UNTIL to six times the target duration";
    must SKIP_DATERANGES_ALONE = "skip-dateranges-alone", "4.4.3.8", "add CAN-SKIP-UNTIL, or leave CAN-SKIP-DATERANGES out";
    must HINT_WITH_END = "hint-with-end", "4.4.5.3", "leave EXT-X-PRELOAD-HINT out once there is EXT-X-ENDLIST";
    should HINT_TWICE = "hint-twice", "6.2.6", "hint at one resource of each type";
    must NO_HINT = "no-hint", "B.1", "add EXT-X-PRELOAD-HINT with the next part";
    should NO_DATES = "no-dates", "B.1", "add EXT-X-PROGRAM-DATE-TIME to each segment";
    should NO_DATE_AT_DISCONTINUITY = "no-date-at-discontinuity", "6.2.1", "add EXT-X-PROGRAM-DATE-TIME to segments behind EXT-X-DISCONTINUITY";
    must DATES_OVERLAP = "dates-overlap", "6.2.1", "let dates advance with the media; only overlaps below a second are allowed";
    should DATES_DRIFT = "dates-drift", "6.2.1", "derive dates from media time; players measure latency by them";
    must DATE_RANGE_WITHOUT_DATES = "date-range-without-dates", "4.4.5.1", "add EXT-X-PROGRAM-DATE-TIME";
    must DATE_RANGE_WRONG = "date-range-wrong", "4.4.5.1", "write the date range as the section says";
    should START_NEAR_END = "start-near-end", "4.4.2.2", "set TIME-OFFSET three target durations or more before the end";
    must GROUP_UNKNOWN = "group-unknown", "4.4.6.2", "add EXT-X-MEDIA with this type and GROUP-ID";
    must NAMES_EQUAL = "names-equal", "4.4.6.1.1", "give the renditions of a group different names";
    must DEFAULTS_TWO = "defaults-two", "4.4.6.1.1", "set DEFAULT=YES for one rendition of a group";
    must DEFAULT_NOT_AUTOSELECTED = "default-not-autoselected", "4.4.6.1", "set AUTOSELECT=YES, or leave it out";
    must RENDITION_URI = "rendition-uri", "4.4.6.2.1", "give subtitles a URI, and closed captions none";
    must INSTREAM_ID = "instream-id", "4.4.6.1", "give closed captions CC1 to CC4 or SERVICEn as INSTREAM-ID";
    must CLOSED_CAPTIONS_MIXED = "closed-captions-mixed", "4.4.6.2", "set CLOSED-CAPTIONS=NONE for all variants or for none";
    should NO_CODECS = "no-codecs", "4.4.6.2", "add CODECS, so that players need not load a segment to know";
    should NO_CHANNELS = "no-channels", "4.4.6.1", "add CHANNELS to audio renditions";
    should SCORE_MISSING = "score-missing", "4.4.6.2", "give all variants a SCORE, or none";
    must NO_VARIANTS = "no-variants", "4.4.6.2", "add EXT-X-STREAM-INF; players find nothing to play";
    must TARGETS_DIFFER = "targets-differ", "6.2.4", "give all media playlists one target duration";
    must CONTROL_DIFFERS = "server-control-differs", "6.2.4", "give all media playlists one EXT-X-SERVER-CONTROL";
    must DATES_IN_SOME = "dates-in-some", "6.2.4", "give all media playlists EXT-X-PROGRAM-DATE-TIME, or none";
    must TYPES_DIFFER = "types-differ", "6.2.4", "give all media playlists one EXT-X-PLAYLIST-TYPE";
    should INDEPENDENCE_TWICE = "independent-segments-twice", "4.4.2.1", "leave EXT-X-INDEPENDENT-SEGMENTS out of the media playlists";
    must REPORT_MISSING = "report-missing", "B.1", "add EXT-X-RENDITION-REPORT for each other media playlist";
    must REPORT_WRONG = "report-wrong", "4.4.5.4", "write the report as the section says";
    must REPORT_STALE = "report-stale", "4.4.5.4", "write reports when the playlist is written, from the other rendition's state";
    must SEQUENCE_FELL = "media-sequence-fell", "6.2.2", "count media sequence numbers on across restarts, or end the playlist";
    must SEGMENT_CHANGED = "segment-changed", "6.2.1", "never change a segment that was listed";
    must PART_CHANGED = "part-changed", "6.2.1", "never change a part that was listed";
    must PARTS_VANISHED = "parts-vanished", "6.2.2", "list parts until they are three target durations from the end";
    must SEGMENTS_VANISHED = "segments-vanished", "6.2.1", "remove segments from the beginning only";
    must TARGET_CHANGED = "target-changed", "6.2.1", "keep EXT-X-TARGETDURATION";
    must HEAD_CHANGED = "head-changed", "6.2.1", "keep the tags that describe the whole playlist";
    should PART_TARGET_CHANGED = "part-target-changed", "6.2.1", "keep PART-TARGET; players derive their distance from live by it";
    must DISCONTINUITY_SEQUENCE_WRONG = "discontinuity-sequence-wrong", "6.2.2", "raise EXT-X-DISCONTINUITY-SEQUENCE with each EXT-X-DISCONTINUITY that is removed";
    should DISCONTINUITY_SEQUENCE_LARGE = "discontinuity-sequence-large", "4.4.3.3", "begin with a small number; hls.js has a list with a place for each number, and hangs";
    must REMOVED_TOO_EARLY = "removed-too-early", "6.2.2", "keep three target durations of segments";
    must REMOVED_FROM_EVENT = "removed-from-event", "6.2.1", "keep all segments of an EVENT or VOD playlist";
    must END_TAKEN_BACK = "end-taken-back", "6.2.1", "end a playlist once, and begin another";
    must HINT_NOT_KEPT = "hint-not-kept", "4.4.5.3", "list the next part under the URI that was hinted at";
    must HINT_NOT_SERVED = "hint-not-served", "6.2.6", "hold requests for hinted parts until they are there";
    must SEGMENTS_LATE = "segments-late", "6.2.1", "list a new segment within 1.5 target durations";
    must PARTS_LATE = "parts-late", "6.2.1", "list a new part within one part target duration";
    must NOT_BLOCKED = "not-blocked", "6.2.5.2", "hold a request with _HLS_msn until the playlist has what it asks for; players that find it missing ask in a tight loop";
    should SEGMENT_NOT_AWAITED = "segment-not-awaited", "6.2.5.2", "without _HLS_part, hold the request until the whole segment is there";
    must BLOCKED_TOO_LONG = "blocked-too-long", "6.2.5.2", "answer as soon as the part is there, with 503 after three target durations";
    must RELOAD_FAILED = "reload-failed", "6.2.5.2", "answer requests for the next part";
    should TOO_FAR_AHEAD = "too-far-ahead", "6.2.5.2", "answer 400 at once to an _HLS_msn more than two ahead";
    must PART_WITHOUT_MSN = "part-without-msn", "6.2.5.2", "answer 400 to _HLS_part without _HLS_msn";
    must PAST_NOT_ANSWERED = "past-not-answered", "6.2.5.2", "answer requests for segments that are there at once, with the whole playlist";
    must NO_DELTA = "no-delta", "6.2.5.1", "answer _HLS_skip=YES with a delta update while CAN-SKIP-UNTIL is offered";
    must DELTA_DIFFERS = "delta-differs", "6.2.5.1", "make delta update and playlist from one state";
    must SKIPPED_TOO_MUCH = "skipped-too-much", "6.2.5.1", "skip only segments beyond the skip boundary";
    must SEGMENT_NOT_SERVED = "segment-not-served", "6.2.1", "serve each listed segment, part and initialization section at once";
    must INIT_WRONG = "init-wrong", "3.1.2", "write ftyp with a brand of iso6 or later, then moov with mvex";
    must FRAGMENT_WRONG = "fragment-wrong", "3.1.2", "write moof with a tfdt in each traf, then mdat";
    must PARTS_NOT_SEGMENT = "parts-not-segment", "3.2", "let a segment have the samples of its parts";
    should NOT_COMPRESSED = "not-compressed", "6.2.1", "compress playlists with gzip where the client takes it";
    should NOT_HTTP2 = "not-http2", "B.1", "serve HTTPS with HTTP/2, which Apple's players need for low latency";
}
