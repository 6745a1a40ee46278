package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// An offer is a few kilobytes.
	offerBytesMax = 256 << 10
	plugin        = "janus.plugin.streaming"
	// Polls that may bring something else before the plugin's offer.
	pollsMax = 20
	// What a file in baseline or constrained baseline is.
	videoParameters = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"
)

// description is an offer or an answer, as JSON has it here and at Janus.
type description struct {
	Type string `json:"type"`
	SDP  string `json:"sdp"`
}

// message is what Janus says, as far as we look.
type message struct {
	Janus string       `json:"janus"`
	JSEP  *description `json:"jsep"`
	Data  struct {
		ID uint64 `json:"id"`
	} `json:"data"`
	Error struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"error"`
	PluginData struct {
		Data struct {
			Error  string `json:"error"`
			Stream struct {
				ID    uint64 `json:"id"`
				Ports []struct {
					Type string `json:"type"`
					Port int    `json:"port"`
				} `json:"ports"`
			} `json:"stream"`
		} `json:"data"`
	} `json:"plugindata"`
}

// bridge lets viewers join the feed by one POST; each has a Janus session of its own.
type bridge struct {
	api          string
	feed         feed
	client       *http.Client
	transactions atomic.Uint64
	mutex        sync.Mutex
	mountpoints  map[formats]uint64
}

func newBridge(api string, feed feed) *bridge {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	client := &http.Client{Transport: transport, Timeout: 40 * time.Second}
	return &bridge{api: api, feed: feed, client: client, mountpoints: map[formats]uint64{}}
}

// waitForJanus asks for its description until it gives one.
func (b *bridge) waitForJanus(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		_, err := b.get(b.api + "/info")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("janus does not answer: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (b *bridge) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /doSignaling", b.doSignaling)
	mux.HandleFunc("POST /whep", b.whep)
	mux.HandleFunc("DELETE /whep/{session}", b.leave)
	return mux
}

func (b *bridge) doSignaling(w http.ResponseWriter, r *http.Request) {
	var offer description
	if err := json.NewDecoder(io.LimitReader(r.Body, offerBytesMax)).Decode(&offer); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, answer, err := b.join(offer.SDP)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (b *bridge) whep(w http.ResponseWriter, r *http.Request) {
	offer, err := io.ReadAll(io.LimitReader(r.Body, offerBytesMax))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	session, answer, err := b.join(string(offer))
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/sdp")
	w.Header().Set("Location", fmt.Sprintf("/whep/%d", session))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer.SDP)
}

func refuse(w http.ResponseWriter, err error) {
	log.Print(err)
	http.Error(w, err.Error(), http.StatusBadGateway)
}

func (b *bridge) leave(w http.ResponseWriter, r *http.Request) {
	session, err := strconv.ParseUint(r.PathValue("session"), 10, 64)
	if err == nil {
		_, err = b.post(b.path(session), map[string]any{"janus": "destroy"})
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
	}
}

// join opens a session and brings viewer and plugin together.
func (b *bridge) join(sdp string) (uint64, *description, error) {
	offer := parse(sdp)
	formats, err := offeredFormats(offer)
	if err != nil {
		return 0, nil, err
	}
	mountpoint, err := b.mountpointFor(formats)
	if err != nil {
		return 0, nil, err
	}
	handle, err := b.attach()
	if err != nil {
		return 0, nil, err
	}
	answer, err := b.watch(handle, mountpoint, offer, formats)
	if err != nil {
		_, _ = b.post(b.path(handle.session), map[string]any{"janus": "destroy"})
		return 0, nil, err
	}
	return handle.session, answer, nil
}

// handle is a plugin's end of a session.
type handle struct {
	session, id uint64
}

func (b *bridge) attach() (handle, error) {
	created, err := b.post(b.api, map[string]any{"janus": "create"})
	if err != nil {
		return handle{}, err
	}
	session := created.Data.ID
	attached, err := b.post(b.path(session), map[string]any{"janus": "attach", "plugin": plugin})
	if err != nil {
		return handle{}, err
	}
	return handle{session, attached.Data.ID}, nil
}

// mountpointFor makes a mountpoint that sends with these payload types, and feeds
// it; viewers of one kind, so one and the same for all of them, as a rule.
func (b *bridge) mountpointFor(formats formats) (uint64, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if id, ok := b.mountpoints[formats]; ok {
		return id, nil
	}
	handle, err := b.attach()
	if err != nil {
		return 0, err
	}
	media := func(kind, codec, number string) map[string]any {
		payloadType, _ := strconv.Atoi(number)
		return map[string]any{"type": kind, "mid": kind[:1], "codec": codec, "pt": payloadType, "port": 0, "iface": "127.0.0.1"}
	}
	video := media("video", "h264", formats.video)
	video["fmtp"] = videoParameters
	made, err := b.message(handle, nil, map[string]any{
		"request": "create", "type": "rtp", "permanent": false,
		"media": []any{media("audio", "opus", formats.audio), video},
	})
	if err != nil {
		return 0, err
	}
	stream := made.PluginData.Data.Stream
	ports := map[string]int{}
	for _, port := range stream.Ports {
		ports[port.Type] = port.Port
	}
	if err := b.feed.start(ports["video"], ports["audio"]); err != nil {
		return 0, err
	}
	b.mountpoints[formats] = stream.ID
	return stream.ID, nil
}

// watch lets the plugin offer, answers it, and turns its offer into an answer.
func (b *bridge) watch(handle handle, mountpoint uint64, offer session, formats formats) (*description, error) {
	watch := map[string]any{"request": "watch", "id": mountpoint}
	if _, err := b.message(handle, nil, watch); err != nil {
		return nil, err
	}
	theirs, err := b.offer(handle)
	if err != nil {
		return nil, err
	}
	toJanus, err := answer(theirs, offer, formats, "recvonly", "active")
	if err != nil {
		return nil, err
	}
	toViewer, err := answer(offer, theirs, formats, "sendonly", "passive")
	if err != nil {
		return nil, err
	}
	start := map[string]any{"request": "start"}
	if _, err := b.message(handle, &description{"answer", toJanus}, start); err != nil {
		return nil, err
	}
	return &description{"answer", toViewer}, nil
}

// offer waits for the plugin's, which comes by a long poll.
func (b *bridge) offer(handle handle) (session, error) {
	for range pollsMax {
		event, err := b.get(fmt.Sprintf("%s?maxev=1", b.path(handle.session)))
		if err != nil {
			return session{}, err
		}
		if event.JSEP != nil && event.JSEP.Type == "offer" {
			return parse(event.JSEP.SDP), nil
		}
	}
	return session{}, errors.New("janus made no offer")
}

func (b *bridge) path(session uint64) string {
	return fmt.Sprintf("%s/%d", b.api, session)
}

// message asks the plugin something; what it does later comes as an event.
func (b *bridge) message(handle handle, jsep *description, body map[string]any) (*message, error) {
	request := map[string]any{"janus": "message", "body": body}
	if jsep != nil {
		request["jsep"] = jsep
	}
	return b.post(fmt.Sprintf("%s/%d", b.path(handle.session), handle.id), request)
}

func (b *bridge) post(url string, body map[string]any) (*message, error) {
	body["transaction"] = strconv.FormatUint(b.transactions.Add(1), 10)
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return understand(b.client.Post(url, "application/json", bytes.NewReader(encoded)))
}

func (b *bridge) get(url string) (*message, error) {
	return understand(b.client.Get(url))
}

func understand(response *http.Response, err error) (*message, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	// A long poll with maxev brings an array, a request one object.
	var messages []message
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		err = json.Unmarshal(body, &messages)
	} else {
		messages = make([]message, 1)
		err = json.Unmarshal(body, &messages[0])
	}
	if err != nil {
		return nil, fmt.Errorf("janus: %w", err)
	}
	if len(messages) == 0 {
		return &message{}, nil
	}
	said := &messages[0]
	if said.Janus == "error" {
		return nil, fmt.Errorf("janus: %s (%d)", said.Error.Reason, said.Error.Code)
	}
	if refusal := said.PluginData.Data.Error; refusal != "" {
		return nil, fmt.Errorf("janus's streaming plugin: %s", refusal)
	}
	return said, nil
}
