// SPDX-License-Identifier: Apache-2.0

package linkloss

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/test/testnet"
)

// skb is the start of the kernel's struct __sk_buff.
type skb struct {
	_       [2]uint32
	Mark    uint32
	_       [38]uint32
	GSOSegs uint32
	_       uint64
	GSOSize uint32
	_       [3]uint32
}

// program is the program with its maps, attached to nothing.
type program struct {
	lossObjects
	filter
}

func load(t *testing.T) *program {
	t.Helper()
	testnet.NeedRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	p := &program{}
	if err := loadLossObjects(&p.lossObjects, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.lossObjects.Close() })
	p.filter = filter{
		rules:      p.Rules,
		counters:   p.Counters,
		detours:    p.Detours,
		counts:     p.DetourCounts,
		colourings: p.Colourings,
		blocks:     p.Blocks,
	}
	return p
}

func (p *program) set(t *testing.T, number int, r Rule) {
	t.Helper()
	if err := errors.Join(r.Validate(), p.rules.Put(uint32(number-1), r.kernel())); err != nil {
		t.Fatal(err)
	}
}

// loses reports whether the program loses a frame, which it must leave otherwise.
func (p *program) loses(t *testing.T, frame []byte, context skb) bool {
	t.Helper()
	verdict, err := p.Lose.Run(&ebpf.RunOptions{Data: frame, Context: context})
	if err != nil {
		t.Fatal(err)
	}
	const unspec, stolen = math.MaxUint32, 4
	if verdict != unspec && verdict != stolen {
		t.Fatalf("verdict %d", verdict)
	}
	return verdict == stolen
}

func (p *program) total(t *testing.T, number int) Counts {
	t.Helper()
	c, err := p.countsOf(uint32(number - 1))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	source, destination       = "2001:db8:ff::1", "fc00:12::e"
	firstSID, secondSID, last = "fc00:11::e", "fc00:12::e", "fc00:3::d6"
)

// frame is a frame with a segment routing header, behind other extension headers.
func frame(before ...byte) []byte {
	var extensions []byte
	kinds := append(before, 43)
	for _, next := range kinds[1:] {
		extensions = append(extensions, append([]byte{next, 1}, make([]byte, 14)...)...)
	}
	extensions = append(extensions, 59, 6, 4, 1, 2, 0, 0, 0) // no next header, 48 bytes of segments
	for _, sid := range []string{last, secondSID, firstSID} {
		extensions = append(extensions, netip.MustParseAddr(sid).AsSlice()...)
	}
	return packet(kinds[0], extensions)
}

func packet(next byte, payload []byte) []byte {
	b := append(make([]byte, 12), 0x86, 0xdd, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, next, 64)
	b = append(append(b, netip.MustParseAddr(source).AsSlice()...), netip.MustParseAddr(destination).AsSlice()...)
	return append(b, payload...)
}

// splitMix64 is the sequence of random numbers, as its authors write it.
func splitMix64(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// What is lost is what a slow model says, frame by frame.
func TestLosesWhatTheRuleSays(t *testing.T) {
	for name, r := range map[string]Rule{
		"every":   {Burst: 1, Every: 7},
		"all":     {Burst: 1, Every: 1},
		"burst":   {Burst: 3, Every: 20},
		"random":  {Probability: 0.05, Seed: 42},
		"certain": {Probability: 1, Seed: 42},
	} {
		t.Run(name, func(t *testing.T) {
			p, state := load(t), r.Seed
			p.set(t, 1, r)
			want := Counts{}
			for i := range uint64(2000) {
				random := float64(splitMix64(&state)) / math.MaxUint64
				lost := random < r.Probability || r.Every > 0 && i%uint64(r.Every) >= uint64(r.Every-r.Burst)
				if got := p.loses(t, frame(), skb{}); got != lost {
					t.Fatalf("frame %d: lost: %v, want %v", i, got, lost)
				}
				want.Frames, want.Packets = i+1, i+1
				if lost {
					want.LostFrames++
					want.LostPackets++
				}
			}
			if got := p.total(t, 1); got != want {
				t.Errorf("counted %+v, want %+v", got, want)
			}
		})
	}
}

// A rule is about the frames that have all of its addresses.
func TestMatches(t *testing.T) {
	prefix := netip.MustParsePrefix
	plain, ipv4 := packet(17, make([]byte, 20)), append(make([]byte, 12), append([]byte{8, 0}, make([]byte, 60)...)...)
	short := frame()[:14+40+8+20] // ends within the list of segments
	for name, tt := range map[string]struct {
		frame []byte
		rule  Rule
		want  bool
	}{
		"any":                       {frame(), Rule{}, true},
		"not IPv6":                  {ipv4, Rule{}, false},
		"source":                    {frame(), Rule{Source: prefix("2001:db8:ff::/64")}, true},
		"another source":            {frame(), Rule{Source: prefix("2001:db8:fe::/64")}, false},
		"one address":               {frame(), Rule{Source: prefix(source + "/128")}, true},
		"its neighbour":             {frame(), Rule{Source: prefix("2001:db8:ff::2/128")}, false},
		"destination":               {frame(), Rule{Destination: prefix("fc00:12::/32")}, true},
		"another destination":       {frame(), Rule{Destination: prefix("fc00:11::/32")}, false},
		"first SID":                 {frame(), Rule{FirstSID: prefix(firstSID + "/128")}, true},
		"second as the first SID":   {frame(), Rule{FirstSID: prefix(secondSID + "/128")}, false},
		"last SID":                  {frame(), Rule{LastSID: prefix(last + "/128")}, true},
		"another last SID":          {frame(), Rule{LastSID: prefix("fc00:4::/32")}, false},
		"all":                       {frame(), Rule{Source: prefix("2001:db8::/32"), Destination: prefix("fc00::/16"), FirstSID: prefix("fc00:11::/32"), LastSID: prefix("fc00:3::/32")}, true},
		"all but one":               {frame(), Rule{Source: prefix("2001:db8::/32"), Destination: prefix("fc00::/16"), FirstSID: prefix("fc00:11::/32"), LastSID: prefix("fc00:4::/32")}, false},
		"options before segments":   {frame(0, 60), Rule{FirstSID: prefix(firstSID + "/128"), LastSID: prefix(last + "/128")}, true},
		"no segments, destination":  {plain, Rule{FirstSID: prefix(destination + "/128"), LastSID: prefix(destination + "/128")}, true},
		"no segments, other SID":    {plain, Rule{LastSID: prefix(last + "/128")}, false},
		"cut segments, first SID":   {short, Rule{FirstSID: prefix(firstSID + "/128")}, false},
		"cut segments, destination": {short, Rule{Destination: prefix(destination + "/128")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t)
			tt.rule.Burst, tt.rule.Every = 1, 1
			p.set(t, 1, tt.rule)
			want := Counts{}
			if tt.want {
				want = Counts{1, 1, 1, 1}
			}
			if got := p.loses(t, tt.frame, skb{}); got != tt.want || p.total(t, 1) != want {
				t.Errorf("lost: %v, counted %+v; want %v, %+v", got, p.total(t, 1), tt.want, want)
			}
		})
	}
}

