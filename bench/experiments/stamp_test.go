// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/stamp"
)

// Each reflector has the aim, in both modes, and as its limit the same datagrams sent back
// unread, with HMACs where there are any.
func TestStampBenchmark(t *testing.T) {
	r, err := runStamp(context.Background(), harness.Options{Duration: 2 * time.Second, Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	took := make(map[report.Dimensions]float64)
	for _, p := range r.Points {
		took[p.Dimensions] = *p.NS
	}
	reflectors := 0
	for _, p := range r.Points {
		if *p.NS <= 0 || *p.NS > 100*reflectorAim || p.Reference <= 0 || p.X < 44 {
			t.Errorf("%s of %v octets takes %v ns, beside %v", p.Variant, p.X, *p.NS, p.Reference)
		}
		if p.Dimensions.Treatment != "reflector" {
			continue
		}
		reflectors++
		authenticated := strings.HasSuffix(p.Dimensions.Format, ", authenticated")
		if p.Aim != 5000 || p.Limit.Why == "" || p.Limit.Rest == "" || took[p.Limit.Floor.Variant] != p.Reference ||
			len(p.Limit.Plus) != map[bool]int{true: 1}[authenticated] {
			t.Errorf("%s: the aim is %v, the limit %+v", p.Variant, p.Aim, p.Limit)
		}
		for _, each := range p.Limit.Plus {
			if ns, ok := took[each.Variant]; !ok || ns >= *p.NS {
				t.Errorf("%s takes %v ns, and of them %v for the HMACs", p.Variant, *p.NS, ns)
			}
		}
	}
	if want := len(stampCases()) * 2; reflectors != want || len(r.Points) != 5*want/2 {
		t.Errorf("%d reflectors of %d points", reflectors, len(r.Points))
	}
}

func newStampSeries(t *testing.T, number int, mode stamp.Mode) *stampSeries {
	t.Helper()
	s := &stampSeries{stampCase: stampCases()[number], mode: mode, answers: answering(countersOfBlock())}
	if err := s.build(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Packets that are not answered as they should be are no measurement.
func TestStampRefusals(t *testing.T) {
	last := len(stampCases()) - 1
	forged := newStampSeries(t, 0, stamp.Authenticated)
	forged.packets[3][50] ^= 1
	unknown := newStampSeries(t, last, stamp.Unauthenticated)
	unknown.answers = func(stamp.TLV) bool { return false }
	altered := newStampSeries(t, last, stamp.Authenticated)
	altered.packets[5][len(altered.packets[5])-1] ^= 1
	for want, s := range map[string]*stampSeries{"hmac_wrong": forged, "tlv_unrecognized": unknown, "tlv_integrity_failed": altered} {
		if _, err := s.reflect(t.Context(), 20*time.Millisecond); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := forged.hash(time.Millisecond); err == nil {
		t.Error("a wrong HMAC was measured")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newStampSeries(t, 0, stamp.Unauthenticated).echo(ctx, time.Hour); err == nil {
		t.Error("a cancelled measurement has a result")
	}
}

// The answer has the counters of every flow that was asked for, in the question's place.
func TestStampAnswers(t *testing.T) {
	s := newStampSeries(t, len(stampCases())-1, stamp.Unauthenticated)
	tlvs := slices.Clone(s.packets[0][s.mode.BaseLen():])
	for one, err := range stamp.TLVs(tlvs) {
		if err != nil || !s.answers(one) {
			t.Fatalf("not answered: %v", err)
		}
	}
	m, err := blocks.Decode(tlvs[stamp.TLVHeaderLen:])
	if err != nil || len(m.Entries) != blocks.MostFlows {
		t.Fatalf("%v, %+v", err, m)
	}
	for _, e := range m.Entries {
		if e.State != blocks.Answered || e.Counters.Packets == 0 {
			t.Errorf("%+v", e)
		}
	}
	question := blocks.Message{Entries: []blocks.Entry{{Flow: 1}}}
	strange, err := stamp.AppendTLV(nil, 0, blocks.Type, question.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	for one := range stamp.TLVs(strange) {
		if s.answers(one) {
			t.Error("a flow without counters was answered")
		}
	}
}
