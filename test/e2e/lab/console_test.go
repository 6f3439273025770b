// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/e2e"
)

// asked is a collector that is asked by way of this machine's loopback address, as a browser asks it.
type asked struct {
	t   *testing.T
	url string
}

// get reads an answer; nothing while the collector does not answer.
func (a asked) get(question string, into any) {
	a.t.Helper()
	answer, err := http.Get(a.url + question)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil || answer.StatusCode != http.StatusOK {
		a.t.Fatalf("%s: %s %v", question, answer.Status, err)
	}
}

type node struct {
	Name string `json:"node"`
}

// The collector's console shows what the network of `lab demo --console` does, until it is interrupted.
func TestDemoConsole(t *testing.T) {
	t.Parallel()
	name := e2e.LabName()
	demo := start(t, "lab", "demo", "--console", "--port", "0", "--move", "2s", "--name", name)
	t.Cleanup(func() { insist(t, demo.process, syscall.SIGINT, demo.ended) })
	demo.awaitOutput(t, "Ctrl-C removes it all.")
	ids := e2e.AgentIDs(t, name)
	a := asked{t, regexp.MustCompile(`http://\[::1\]:\d+`).FindString(demo.String())}
	for range 10 {
		leave(t, strings.TrimPrefix(a.url, "http://"))
	}
	for question, wrong := range map[string]func(string) string{
		"/v1/paths": a.paths, "/v1/segments?order=link": a.slow, "/v1/segments?order=loss": a.lossy,
		"/v1/changes?window=2s": a.changes, "/v1/loss": a.losses, "/v1/packets?limit=100": a.clocks,
	} {
		said := "" // for what the test ends with
		t.Cleanup(func() { t.Log(question, said) })
		e2e.Await(t, question, demoLimit, func() bool {
			select {
			case <-demo.ended:
				t.Fatalf("it ended (%v):\n%s", demo.err, demo)
			default:
			}
			said = wrong(question)
			return said == ""
		})
	}
	begin := time.Now()
	a.compareScreens(name)
	t.Logf("the screens took %v", time.Since(begin))
	var health struct {
		Store   struct{ Directory string }
		Records struct{ Dropped, Lost uint64 }
	}
	a.get("/v1/health", &health)
	if _, err := os.Stat(health.Store.Directory); err != nil || health.Records.Dropped+health.Records.Lost > 0 {
		t.Errorf("%+v, %v", health, err)
	}
	if err := demo.process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := demo.wait(t); err != nil {
		t.Errorf("it ended with %v:\n%s", err, demo)
	}
	e2e.CheckNothingLeft(t, name, ids)
	if left, err := filepath.Glob(health.Store.Directory + "*"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// leave asks, and goes before the answer is there.
func leave(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Write([]byte("GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	if err := errors.Join(err, conn.(*net.TCPConn).SetLinger(0), conn.Close()); err != nil {
		t.Fatal(err)
	}
}

// paths wants two equal paths of two hosts.
func (a asked) paths(question string) string {
	var got struct {
		Paths []struct {
			Complete bool
			Packets  uint64
			Hops     []node
		}
	}
	a.get(question, &got)
	found := map[string]bool{}
	for _, p := range got.Paths {
		if p.Complete && p.Packets > 0 {
			found[fmt.Sprint(p.Hops)] = true
		}
	}
	if found["[{athos} {porthos} {aramis}]"] && found["[{athos} {dartagnan} {aramis}]"] && len(found) == 2 {
		return ""
	}
	return fmt.Sprint(found)
}

// segment is one of an answer.
type segment struct {
	From    node
	To      *node
	Packets uint64
	Lost    uint64
}

// slow wants the slow queue to be the worst of the segments that many packets use.
func (a asked) slow(question string) string {
	var got struct{ Segments []segment }
	a.get(question, &got)
	busy := slices.DeleteFunc(got.Segments, func(s segment) bool { return s.Packets < 1000 }) // a busy machine makes others slow, too
	if len(busy) < 2 || busy[0].From.Name != "dartagnan" || busy[0].To == nil || busy[0].To.Name != "aramis" {
		return fmt.Sprintf("%+v", busy)
	}
	return ""
}

// lossy wants that packets end after the node whose link loses them, and hardly any after another one:
// a busy machine loses some, too.
func (a asked) lossy(question string) string {
	var got struct{ Segments []segment }
	a.get(question, &got)
	lost, elsewhere := map[string]uint64{}, uint64(0)
	for _, s := range got.Segments {
		if lost[s.From.Name] += s.Lost; s.From.Name != "porthos" {
			elsewhere += s.Lost
		}
	}
	if lost["porthos"] > 0 && elsewhere*20 <= lost["porthos"] {
		return ""
	}
	return fmt.Sprint(lost)
}

// changes wants that packets to one of beta's addresses move: most of them, as some of a window may
// have left before the route changes.
func (a asked) changes(question string) string {
	var got struct {
		Changes []struct {
			Destination string
			Moved       float64
		}
	}
	a.get(question, &got)
	for _, c := range got.Changes {
		if c.Destination == "2001:db8:2::b" && c.Moved > 0.5 {
			return ""
		}
	}
	return fmt.Sprint(got)
}

// clocks wants that it is known of all nodes how wrong their clocks are at most.
func (a asked) clocks(question string) string {
	var got struct {
		Packets []struct {
			Nodes []struct {
				node
				ClockError *uint64 `json:"clock_error_ns"`
			}
		}
	}
	a.get(question, &got)
	known := map[string]uint64{}
	for _, p := range got.Packets {
		for _, n := range p.Nodes {
			if n.ClockError != nil {
				known[n.Name] = *n.ClockError
			}
		}
	}
	const ms = 1_000_000 // clock-error in the configurations
	if maps.Equal(known, map[string]uint64{"athos": ms, "porthos": ms, "dartagnan": ms, "aramis": ms}) {
		return ""
	}
	return fmt.Sprint(known)
}

// losses wants that the flow by the lossy link loses packets on it, and the other flow none; and the same from
// edge to edge.
func (a asked) losses(question string) string {
	var got struct {
		Flows []struct {
			Flow, Scope string
			From, To    int64
			Blocks      uint64
			Sent, Lost  uint64
		}
		Edges []struct{ Lost *uint64 } `json:"edge_flows"`
	}
	a.get(question, &got)
	lossy, whole, edges := uint64(0), 0, uint64(0)
	for _, f := range got.Flows {
		switch {
		case f.Flow == "gold" && f.Scope == "segment" && f.From == 1:
			lossy = f.Lost
		case f.Scope == "whole" && f.Sent > 0:
			whole++
		}
		if f.Lost > 0 && (f.Flow == "silver" || f.Scope == "segment" && f.From == 0) {
			return fmt.Sprintf("%+v", f)
		}
	}
	for _, e := range got.Edges {
		if e.Lost != nil {
			edges += *e.Lost
		}
	}
	if lossy > 0 && whole == 2 && edges > 0 {
		return ""
	}
	return fmt.Sprint(got)
}