// An offloaded frame is lost as a whole, and counted as the packets that it is.
func TestOffloaded(t *testing.T) {
	p := load(t)
	p.set(t, 1, Rule{Burst: 1, Every: 2})
	long := packet(17, make([]byte, 1000))
	for _, c := range []skb{{GSOSegs: 9, GSOSize: 100}, {GSOSegs: 5, GSOSize: 200}, {}, {GSOSize: 300}} {
		p.loses(t, long, c)
	}
	// Without their number, packets are those that the frame's 1040 bytes fill.
	if got, want := p.total(t, 1), (Counts{4, 9 + 5 + 1 + 4, 2, 5 + 4}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// A later rule sees what an earlier one left.
func TestRulesInOrder(t *testing.T) {
	p := load(t)
	p.set(t, 2, Rule{Burst: 1, Every: 3})
	p.set(t, 5, Rule{Burst: 1, Every: 2, LastSID: netip.MustParsePrefix("fc00:3::/32")})
	lost := ""
	for range 9 {
		if p.loses(t, frame(), skb{}) {
			lost += "x"
		} else {
			lost += "."
		}
	}
	if lost != ".xx.xx.xx" || p.total(t, 2) != (Counts{9, 9, 3, 3}) || p.total(t, 5) != (Counts{6, 6, 3, 3}) {
		t.Errorf("lost %s, counted %+v and %+v", lost, p.total(t, 2), p.total(t, 5))
	}
}

func TestValidate(t *testing.T) {
	for _, r := range []Rule{
		{}, {Burst: 1}, {Every: 3}, {Burst: 4, Every: 3}, {Burst: 1, Every: 3, Probability: 0.1},
		{Probability: -0.1}, {Probability: 1.1}, {Probability: math.NaN()},
		{Burst: 1, Every: 3, Source: netip.MustParsePrefix("192.0.2.0/24")}, {Burst: 1, Every: 3, LastSID: netip.MustParsePrefix("fc00::1/64")},
	} {
		if r.Validate() == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
	for _, r := range []Rule{
		{Probability: 0.01, Seed: 7, Source: netip.MustParsePrefix("2001:db8::/32")},
		{Burst: 5, Every: 100, FirstSID: netip.MustParsePrefix("fc00::1/128"), LastSID: netip.MustParsePrefix("fc00:3::/33")},
	} {
		if err := r.Validate(); err != nil || r.kernel().rule() != r {
			t.Errorf("%+v: %v, comes back as %+v", r, err, r.kernel().rule())
		}
	}
}

// A rule that sends frames twice loses none, and counts those that it sent twice; a copy that
// comes by is left alone.
func TestTwice(t *testing.T) {
	p := load(t)
	rule := Rule{Burst: 1, Every: 5, Twice: true}
	p.set(t, 1, rule)
	p.set(t, 2, Rule{Burst: 1, Every: 1, LastSID: netip.MustParsePrefix("fc00:4::/32")})
	for i := range 20 {
		if p.loses(t, frame(), skb{}) {
			t.Fatalf("frame %d is lost", i)
		}
	}
	if got := p.total(t, 1); got != (Counts{Frames: 20, Packets: 20, LostFrames: 4, LostPackets: 4}) {
		t.Errorf("%+v", got)
	}
	const copied = 0x574d6370
	for range 5 {
		if p.loses(t, frame(), skb{Mark: copied}) {
			t.Fatal("a copy is lost")
		}
	}
	if got := p.total(t, 1); got.Frames != 20 {
		t.Errorf("copies are counted: %+v", got)
	}
	if back := rule.kernel().rule(); back != rule {
		t.Errorf("%+v is read as %+v", rule, back)
	}
}
