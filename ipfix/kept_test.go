// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/craft"
)

// sorted is the state of a decoder in an order.
func sorted(d *Decoder) []SessionState {
	list := d.State()
	for _, s := range list {
		slices.SortFunc(s.Domains, func(a, b DomainState) int { return cmp.Compare(a.ID, b.ID) })
		for _, of := range s.Domains {
			slices.SortFunc(of.Templates, func(a, b TemplateState) int { return slices.Compare(a.Octets, b.Octets) })
		}
	}
	return list
}

// checkKept restores the state of a decoder in another one, which then has the same.
func checkKept(t *testing.T, d *Decoder, now time.Time) *Decoder {
	t.Helper()
	other := NewDecoder(DecoderConfig{Registry: d.registry, Limits: d.limits, TemplateLifetime: d.lifetime, IdleTimeout: d.idle})
	state, want := sorted(d), 0
	for _, s := range state {
		for _, of := range s.Domains {
			want += len(of.Templates)
		}
	}
	got := other.Restore(state, true, now)
	if restored := sorted(other); got != want || other.Templates() != want || !reflect.DeepEqual(restored, state) {
		t.Fatalf("%d templates of %d were restored: %+v\nwant %+v", got, want, restored, state)
	}
	return other
}

// The three kinds of templates are the same after a restart, and data are read by them.
func TestRestore(t *testing.T) {
	d := NewDecoder(DecoderConfig{Registry: registry(t)})
	decode(t, open(t, d, key(UDP, 1), exportTime), sets(t, 0, rightSets...))
	decode(t, open(t, d, key(UDP, 2), exportTime), sets(t, 70, portTemplate))
	decode(t, open(t, d, key(TCP, 3), exportTime), sets(t, 0, portTemplate)) // its connection ends with the process
	open(t, d, key(UDP, 4), exportTime)                                      // nothing is known of it
	if n := len(d.State()); n != 2 {
		t.Fatalf("%d sessions are kept", n)
	}
	other := checkKept(t, d, exportTime)
	m := decode(t, open(t, other, key(UDP, 1), exportTime), sets(t, 3, portData, nameData, aboutData))
	checkProblems(t, m.Problems, NumCauses)
	if m.Records != 3 {
		t.Errorf("%d records", m.Records)
	}
	checkProblems(t, decode(t, open(t, other, key(UDP, 2), exportTime), sets(t, 70, nameData)).Problems, CauseUnknownTemplate)
	if again := other.Restore(d.State(), true, exportTime); again != 0 {
		t.Errorf("%d templates of sessions that are there were restored", again)
	}
}

// What came while no process was there is missed after an end in order, and unknown after a crash.
func TestRestoreCounts(t *testing.T) {
	for name, c := range map[string]struct {
		ended  bool
		number uint32
		missed uint64
	}{
		"nothing was sent": {true, 3, 0}, "seven records were sent": {true, 10, 7}, "after a crash": {false, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDecoder(DecoderConfig{Registry: registry(t)})
			decode(t, open(t, d, key(UDP, 1), exportTime), sets(t, 0, rightSets...))
			other := NewDecoder(DecoderConfig{Registry: registry(t)})
			other.Restore(d.State(), c.ended, exportTime)
			s := open(t, other, key(UDP, 1), exportTime)
			checkProblems(t, decode(t, s, sets(t, c.number, portData)).Problems, NumCauses)
			if missed := other.CountMissed(exportTime.Add(time.Hour)); missed != c.missed {
				t.Errorf("%d are missed, want %d", missed, c.missed)
			}
		})
	}
}

