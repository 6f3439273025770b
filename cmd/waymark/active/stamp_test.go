// SPDX-License-Identifier: Apache-2.0

package active

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/commandlinetest"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/stamp/measure"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
	"github.com/waymark-net/waymark/internal/stamp/sender"
	"github.com/waymark-net/waymark/test/testnet"
)

func TestStampUsage(t *testing.T) {
	for args, want := range map[string]string{
		"reflector --listen 0.0.0.0:862":                    "want an IPv6 address and a port, such as [::]:862",
		"reflector --listen [::1]":                          "want an IPv6 address and a port",
		"reflector --listen [ff02::1]:9":                    "want an IPv6 address and a port",
		"reflector --listen [fe80::1]:9":                    "the address is valid on one link only; name its interface: [fe80::1%eth0]:9",
		"reflector --listen [::1%lo]:9":                     "want an IPv6 address and a port",
		"reflector --sync-source gps":                       `--sync-source "gps": want bits, ntp, ptp, satellite, unknown`,
		"sender ::1 --need-ssid --ssid 0":                   "--need-ssid needs an SSID; remove --ssid 0",
		"sender ::1 --return-path fc00::1%lo":               "want same-link, or 1 to 16 SRv6 SIDs",
		"sender ::1 --return-path ff02::1":                  "want same-link, or 1 to 16 SRv6 SIDs",
		"reflector --allow 192.0.2.0/24":                    "want an IPv6 prefix",
		"reflector --ssid 65536":                            "--ssid 65536: want a number from 0 to 65535",
		"reflector --dscp 64":                               `--dscp "64": want numbers from 0 to 63`,
		"reflector --rate -1":                               "--rate -1: want a number from 0",
		"reflector --sessions 0":                            "--sessions 0: want a number from 1",
		"reflector --session-timeout 10ms":                  "want a time from 1s to 24h",
		"reflector --stats -1s":                             "--stats -1s: want a time",
		"reflector --timestamps posix":                      `"posix" is not a timestamp format; use ntp or ptp`,
		"reflector --protect tlvs":                          "--protect needs a key; add --key-file FILE",
		"reflector --protect all --key-file x":              `--protect "all": want packets or tlvs`,
		"reflector x":                                       "takes no argument",
		"sender":                                            "ADDRESS",
		"sender 192.0.2.1":                                  "is no IPv6 address; want one such as 2001:db8::1",
		"sender example.org":                                "is no IPv6 address",
		"sender [2001:db8::1]:0":                            "is no IPv6 address",
		"sender fe80::1":                                    "name its interface: fe80::1%eth0",
		"sender ::1 --interval 0s":                          "--interval 0s: want a time from 1µs to 1h",
		"sender ::1 --interval 1us --timeout 1m":            "too many packets would wait for replies; want at most 524.288ms",
		"sender ::1 --timeout 2h":                           "want a time from 1ms to 1h",
		"sender ::1 --dscp 64":                              "--dscp 64: want a number from 0 to 63",
		"sender ::1 --reply-dscp 64":                        "--reply-dscp 64: want a number from 0 to 63",
		"sender ::1 --ssid 70000":                           "--ssid 70000: want a number from 0 to 65535; 0 means none",
		"sender ::1 --reflector other":                      `--reflector "other": want auto, stateful, stateless`,
		"sender ::1 --padding ones":                         `--padding "ones": want random or zero`,
		"sender ::1 --size 45":                              "a size of 45 octets: these packets can have 44, or 48 to 9000",
		"sender ::1 --access-report 3:1":                    "want ID:CODE, with the id 1 or 2",
		"sender ::1 --micro-session 0":                      "want ID or ID:ID, from 1 to 65535",
		"sender ::1 --destination-node x":                   "want an IPv6 address",
		"sender ::1 --destination-node ::1 --ssid 0":        "--destination-node needs an SSID",
		"sender ::1 --return-path there":                    "want same-link, or 1 to 16 SRv6 SIDs",
		"sender ::1 --source 192.0.2.1":                     `--source "192.0.2.1": want an IPv6 address`,
		"sender ::1 --source ff02::1":                       `--source "ff02::1": want an IPv6 address of this machine`,
		"sender ::1 --source ::1%lo":                        `--source "::1%lo": want an IPv6 address of this machine`,
		"sender ::1 --source fe80::1":                       "--source fe80::1 is valid on one link only; name its interface: fe80::1%eth0",
		"sender ff02::1%lo":                                 "is the address of a group; measure to one node at a time",
		"sender ::1 --segments fc00::1,":                    `--segments "fc00::1,": want 1 to 16 SRv6 SIDs`,
		"sender ::1 --segments same-link":                   "want 1 to 16 SRv6 SIDs",
		"sender ::1 --segments fc00::1 --mode l2encap":      `"l2encap" is no mode; choose encap, encap.red or inline`,
		"sender ::1 --mode encap":                           "add --segments SID,SID",
		"sender fe80::1%lo --segments fc00::1":              "--segments lead beyond the link",
		"sender ::1 --source fe80::1%lo --segments fc00::1": "--segments lead beyond the link",
		"sender ::1 --count -1":                             "--count",
		"sender ::1 --stats -1s":                            "--stats -1s: want a time",
		"sender ::1 ::2":                                    "ADDRESS",
		"sender ::1 --key-file x --protect packets,tlvs":    `want packets or tlvs`,
		"sender ::1 --return-path fc00::1,,fc00::2":         "want same-link",
		"sender ::1 --access-report 1":                      "want ID:CODE",
		"sender ::1 --micro-session 1:x":                    "want ID or ID:ID",
		"reflector --key-file x --timestamps ntp,ptp":       "is not a timestamp format",
		"reflector --allow 2001:db8::1/64 --allow nowhere":  `--allow "nowhere"`,
	} {
		if code, stdout, stderr := runCLI(t, append([]string{"stamp"}, strings.Fields(args)...)...); code != commandline.ExitUsage ||
			stdout != "" ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, stdout %q, stderr %q; want %q", args, code, stdout, stderr, want)
		}
	}
}

