// SPDX-License-Identifier: Apache-2.0

package kmsgtest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

// records is a log: each read gives a record, then an error.
type records struct {
	left []string
	end  error
}

func (r *records) Read(b []byte) (int, error) {
	if len(r.left) == 0 {
		return 0, r.end
	}
	n := copy(b, r.left[0])
	r.left = r.left[1:]
	return n, nil
}

const (
	quiet   = "6,339,5140900,-;eth0: renamed from veth1\n SUBSYSTEM=net\n"
	trace   = "4,1202,1269763199,-;Call Trace:\n"
	warning = "4,1187,1269763137,-;WARNING: CPU: 1 PID: 20865 at net/core/skbuff.c:6182 skb_try_coalesce+0x65c/0x680\n"
	inside  = "4,1203,1269763217,-; tcp_try_coalesce+0xe3/0x1a0\n"
)

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name    string
		log     []string
		end     error
		code    int
		want    int
		reports string
	}{
		{"nothing", nil, unix.EAGAIN, 0, 0, ""},
		{"nothing, as a file would have it", nil, io.EOF, 0, 0, ""},
		{"nothing of interest", []string{quiet}, unix.EAGAIN, 0, 0, ""},
		{"a warning", []string{quiet, warning, trace, inside}, unix.EAGAIN, 0, 1, "tcp_try_coalesce"},
		{"a warning, and a test that failed", []string{warning}, unix.EAGAIN, 3, 3, "skb_try_coalesce"},
		{"a bug", []string{"1,7,9,-;BUG: unable to handle page fault for address: ffff\n"}, unix.EAGAIN, 0, 1, "page fault"},
		{"an oops", []string{"1,7,9,-;Oops: 0000 [#1] SMP\n"}, unix.EAGAIN, 0, 1, "Oops"},
		{"a lockup", []string{"0,7,9,-;watchdog: soft lockup - CPU#0 stuck for 26s!\n"}, unix.EAGAIN, 0, 1, "soft lockup"},
		{"a hung trace", []string{trace}, unix.EAGAIN, 0, 1, "Call Trace"},
		{"what a process wrote", []string{strings.Replace(warning, "4,", "12,", 1)}, unix.EAGAIN, 0, 0, ""},
		{"an attribute", []string{"6,1,2,-;usb 1-1: new\n DEVICE=WARNING:\n"}, unix.EAGAIN, 0, 0, ""},
		{"not a record", []string{"WARNING: of no kernel\n"}, unix.EAGAIN, 0, 0, ""},
		{"overwritten", []string{quiet}, unix.EPIPE, 0, 1, "overwritten"},
		{"unreadable", nil, errors.New("no such luck"), 0, 1, "no such luck"},
	} {
		var report bytes.Buffer
		if got := judge(test.code, &records{test.log, test.end}, &report); got != test.want {
			t.Errorf("%s: code %d, want %d", test.name, got, test.want)
		}
		if text := report.String(); !strings.Contains(text, test.reports) || test.reports == "" && text != "" {
			t.Errorf("%s: reported %q, want something of %q", test.name, text, test.reports)
		}
	}
}

// A complaint is shown with what follows, and not all that follows.
func TestContext(t *testing.T) {
	log := []string{quiet, warning}
	for range 2 * contextLines {
		log = append(log, inside)
	}
	found, err := complaints(&records{log, unix.EAGAIN})
	if err != nil || len(found) != contextLines || !strings.Contains(found[0], "skb_try_coalesce") {
		t.Errorf("%d lines, %v: %q", len(found), err, found)
	}
}

// The log of this machine is read from where it ends: what is written now, and
// nothing from before. What a process writes is no complaint.
func TestOpen(t *testing.T) {
	testnet.NeedRoot(t)
	log, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	const text = "waymark: a test of the kernel's log"
	if err := os.WriteFile(device, []byte("<12>"+text+"\n"), 0); err != nil {
		t.Fatal(err)
	}
	seen := &spy{of: log}
	if found, err := complaints(seen); err != nil || len(found) > 0 {
		t.Errorf("complaints %q, %v", found, err)
	}
	if !strings.Contains(seen.text.String(), text) {
		t.Errorf("what was written to the log was not read from it: %q", seen.text.String())
	}
	if strings.Contains(seen.text.String(), "Linux version") {
		t.Error("the log was read from its beginning")
	}
}

// spy keeps what is read.
type spy struct {
	of   io.Reader
	text bytes.Buffer
}

func (s *spy) Read(b []byte) (int, error) {
	n, err := s.of.Read(b)
	s.text.Write(b[:max(n, 0)])
	return n, err
}
