// SPDX-License-Identifier: Apache-2.0

// Package browsertest opens the collector's console in a real browser, over a store whose records are known, and
// compares what a person sees with these records, counted one by one. browser.mjs drives Chromium by playwright-core,
// and has axe look for what excludes people.
package browsertest

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/api"
	"github.com/waymark-net/waymark/collector/internal/live"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/history"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// visit is a path to open, and what to do there; see browser.mjs.
type visit struct {
	Path  string   `json:"path"`
	Check bool     `json:"check"` // by axe, in both colour schemes, and at 360 px
	CSV   bool     `json:"csv"`
	Paint bool     `json:"paint"` // measure it
	PNG   []string `json:"png,omitempty"`
	Await string   `json:"await,omitempty"`
	Press []string `json:"press,omitempty"`

	Picture string `json:"picture,omitempty"` // files to write, to look at
	Dark    string `json:"darkPicture,omitempty"`
	Narrow  string `json:"narrow,omitempty"`

	judge func(*testing.T, *seen)
}

// seen is what is there.
type seen struct {
	Path, Address, Title, Heading, Text, Focus, CSV string
	Command, Request                                string  // that are copied
	Paint                                           float64 // milliseconds until something is shown
	Wrong                                           []string
	PNG                                             struct {
		Width, Height int
		Pixels        map[string]int // of the colours that are asked for
	}
	Tables []struct {
		Name string
		Head []string
		Rows [][]string
	}
}

// serve runs an API, with the console, over the story.
func serve(t *testing.T, packets []*record.Path, others []record.Record) string {
	t.Helper()
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return end }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	list := slices.Clone(others)
	for _, p := range packets {
		list = append(list, p)
	}
	if err := s.Write(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	hub := live.New()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go hub.Run(ctx)
	guard, err := access.Open("[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.Serve(guard, &query.Queries{Store: s, Time: patience.Of(time.Minute), AtOnce: 4, Live: running, Hub: hub})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	go func() {
		for hub.Readers() == 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		hub.Publish(recent())
	}()
	return server.URL()
}

// look opens the paths in the browser.
func look(t *testing.T, address string, visits []visit) (list []seen) {
	t.Helper()
	drive(t, "browser.mjs", map[string]any{"address": address, "visits": visits}, &list)
	if len(list) != len(visits) {
		t.Fatalf("%d visits of %d", len(list), len(visits))
	}
	return list
}

// drive runs a program that opens the console in the browser, and reads its report.
func drive(t *testing.T, program string, plan, report any) {
	t.Helper()
	if _, err := os.Stat("node_modules/playwright-core"); err != nil {
		t.Fatalf("%v; run: scripts/setup.sh test", err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Minute))
	defer cancel()
	browser := exec.CommandContext(ctx, "node", program)
	var faults bytes.Buffer
	browser.Stdin, browser.Stderr = bytes.NewReader(text), &faults
	out, err := browser.Output()
	if err == nil {
		err = json.Unmarshal(out, report)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%.2000s%s", program, err, out, faults.String())
	}
}

// Each screen shows what the records say, and nothing is wrong with it.
func TestScreens(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a browser")
	}
	packets, others := story()
	w := count(packets)
	visits := w.visits()
	if part := os.Getenv("WAYMARK_VISITS"); part != "" { // while one is worked on
		visits = slices.DeleteFunc(visits, func(v visit) bool { return !strings.Contains(v.Path, part) })
	}
	if dir := os.Getenv("WAYMARK_PICTURES"); dir != "" { // for people
		for i := range visits {
			name := filepath.Join(dir, strconv.Itoa(i+1))
			visits[i].Picture, visits[i].Dark, visits[i].Narrow = name+".png", name+"-dark.png", name+"-narrow.png"
		}
	}
	address := serve(t, packets, others)
	for i, s := range look(t, address, visits) {
		t.Run(visits[i].Path, func(t *testing.T) {
			for _, wrong := range s.Wrong {
				t.Error(wrong)
			}
			if s.Title == "" || strings.Contains(s.Title, "taken over") {
				t.Fatalf("title %q, heading %q: %s", s.Title, s.Heading, s.Text)
			}
			visits[i].judge(t, &s)
			if s.Command != "" {
				compareCommand(t, &s)
			} else if s.Request != "" && !strings.Contains(s.Request, "/v1/live") && !strings.Contains(s.Request, "/v1/health") {
				t.Errorf("no command asks the same as %s", s.Request)
			}
			for _, colour := range visits[i].PNG {
				if s.PNG.Width < 300 || s.PNG.Height < 50 || s.PNG.Pixels[colour] < 10 {
					t.Errorf("the picture has no drawing: %+v", s.PNG)
				}
			}
			if visits[i].Paint {
				if t.Logf("first paint after %.0f ms", s.Paint); s.Paint <= 0 || s.Paint > float64(patience.Of(mostPaint).Milliseconds()) {
					t.Errorf("something is shown after %.0f ms", s.Paint)
				}
			}
		})
	}
}