// A key is used only from a file that others cannot read, and no message quotes it.
func TestStampKey(t *testing.T) {
	dir := t.TempDir()
	secret := strings.Repeat("5e", 32)
	for name, tt := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"open":  {secret, 0o640, "run: chmod 600 "},
		"run":   {secret, 0o700, "run: chmod 600 "},
		"words": {"the secret " + secret, 0o600, "not in hexadecimal digits; make one with: openssl rand -hex 32"},
		"short": {secret[:30], 0o600, "has 15 octets; want 16 to 1024"},
		"long":  {strings.Repeat(secret, 33), 0o600, "has 1056 octets; want 16 to 1024"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, tt.mode); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"stamp", "reflector", "--listen", "[::1]:0", "--key-file", path},
			{"stamp", "sender", "::1", "--key-file", path}} {
			if code, stdout, stderr := runCLI(t, args...); code != commandline.ExitFailure || stdout != "" ||
				!strings.Contains(stderr, tt.want) ||
				strings.Contains(stderr, "5e5e") {
				t.Errorf("%s: code %d, stdout %q, stderr %q; want %q", name, code, stdout, stderr, tt.want)
			}
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{dir: "is no regular file",
		fifo: "is no regular file; write it with: (umask 077; openssl rand -hex 32 >", filepath.Join(dir, "none"): "openssl rand -hex 32 >"} {
		if code, _, stderr := runCLI(t, "stamp", "sender", "::1", "--key-file", name); code != commandline.ExitFailure ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, stderr %q; want %q", name, code, stderr, want)
		}
	}
}

