// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/socketdrops"
	"github.com/waymark-net/waymark/ipfix"
)

// life runs a collector with a file of templates until end is called; said are its messages.
func life(t *testing.T, path, at string) (c *Collector, e Endpoint, end func() (said string)) {
	t.Helper()
	listen, err := ParseEndpoint(at)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var list []string
	c, cancel, done := begin(t, Config{
		Listen: []Endpoint{listen}, Templates: path, Enterprise: enterprise, Sinks: []sink.Sink{&memory{}},
		Notify: func(_ slog.Level, text string) {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, text)
		},
	})
	return c, c.Endpoints()[0], func() string {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(list, "\n")
	}
}

// templatesIn is the file.
func templatesIn(t *testing.T, path string) *memoryFile {
	t.Helper()
	file, err := readMemory(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A collector that starts reads data by the templates that came before, and counts what came while there was none.
func TestTemplatesOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "templates.json")
	c, at, end := life(t, path, "udp://[::1]:0")
	x, conn := newExporter(t, ipfix.UDP, 1), dial(t, at)
	card := func() []byte {
		return x.message(time.Now(), 0, packet(1)[0].with(field{"observationTimeNanoseconds", time.Now()}))
	}
	send(t, conn, card())
	eventually(t, "the first message", func() bool { return c.Stats().Messages == 1 })
	eventually(t, "the file while it runs", func() bool {
		file, err := readMemory(path)
		return err == nil && !file.Ended && len(file.Sessions) == 1 && len(file.Records) == 1
	})
	send(t, conn, card())
	eventually(t, "the second message", func() bool { return c.Stats().Messages == 2 })
	end()
	if file := templatesIn(t, path); !file.Ended || file.Sessions[0].Domains[0].Next != 2 || !file.Sessions[0].Domains[0].Counted {
		t.Errorf("%+v", file)
	}
	card() // is sent to nobody

	c, _, end = life(t, path, at.String())
	if templatesIn(t, path).Ended {
		t.Error("the file would be read as that of the end once more")
	}
	send(t, conn, card())
	eventually(t, "the message after the start", func() bool { return c.Stats().Messages == 1 })
	if s := c.Stats(); s.Records != 1 || s.Problems[ipfix.CauseUnknownTemplate] != 0 {
		t.Errorf("%+v", s)
	}
	if said := end(); !strings.Contains(said, "1 templates of 1 sessions over UDP are known") {
		t.Error(said)
	}
	if missed := c.Stats().Problems[ipfix.CauseSequenceGap]; missed != 1 {
		t.Errorf("%d records count as missed, want the one that came between", missed)
	}

	other, _, end := life(t, path, "udp://127.0.0.1:0")
	if n := other.decoder.Templates(); n != 0 {
		t.Errorf("%d templates of an address where nobody listens now", n)
	}
	end()
}

