// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// run runs a collector that listens at endpoints, until the test ends.
func run(t testing.TB, config Config, endpoints ...string) (*Collector, *memory, []Endpoint) {
	t.Helper()
	for _, s := range endpoints {
		e, err := ParseEndpoint(s)
		if err != nil {
			t.Fatal(err)
		}
		config.Listen = append(config.Listen, e)
	}
	out := &memory{}
	config.Sinks, config.Enterprise, config.flushInterval = []sink.Sink{out}, enterprise, 5*time.Millisecond
	config.Notify = func(level slog.Level, text string) { t.Log(level, text) }
	c, cancel, done := begin(t, config)
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the collector ended with %v", err)
			}
		case <-time.After(patience.Of(10 * time.Second)):
			t.Error("the collector does not end")
		}
	})
	return c, out, c.Endpoints()
}

// begin runs a collector until it is cancelled; done reports how it ended.
func begin(t testing.TB, config Config) (c *Collector, cancel func(), done <-chan error) {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, cancel, ended
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(10 * time.Second)); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within 10 s", what)
}

func dial(t testing.TB, e Endpoint) net.Conn {
	t.Helper()
	conn, err := net.Dial(e.network(), e.Address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func send(t testing.TB, conn io.Writer, octets []byte) {
	t.Helper()
	if _, err := conn.Write(octets); err != nil {
		t.Fatal(err)
	}
}

// authority signs certificates.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	dir  string
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), next: 1}
	a.key, a.cert = a.sign("authority", true)
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign makes NAME.pem and NAME.key.
func (a *authority) sign(name string, ca bool) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, IsCA: ca, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for ending, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der},
		".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(a.file(name+ending), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return key, cert
}

