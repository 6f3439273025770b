// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/live"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

const (
	// heartbeat is the time between two signs of life of a stream.
	heartbeat = 5 * time.Second
	// mostTogether is how many items are written at once.
	mostTogether = 256
)

// mostStalled is how long a reader may take nothing before its stream ends.
var mostStalled = 10 * time.Second

// writeBuffer bounds what the kernel keeps for a client that does not read, in octets.
const writeBuffer = 256 << 10

// bounded limits the memory of a connection.
func bounded(ctx context.Context, conn net.Conn) context.Context {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(writeBuffer) // else the system's
	}
	return ctx
}

// Begun is the first event of a live stream.
type Begun struct {
	From instant.Time `json:"from"`
	Left uint64       `json:"missed"`
}

// Missed says how much a live stream left out.
type Missed struct {
	Count uint64 `json:"missed"`
}

// Heartbeat is a sign of life.
type Heartbeat struct {
	Time    instant.Time `json:"time"`
	Readers int          `json:"readers"`
	Fault   string       `json:"fault,omitempty"`
}

// liveKinds are the names of events that are kept, with the types of their data.
var liveKinds = []string{"path", "loss", "event"}

var liveRoute = route{
	path: "/v1/live", name: "live", stream: true,
	summary: "What is kept, as it is kept, as server-sent events: begin, then path, loss and event, those of the last minute " +
		"first; missed and heartbeat",
	parameters: []parameter{
		{name: "kinds", form: "text", usual: strings.Join(liveKinds, ","), doc: "The names of events that are wanted, with commas between them."},
		{name: "rate", form: "number", usual: "100", doc: fmt.Sprintf("How many packets a second are wanted at most, up to %d. Of more, an even part is left out, and its number is said.", live.MostRate)},
		namespace, source, to, header, ports, port, either, flowNames,
	},
	events: map[string]any{
		"begin":     Begun{},
		"path":      query.Packet{},
		"loss":      query.Block{},
		"event":     query.Event{},
		"missed":    Missed{},
		"heartbeat": Heartbeat{},
	},
}

// eventOf is a record as an event of the stream, without the line that ends it.
func eventOf(r record.Record) []byte {
	name, data := nameOf(r), any(nil)
	switch r := r.(type) {
	case *record.Loss:
		data = query.BlockOf(r)
	case *record.Path, *record.Trace:
		data = query.PacketOf(r)
	default:
		data = query.EventOf(r)
	}
	return event(name, data)
}

func nameOf(r record.Record) string {
	switch r.(type) {
	case *record.Loss:
		return "loss"
	case *record.Path, *record.Trace:
		return "path"
	default:
		return "event"
	}
}

func event(name string, data any) []byte {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\ndata: ")
	_ = json.NewEncoder(&b).Encode(data) // without line breaks but the last; what it is made of can always be written
	return b.Bytes()
}

// selection reads what a reader of the stream wants.
func (v *values) selection() live.Selection {
	flows, flow := v.flows(), v.text("flow")
	kinds := strings.Split(v.text("kinds"), ",")
	for _, kind := range kinds {
		if !slices.Contains(liveKinds, kind) {
			v.fail("kinds", "want "+strings.Join(liveKinds, ", ")+", with commas between them")
		}
	}
	rate := v.number("rate", live.MostRate)
	if rate == 0 {
		v.fail("rate", fmt.Sprintf("want a number from 1 to %d", live.MostRate))
	}
	return live.Selection{Rate: int(rate), Match: func(r record.Record) bool {
		if !slices.Contains(kinds, nameOf(r)) {
			return false
		}
		switch r := r.(type) {
		case *record.Path:
			return flows.Match(uint16(r.Namespace), &r.Packet)
		case *record.Trace:
			return flows.Match(uint16(r.Namespace), &r.Packet)
		case *record.Loss:
			return flow == "" || r.Flow == flow
		}
		return true
	}}
}