// mostPaint is how long it may take until something is shown: the quickest of three times counts.
const mostPaint = time.Second

// compareCommand runs the command that is copied, by the words that a shell makes of it, and compares its answer with
// that of the request that is copied, but for series, which commands do not ask for.
func compareCommand(t *testing.T, s *seen) {
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+s.Command).Output()
	if err != nil {
		t.Fatal(s.Command, err)
	}
	words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	i := slices.IndexFunc(history.Subjects, func(of history.Subject) bool { return len(words) > 2 && of.Noun == words[1] })
	if i < 0 || words[0] != "waymark" || words[2] != "history" {
		t.Fatalf("there is no command %q", words)
	}
	opts := &commandline.Options{}
	root := opts.NewRoot("waymark", "")
	root.AddCommand(commandline.Group(words[1], "", history.Subjects[i].Command(opts)))
	opts.Finish(root)
	var stdout bytes.Buffer
	root.SetOut(&stdout)
	root.SetArgs(append(words[1:], "--json"))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%s: %v", s.Command, err)
	}
	out, err = exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\\n' "+s.Request).Output()
	if err != nil {
		t.Fatal(s.Request, err)
	}
	words = strings.Fields(string(out))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, words[len(words)-1], nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var asked bytes.Buffer
	if _, err := asked.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	got, want := withoutSeries(t, stdout.Bytes()), withoutSeries(t, asked.Bytes())
	if got != want || len(got) < 100 {
		t.Errorf("%s\n%.1000s\nand the request\n%.1000s", s.Command, got, want)
	}
}

// withoutSeries is an answer without series, and without what says how long their steps are.
func withoutSeries(t *testing.T, answer []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(answer, &v); err != nil {
		t.Fatalf("%v: %.300s", err, answer)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "series")
			delete(v, "step_ns")
			for _, one := range v {
				strip(one)
			}
		case []any:
			for _, one := range v {
				strip(one)
			}
		}
	}
	strip(v)
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rows are those of the file, by their columns' titles.
func (s *seen) rows(t *testing.T) (list []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(s.CSV)).ReadAll()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v: %q", err, s.CSV)
	}
	for _, values := range all[1:] {
		row := map[string]string{}
		for i, title := range all[0] {
			row[title] = values[i]
		}
		list = append(list, row)
	}
	return list
}

// column is what a column of a table on the page shows, by what another one shows.
func (s *seen) column(t *testing.T, table, by, of string) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, one := range s.Tables {
		if !strings.HasPrefix(one.Name, table+",") {
			continue
		}
		clean := func(title string) string { return strings.TrimRight(title, "▴▾ ") }
		key, value := -1, -1
		for i, title := range one.Head {
			if clean(title) == by {
				key = i
			}
			if clean(title) == of {
				value = i
			}
		}
		if key < 0 || value < 0 {
			t.Fatalf("the table %s has %q", table, one.Head)
		}
		for _, row := range one.Rows {
			values[row[key]] = row[value]
		}
		return values
	}
	t.Fatalf("no table %s in %+v", table, s.Tables)
	return nil
}

// spacedText is a number as the console writes it, with its narrow spaces read as spaces.
func spacedText(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + " " + text[i:]
	}
	return text
}

// number reads a value of the file.
func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Error(err)
	}
	return n
}

// near reports whether a percentile is that of an exponential histogram.
func near(got, want float64) bool { return got >= 0.978*want && got <= 1.022*want }

// exact is the percentile by the nearest rank.
func exact(list []int64, q float64) float64 {
	slices.Sort(list)
	return float64(list[min(max(int(float64(len(list))*q+0.999999)-1, 0), len(list)-1)])
}

func wants(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error(errors.New(what), "is", got, "and should be", want)
	}
}
