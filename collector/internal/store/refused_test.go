// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/duckdb/duckdb-go/v2"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

func flowOf(name string) record.Record {
	return &record.Loss{Measurement: record.Measurement{Time: instant.Of(start), Flow: name}}
}

// refusing makes a store refuse a second record with the same name of a flow.
func refusing(t *testing.T, s *Store) {
	t.Helper()
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.file.conn.ExecContext(t.Context(), "CREATE UNIQUE INDEX one ON "+s.file.alias+".loss (flow)"); err != nil {
		t.Fatal(err)
	}
}

// Records that the database refuses are left out, counted and reported once; all others of the batch are written once.
func TestRefusedRecords(t *testing.T) {
	s, said := opened(t, Options{Directory: t.TempDir(), Unpacked: true, byHand: true})
	put(t, s, []record.Record{flowOf("refused")})
	refusing(t, s)
	var batch []record.Record
	for i := range 1000 {
		batch = append(batch, flowOf(fmt.Sprint("flow ", i)))
		if i%300 == 7 {
			batch = append(batch, flowOf("refused"))
		}
	}
	batch = append(batch, flowOf("flow 0")) // refused only because of the first one
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
	if written, err := s.writeRecords(t.Context(), []record.Record{flowOf("refused")}); written != 1 || err != nil {
		t.Errorf("alone: %d, %v", written, err)
	}
	// What is wrong with the database is no record's fault.
	s.writing.Lock()
	_, err := s.file.conn.ExecContext(t.Context(), "BEGIN")
	s.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if written, err := s.writeRecords(t.Context(), []record.Record{flowOf("later")}); written != 0 || err == nil || s.Refused() != 6 {
		t.Errorf("%d, %v, %d refused", written, err, s.Refused())
	}
}

// A record whose values look like an error of the database is refused as any other. Errors with a type are known by it.
func TestRefusedByKind(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir(), Unpacked: true, byHand: true})
	const name = `connection "lost": IO Error: no space left`
	put(t, s, []record.Record{flowOf(name)})
	refusing(t, s)
	batch := []record.Record{flowOf("one"), flowOf(name), flowOf("two")}
	if written, err := s.writeRecords(t.Context(), batch); written != 3 || err != nil || s.Refused() != 1 {
		t.Errorf("%d, %v, %d refused", written, err, s.Refused())
	}
	for _, of := range []duckdb.ErrorType{duckdb.ErrorTypeIO, duckdb.ErrorTypeOutOfMemory, duckdb.ErrorTypeFatal} {
		var refused *refusedError
		if err := asRefused(fmt.Errorf("flush: %w", &duckdb.Error{Type: of, Msg: "a text"})); errors.As(err, &refused) {
			t.Errorf("an error of type %d is a record's", of)
		}
	}
	for text, want := range map[string]bool{
		`could not flush appender: Failed to append: Could not write file "a.wal": No space left on device`: false,
		`could not flush appender: Failed to append: value "fatal" is too long`:                             true,
		"Failed to append: database has been invalidated":                                                   false,
		"cast error: cannot cast int to string":                                                             true,
	} {
		var refused *refusedError
		if is := errors.As(asRefused(errors.New(text)), &refused); is != want {
			t.Errorf("%s: %v", text, is)
		}
	}
}

// refused makes n equal records. After refusing(), a store that has one of them refuses the others.
func refused(n int) (list []record.Record) {
	for range n {
		list = append(list, flowOf("refused"))
	}
	return list
}

// An exporter that sends nothing but records that the database refuses does not stop the store: a plain packet is accepted.
func TestAllRefused(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir(), Unpacked: true, byHand: true})
	put(t, s, refused(1))
	refusing(t, s)
	most := 3 * mostRefused
	if written, err := s.writeRecords(t.Context(), refused(most)); written != most || err != nil || s.Refused() != uint64(most) {
		t.Errorf("%d, %v, %d refused", written, err, s.Refused())
	}
	batch := append(refused(most), flowOf("accepted"), flowOf("accepted, too"))
	if written, err := s.writeRecords(t.Context(), batch); written != len(batch) || err != nil || s.Refused() != uint64(2*most) {
		t.Errorf("the last ones are accepted: %d, %v, %d refused", written, err, s.Refused())
	}
	if got, packets := ask(t, s, "SELECT count(*) AS n FROM FILE(loss)"), ask(t, s, countPackets); got != 3 || packets != 0 {
		t.Errorf("%v records, %v packets", got, packets)
	}
	if fault, _ := s.Fault(); fault != "" {
		t.Error(fault)
	}
}

// If the database refuses a plain packet, too, that is an error of the store, and no record is left out.
func TestPlainRefused(t *testing.T) {
	s, said := opened(t, Options{Directory: t.TempDir(), Unpacked: true, byHand: true})
	put(t, s, append(refused(1), plain))
	refusing(t, s)
	s.writing.Lock()
	_, err := s.file.conn.ExecContext(t.Context(), "CREATE UNIQUE INDEX other ON "+s.file.alias+".packets (namespace)")
	s.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{mostRefused + 1, 1000} {
		written, err := s.writeRecords(t.Context(), refused(n))
		if written != 0 || err == nil || s.Refused() != 0 || strings.Contains(said.String(), "not kept") {
			t.Errorf("%d of %d, %v, %d refused\n%s", written, n, err, s.Refused(), said)
		}
		if fault, cure := s.Fault(); !strings.Contains(fault, fmt.Sprintf("refuses all of %d records", n)) || cure == "" {
			t.Errorf("%q, %q", fault, cure)
		}
	}
	if written, err := s.writeRecords(t.Context(), refused(mostRefused)); written != mostRefused || err != nil || s.Refused() != mostRefused {
		t.Errorf("few: %d, %v, %d refused", written, err, s.Refused())
	}
}
