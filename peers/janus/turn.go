package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Janus's streaming plugin wants to offer (as of 1.1), and so does a viewer. Both
// get an answer: each is told what the other has offered, in its own terms.

// section is one m= block of a session description.
type section struct {
	kind       string
	attributes []string
}

// session is a session description as far as it matters here.
type session struct {
	attributes []string
	sections   []section
}

// formats are the payload types that a viewer offers for what we send.
type formats struct {
	video, rtx, audio string
}

func parse(sdp string) session {
	var parsed session
	for line := range strings.Lines(sdp) {
		line = strings.TrimSpace(line)
		if description, ok := strings.CutPrefix(line, "m="); ok {
			kind, _, _ := strings.Cut(description, " ")
			parsed.sections = append(parsed.sections, section{kind: kind})
		} else if attribute, ok := strings.CutPrefix(line, "a="); !ok {
			continue
		} else if last := len(parsed.sections) - 1; last >= 0 {
			parsed.sections[last].attributes = append(parsed.sections[last].attributes, attribute)
		} else {
			parsed.attributes = append(parsed.attributes, attribute)
		}
	}
	return parsed
}

// values are those of all attributes `name:…`.
func values(attributes []string, name string) []string {
	var found []string
	for _, attribute := range attributes {
		if value, ok := strings.CutPrefix(attribute, name+":"); ok {
			found = append(found, value)
		}
	}
	return found
}

func first(attributes []string, name string) string {
	if found := values(attributes, name); len(found) > 0 {
		return found[0]
	}
	return ""
}

// transport is an attribute that may stand in the section or above all of them.
func (s session) transport(section section, name string) string {
	if value := first(section.attributes, name); value != "" {
		return value
	}
	return first(s.attributes, name)
}

func (s session) find(kind string) (section, bool) {
	at := slices.IndexFunc(s.sections, func(section section) bool { return section.kind == kind })
	if at < 0 {
		return section{}, false
	}
	return s.sections[at], true
}

// offeredFormats picks H.264 in fragments, the plainest profile first, and Opus.
func offeredFormats(offer session) (formats, error) {
	video, hasVideo := offer.find("video")
	audio, hasAudio := offer.find("audio")
	if !hasVideo || !hasAudio {
		return formats{}, errors.New("the offer has no H.264 video or no Opus audio")
	}
	var found formats
	for _, mapping := range values(video.attributes, "rtpmap") {
		number, codec, _ := strings.Cut(mapping, " ")
		parameters := parametersOf(video, number)
		if !strings.HasPrefix(codec, "H264/") || !strings.Contains(parameters, "packetization-mode=1") {
			continue
		}
		isBaseline := strings.Contains(parameters, "profile-level-id=42")
		if found.video == "" || isBaseline {
			found.video = number
		}
		if isBaseline {
			break
		}
	}
	for _, fmtp := range values(video.attributes, "fmtp") {
		if number, parameters, _ := strings.Cut(fmtp, " "); parameters == "apt="+found.video {
			found.rtx = number
		}
	}
	for _, mapping := range values(audio.attributes, "rtpmap") {
		if number, codec, _ := strings.Cut(mapping, " "); strings.HasPrefix(strings.ToLower(codec), "opus/") {
			found.audio = number
		}
	}
	if found.video == "" || found.audio == "" {
		return formats{}, errors.New("the offer lacks H.264 in packetisation mode 1, or Opus")
	}
	return found, nil
}

func parametersOf(section section, number string) string {
	for _, fmtp := range values(section.attributes, "fmtp") {
		if of, parameters, _ := strings.Cut(fmtp, " "); of == number {
			return parameters
		}
	}
	return ""
}

// answer answers offer `from` with what `other` has offered. Payload types are
// those of `formats`; retransmissions on their own stream need both sides to name
// it alike. No header extension is agreed on, since numbers may differ.
func answer(from, other session, formats formats, direction, setup string) (string, error) {
	rtx := formats.rtx
	for _, session := range []session{from, other} {
		video, _ := session.find("video")
		if parametersOf(video, formats.rtx) != "apt="+formats.video {
			rtx = ""
		}
	}
	var sdp strings.Builder
	var mids []string
	for _, section := range from.sections {
		mids = append(mids, first(section.attributes, "mid"))
	}
	line := func(format string, arguments ...any) { fmt.Fprintf(&sdp, format+"\r\n", arguments...) }
	line("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0")
	line("a=group:BUNDLE %s", strings.Join(mids, " "))
	if slices.Contains(other.attributes, "ice-lite") {
		line("a=ice-lite")
	}
	for _, section := range from.sections {
		theirs, ok := other.find(section.kind)
		if !ok {
			return "", fmt.Errorf("nobody to turn to for %s", section.kind)
		}
		media := describe(section.kind, formats, rtx)
		line("m=%s 9 UDP/TLS/RTP/SAVPF %s", section.kind, strings.Join(media.numbers, " "))
		line("c=IN IP4 0.0.0.0\r\na=mid:%s\r\na=%s\r\na=rtcp-mux", first(section.attributes, "mid"), direction)
		for _, name := range []string{"ice-ufrag", "ice-pwd", "fingerprint"} {
			value := other.transport(theirs, name)
			if value == "" {
				return "", fmt.Errorf("an offer without %s", name)
			}
			line("a=%s:%s", name, value)
		}
		line("a=setup:%s", setup)
		for _, attribute := range media.attributes {
			line("a=%s", attribute)
		}
		for _, name := range []string{"ssrc-group", "ssrc", "candidate"} {
			if name == "ssrc-group" && rtx == "" {
				continue
			}
			for _, value := range values(theirs.attributes, name) {
				line("a=%s:%s", name, value)
			}
		}
		line("a=end-of-candidates")
	}
	return sdp.String(), nil
}

type mediaDescription struct {
	numbers, attributes []string
}

func describe(kind string, formats formats, rtx string) mediaDescription {
	if kind == "audio" {
		return mediaDescription{[]string{formats.audio}, []string{"rtpmap:" + formats.audio + " opus/48000/2"}}
	}
	video := formats.video
	media := mediaDescription{[]string{video}, []string{
		"rtpmap:" + video + " H264/90000",
		"fmtp:" + video + " " + videoParameters,
		"rtcp-fb:" + video + " nack",
		"rtcp-fb:" + video + " nack pli",
		"rtcp-fb:" + video + " ccm fir",
	}}
	if rtx != "" {
		media.numbers = append(media.numbers, rtx)
		media.attributes = append(media.attributes, "rtpmap:"+rtx+" rtx/90000", "fmtp:"+rtx+" apt="+video)
	}
	return media
}
