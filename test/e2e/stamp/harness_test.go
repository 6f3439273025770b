// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/stamp/reflector"
	"github.com/waymark-net/waymark/internal/stamp/sender"
	"github.com/waymark-net/waymark/test/e2e"
	"github.com/waymark-net/waymark/test/testnet"
)

// The two ends: the near one is the namespace of the test, where senders run.
const (
	near = "2001:db8:1::1"
	far  = "2001:db8:1::2"
	far2 = "2001:db8:3::1" // on the link to the third node
)

// keyText is the key of both ends, in hexadecimal digits as stamp-suite wants them, too.
const keyText = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// twoEnds makes two namespaces with a link between them; false in the process that
// only starts the one in which the test runs.
func twoEnds(t *testing.T) bool {
	t.Helper()
	t.Setenv("WAYMARK_PROGRAM", e2e.Program) // it is built once
	if !testnet.Process(t, "-far", "-mid") {
		return false
	}
	testnet.Run(t, "ip link add near type veth peer name far netns "+testnet.Other("-far"))
	testnet.SetUp(t, "lo")
	testnet.SetUp(t, "near", near+"/64")
	inFar(t, func() error {
		testnet.SetUp(t, "lo")
		testnet.SetUp(t, "far", far+"/64")
		return nil
	})
	return true
}

// inFar runs f in the far namespace.
func inFar(t *testing.T, f func() error) {
	t.Helper()
	if err := testnet.DoIn(t, testnet.Other("-far"), f); err != nil {
		t.Fatal(err)
	}
}

// keyFile writes the key.
func keyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stamp.key")
	if err := os.WriteFile(name, []byte(keyText+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// suite is the path of stamp-suite, where scripts/setup.sh installs it.
func suite(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(cache, "waymark/stamp-suite-1.0.0/bin/stamp-suite")
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("%v; run: scripts/setup.sh test", err)
	}
	return name
}

// running is a program in the far namespace.
type running struct {
	cmd      *exec.Cmd
	out, err e2e.Transcript
	ended    bool
}

// startFar starts a program in the far namespace; it ends with the test.
func startFar(t *testing.T, name string, args ...string) *running {
	t.Helper()
	r := &running{cmd: exec.Command(name, args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	inFar(t, r.cmd.Start)
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop ends a program, as Ctrl-C does.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if r.ended {
		return
	}
	r.ended = true
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience.Of(20 * time.Second)):
		r.cmd.Process.Kill()
		t.Errorf("%v does not end\n%s%s", r.cmd.Args, r.out.String(), r.err.String())
	}
}

// reflect starts our reflector in the far namespace.
func reflect(t *testing.T, args ...string) *running {
	t.Helper()
	r := startFar(t, e2e.Program, append([]string{"stamp", "reflector", "--json"}, args...)...)
	e2e.Await(t, "the reflector", 5*time.Second, func() bool { return strings.Contains(r.err.String(), "reflects at") })
	return r
}

// counts ends our reflector and gives its counters.
func (r *running) counts(t *testing.T) reflector.Report {
	t.Helper()
	r.stop(t)
	var report reflector.Report
	if err := json.Unmarshal([]byte(r.out.String()), &report); err != nil {
		t.Fatalf("%v: %s%s", err, r.out.String(), r.err.String())
	}
	return report
}

// onlyReflected checks that everything was answered, and nothing was wrong with it.
func (r *running) onlyReflected(t *testing.T, n int) {
	t.Helper()
	report := r.counts(t)
	for name, count := range report.Outcomes {
		if want := uint64(n); (name == "reflected") != (count == want && want > 0) && count > 0 {
			t.Errorf("outcome %s: %d", name, count)
		}
	}
	for name, count := range report.Notes {
		if count > 0 {
			t.Errorf("note %s: %d", name, count)
		}
	}
	if got := report.Outcomes["reflected"]; got != uint64(n) {
		t.Errorf("%d packets reflected, want %d", got, n)
	}
}

// send runs our sender until it ends.
func send(t *testing.T, args ...string) (sender.Report, error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(e2e.Program, append([]string{"stamp", "sender", "--json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var report sender.Report
	if fault := json.NewDecoder(&out).Decode(&report); fault != nil || report.Kind != "stamp" && err == nil {
		t.Fatalf("%v: %v, %v\n%s", cmd.Args, err, fault, errs.String())
	}
	return report, err
}

// sendText runs our sender, and gives what it says about an error.
func sendText(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(e2e.Program, append([]string{"stamp", "sender"}, args...)...)
	cmd.Stderr = &errs
	err := cmd.Run()
	return errs.String(), err
}

// awaitReply sends single packets until one has its reply: until neighbours are known, packets
// wait, and a busy machine loses some of them.
func awaitReply(t *testing.T, args ...string) {
	t.Helper()
	e2e.Await(t, "a reply", 30*time.Second, func() bool {
		_, err := send(t, append(args, "--count", "1", "--timeout", "2s")...)
		return err == nil
	})
}

// complete checks that every packet had its reply, and that its times make sense.
func complete(t *testing.T, r sender.Report, n uint64) {
	t.Helper()
	completeOver(t, r, n, 0)
}

// completeOver is complete for packets that arrived with so many hops.
func completeOver(t *testing.T, r sender.Report, n uint64, hops int) {
	t.Helper()
	if r.Sent != n || r.Received != n || r.Lost+r.Duplicates+r.Reordered+r.Foreign+r.SendFailed+r.Waiting != 0 {
		t.Errorf("sent %d: %+v", n, r.Result)
	}
	for name, count := range r.Refused {
		if count > 0 {
			t.Errorf("%d replies or their TLVs were refused: %s", count, name)
		}
	}
	if r.Forward == nil || r.Backward == nil || r.TwoWay == nil || r.RoundTrip == nil || r.Residence == nil {
		t.Fatalf("a delay is missing: %+v", r.Result)
	}
	// Both ends have the same clock.
	if r.Forward.Count != n || r.Forward.Min <= 0 || r.Backward.Min <= 0 || r.Residence.Min < 0 ||
		r.RoundTrip.Max > int64(patience.Of(time.Second)) {
		t.Errorf("forward %+v, backward %+v, residence %+v, round trip %+v", r.Forward, r.Backward, r.Residence, r.RoundTrip)
	}
	if sum := r.Forward.Mean + r.Backward.Mean; sum < r.TwoWay.Mean-2 || sum > r.TwoWay.Mean+2 {
		t.Errorf("forward and backward are %d ns, two-way %d", sum, r.TwoWay.Mean)
	}
	if r.HopsForward == nil || *r.HopsForward != hops || r.ReflectorTime == nil {
		t.Errorf("%v hops forward, the reflector's clock %+v", r.HopsForward, r.ReflectorTime)
	}
}

// at is an address with a port.
func at(address string, port int) string { return fmt.Sprintf("[%s]:%d", address, port) }