// A file that cannot be read or written does not keep a collector from running, and is reported once.
func TestTemplatesFileFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "templates.json")
	for text, want := range map[string]string{
		"{": "unexpected end", `{"format": 7}`: "has format 7, not 1", `{"format": "x"}`: "cannot unmarshal",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, end := life(t, path, "udp://[::1]:0")
		if said := end(); !strings.Contains(said, want) {
			t.Errorf("%s: %s", text, said)
		}
		if !templatesIn(t, path).Ended {
			t.Errorf("%s was not replaced", text)
		}
	}
	_, _, end := life(t, filepath.Join(path, "no"), "udp://[::1]:0")
	if said := end(); strings.Count(said, "templates are not kept for a restart") != 1 {
		t.Error(said)
	}
	if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path+".new", "full"), 0o700),
		os.WriteFile(path, []byte(`{"format": 1, "ended": true}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, _, end = life(t, path, "udp://[::1]:0")
	if _, err := os.Stat(path); err == nil {
		t.Error("a file of the end is there, and would be read twice")
	}
	end()
}

// The file is bounded, whatever senders invent, and has those that sent first.
func TestTemplatesFileIsBounded(t *testing.T) {
	var all []ipfix.SessionState
	for i := range 60_000 {
		of := ipfix.DomainState{Templates: []ipfix.TemplateState{{Octets: []byte(strings.Repeat("x", 700)), Seen: start}}}
		of.Templates[0].Octets[0], of.Templates[0].Octets[1] = byte(i), byte(i>>8)
		at := netip.AddrPortFrom(netip.MustParseAddr("2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff"), uint16(i))
		all = append(all, ipfix.SessionState{
			Key:   ipfix.SessionKey{Transport: ipfix.UDP, Exporter: at, Collector: at},
			First: start.Add(time.Duration(i)), Last: start, Domains: []ipfix.DomainState{of},
		})
	}
	file := memorize(all, true, start)
	text, err := json.Marshal(file)
	if err != nil || len(text) > mostMemory+mostMemory/8 || len(file.Sessions) < 10_000 || len(file.Sessions) == len(all) {
		t.Errorf("%d sessions in %d octets, %v", len(file.Sessions), len(text), err)
	}
	back := file.sessions([]Endpoint{{Transport: ipfix.UDP, Address: all[7].Key.Collector}})
	want := all[7].Domains[0].Templates[0].Octets
	if len(back) != 1 || back[0].Key != all[7].Key || !slices.Equal(back[0].Domains[0].Templates[0].Octets, want) {
		t.Errorf("%+v", back)
	}
}

// inheriting keeps sockets in this process.
type inheriting struct {
	noKeeper
	files   map[string][]*os.File
	removed []string
}

func (k *inheriting) Inherited(name string) []*os.File {
	list := k.files[name]
	delete(k.files, name)
	return list
}

func (k *inheriting) Remove(name string) { k.removed = append(k.removed, name) }

// A socket that is kept under a name of another address, or is none, is not used.
func TestWrongSocketsAreRemoved(t *testing.T) {
	conn, err := net.ListenPacket("udp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	udp, err := conn.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	port := conn.LocalAddr().(*net.UDPAddr).Port + 1
	if port > 65535 {
		port -= 2
	}
	listen := []Endpoint{}
	for _, transport := range []ipfix.Transport{ipfix.UDP, ipfix.TCP} {
		listen = append(listen, Endpoint{Transport: transport, Address: netip.AddrPortFrom(netip.IPv6Loopback(), uint16(port))})
	}
	k := &inheriting{files: map[string][]*os.File{listen[0].keptName(): {udp}, listen[1].keptName(): {null}}}
	c, err := New(Config{Listen: listen, Keeper: k, Enterprise: enterprise, Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Endpoints(); !slices.Equal(got, listen) {
		t.Errorf("listens at %v, want %v", got, listen)
	}
	if want := []string{listen[0].keptName(), listen[1].keptName()}; !slices.Equal(k.removed, want) {
		t.Errorf("removed %q, want %q", k.removed, want)
	}
	if strings.Contains(strings.Join(k.removed, ""), ":") {
		t.Errorf("%q has a colon, which ends a name", k.removed)
	}
}

// What the kernel dropped from a kept socket before is not counted once more, and what it has is read.
func TestKeptSocketsBeginToCount(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadBuffer(1); err != nil {
		t.Fatal(err)
	}
	at := Endpoint{Transport: ipfix.UDP, Address: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	to := dial(t, at)
	for range 100 {
		send(t, to, make([]byte, 1000))
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	dropped, err := socketdrops.Total(raw)
	if err != nil || dropped == 0 || dropped == 100 {
		t.Fatalf("%d dropped, %v", dropped, err)
	}
	file, err := conn.File()
	if err != nil {
		t.Fatal(err)
	}
	c, _, _ := run(t, Config{Keeper: &inheriting{files: map[string][]*os.File{at.keptName(): {file}}}, Readers: 1}, at.String())
	eventually(t, "what waited", func() bool { return c.Stats().Problems[ipfix.CauseVersion] == uint64(100-dropped) })
	if n := c.Stats().SocketDropped; n != 0 {
		t.Errorf("%d datagrams count as dropped, of the %d of before", n, dropped)
	}
}
