// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/keyfile"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/e2e"
)

// Another implementation answers an agent's question: it fills the Direct Measurement TLV
// beside the TLV that it does not know, and its times are delays.
func TestSuiteAnswersQuestions(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	file := keyFile(t)
	key, err := keyfile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		name string
		key  []byte
		args []string
	}{
		{"open", nil, nil},
		{"authenticated", key, []string{"-A", "A", "--hmac-key-file", file, "--verify-tlv-hmac"}},
	} {
		port := 8620 + i
		startFar(t, suite(t), append([]string{"-i", "-S", far, "-o", []string{"8620", "8621"}[i], "--stateful-reflector"}, tt.args...)...)
		e2e.Await(t, "their reflector", 5*time.Second, func() bool { return listens(t, port) })
		client, err := query.Open(query.NewStamp(tt.key), 0, new(query.Counters))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		message := blocks.Message{Length: time.Second, Block: 5, Entries: []blocks.Entry{{Flow: blocks.KeyOf("red"), Sent: 1<<32 + 9}}}
		tlvs, err := stamp.AppendTLV(nil, stamp.FlagUnrecognized, stamp.TypeDirectMeasurement,
			stamp.DirectMeasurement{SenderTransmitted: 9}.Append(nil))
		if err == nil {
			tlvs, err = stamp.AppendTLV(tlvs, stamp.FlagUnrecognized, blocks.Type, message.Append(nil))
		}
		if err != nil {
			t.Fatal(err)
		}
		peer := netip.MustParseAddrPort(at(far, port))
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(5*time.Second))
		defer cancel()
		for round := uint32(1); round <= 2; round++ {
			q := &query.Question{Peer: peer, Session: 7, Value: tlvs}
			client.Ask(ctx, []*query.Question{q})
			direct, unknown := false, false
			for one, err := range stamp.TLVs(q.Answer) {
				switch {
				case err != nil:
					t.Errorf("%s: %v", tt.name, err)
				case one.Type() == stamp.TypeDirectMeasurement && one.Flags() == 0:
					m, err := stamp.DecodeDirectMeasurement(one.Value())
					direct = err == nil && m.SenderTransmitted == 9 && m.ReflectorReceived == round
				case one.Type() == blocks.Type:
					unknown = one.Flags() == stamp.FlagUnrecognized
				}
			}
			if !direct || !unknown {
				t.Errorf("%s, question %d: %x", tt.name, round, q.Answer)
			}
		}
		samples := make(chan query.Sample, 8)
		prober, err := query.OpenProber(query.NewStamp(tt.key), new(query.Counters), func(s query.Sample) { samples <- s })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(prober.Close)
		for n := 1; n <= 2; n++ {
			prober.Send([]query.Probe{{Flow: 3, Peer: peer}})
			select {
			case s := <-samples:
				if s.Flow != 3 || s.Number != n || !s.OneWayKnown || !s.TwoWayKnown || s.OneWay <= 0 || s.TwoWay <= 0 || s.TwoWay > s.RoundTrip ||
					s.RoundTrip > patience.Of(time.Second) || s.Diverted {
					t.Errorf("%s: %+v", tt.name, s)
				}
			case <-ctx.Done():
				t.Fatalf("%s: no reply", tt.name)
			}
		}
	}
}
