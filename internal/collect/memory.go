// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/inputfile"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/replacefile"
	"github.com/waymark-net/waymark/ipfix"
)

// sessionMemory is a file with the templates of sessions over UDP. A collector that starts reads it, because their exporters
// do not know that it did, and send templates again only from time to time.
type sessionMemory struct {
	path    string
	decoder *ipfix.Decoder
	notify  func(slog.Level, string)

	changes uint64 // that the file has
	failed  bool   // the operator knows
}

const (
	// memoryInterval is how often changes of templates are written, at most.
	memoryInterval = time.Second
	// memoryAge is how old the file gets: the times in it keep templates alive, and its sequence numbers are compared.
	memoryAge = time.Minute
	// memoryRest is how many times as long as a write took no other one begins, whatever senders change.
	memoryRest = 20
	// mostMemory bounds the file, in octets; the sessions that sent first are in it.
	mostMemory = 16 << 20
)

// memoryFormat is the version of the file's form.
const memoryFormat = 1

// The file. Each template record is in it once, for any number of sessions.
type (
	memoryFile struct {
		Format   int              `json:"format"`
		Time     instant.Time     `json:"time"`
		Ended    bool             `json:"ended"` // it was written at the end
		Records  []memoryTemplate `json:"records"`
		Sessions []memorySession  `json:"sessions"`
	}
	memoryTemplate struct {
		Options bool   `json:"options,omitempty"`
		Octets  []byte `json:"octets"`
	}
	memorySession struct {
		Exporter  netip.AddrPort `json:"exporter"`
		Collector netip.AddrPort `json:"collector"`
		First     instant.Time   `json:"first"`
		Last      instant.Time   `json:"last"`
		Domains   []memoryDomain `json:"domains"`
	}
	memoryDomain struct {
		ID        uint32       `json:"id"`
		Last      instant.Time `json:"last"`
		Next      uint32       `json:"next"`
		Counted   bool         `json:"counted,omitempty"`
		Templates []memorySeen `json:"templates"`
	}
	memorySeen struct {
		Record int          `json:"record"` // in Records
		Seen   instant.Time `json:"seen"`
	}
)

// run writes the file while templates change, and when the context ends.
func (m *sessionMemory) run(ctx context.Context) {
	each := time.NewTicker(memoryInterval)
	defer each.Stop()
	var next, old time.Time
	for {
		select {
		case <-ctx.Done():
			m.write(true, time.Now())
			return
		case now := <-each.C:
			changed := m.decoder.TemplateChanges() != m.changes
			if now.Before(next) || !changed && now.Before(old) {
				continue
			}
			m.write(false, now)
			next, old = time.Now().Add(memoryRest*time.Since(now)), now.Add(memoryAge)
		}
	}
}

// write replaces the file.
func (m *sessionMemory) write(ended bool, now time.Time) bool {
	changes := m.decoder.TemplateChanges()
	text, err := json.Marshal(memorize(m.decoder.State(), ended, now))
	if err == nil {
		err = replacefile.Write(m.path, text, 0o600)
	}
	if err != nil {
		if !m.failed {
			m.notify(slog.LevelWarn, fmt.Sprintf("templates are not kept for a restart: %v", err))
		}
		m.failed = true
		return false
	}
	m.changes, m.failed = changes, false
	return true
}

// memorize is the file for sessions.
func memorize(sessions []ipfix.SessionState, ended bool, now time.Time) memoryFile {
	file := memoryFile{Format: memoryFormat, Time: instant.Of(now), Ended: ended}
	numbers := map[string]int{}
	const ofSession, ofDomain, ofTemplate = 220, 110, 70 // octets at most, about
	size := 0
	for i := range sessions {
		s := &sessions[i]
		one := memorySession{Exporter: s.Key.Exporter, Collector: s.Key.Collector, First: instant.Of(s.First), Last: instant.Of(s.Last)}
		size += ofSession
		for _, d := range s.Domains {
			of := memoryDomain{ID: d.ID, Last: instant.Of(d.Last), Next: d.Next, Counted: d.Counted}
			size += ofDomain
			for _, t := range d.Templates {
				name := strconv.FormatBool(t.Options) + string(t.Octets)
				n, known := numbers[name]
				if !known {
					n = len(file.Records)
					numbers[name] = n
					file.Records = append(file.Records, memoryTemplate{t.Options, t.Octets})
					size += ofTemplate + len(t.Octets)*4/3
				}
				of.Templates = append(of.Templates, memorySeen{n, instant.Of(t.Seen)})
				size += ofTemplate
			}
			one.Domains = append(one.Domains, of)
		}
		if size > mostMemory {
			break
		}
		file.Sessions = append(file.Sessions, one)
	}
	return file
}

// recall reads the file, and writes it as that of a collector that runs: what the end of the last one said of sequence
// numbers holds once.
func (m *sessionMemory) recall(listening []Endpoint, now time.Time) {
	file, err := readMemory(m.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		m.notify(slog.LevelWarn, fmt.Sprintf("templates of before the start are not known: %v", err))
	default:
		if n := m.decoder.Restore(file.sessions(listening), file.Ended, now); n > 0 {
			m.notify(slog.LevelInfo, fmt.Sprintf("%d templates of %d sessions over UDP are known from before the start", n, m.decoder.Sessions()))
		}
	}
	if !m.write(false, now) {
		_ = os.Remove(m.path) // rather none than one that is read twice
	}
}

func readMemory(path string) (*memoryFile, error) {
	text, err := inputfile.Read(path, 2*mostMemory)
	if err != nil {
		return nil, err
	}
	var file memoryFile
	switch err := json.Unmarshal(text, &file); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case file.Format != memoryFormat:
		return nil, fmt.Errorf("%s: has format %d, not %d", path, file.Format, memoryFormat)
	}
	return &file, nil
}

// sessions are those of sockets that are still open.
func (f *memoryFile) sessions(listening []Endpoint) (list []ipfix.SessionState) {
	for i := range f.Sessions {
		s := &f.Sessions[i]
		if !slices.ContainsFunc(listening, func(e Endpoint) bool { return e.Transport == ipfix.UDP && e.Address == s.Collector }) {
			continue
		}
		one := ipfix.SessionState{
			Key:   ipfix.SessionKey{Transport: ipfix.UDP, Exporter: s.Exporter, Collector: s.Collector},
			First: s.First.Time, Last: s.Last.Time,
		}
		for _, d := range s.Domains {
			of := ipfix.DomainState{ID: d.ID, Last: d.Last.Time, Next: d.Next, Counted: d.Counted}
			for _, t := range d.Templates {
				if t.Record >= 0 && t.Record < len(f.Records) {
					r := f.Records[t.Record]
					of.Templates = append(of.Templates, ipfix.TemplateState{Options: r.Options, Octets: r.Octets, Seen: t.Seen.Time})
				}
			}
			one.Domains = append(one.Domains, of)
		}
		list = append(list, one)
	}
	return list
}