// seen matches what a reader wants and may see.
func seen(ctx context.Context, wanted func(record.Record) bool) func(record.Record) bool {
	return func(r record.Record) bool { return query.Passes(ctx, r) && wanted(r) }
}

// serveLive streams until the reader, or the collector, ends.
func serveLive(w http.ResponseWriter, request *http.Request, q *query.Queries, hub *live.Hub) {
	v, err := liveRoute.read(request.URL.Query(), time.Now().UTC())
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	want := v.selection()
	if v.err != nil {
		fail(w, http.StatusBadRequest, v.err.Error())
		return
	}
	want.User, want.After = access.Of(request.Context()).User, hub.Marked(request.Header.Get("Last-Event-ID"))
	confined := query.Confined(request.Context())
	if confined {
		want.Match = seen(request.Context(), want.Match)
	}
	reader, begun, left, err := hub.Observe(want)
	if err != nil {
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer reader.Close()
	s := &stream{w: w, hub: hub, to: http.NewResponseController(w)}
	_ = s.to.SetReadDeadline(time.Time{}) // the request was read; a stream outlives its time
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // a proxy must not wait for the end
	from := time.Now().Add(-live.Span)
	if len(begun) > 0 && begun[0].At.After(from) && want.After > 0 {
		from = begun[0].At
	}
	if confined {
		left = 0
	}
	s.add(append([]byte("retry: 2000\n"), event("begin", Begun{instant.Of(from), left})...), "")
	for i, item := range begun {
		s.item(item)
		if i%mostTogether == mostTogether-1 && s.flush() != nil {
			return
		}
	}
	if s.flush() != nil {
		return
	}
	s.follow(request, q, hub, reader)
}

// longestStream is how long a stream lasts. A browser then asks again, with the last id that it has: who it is,
// and what it may see, is looked up again.
const longestStream = 5 * time.Minute

// follow writes what comes.
func (s *stream) follow(request *http.Request, q *query.Queries, hub *live.Hub, reader *live.Reader) {
	beat, end := time.NewTicker(heartbeat), time.NewTimer(longestStream)
	defer beat.Stop()
	defer end.Stop()
	for {
		select {
		case item := <-reader.Items():
			s.item(item)
			for range min(len(reader.Items()), mostTogether) {
				s.item(<-reader.Items())
			}
		case <-beat.C:
			fault, _ := q.Store.Fault()
			beat := Heartbeat{instant.Of(time.Now()), hub.Readers(), fault}
			if query.Confined(request.Context()) {
				if beat.Readers = 0; beat.Fault != "" {
					beat.Fault = "nothing is written" // the reason is about files
				}
			}
			s.add(event("heartbeat", beat), "")
		case <-end.C:
			return
		case <-reader.Gone():
			return
		case <-request.Context().Done():
			return
		}
		if n := reader.TakeMissed(); n > 0 {
			if query.Confined(request.Context()) {
				n = 0 // packets of others are among them
			}
			s.add(event("missed", Missed{n}), "")
		}
		if s.flush() != nil {
			return
		}
	}
}

// stream writes events.
type stream struct {
	w   http.ResponseWriter
	hub *live.Hub
	to  *http.ResponseController
	b   bytes.Buffer
}

func (s *stream) item(i *live.Item) { s.add(i.Text(eventOf), s.hub.Mark(i.ID)) }

func (s *stream) add(event []byte, mark string) {
	s.b.Write(event)
	if mark != "" {
		s.b.WriteString("id: " + mark + "\n")
	}
	s.b.WriteByte('\n')
}

// flush sends what was added. A reader that takes nothing for a while is given up.
func (s *stream) flush() error {
	fault := s.to.SetWriteDeadline(time.Now().Add(mostStalled))
	if errors.Is(fault, http.ErrNotSupported) { // of a test without a connection
		fault = nil
	}
	_, err := s.w.Write(s.b.Bytes())
	s.b.Reset()
	return errors.Join(fault, err, s.to.Flush())
}
