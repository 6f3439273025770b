// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
	"github.com/waymark-net/waymark/test/e2e"
)

// openssl runs openssl in a directory until it exits.
func openssl(t *testing.T, directory string, args ...string) {
	t.Helper()
	cmd := exec.Command("openssl", args...)
	cmd.Dir = directory
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("openssl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// certificates makes an authority NAME.pem and the certificates that it signs,
// each with its key.
func certificates(t *testing.T, directory, authority string, names ...string) {
	t.Helper()
	openssl(t, directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN="+authority, "-keyout", authority+".key", "-out", authority+".pem")
	for _, name := range names {
		openssl(t, directory, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN="+
			name,
			"-addext", "subjectAltName=IP:::1", "-addext", "basicConstraints=critical,CA:FALSE", "-CA", authority+".pem", "-CAkey", authority+".key",
			"-keyout", name+".key", "-out", name+".pem")
	}
}

// postcards returns IPFIX messages with the postcards of one packet from three
// nodes.
func postcards(t *testing.T) []byte {
	t.Helper()
	registry, err := ipfix.NewRegistry(ipfix.IANA(), ipfix.IOAM(), ipfix.Waymark(ipfix.EnterpriseExample))
	if err != nil {
		t.Fatal(err)
	}
	template, err := registry.Template(256, "observationTimeNanoseconds", "sourceIPv6Address", "ioamNodeRole", "ioamNamespaceId",
		"ioamDexFlowId", "ioamDexSequenceNumber", "ioamHopLimit", "ioamNodeId")
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := ipfix.NewEncoder(ipfix.TCP, 1, 1400)
	if err != nil {
		t.Fatal(err)
	}
	if err := encoder.Define(template); err != nil {
		t.Fatal(err)
	}
	encoder.Start(nil)
	now := time.Now()
	for i := range uint64(3) {
		w := template.Record(nil)
		w.Time(now.Add(time.Duration(i) * time.Microsecond))
		w.Addr(netip.MustParseAddr("2001:db8:1::2"))
		for _, v := range []uint64{i + 1, 123, 7, 42, 63 - i, i + 1} {
			w.Uint(v)
		}
		record, err := w.End()
		if err != nil {
			t.Fatal(err)
		}
		if err := encoder.Add(template, record); err != nil {
			t.Fatal(err)
		}
	}
	return encoder.Finish(now)
}

// OpenSSL's client delivers postcards over TLS when both sides prove their
// identity, and is refused otherwise.
func TestCollectTLS(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	certificates(t, directory, "authority", "collector", "exporter")
	certificates(t, directory, "stranger", "intruder")
	file := func(name string) string { return filepath.Join(directory, name) }
	c := collectHere(t, "--listen", "tls://[::1]:0", "--tls-cert", file("collector.pem"), "--tls-key", file("collector.key"),
		"--tls-client-ca", file("authority.pem"))
	// client runs s_client until it exits or done returns true.
	client := func(done func() bool, args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(20*time.Second))
		defer cancel()
		cmd := exec.CommandContext(ctx, "openssl", append([]string{"s_client", "-connect", c.At[0], "-verify_return_error", "-CAfile",
			file("authority.pem"), "-quiet"}, args...)...)
		var said e2e.Transcript
		cmd.Stdout, cmd.Stderr = &said, &said
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = in.Write(postcards(t)) // fails if the collector refuses at once
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		for over := false; !over && !done(); time.Sleep(10 * time.Millisecond) {
			select {
			case <-ended:
				over = true
			default:
			}
		}
		_ = in.(io.Closer).Close()
		cancel()
		<-ended
		return said.String()
	}
	never := func() bool { return false }
	if said := client(never); !strings.Contains(said, "alert") {
		t.Errorf("without a certificate, the client says %q", said)
	}
	if said := client(never, "-cert", file("intruder.pem"), "-key", file("intruder.key")); !strings.Contains(said, "alert") {
		t.Errorf("with another authority's certificate, the client says %q", said)
	}
	if said := client(never, "-cert", file("exporter.pem"), "-key", file("exporter.key"), "-tls1_1", "-cipher",
		"DEFAULT@SECLEVEL=0"); !strings.Contains(said, "alert") {
		t.Errorf("with TLS 1.1, the client says %q", said)
	}
	if said := client(func() bool { return len(c.Lines()) > 0 }, "-cert", file("exporter.pem"), "-key",
		file("exporter.key")); len(c.Lines()) != 1 {
		t.Fatalf("%d paths; the client says %q", len(c.Lines()), said)
	}
	lines, stats := c.Stop()
	var p record.Path
	if err := record.Unmarshal([]byte(lines[0]), &p); err != nil {
		t.Fatal(err)
	}
	if !p.Complete || p.Namespace != 123 || p.FlowID != 7 || p.Sequence != 42 || len(p.Nodes) != 3 ||
		fmt.Sprint(p.Nodes[2].HopLimit.Value, p.Nodes[2].Role, *p.Delay) != "61 decapsulating 2000" {
		t.Errorf("path %s", lines[0])
	}
	if stats.Counts["handshakes_failed"] != 3 || stats.Counts["connections"] != 4 || stats.Counts["postcards"] != 3 {
		t.Errorf("statistics %v", stats.Counts)
	}
}
