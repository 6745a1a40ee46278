package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/pion/webrtc/v4"
)

// An offer is a few kilobytes.
const offerBytesMax = 256 << 10

// server answers offers; every viewer is a peer connection with the same tracks.
type server struct {
	api     *webrtc.API
	tracks  []webrtc.TrackLocal
	mutex   sync.Mutex
	lastID  uint64
	viewers map[uint64]*webrtc.PeerConnection
}

func newServer(api *webrtc.API, tracks []webrtc.TrackLocal) *server {
	return &server{api: api, tracks: tracks, viewers: map[uint64]*webrtc.PeerConnection{}}
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /doSignaling", s.doSignaling)
	mux.HandleFunc("POST /whep", s.whep)
	mux.HandleFunc("DELETE /whep/{id}", s.leave)
	return mux
}

func (s *server) doSignaling(w http.ResponseWriter, r *http.Request) {
	var offer webrtc.SessionDescription
	if err := json.NewDecoder(io.LimitReader(r.Body, offerBytesMax)).Decode(&offer); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, answer, err := s.join(offer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *server) whep(w http.ResponseWriter, r *http.Request) {
	sdp, err := io.ReadAll(io.LimitReader(r.Body, offerBytesMax))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, answer, err := s.join(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: string(sdp)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/sdp")
	w.Header().Set("Location", fmt.Sprintf("/whep/%d", id))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer.SDP)
}

func (s *server) leave(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || !s.close(id) {
		http.NotFound(w, r)
	}
}

// join makes a viewer and answers once all candidates are in the answer.
func (s *server) join(offer webrtc.SessionDescription) (uint64, *webrtc.SessionDescription, error) {
	viewer, err := s.api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return 0, nil, err
	}
	answer, err := s.negotiate(viewer, offer)
	if err != nil {
		_ = viewer.Close()
		return 0, nil, err
	}
	s.mutex.Lock()
	s.lastID++
	id := s.lastID
	s.viewers[id] = viewer
	s.mutex.Unlock()
	viewer.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		switch state {
		case webrtc.PeerConnectionStateFailed, webrtc.PeerConnectionStateClosed:
			// Closing calls back, so it must not happen in here.
			go s.close(id)
		default:
		}
	})
	return id, answer, nil
}

func (s *server) negotiate(viewer *webrtc.PeerConnection, offer webrtc.SessionDescription) (*webrtc.SessionDescription, error) {
	for _, track := range s.tracks {
		sender, err := viewer.AddTrack(track)
		if err != nil {
			return nil, err
		}
		go readReports(sender)
	}
	if err := viewer.SetRemoteDescription(offer); err != nil {
		return nil, err
	}
	gathered := webrtc.GatheringCompletePromise(viewer)
	answer, err := viewer.CreateAnswer(nil)
	if err != nil {
		return nil, err
	}
	if err := viewer.SetLocalDescription(answer); err != nil {
		return nil, err
	}
	<-gathered
	return viewer.LocalDescription(), nil
}

// readReports lets the interceptors see the viewer's RTCP: they only do when
// somebody reads it.
func readReports(sender *webrtc.RTPSender) {
	buffer := make([]byte, 1500)
	for {
		if _, _, err := sender.Read(buffer); err != nil {
			return
		}
	}
}

// close ends a viewer; false if there is none of that name.
func (s *server) close(id uint64) bool {
	s.mutex.Lock()
	viewer := s.viewers[id]
	delete(s.viewers, id)
	s.mutex.Unlock()
	if viewer == nil {
		return false
	}
	_ = viewer.Close()
	return true
}
