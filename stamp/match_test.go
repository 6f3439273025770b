// SPDX-License-Identifier: Apache-2.0

package stamp

import "testing"

// A reply belongs to a packet only if it repeats its number, its time bit for bit, and its SSID.
func TestMatch(t *testing.T) {
	sent := SenderPacket{Sequence: 7, Timestamp: 0x0102030405060708, Error: 0x8001, SSID: 9}
	for name, tt := range map[string]struct {
		change func(*ReflectorPacket)
		want   Match
	}{
		"all of it":                     {func(*ReflectorPacket) {}, Matches},
		"another error estimate":        {func(p *ReflectorPacket) { p.Sender.Error++ }, Matches},
		"another number":                {func(p *ReflectorPacket) { p.Sender.Sequence++ }, OtherSequence},
		"a time off by the last bit":    {func(p *ReflectorPacket) { p.Sender.Timestamp ^= 1 }, OtherTimestamp},
		"no time":                       {func(p *ReflectorPacket) { p.Sender.Timestamp = 0 }, OtherTimestamp},
		"another SSID":                  {func(p *ReflectorPacket) { p.SSID++ }, OtherSSID},
		"no SSID":                       {func(p *ReflectorPacket) { p.SSID = 0 }, NoSSID},
		"no SSID and another time":      {func(p *ReflectorPacket) { p.SSID, p.Sender.Timestamp = 0, 1 }, OtherTimestamp},
		"another number, time and SSID": {func(p *ReflectorPacket) { *p = ReflectorPacket{} }, OtherSequence},
	} {
		p := ReflectorPacket{Sequence: 3, SSID: sent.SSID, Sender: sent}
		p.Sender.SSID = 0 // replies have one SSID
		if tt.change(&p); p.Match(sent) != tt.want {
			t.Errorf("%s: %d, want %d", name, p.Match(sent), tt.want)
		}
	}
	sent.SSID = 0
	if p := (&ReflectorPacket{SSID: 5, Sender: sent}); p.Match(sent) != OtherSSID {
		t.Error("an SSID where none was sent matches")
	}
}