// A key of another user is none: that user can change it.
func TestStampKeyOfAnotherUser(t *testing.T) {
	testnet.NeedRoot(t) // to give a file away
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(strings.Repeat("5e", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 65534, 0); err != nil {
		t.Fatal(err)
	}
	want := "belongs to another user (uid 65534), who can read and change it; run: chown 0 " + path
	if code, _, stderr := runCLI(t, "stamp", "sender", "::1", "--key-file", path); code != commandline.ExitFailure ||
		!strings.Contains(stderr, want) {
		t.Errorf("code %d, stderr %q; want %q", code, stderr, want)
	}
}

// A session on the loopback interface: text and JSON of both ends, and metrics.
func TestStampSession(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5e", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(30*time.Second))
		var out, errs commandlinetest.Output
		args := []string{"stamp", "reflector", "--listen", "[::1]:0", "--stateful", "--key-file", key, "--metrics", "[::1]:0"}
		if asJSON {
			args = append(args, "--json")
		}
		done := make(chan int)
		go func() { done <- run(ctx, args, strings.NewReader(""), &out, &errs) }()
		place := regexp.MustCompile(`reflects at (\S+)`)
		for place.FindString(errs.String()) == "" {
			time.Sleep(5 * time.Millisecond)
			if ctx.Err() != nil {
				t.Fatalf("the reflector does not start: %s", errs.String())
			}
		}
		at := place.FindStringSubmatch(errs.String())[1]
		send := []string{
			"stamp",
			"sender",
			at,
			"--count",
			"3",
			"--interval",
			"1ms",
			"--key-file",
			key,
			"--direct-measurement",
			"--timeout",
			patience.Of(5 * time.Second).String(),
		}
		code, text, stderr := runCLI(t, send...)
		if code != commandline.ExitOK || stderr != "" ||
			!strings.HasPrefix(text, at+": 3 sent, 3 received, 0 lost (0.00%): 0 forward, 0 backward, 0 in an unknown direction\ndelay ") ||
			!strings.Contains(text, "\ndirect measurement: sender transmitted 3, reflector received 3, transmitted 3\n") {
			t.Errorf("code %d, stderr %q, stdout %s", code, stderr, text)
		}
		var report sender.Report
		code, text, _ = runCLI(t, append(send, "--json")...)
		if err := json.Unmarshal([]byte(text), &report); err != nil || code != commandline.ExitOK || report.Received != 3 ||
			!report.Authenticated {
			t.Errorf("code %d, %v: %s", code, err, text)
		}
		cancel()
		if code := <-done; code != commandline.ExitOK {
			t.Errorf("the reflector ends with %d: %s", code, errs.String())
		}
		if !asJSON {
			if want := "6 packets reflected, 888 octets, 2 sessions\n"; out.String() != want {
				t.Errorf("%q, want %q", out.String(), want)
			}
			continue
		}
		var counts reflector.Report
		if err := json.Unmarshal([]byte(out.String()), &counts); err != nil || counts.Outcomes["reflected"] != 6 ||
			counts.Kind != "stamp_reflector" {
			t.Errorf("%v: %s", err, out.String())
		}
	}
}

