// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/commandline"
)

// capture is a pcap file of one raw IPv6 packet: one node's id and time in an
// inline trace, and 8 bytes of UDP.
func capture(t *testing.T) string {
	t.Helper()
	const header = "d4c3b2a1 02000400 00000000 00000000 00000400 65000000"
	const record = "7b7f5f6a 01000000 50000000 50000000"
	const packet = "60000000 0028 00 40 20010db8000100000000000000000002 20010db8000200000000000000000002" +
		"1103 0100 3116 0000 007b1800 b0000000 3f000002 6a5f7f7b 000f423f" + "01020000" + "10920009 00080000"
	b, err := hex.DecodeString(strings.ReplaceAll(header+record+packet, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDecode(t *testing.T) {
	file := write(t, "one.pcap", capture(t))
	want := "2026-07-21T14:17:31.000001000Z  [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, 80 bytes, namespace 123, type 0xb00000\n" +
		"    node 2  hop limit 63  at 14:17:31.999999000\n"
	if code, stdout, _ := runCLI(t, "", "decode", "--wide", file); code != commandline.ExitOK || stdout != want {
		t.Errorf("code %d\n%s\nwant\n%s", code, stdout, want)
	}
	for _, args := range [][]string{{"decode", file}, {"decode", "-"}} {
		code, stdout, stderr := runCLI(t, capture(t), args...)
		want := "2026-07-21 14:17:31.000001  UDP  [2001:db8:1::2]:4242 > [2001:db8:2::2]:9\n" +
			"    node 2  hop limit 63  at 14:17:31.999999\n"
		if code != commandline.ExitOK || stdout != want || stderr != "" {
			t.Errorf("%q: code %d, stderr %q, stdout\n%s\nwant\n%s", args, code, stderr, stdout, want)
		}
	}
}

// A capture without IOAM is no silent one.
func TestDecodeWithoutIOAM(t *testing.T) {
	whole := capture(t)
	for text, want := range map[string]string{
		whole[:24]: "waymark: standard input: 0 packets, and none has IOAM\n",
		whole[:24] + whole[24:32] + "\x28\x00\x00\x00\x28\x00\x00\x00" + "\x60\x00\x00\x00\x00\x00\x3b\x40" + whole[48:80]: "waymark: standard input: 1 packet, and none has IOAM\n",
		whole: "",
	} {
		if code, _, stderr := runCLI(t, text, "decode", "-"); code != commandline.ExitOK || stderr != want {
			t.Errorf("code %d, %q, want %q", code, stderr, want)
		}
	}
}

// Names come from the file of a node.
func TestDecodeNames(t *testing.T) {
	file := write(t, "node.yaml", "names: [{id: 2, name: r2}]\n")
	code, stdout, stderr := runCLI(t, capture(t), "decode", "--names", file, "-")
	if code != commandline.ExitOK || !strings.Contains(stdout, "    r2  ") || stderr != "" {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	code, stdout, _ = runCLI(t, capture(t), "decode", "--json", "--names", file, "-")
	if code != commandline.ExitOK || !strings.Contains(stdout, `"node_id":2,`) || !strings.Contains(stdout, `"node_name":"r2"`) {
		t.Errorf("code %d, %s", code, stdout)
	}
	bad := write(t, "bad.yaml", "names: [{id: 2, name: r2}, {id: 2, name: r3}]\n")
	if code, _, stderr = runCLI(t, capture(t), "decode", "--names", bad, "-"); code != commandline.ExitFailure ||
		!strings.Contains(stderr, "names[1].id: 2 is the id of names[0], too; keep one of both names") {
		t.Errorf("code %d, %s", code, stderr)
	}
}

func TestDecodeJSON(t *testing.T) {
	const remark = "waymark: standard input: read as %s, 1 of 1 timestamps differ by more than 10s from the time of capture; " +
		"with --timestamp-format posix they agree\n"
	for format, want := range map[string]struct{ timestamp, stderr string }{
		"posix": {`"2026-07-21T14:17:31.999999000Z"`, ""},
		"ptp":   {`"2026-07-21T14:16:54.000999999Z"`, fmt.Sprintf(remark, "ptp")},
		"ntp":   {`"2092-08-26T20:45:47.000232831Z"`, fmt.Sprintf(remark, "ntp")}, // the seconds after 2036
	} {
		code, stdout, stderr := runCLI(t, capture(t), "decode", "--json", "--timestamp-format", format, "-")
		if code != commandline.ExitOK || stderr != want.stderr || !strings.Contains(stdout, `"timestamp":`+want.timestamp) ||
			strings.Count(stdout, "\n") != 1 {
			t.Errorf("%s: code %d, stderr %q, stdout %s; want %q", format, code, stderr, stdout, want)
		}
	}
	if code, _, stderr := runCLI(t, "", "decode", "--timestamp-format", "unix", "-"); code != commandline.ExitUsage ||
		!strings.Contains(stderr, "posix, ptp, ntp") {
		t.Errorf("unknown format: code %d, stderr %q", code, stderr)
	}
}

// Packets before the error are printed, the error is reported, the exit code is not 0,
// and other files are still read.
func TestDecodeFaults(t *testing.T) {
	whole := capture(t)
	cut := write(t, "cut.pcap", whole+whole[24:24+30])
	code, stdout, stderr := runCLI(t, whole, "decode", "--json", cut, cut+".none", "-")
	if code != commandline.ExitFailure || strings.Count(stdout, "\n") != 3 ||
		!strings.Contains(
			stdout,
			"}\n"+`{"kind":"error","ok":false,"error":"`+cut+
				`: packet 2 at offset 120: the capture ends in the middle of a record; and 1 more on standard error"}`+"\n",
		) {
		t.Errorf("code %d, stdout %s", code, stdout)
	}
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if len(lines) != 2 || lines[0] != "waymark: "+cut+": packet 2 at offset 120: the capture ends in the middle of a record" ||
		!strings.HasPrefix(lines[1], "waymark: open "+cut+".none: ") {
		t.Errorf("%q", lines)
	}
	if code, _, _ := runCLI(t, "", "decode"); code != commandline.ExitUsage {
		t.Errorf("no file: code %d", code)
	}
}

// A running capture is printed packet by packet.
func TestDecodeShowsPacketsAsTheyCome(t *testing.T) {
	in, feed := io.Pipe()
	show, out := io.Pipe()
	done := make(chan int)
	go func() {
		done <- run(context.Background(), []string{"decode", "-"}, in, out, io.Discard)
		out.Close()
	}()
	lines := bufio.NewReader(show)
	for _, part := range []string{capture(t), capture(t)[24:]} {
		if _, err := io.WriteString(feed, part); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if line, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
		}
	}
	feed.Close()
	if code := <-done; code != commandline.ExitOK {
		t.Errorf("code %d", code)
	}
}

// Input after an interruption is decoded, such as tcpdump's buffer; then silence ends
// it.
func TestDecodeInterrupted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		finish  func(*io.PipeWriter)
		code    int
		packets int
		stderr  string
	}{
		{"with the input", func(w *io.PipeWriter) { _, _ = io.WriteString(w, capture(t)[24:]); w.Close() }, commandline.ExitOK, 2, ""},
		{"in silence", func(*io.PipeWriter) {}, commandline.ExitInterrupted, 1, "waymark: interrupted\n"},
		{"in the middle of a record", func(w *io.PipeWriter) { _, _ = io.WriteString(w, capture(t)[24:40]) }, commandline.ExitInterrupted, 1, "waymark: interrupted\n"},
		{"while more and more comes", func(w *io.PipeWriter) {
			for {
				if _, err := io.WriteString(w, capture(t)[24:]); err != nil {
					return
				}
			}
		}, commandline.ExitInterrupted, 2, "waymark: interrupted\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, feed := io.Pipe()
			defer in.Close()
			show, out := io.Pipe()
			var stderr bytes.Buffer
			code := make(chan int)
			go func() {
				c := run(ctx, []string{"decode", "--json", "-"}, in, out, &stderr)
				out.Close()
				code <- c
			}()
			if _, err := io.WriteString(feed, capture(t)); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(show)
			packets := 0
			for lines.Scan() {
				if packets++; packets == 1 {
					cancel()
					go tt.finish(feed)
				}
			}
			if err := lines.Err(); err != nil {
				t.Error(err)
			}
			if c := <-code; c != tt.code || packets < tt.packets || tt.packets == 1 && packets > 1 || stderr.String() != tt.stderr {
				t.Errorf("code %d, %d packets, stderr %q; want code %d, %d packets and %q", c, packets, &stderr, tt.code, tt.packets, tt.stderr)
			}
		})
	}
}