// Three nodes export a packet each their own way, and the path is whole.
func TestTransports(t *testing.T) {
	a := newAuthority(t)
	a.sign("collector", false)
	a.sign("exporter", false)
	secured, err := LoadTLS(a.file("collector.pem"), a.file("collector.key"), a.file("authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c, out, at := run(t, Config{TLS: secured}, "udp://[::]:0", "tcp://127.0.0.1:0", "tls://[::1]:0")
	at[0].Address = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at[0].Address.Port()) // [::] has IPv4 too
	pair, err := tls.LoadX509KeyPair(a.file("exporter.pem"), a.file("exporter.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	encrypted, err := tls.Dial("tcp", at[2].Address.String(), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer encrypted.Close()
	conns := []net.Conn{dial(t, at[0]), dial(t, at[1]), encrypted}
	for sequence := range uint64(20) {
		for i, card := range packet(sequence) {
			transport := ipfix.TCP
			if i == 0 {
				transport = ipfix.UDP
			}
			send(t, conns[i], newExporter(t, transport, 1).message(start, 0, card))
		}
	}
	eventually(t, "20 paths", func() bool { return len(out.all()) == 20 })
	for _, e := range out.all() {
		p := e.(*record.Path)
		if !p.Complete || p.Nodes[0].Exporter.String() != "127.0.0.1" || p.Nodes[1].Exporter.String() != "127.0.0.1" ||
			p.Nodes[2].Exporter.String() != "::1" {
			t.Errorf("%s", p.Text())
		}
	}
	if s := c.Stats(); s.Connections != 2 || s.Messages != 60 || s.Join.Joined != 60 {
		t.Errorf("stats %+v", s)
	}
}

// strangers returns a collector's authority and TLS, and an exporter's certificate that
// another authority has signed.
func strangers(t *testing.T) (a *authority, secured *tls.Config, pair tls.Certificate) {
	t.Helper()
	a, stranger := newAuthority(t), newAuthority(t)
	a.sign("collector", false)
	stranger.sign("exporter", false)
	secured, err := LoadTLS(a.file("collector.pem"), a.file("collector.key"), a.file("authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err = tls.LoadX509KeyPair(stranger.file("exporter.pem"), stranger.file("exporter.key"))
	if err != nil {
		t.Fatal(err)
	}
	return a, secured, pair
}

// Exporters over TLS need a certificate of the authority.
func TestTLSRefuses(t *testing.T) {
	a, secured, pair := strangers(t)
	c, out, at := run(t, Config{TLS: secured}, "tls://[::1]:0")
	for name, config := range map[string]*tls.Config{
		"none":         {InsecureSkipVerify: true},
		"a stranger's": {InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}},
		"old version":  {InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
	} {
		before := c.Stats().HandshakesFailed
		conn, err := tls.Dial("tcp", at[0].Address.String(), config)
		if err == nil {
			for range 3 { // with TLS 1.3, data goes out before the alert comes back
				send(t, conn, newExporter(t, ipfix.TCP, 1).message(start, 0, packet(0)...))
				time.Sleep(10 * time.Millisecond)
			}
			_, err = conn.Read(make([]byte, 1))
			conn.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "remote error: tls: ") {
			t.Errorf("certificate %s: %v, want an alert", name, err)
		}
		eventually(t, "count "+name, func() bool { return c.Stats().HandshakesFailed == before+1 })
	}
	plain := dial(t, at[0])
	send(t, plain, newExporter(t, ipfix.TCP, 1).message(start, 0, packet(0)...))
	eventually(t, "count plain TCP", func() bool { return c.Stats().HandshakesFailed == 4 })
	if len(out.all()) != 0 || c.Stats().Messages != 0 {
		t.Errorf("%d messages of strangers were taken", c.Stats().Messages)
	}
	if _, err := LoadTLS(a.file("collector.pem"), a.file("authority.key"), ""); err == nil {
		t.Error("a key of another certificate is taken")
	}
	if _, err := LoadTLS(a.file("collector.pem"), a.file("collector.key"), a.file("collector.key")); err == nil ||
		!strings.Contains(err.Error(), "has no certificate") {
		t.Errorf("an authority without certificate: %v", err)
	}
	if _, err := New(Config{Listen: at, Enterprise: enterprise}); !errors.Is(err, errNoCertificate) {
		t.Errorf("TLS without a certificate: %v", err)
	}
}

// Clients that stall, send nothing, or send no valid message are cut off and counted;
// others are still served.
func TestStalledConnections(t *testing.T) {
	const timeout = 100 * time.Millisecond
	c, out, at := run(t, Config{MessageTimeout: timeout}, "tcp://[::1]:0")
	message := newExporter(t, ipfix.TCP, 1).message(start, 0, packet(0)...)
	silent, stalled, drip := dial(t, at[0]), dial(t, at[0]), dial(t, at[0])
	send(t, stalled, message[:len(message)-1])
	go func() { // an octet at a time: the whole message has its time
		for _, b := range message {
			if _, err := drip.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(timeout / 20)
		}
	}()
	good := dial(t, at[0])
	send(t, good, message)
	eventually(t, "the good one's path", func() bool { return len(out.all()) == 1 })
	eventually(t, "three are cut off", func() bool { return c.Stats().TimedOut == 3 })
	for name, conn := range map[string]net.Conn{"silent": silent, "stalled": stalled, "drip": drip} {
		conn.SetReadDeadline(time.Now().Add(patience.Of(time.Second)))
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
			t.Errorf("%s is still connected", name)
		}
	}
	// After a message, a client may be silent for longer.
	send(t, good, newExporter(t, ipfix.TCP, 2).message(start, 0, packet(1)...))
	eventually(t, "the second path", func() bool { return len(out.all()) == 2 })

	cut := dial(t, at[0])
	send(t, cut, message[:20])
	cut.Close()
	eventually(t, "one that broke off", func() bool { return c.Stats().Broken == 1 })
	netflow := dial(t, at[0])
	send(t, netflow, []byte{0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	eventually(t, "one of version 9", func() bool { return c.Stats().Problems[ipfix.CauseVersion] == 1 })
	orderly := dial(t, at[0])
	send(t, orderly, message)
	orderly.Close()
	eventually(t, "an orderly end", func() bool { return c.Stats().Messages == 3 })
	eventually(t, "all others are gone", func() bool {
		c.tcp.mu.Lock()
		defer c.tcp.mu.Unlock()
		return len(c.tcp.open) == 1 && len(c.tcp.from) == 1
	})
	if s := c.Stats(); s.Broken != 1 || s.TimedOut != 3 || s.Connections != 7 || c.decoder.Sessions() != 1 {
		t.Errorf("%d sessions, stats %+v", c.decoder.Sessions(), s)
	}
}

func TestConnectionLimits(t *testing.T) {
	c, _, at := run(t, Config{Connections: 3, AddressLimit: 2}, "tcp://127.0.0.1:0")
	from := func(address string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
		conn, err := d.Dial("tcp", at[0].Address.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for i, step := range []struct {
		address string
		refused uint64
	}{{"127.0.0.1", 0}, {"127.0.0.1", 0}, {"127.0.0.1", 1}, {"127.0.0.2", 1}, {"127.0.0.3", 2}} {
		from(step.address)
		eventually(t, "connection", func() bool { s := c.Stats(); return s.Connections+s.ConnectionsRefused == uint64(i+1) })
		if got := c.Stats().ConnectionsRefused; got != step.refused {
			t.Fatalf("connection %d: %d refused, want %d", i, got, step.refused)
		}
	}
}

// Datagrams that the kernel drops because the socket's buffer is full are counted.
func TestSocketDrops(t *testing.T) {
	c, _, at := run(t, Config{datagramsBuffer: 4096}, "udp://[::1]:0")
	conn := dial(t, at[0])
	message := newExporter(t, ipfix.UDP, 1).message(start, 0, packet(0)...)
	const sent = 2000
	c.mu.Lock() // no one reads
	for range sent {
		send(t, conn, message)
	}
	c.mu.Unlock()
	eventually(
		t,
		"every datagram is accounted for",
		func() bool { s := c.Stats(); return s.SocketDropped > 0 && s.Messages+s.SocketDropped == sent },
	)
}

// Messages that wait in a socket when the collector ends are read: exporters count them
// as written.
func TestEndReadsWhatWaits(t *testing.T) {
	e, err := ParseEndpoint("udp://[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	c, cancel, done := begin(t, Config{Listen: []Endpoint{e}, Sinks: []sink.Sink{&memory{}}, Enterprise: enterprise, datagramsBuffer: 1 << 20})
	conn, message := dial(t, c.Endpoints()[0]), newExporter(t, ipfix.UDP, 1).message(start, 0, packet(0)...)
	send(t, conn, message)
	eventually(t, "it receives", func() bool { return c.Stats().Messages == 1 })
	c.mu.Lock() // no one reads
	for range 100 {
		send(t, conn, message)
	}
	cancel()
	time.Sleep(20 * time.Millisecond)
	c.mu.Unlock()
	over, began := make(chan struct{}), time.Now()
	defer close(over)
	go func() { // an endless sender does not keep it from ending
		for {
			select {
			case <-over:
				return
			default:
				_, _ = conn.Write(message)
				time.Sleep(time.Millisecond)
			}
		}
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience.Of(2*partingTime) {
		t.Errorf("the end took %v", took)
	}
	if n := c.Stats().Messages; n < 101 {
		t.Errorf("%d messages were read, want 101 at least", n)
	}
}

// Of several sockets none stays open when one cannot be opened.
func TestOpenAllOrNone(t *testing.T) {
	taken, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := ParseEndpoint("udp://" + taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	busy, err := ParseEndpoint("tcp://" + taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Listen: []Endpoint{free, busy}, Enterprise: enterprise})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Open(); err == nil || !strings.Contains(err.Error(), "listen at "+busy.String()+": address already in use; stop the program") {
		t.Errorf("open: %v", err)
	}
	keyed, err := New(Config{Listen: []Endpoint{busy}, ListenName: "listen", Enterprise: enterprise})
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[*Collector]string{c: "or set --listen to another port", keyed: "or set listen to another port"} {
		if err := of.Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("open: %v, want %q", err, want)
		}
	}
	again, err := net.ListenPacket("udp", taken.Addr().String())
	if err != nil {
		t.Fatalf("the first socket is still open: %v", err)
	}
	again.Close()
}

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"udp://[::1]:4739": "udp://[::1]:4739", "tcp://192.0.2.1:1": "tcp://192.0.2.1:1", "tls://[::]:4740": "tls://[::]:4740",
		"udp://[::1]": "udp://[::1]:4739", "tls://192.0.2.1": "tls://192.0.2.1:4740", "tls://[2001:db8::4739]": "tls://[2001:db8::4739]:4740",
	} {
		if e, err := ParseEndpoint(text); err != nil || e.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, e, err, want)
		}
	}
	for _, text := range []string{"", "udp", "[::1]:4739", "sctp://[::1]:4739", "udp://", "udp://:4739", "udp://host:4739",
		"tcp://[::1]:70000", "UDP://[::1]:1", "tcp://::1", "udp://::4739"} {
		if e, err := ParseEndpoint(text); err == nil {
			t.Errorf("%q is read as %v", text, e)
		}
	}
}