// Without a reply, the error says what to change.
func TestStampNoReply(t *testing.T) {
	c := sender.Config{Remote: netip.MustParseAddrPort("[2001:db8::1]:862"), Timeout: time.Second}
	path, keyed := c, c
	keyed.Key = []byte("key")
	path.Segments = []netip.Addr{netip.MustParseAddr("fc00::1")}
	reflector, router := c.Remote.Addr(), netip.MustParseAddr("2001:db8::7")
	for _, tt := range []struct {
		config sender.Config
		report sender.Report
		want   string
	}{
		{c, sender.Report{Refused: map[string]uint64{"hmac_wrong": 1}}, "replies have a wrong HMAC: give both ends the same key and the same --protect"},
		{keyed, sender.Report{Refused: map[string]uint64{"truncated": 1}}, "replies are shorter than those of this mode"},
		{c, sender.Report{Refused: map[string]uint64{"truncated": 1}}, "replies are shorter than those of STAMP without a key"},
		{c, sender.Report{Refused: map[string]uint64{"timestamp_other": 3}}, "what replies does not repeat the number and the time"},
		{c, sender.Report{Result: measure.Result{Foreign: 3}}, "what replies does not repeat the number and the time"},
		{c, sender.Report{Refused: map[string]uint64{"hmac_wrong": 0, "ssid_other": 3}}, "replies came, and were refused (ssid_other)"},
		{c, sender.Report{Refused: map[string]uint64{"other_source": 1}}, "replies come from another address or port"},
		{c, sender.Report{Result: measure.Result{Late: 1}}, "replies came too late: raise --timeout 1s"},
		{c, sender.Report{ICMPErrors: map[string]uint64{"port unreachable": 3}, ICMPErrorFrom: &reflector}, "the node answers that UDP port 862 is closed (ICMPv6 port unreachable): start"},
		{c, sender.Report{ICMPErrors: map[string]uint64{"port unreachable": 3}, ICMPErrorFrom: &router}, "2001:db8::7 answers with an ICMPv6 error (port unreachable): check the route to 2001:db8::1 from there, its firewalls"},
		{path, sender.Report{ICMPErrors: map[string]uint64{"no route": 1, "hop limit exceeded": 1}, ICMPErrorFrom: &router}, "2001:db8::7 answers with an ICMPv6 error (hop limit exceeded, no route): check the SIDs of --segments"},
		{path, sender.Report{ICMPErrors: map[string]uint64{"packet too big": 1}, ICMPErrorFrom: &router}, "and the MTU: segments make packets longer"},
		{c, sender.Report{}, "nothing answers at all, so check for: another key or mode at the reflector (--key-file, --protect); a reflector that"},
		{path, sender.Report{}, "a segment that does not pass packets on"},
		{path, sender.Report{}, "a last segment that ends no tunnel (End.DT6)"},
	} {
		got := noReply(tt.config, &tt.report)
		if begin := "no reply from [2001:db8::1]:862 in time; "; !strings.HasPrefix(got, begin) || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %s, want %s", tt.report, got, tt.want)
		}
		if segments := strings.Contains(got, "segment"); segments != (len(tt.config.Segments) > 0) {
			t.Errorf("%+v: %s", tt.config.Segments, got)
		}
	}
	for want, config := range map[string]sender.Config{"'ip -6 route get 2001:db8::1', and with --size the MTU": c,
		"'ip -6 route get fc00::1', and the MTU: segments": path} {
		if got := unsentCure(config); !strings.Contains(got, want) {
			t.Errorf("not sent: %s, want %s", got, want)
		}
	}
}

// An interface can be named by its number, as in fe80::1%1.
func TestStampScope(t *testing.T) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	number := strconv.Itoa(loopback.Index)
	for _, zone := range []string{"lo", number} {
		at, scope, err := parseReflector("fe80::1%" + zone)
		if err != nil || int(scope) != loopback.Index || at.String() != "[fe80::1]:862" {
			t.Errorf("%s: %v with scope %d, %v", zone, at, scope, err)
		}
		for _, of := range []uint32{0, scope} {
			if a, err := parseSource("fe80::2%"+zone, of); err != nil || a.Zone() != number {
				t.Errorf("from %s: %v, %v", zone, a, err)
			}
		}
	}
	if _, err := parseSource("fe80::2%lo", uint32(loopback.Index)+1); err == nil || !strings.Contains(err.Error(), "on another link") {
		t.Errorf("%v", err)
	}
}

func TestStampFailures(t *testing.T) {
	for args, want := range map[string]string{
		"reflector --listen [2001:db8::77]:9":                      "this machine does not have the address",
		"reflector --listen [fe80::1%nosuch]:9":                    "--listen fe80::1%nosuch: no interface nosuch",
		"reflector --listen [::1]:0 --metrics [::1]:x":             "set --metrics to an address and a free port of this machine",
		"sender [::1]:9 --count 2 --interval 1ms --timeout 20ms":   "no reply from [::1]:9 in time; the node answers that UDP port 9 is closed (ICMPv6 port unreachable): start 'waymark stamp reflector'",
		"sender fe80::1%nosuch":                                    "no interface nosuch; 'ip link' lists them",
		"sender fe80::1%999999999":                                 "no interface 999999999",
		"sender fe80::1%lo --source fe80::2%nosuch":                "--source fe80::2%nosuch: no interface nosuch",
		"sender ::1 --count 1 --source 2001:db8::77":               "this machine does not have the address",
		"sender ::1 --key-file /nonexistent/key --timestamps ptp":  "no such file",
		"sender [::1]:9 --count 1 --timeout 5ms --reflector auto ": "no reply",
	} {
		code, _, stderr := runCLI(t, append([]string{"stamp"}, strings.Fields(args)...)...)
		if code != commandline.ExitFailure || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, stderr %q; want %q", args, code, stderr, want)
		}
	}
}
