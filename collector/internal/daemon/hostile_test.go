// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// found are the messages that fuzzing of the collector's first stages has found, with headers.
func found(t *testing.T) (list [][]byte) {
	t.Helper()
	files, err := filepath.Glob("../../../internal/collect/testdata/fuzz/FuzzMessages/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			quoted, ok := strings.CutPrefix(strings.TrimSpace(line), "[]byte(")
			if !ok {
				continue
			}
			sets, err := strconv.Unquote(strings.TrimSuffix(quoted, ")"))
			if err != nil {
				t.Fatal(err)
			}
			m := binary.BigEndian.AppendUint16([]byte{0, 10}, uint16(16+len(sets)))
			m = binary.BigEndian.AppendUint32(m, uint32(time.Now().Unix()))
			list = append(list, append(append(m, 0, 0, 0, 0, 0, 0, 0, 1), sets...))
		}
	}
	return list
}

// extreme are messages with records of other kinds, of values that are rare.
func extreme(t *testing.T) (list [][]byte) {
	t.Helper()
	templates, err := record.NewTemplates(ipfix.EnterpriseExample)
	if err != nil {
		t.Fatal(err)
	}
	most := record.NewField[uint64](math.MaxUint64-1, true)
	m := record.Measurement{
		Time: instant.Of(time.Now()), Flow: "\xff\x00'; DROP TABLE loss; --", FlowID: math.MaxUint32, Scope: record.WholeWay,
		To: 1, ToNode: "\xfe",
		Block: record.NewField(uint64(time.Now().Unix()-2), true), Start: instant.Of(time.Unix(0, 0)), Length: uint64(time.Second),
	}
	for _, r := range []record.Record{
		&record.Delay{
			Measurement: m, Samples: math.MaxUint64, Min: math.MinInt64, Mean: math.MaxInt64, P95: math.MinInt64, Jitter: most,
			FromClockError: most, ToClockError: most,
		},
		record.NewBlock(m, 100*time.Millisecond, &loss.Reading{
			Flow: 1, Block: time.Now().Unix() - 2, Packets: math.MaxUint64, TimeSum: math.MinInt64, Timed: true, ClockError: math.MaxInt64,
		}, loss.Selection{}),
		&record.Loss{Measurement: m, Verdict: loss.Measured, Sent: most, Received: most, Lost: most, SentBytes: most, ReceivedBytes: most},
	} {
		e, err := ipfix.NewEncoder(ipfix.UDP, 1, 1400)
		if err != nil {
			t.Fatal(err)
		}
		e.Start(nil)
		x := templates.Encoding()
		x.Parts(r)
		err = x.Encode(r, 0, 0)
		if err := errors.Join(err, e.Define(x.Layout.Template), e.Add(x.Layout.Template, x.Octets)); err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Finish(time.Now()))
	}
	return list
}

// Whatever senders write into their records, the store keeps or leaves it out, goes on, and can be read and exported.
// WAYMARK_SEED repeats a run with other messages.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("WAYMARK_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	random, directory := rand.New(rand.NewPCG(seed, seed)), t.TempDir()
	r := run(t, fmt.Sprintf(file+"join: {wait: 100ms}\n", directory))
	s, err := storetest.NewSender(r.to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list := append(append(found(t), extreme(t)...), namedBy(t, 1))
	s.Deliver = func(_ int, m []byte) error { list = append(list, bytes.Clone(m)); return nil }
	if err := s.Send(3); err != nil {
		t.Fatal(err)
	}
	const messages = 3000
	for i := range messages {
		m := bytes.Clone(list[i%len(list)])
		if i >= len(list) && len(m) > 16 { // first as they are
			for range 1 + random.IntN(8) {
				m[16+random.IntN(len(m)-16)] = byte(random.Uint32())
			}
		}
		conn, err := net.Dial("udp", r.to) // a session of its own: templates are changed, too
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(m); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	s.Deliver = nil
	if err := s.Restart(false); err != nil {
		t.Fatal(err)
	}
	s.Skip(1 << 20)
	f := &faulty{r, s}
	f.packets(9)
	h := r.until("packets of after that", func(h *query.Health) bool {
		var a query.Packets
		r.ask("/v1/packets?since=5m&sequence="+fmt.Sprint((1<<20)/1000+1), &a)
		return len(a.Packets) == 9
	})
	if h.Store.Fault != "" || h.Store.Records == 0 {
		t.Errorf("seed %d: %+v %+v", seed, h.Store, h.Lost)
	}
	r.end()
	checked, _, err := store.Check(t.Context(), directory, 256<<20)
	if err != nil || len(checked) == 0 {
		t.Fatal(err)
	}
	for _, c := range checked {
		if c.Fault != nil {
			t.Errorf("seed %d: %s: %v", seed, c.Name, c.Fault)
		}
	}
	exported := 0
	_, err = store.Export(t.Context(), directory, t.TempDir(), time.Time{}, time.Now().AddDate(400, 0, 0), nil, 256<<20,
		func(string, int64) { exported++ })
	if err != nil || exported == 0 {
		t.Errorf("seed %d: %d tables, %v", seed, exported, err)
	}
}
