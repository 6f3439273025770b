// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/e2e"
	"github.com/waymark-net/waymark/test/testnet"
)

// stamp-suite and Waymark return replies through the SRv6 segments that the other asks for
// (RFC 9503 §4.1.3), as sender and as reflector. Without the way through the segments, no reply
// comes.
func TestSuiteReturnsThroughSegments(t *testing.T) {
	if !twoEnds(t) {
		return
	}
	const sid = "fc00:a::1"
	thirdNode(t, sid)
	r := reflect(t, "--return-segments", "--allow", "::/0")
	awaitReply(t, far, "--return-path", sid)
	r.stop(t)
	r = reflect(t, "--return-segments", "--allow", "::/0")
	theirs := func() string {
		out, err := exec.Command(suite(t), "-r", far, "-S", near, "-c", "3", "-d", "10", "-L", "1", "--output-format", "json",
			"--return-srv6-sids", sid).
			CombinedOutput()
		if err != nil {
			t.Logf("stamp-suite: %v", err)
		}
		return string(out)
	}
	if out := theirs(); !strings.Contains(out, `"packets_received":3`) || !strings.Contains(out, `"rejected_replies":0`) {
		t.Errorf("their sender: %s", out)
	}
	r.onlyReflected(t, 3)
	startFar(t, suite(t), "-i", "-S", far, "-o", "8622", "--srv6-return-forwarding")
	e2e.Await(t, "their reflector", 5*time.Second, func() bool { return listens(t, 8622) })
	asked := []string{at(far, 8622), "--count", "4", "--interval", "10ms", "--return-path", sid}
	report, err := send(t, asked...)
	if err != nil {
		t.Fatal(err)
	}
	complete(t, report, 4)
	if used := report.Answers.ReturnPath; used == nil || !*used || report.HopsBackward == nil || *report.HopsBackward != 1 {
		t.Errorf("their reflector: %+v, hops backward %v", report.Answers, report.HopsBackward)
	}
	reflect(t, "--return-segments", "--allow", "::/0")
	if err := testnet.DoIn(t, testnet.Other("-mid"), func() error {
		testnet.Run(t, "ip -6 route del "+sid+"/128; ip -6 route add blackhole "+sid+"/128")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if out := theirs(); !strings.Contains(out, `"packets_received":0`) {
		t.Errorf("their sender, without the way back: %s", out)
	}
	if report, err := send(t, asked...); err == nil && report.Received > 0 {
		t.Errorf("their reflector, without the way back: %d replies", report.Received)
	}
}
