// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/e2e"
	"github.com/waymark-net/waymark/test/testnet"
)

// allTLVs ask for everything that a reflector can answer without a path of segments.
var allTLVs = []string{"--location", "--timestamp-information", "--direct-measurement", "--follow-up", "--reply-dscp", "46", "--dscp", "10",
	"--access-report", "1:2", "--destination-node", far, "--return-path", "same-link", "--micro-session", "3", "--size", "600"}

// Our sender measures with the reflector of stamp-suite, in every mode.
func TestSuiteReflects(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	key := keyFile(t)
	for i, tt := range []struct {
		name           string
		theirs, ours   []string
		tlvs, stateful bool
	}{
		{"open", nil, nil, false, false},
		{"open, PTP", []string{"-K", "PTP"}, []string{"--timestamps", "ptp"}, false, false},
		{"open, NTP and PTP", []string{"-K", "PTP"}, nil, false, false},
		{"open, stateful, TLVs", []string{"--stateful-reflector"}, allTLVs, true, true},
		{"authenticated", []string{"-A", "A", "--hmac-key-file", key}, []string{"--key-file", key}, false, false},
		{"authenticated, padding alone", []string{"-A", "A", "--hmac-key-file", key, "--verify-tlv-hmac"}, []string{"--key-file", key, "--size", "500"}, false, false},
		{"authenticated, stateful, TLVs", []string{"-A", "A", "--hmac-key-file", key, "--verify-tlv-hmac", "--stateful-reflector"}, append([]string{"--key-file", key}, allTLVs...), true, true},
		{"open, TLVs with HMAC", []string{"--hmac-key-file", key, "--verify-tlv-hmac", "--stateful-reflector"}, append([]string{"--key-file", key, "--protect", "tlvs"}, allTLVs...), true, true},
	} {
		port := 8620 + i
		r := startFar(t, suite(t), append([]string{"-i", "-S", far, "-o", strconv.Itoa(port), "--allowed-dscp", "46",
			"--reflector-member-link-id", "9"}, tt.theirs...)...)
		e2e.Await(t, "their reflector", 5*time.Second, func() bool { return listens(t, port) })
		report, err := send(t, append([]string{at(far, port), "--count", "8", "--interval", "10ms"}, tt.ours...)...)
		r.stop(t)
		if err != nil {
			t.Errorf("%s: %v\n%s", tt.name, err, r.out.String()+r.err.String())
			continue
		}
		t.Log(tt.name)
		complete(t, report, 8)
		if tt.tlvs {
			checkAnswers(t, report.Answers, port)
		}
	}
}

// listens reports whether a program listens at a UDP port of the far namespace.
func listens(t *testing.T, port int) (found bool) {
	t.Helper()
	inFar(t, func() error {
		out, err := exec.Command("ss", "-Hlun", "sport", "=", ":"+strconv.Itoa(port)).CombinedOutput()
		found = len(out) > 0
		return err
	})
	return found
}

