// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Records that the database refuses are left out, counted and reported once; all others of the batch are written once.
func TestRefusedRecords(t *testing.T) {
	s, said := opened(t, Options{Directory: t.TempDir(), Unpacked: true, byHand: true})
	flow := func(name string) record.Record {
		return &record.Loss{Measurement: record.Measurement{Time: instant.Of(start), Flow: name}}
	}
	put(t, s, []record.Record{flow("refused")})
	s.writing.Lock()
	_, err := s.file.conn.ExecContext(t.Context(), "CREATE UNIQUE INDEX one ON "+s.file.alias+".loss (flow)")
	s.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	var batch []record.Record
	for i := range 1000 {
		batch = append(batch, flow(fmt.Sprint("flow ", i)))
		if i%300 == 7 {
			batch = append(batch, flow("refused"))
		}
	}
	batch = append(batch, flow("flow 0")) // refused only because of the first one
	writer := NewWriter(s)
	if tried, written, err := writer.Write(batch); tried != len(batch) || written != len(batch) || err != nil {
		t.Errorf("%d of %d, %v", written, tried, err)
	}
	if got := ask(t, s, "SELECT count(*) AS n FROM FILE(loss)"); got != 1001 || s.Refused() != 5 {
		t.Errorf("%v records, %d refused", got, s.Refused())
	}
	if text := said.String(); strings.Count(text, "refuses a record of kind loss") != 1 {
		t.Errorf("%q", text)
	}
	if fault, _ := s.Fault(); fault != "" {
		t.Error(fault)
	}
	if written, err := s.writeRecords(t.Context(), []record.Record{flow("refused")}); written != 1 || err != nil {
		t.Errorf("alone: %d, %v", written, err)
	}
	// What is wrong with the database is no record's fault.
	s.writing.Lock()
	_, err = s.file.conn.ExecContext(t.Context(), "BEGIN")
	s.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if written, err := s.writeRecords(t.Context(), []record.Record{flow("later")}); written != 0 || err == nil || s.Refused() != 6 {
		t.Errorf("%d, %v, %d refused", written, err, s.Refused())
	}
}