func TestDecodeDirectory(t *testing.T) {
	dir := t.TempDir()
	if code, stdout, stderr := runCLI(t, "", "decode", dir); code != commandline.ExitFailure || stdout != "" ||
		stderr != "waymark: "+dir+" is a directory; name the captures in it\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// Filters select what is printed; a record without a result of the expression is counted.
func TestDecodeFilters(t *testing.T) {
	const kinds = "waymark: no record of the kind path is made from a capture; there are trace, direct-export, edge-to-edge, " +
		"proof-of-transit\n"
	for _, tt := range []struct {
		args   []string
		lines  int
		stderr string
	}{
		{[]string{"--port", "9", "--where", "any(nodes, .node_id == 2)"}, 1, ""},
		{[]string{"--node", "2", "--namespace", "123"}, 1, ""},
		{[]string{"--port", "10"}, 0, ""},
		{[]string{"--where", "path_delay_us + 1 > 0"}, 0, "waymark: 1 records are left out because --where has no result for them; the first one: column 15: "},
		{[]string{"--kind", "path"}, 0, kinds},
	} {
		code, stdout, stderr := runCLI(t, capture(t), append(append([]string{"decode", "--json"}, tt.args...), "-")...)
		if code != commandline.ExitOK || strings.Count(stdout, "\n") != tt.lines || !strings.HasPrefix(stderr, tt.stderr) ||
			(tt.stderr == "") != (stderr == "") {
			t.Errorf("%q: code %d, stderr %q, stdout %s", tt.args, code, stderr, stdout)
		}
	}
}