// Their sender measures with our reflector, in every mode, and finds nothing wrong with
// our TLVs.
func TestSuiteSends(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	key := keyFile(t)
	tlvs := []string{"--cos", "--dscp", "46", "--access-report", "1", "--timestamp-info", "--direct-measurement", "--location",
		"--follow-up-telemetry",
		"--micro-session-id", "3", "--extra-padding", "20", "--dest-node-addr", far, "--return-path-cc", "1"}
	for _, tt := range []struct {
		name         string
		ours, theirs []string
		tlvs, hmacs  int // that their sender sees
	}{
		{"open", nil, nil, 0, 0},
		{"PTP", []string{"--timestamps", "ptp"}, []string{"-K", "PTP"}, 0, 0},
		{"stateful, TLVs", []string{"--stateful"}, tlvs, 9*5 + 1, 0}, // their access report is sent once
		{"authenticated", []string{"--key-file", key}, []string{"-A", "A", "--hmac-key-file", key}, 0, 0},
		{"authenticated, TLVs", []string{"--stateful", "--key-file", key}, append([]string{"-A", "A", "--hmac-key-file", key, "--verify-tlv-hmac"}, tlvs...), 10*5 + 1, 5},
		{"open, TLVs with HMAC", []string{"--stateful", "--key-file", key, "--protect", "tlvs"}, append([]string{"--hmac-key-file", key, "--verify-tlv-hmac"}, tlvs...), 10*5 + 1, 5},
	} {
		r := reflect(t, append([]string{"--dscp", "46", "--micro-session", "9"}, tt.ours...)...)
		cmd := exec.Command(suite(t), append([]string{"-r", far, "-S", near, "-c", "5", "-d", "10", "-L", "1", "--ssid", "77", "--output-format",
			"json"}, tt.theirs...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v\n%s", tt.name, err, out)
			continue
		}
		var summary struct {
			Sent         int `json:"packets_sent"`
			Received     int `json:"packets_received"`
			Measurements struct {
				Validation struct {
					Rejected int            `json:"rejected_replies"`
					TLVs     int            `json:"observed_tlvs"`
					HMAC     map[string]int `json:"hmac"`
					Flags    map[string]int `json:"flags"`
				} `json:"tlv_validation"`
				FollowUp struct {
					Matched int `json:"matched"`
				} `json:"follow_up"`
			} `json:"measurements"`
			OneWay struct {
				Samples int     `json:"samples"`
				Forward float64 `json:"forward_min_ms"`
				Reverse float64 `json:"reverse_min_ms"`
			} `json:"owd"`
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); err != nil {
			t.Fatalf("%s: %v\n%s", tt.name, err, out)
		}
		v := summary.Measurements.Validation
		if summary.Sent != 5 || summary.Received != 5 || v.Rejected != 0 || v.TLVs != tt.tlvs || v.HMAC["verified"] != tt.hmacs ||
			v.HMAC["failed"]+v.HMAC["missing"] != 0 {
			t.Errorf("%s: %+v", tt.name, summary)
		}
		for flag, n := range v.Flags {
			if n > 0 {
				t.Errorf("%s: %d TLVs with the flag %s", tt.name, n, flag)
			}
		}
		if tt.tlvs > 0 && summary.Measurements.FollowUp.Matched != 4 {
			t.Errorf("%s: their sender matches %d follow-ups with our replies, want 4", tt.name, summary.Measurements.FollowUp.Matched)
		}
		if o := summary.OneWay; o.Samples != 5 || o.Forward <= 0 || o.Reverse <= 0 || o.Forward > 1000 || o.Reverse > 1000 {
			t.Errorf("%s: %+v", tt.name, o)
		}
		r.onlyReflected(t, 5)
	}
}

// Both refuse packets of the other with another key.
func TestSuiteWithAnotherKey(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	key := keyFile(t)
	r := reflect(t, "--key-file", key)
	other := exec.Command(suite(t), "-r", far, "-S", near, "-c", "3", "-d", "10", "-L", "1", "-A", "A", "--hmac-key", strings.Repeat("ab", 32))
	if out, err := other.CombinedOutput(); err != nil {
		t.Logf("%v\n%s", err, out) // it may report the loss
	}
	if c := r.counts(t); c.Outcomes["hmac_wrong"] != 3 || c.Outcomes["reflected"] != 0 {
		t.Errorf("%+v", c)
	}
	startFar(t, suite(t), "-i", "-S", far, "-o", "8620", "-A", "A", "--hmac-key", strings.Repeat("ab", 32))
	e2e.Await(t, "their reflector", 5*time.Second, func() bool { return listens(t, 8620) })
	report, err := send(t, at(far, 8620), "--count", "3", "--interval", "10ms", "--timeout", "300ms", "--key-file", key)
	if code := e2e.ExitCode(err); code != 1 || report.Sent != 3 || report.Received != 0 || report.Lost != 3 {
		t.Errorf("exit code %d, %+v", code, report.Result)
	}
	testnet.Run(t, "ip link set near down")
	if _, err := send(t, at(far, 8620), "--count", "3", "--interval", "10ms", "--timeout", "300ms"); e2e.ExitCode(err) != 1 {
		t.Errorf("without a link: %v", err)
	}
}