// An exporter that restarted meanwhile numbers its records from 0, and may have given its numbers to other templates.
func TestRestoredTemplatesOfAnotherLife(t *testing.T) {
	const number = 1000
	restored := func() *Session {
		d := NewDecoder(DecoderConfig{Registry: registry(t)})
		decode(t, open(t, d, key(UDP, 1), exportTime), sets(t, number-3, rightSets...))
		return open(t, checkKept(t, d, exportTime), key(UDP, 1), exportTime)
	}

	s := restored()
	for i := range uint32(restartLen) {
		m := decode(t, s, sets(t, i, portData))
		if m.Records != 0 {
			t.Fatalf("message %d of a new life was read by a template of the one before", i)
		}
	}
	if n := s.templates; n != 0 {
		t.Errorf("%d templates of the life before are left", n)
	}
	if m := decode(t, s, sets(t, 8, portData)); m.Records != 0 {
		t.Error("a template is still used")
	}
	if m := decode(t, s, sets(t, 9, portTemplate, portData)); m.Records != 1 {
		t.Error("a template that came is not used")
	}

	s = restored() // templates that come are used at once, and outlast the others
	otherNames := "0002 000c 0101 0001 0053 ffff"
	for i := range uint32(restartLen + 1) {
		list := []string{portTemplate, otherNames, portData, nameData}
		if i > 0 {
			list = []string{portData, nameData}
		}
		if m := decode(t, s, sets(t, 2*i, list...)); m.Records != 2 {
			t.Fatalf("message %d: %d records", i, m.Records)
		}
	}
	if n := s.templates; n != 2 {
		t.Errorf("%d templates, want the two that came", n)
	}

	s = restored() // a late datagram is no restart
	if m := decode(t, s, sets(t, number-1, portData)); m.Records != 0 {
		t.Error("a late datagram was read, although the exporter may have restarted")
	}
	if m := decode(t, s, sets(t, number, portData)); m.Records != 1 {
		t.Error("after a late datagram, the templates are not used")
	}
	for i := range uint32(restartLen + 2) { // from now on, it is as if the process had been there all the time
		if m := decode(t, s, sets(t, i, portData)); m.Records != 1 {
			t.Fatalf("message %d was not read", i)
		}
	}
}

// Lifetimes go on, a clock that was set back does not prolong them, and limits hold.
func TestRestoreWithinLimits(t *testing.T) {
	c := DecoderConfig{Registry: registry(t), TemplateLifetime: 10 * time.Minute, IdleTimeout: time.Hour}
	d := NewDecoder(c)
	for n := range 8 {
		decode(t, open(t, d, key(UDP, n), exportTime.Add(time.Duration(n))), sets(t, 0, rightSets...))
	}
	state := d.State()
	for _, when := range []struct {
		after     time.Duration
		templates int
	}{{10 * time.Minute, 24}, {10*time.Minute + 1, 0}, {time.Hour + 1, 0}, {-time.Hour, 24}} {
		other := NewDecoder(c)
		if n := other.Restore(state, false, exportTime.Add(when.after)); n != when.templates {
			t.Errorf("%v later, %d templates are restored, want %d", when.after, n, when.templates)
		}
		other.Expire(exportTime.Add(when.after + 10*time.Minute + 1))
		if n := other.Templates(); n != 0 {
			t.Errorf("%v later, and after their lifetime, %d templates are there", when.after, n)
		}
	}
	c.Limits = Limits{Sessions: 4, SessionTemplates: 2, Templates: 8}
	other := NewDecoder(c)
	if n := other.Restore(state, false, exportTime); n != 6 || other.Sessions() != 3 || other.Templates() != 6 {
		t.Errorf("%d templates, %d sessions: connections have a quarter for themselves", n, other.Sessions())
	}
	if other.sessions[key(UDP, 0)] == nil {
		t.Error("the session that sent first is not there")
	}
	for _, octets := range []string{
		"", "0100", "0100 0001", "0100 0000", "00ff 0001 0052 ffff", "0101 0001 0052 ffff 00", "0101 0002 0052 ffff",
		"0101 0001 0052 0000", "0101 0001 0052 ffff 0000",
	} {
		of := DomainState{Templates: []TemplateState{{Octets: craft.Hex(t, octets), Seen: exportTime}}}
		bad := []SessionState{{Key: key(UDP, 9), Last: exportTime, Domains: []DomainState{of}}}
		if n := NewDecoder(DecoderConfig{Registry: registry(t)}).Restore(bad, false, exportTime); n != 0 {
			t.Errorf("%s was restored", octets)
		}
	}
}

func TestTemplateChanges(t *testing.T) {
	d := NewDecoder(DecoderConfig{Registry: registry(t)})
	s := open(t, d, key(UDP, 1), exportTime)
	last := d.TemplateChanges()
	for i, c := range []struct {
		sets    []string
		changed bool
	}{
		{[]string{portTemplate}, true}, {[]string{portTemplate, portData}, false}, {[]string{portData}, false},
		{[]string{nameTemplate}, true}, {[]string{"0002 000c 0101 0001 0053 ffff"}, true},
	} {
		decode(t, s, sets(t, 0, c.sets...))
		if now := d.TemplateChanges(); (now != last) != c.changed {
			t.Errorf("%d: %d after %d", i, now, last)
		} else {
			last = now
		}
	}
}
