// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/waymark-net/waymark/bench/report"
)

// alternationVariable is in the environment of a program that takes turns with
// another one. Its descriptors 3 and 4 are then the pipes of an Alternation.
const alternationVariable = "WAYMARK_BENCH_ALTERNATES"

// Alternation lets two programs that measure the same take turns within
// milliseconds: a machine whose speed changes for seconds changes both alike.
// With a nil Alternation, a program measures at once.
type Alternation struct {
	in  *json.Decoder
	out *json.Encoder
}

// message is what two programs and their caller tell one another.
type message struct {
	// Turns are the names of all turns of a round, as the program's first message.
	Turns []string `json:"turns,omitempty"`
	// Turn is the one that a program wants, or is given.
	Turn string `json:"turn,omitempty"`
	// Points are what was measured in it.
	Points []report.Point `json:"points,omitempty"`
}

// AlternationOfEnvironment is the alternation that the caller of this program asks
// for; nil: none.
func AlternationOfEnvironment() *Alternation {
	if os.Getenv(alternationVariable) == "" {
		return nil
	}
	os.Unsetenv(alternationVariable) // programs that this one runs take no turns
	in, out := os.NewFile(3, "turns"), os.NewFile(4, "figures")
	return &Alternation{in: json.NewDecoder(bufio.NewReader(in)), out: json.NewEncoder(out)}
}

// Begin names the turns of a round.
func (a *Alternation) Begin(turns []string) error {
	if a == nil {
		return nil
	}
	return a.out.Encode(message{Turns: turns})
}

// Turn waits for this program's turn, measures, and hands on what was measured.
func (a *Alternation) Turn(name string, measure func() ([]report.Point, error)) error {
	if a == nil {
		_, err := measure()
		return err
	}
	if err := a.out.Encode(message{Turn: name}); err != nil {
		return fmt.Errorf("ask for a turn: %w", err)
	}
	var given message
	if err := a.in.Decode(&given); err != nil {
		return fmt.Errorf("wait for a turn: %w", err)
	}
	points, err := measure()
	if err != nil {
		return err
	}
	return a.out.Encode(message{Points: points})
}

// Alternating is a program that takes turns.
type Alternating struct {
	in      io.ReadCloser
	out     io.WriteCloser
	decoder *json.Decoder
	encoder *json.Encoder

	wait    func() error // until the program has ended
	has     map[string]bool
	waiting string           // the turn that it wants; "": unknown
	taken   map[string]int   // how often it had each turn
	rounds  [][]report.Point // what it measured
}

// StartAlternating starts a program that measures in turns.
func StartAlternating(command *exec.Cmd) (*Alternating, error) {
	turns, grant, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer turns.Close()
	figures, report, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, grant.Close())
	}
	defer report.Close()
	command.Env = append(command.Env, alternationVariable+"=1")
	command.ExtraFiles = []*os.File{turns, report}
	if err := command.Start(); err != nil {
		return nil, errors.Join(err, grant.Close(), figures.Close())
	}
	wait := sync.OnceValue(func() error {
		if err := command.Wait(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(command.Args, " "), err)
		}
		return nil
	})
	return &Alternating{
		in: figures, out: grant, wait: wait,
		decoder: json.NewDecoder(bufio.NewReader(figures)), encoder: json.NewEncoder(grant),
		has: make(map[string]bool), taken: make(map[string]int),
	}, nil
}

// Close gives the program no more turns, and waits until it ends.
func (a *Alternating) Close() error {
	return errors.Join(a.out.Close(), a.wait(), a.in.Close())
}

// next waits until the program wants a turn, and returns its name; "": it wants
// no more.
func (a *Alternating) next() (string, error) {
	for a.waiting == "" {
		var m message
		if err := a.decoder.Decode(&m); errors.Is(err, io.EOF) {
			return "", a.wait()
		} else if err != nil {
			return "", fmt.Errorf("read which turn the program wants: %w", err)
		}
		for _, name := range m.Turns {
			a.has[name] = true
		}
		a.waiting = m.Turn
	}
	return a.waiting, nil
}

// grant gives the program the turn that it wants, and keeps what it measured.
func (a *Alternating) grant() error {
	if err := a.encoder.Encode(message{Turn: a.waiting}); err != nil {
		return fmt.Errorf("give %q its turn: %w", a.waiting, err)
	}
	var m message
	if err := a.decoder.Decode(&m); err != nil {
		return fmt.Errorf("read what %q measured: %w", a.waiting, err)
	}
	round := a.taken[a.waiting]
	a.taken[a.waiting]++
	if round == len(a.rounds) {
		a.rounds = append(a.rounds, nil)
	}
	a.rounds[round] = append(a.rounds[round], m.Points...)
	a.waiting = ""
	return nil
}

// Alternate gives two programs turns until both want no more: the same turn one
// right after the other, in an order that changes each time, and turns that only one
// of them has in between. It returns the points of each program, round by round.
func Alternate(first, second *Alternating) (rounds [2][][]report.Point, err error) {
	pair := [2]*Alternating{first, second}
	for turn := 0; ; turn++ {
		var names [2]string
		for i, p := range pair {
			if names[i], err = p.next(); err != nil {
				return rounds, err
			}
		}
		if names[0] == "" && names[1] == "" {
			return [2][][]report.Point{first.rounds, second.rounds}, nil
		}
		for k := range pair {
			i := (k + turn) % 2
			// A turn that the other program has, too, waits until it comes to that.
			if names[i] == "" || names[i] != names[1-i] && names[1-i] != "" && pair[1-i].has[names[i]] && !pair[i].has[names[1-i]] {
				continue
			}
			if err := pair[i].grant(); err != nil {
				return rounds, err
			}
		}
	}
}
